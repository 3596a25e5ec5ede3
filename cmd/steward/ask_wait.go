package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/runtime"
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
func (a *app) background(ctx context.Context, b backend, acc runtime.Accepted, out *answer, w *terminal.Writer, wait bool) error {
	own := acc.Interaction.String()
	tree, err := b.api().Request(ctx, own)
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
		if b.api().local != nil {
			when = "when Steward runs again"
		}
		a.note("%s goes on %s; --wait waits for it, and this tells of it: steward requests show %s", strings.Join(names, ", "), when, requestRef(own))
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	frames := make(chan runtime.Frame)
	failed := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for f, err := range b.Watch(ctx, acc.Conversation, out.at) {
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
	var last runtime.Cursor // the last that there is to be seen; known once all is closed
	for {
		select {
		case f := <-frames:
			out.note(f)
			out.at = f.Cursor
			if err := w.Frame(f); err != nil {
				return err
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
			if tree, err = b.api().Request(ctx, own); err != nil {
				return err
			}
			if (tree.State == requestClosed || !wait && !queued(&tree)) && last.Seq == 0 {
				if last, err = b.Position(ctx, acc.Conversation); err != nil {
					return err
				}
			}
		}
		if last.Seq > 0 && out.at.Seq >= last.Seq {
			return nil
		}
	}
}
