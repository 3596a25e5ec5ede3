package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"steward/internal/face/terminal"
	"steward/internal/intent"
	"steward/internal/record"
	"steward/internal/runtime"
)

// openTasks returns the tools whose tasks go on below a request.
func openTasks(v *runtime.RequestView) (names []string) {
	if v.Kind == record.RequestTask && v.State != runtime.RequestClosed {
		names = append(names, plainLine(v.Tool))
	}
	for i := range v.Below {
		names = append(names, openTasks(&v.Below[i])...)
	}
	return names
}

// queued reports whether actions are still to be done that the turn has queued,
// but for those that wait for somebody's approval.
func queued(v *runtime.RequestView) bool {
	if v.Wish == record.WishQueued && v.State != runtime.RequestClosed && v.Intent != string(intent.Awaiting) {
		return true
	}
	return slices.ContainsFunc(v.Below, func(b runtime.RequestView) bool { return queued(&b) })
}

// background tells of what goes on after the answer, or waits for it. What the
// turn has queued is waited for in any case: that is what was asked for.
func (a *app) background(ctx context.Context, b backend, acc runtime.Accepted, out *answer, w *terminal.Writer, wait bool) error {
	path := "/requests/" + acc.Interaction.String()
	var tree runtime.RequestView
	if err := b.call(ctx, http.MethodGet, path, nil, &tree); err != nil {
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
		if _, here := b.(*local); here {
			when = "when Steward runs again"
		}
		a.note("%s goes on %s; --wait waits for it, and this tells of it: steward requests show %s", strings.Join(names, ", "), when, requestRef(acc.Interaction))
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
			tree = runtime.RequestView{}
			if err := b.call(ctx, http.MethodGet, path, nil, &tree); err != nil {
				return err
			}
			if (tree.State == runtime.RequestClosed || !wait && !queued(&tree)) && last.Seq == 0 {
				var err error
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
