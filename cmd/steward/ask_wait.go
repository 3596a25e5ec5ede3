package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/server/terminal"
)

// openTasks returns the tools whose tasks go on below a request.
func openTasks(v *client.Request) (names []string) {
	if v.Kind == requestTask && v.State != requestClosed {
		names = append(names, plainLine(v.Tool))
	}
	for i := range v.Below {
		names = append(names, openTasks(&v.Below[i])...)
	}
	return names
}

// queued reports whether actions are still to be done that the turn has queued,
// but for those that wait for somebody's approval.
func queued(v *client.Request) bool {
	if v.Wish == wishQueued && v.State != requestClosed && v.Intent != intentAwaiting {
		return true
	}
	return slices.ContainsFunc(v.Below, func(b client.Request) bool { return queued(&b) })
}

// background tells of what goes on after the answer, or waits for it. What the
// turn has queued is waited for in any case: that is what was asked for.
func (a *app) background(ctx context.Context, s *session, acc client.Accepted, out *answer, w *terminal.Writer, wait bool) error {
	tree, err := s.Request(ctx, acc.Interaction)
	if err != nil {
		return err
	}
	names := openTasks(&tree)
	if len(names) == 0 {
		return nil
	}
	if !wait && !queued(&tree) {
		if err := w.Close(); err != nil {
			return err
		}
		when := "in the background"
		if s.alone() {
			when = "when Steward runs again"
		}
		a.note("%s goes on %s; --wait waits for it, and this tells of it: steward requests show %s", strings.Join(names, ", "), when, requestRef(acc.Interaction))
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	frames, failed := make(chan client.Frame), make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for f, err := range s.Watch(ctx, acc.Conversation, out.cursor) {
			if err != nil {
				failed <- err
				return
			}
			select {
			case frames <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() { cancel(); <-done }()
	look := time.NewTicker(300 * time.Millisecond)
	defer look.Stop()
	for over := false; ; {
		select {
		case f := <-frames:
			out.note(f)
			if err := w.Frame(f); err != nil {
				return err
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
			if !over {
				if tree, err = s.Request(ctx, acc.Interaction); err != nil {
					return err
				}
				over = tree.State == requestClosed || !wait && !queued(&tree)
			}
			if over {
				if last, err := s.newestMessage(ctx, acc.Conversation); err != nil || last == out.last {
					return err
				}
			}
		}
	}
}

// newestMessage returns the id of the newest message of a conversation.
func (s *session) newestMessage(ctx context.Context, conv string) (string, error) {
	var page struct{ Messages []struct{ ID string } }
	err := s.Call(ctx, "GET /conversations/{id}/messages", client.Params{"id": conv, "reverse": "true", "limit": "1"}, nil, &page)
	if err != nil || len(page.Messages) == 0 {
		return "", err
	}
	return page.Messages[0].ID, nil
}
