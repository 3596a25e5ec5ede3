package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"steward/internal/catalog"
	"steward/internal/server/terminal"
)

// tellAlong tells at a terminal what comes to wait for an approval, until the
// returned function is called.
func (a *app) tellAlong(ctx context.Context, l *local) (stop func()) {
	if a.json || a.quiet || !isTerminal(a.stderr) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() {
		if err := tellWaiting(ctx, l, a.stderr); err != nil {
			l.log.Warn("what waits for an approval cannot be told", "error", err)
		}
	})
	return func() {
		cancel()
		telling.Wait()
	}
}

// tellWaiting writes down what comes to wait for an approval, until ctx is
// done. What waits at the beginning has been told.
func tellWaiting(ctx context.Context, l *local, w io.Writer) error {
	known := map[string]bool{}
	first := true
	for list, err := range terminal.Waiting(ctx, l.own.Client) {
		if err != nil {
			return err
		}
		for _, x := range list {
			if !known[x.Question()] && !first {
				if _, err := fmt.Fprintf(w, "steward: %s %s: steward agents approve %s\n", plainLine(x.Path), waitsHow(x), plainLine(x.Path)); err != nil {
					return err
				}
			}
			known[x.Question()] = true
		}
		first = false
	}
	return nil
}

func waitsHow(l catalog.Listing) string {
	if n := len(l.Waiting); n > 0 {
		return fmt.Sprintf("offers %s, off until you approve", counted(n, "tool that is new or changed", "tools that are new or changed"))
	}
	if l.Changed {
		return "is not as it was approved any more, and waits for your approval"
	}
	return "waits for your approval"
}
