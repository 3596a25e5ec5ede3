package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/server/httpauth"
	"steward/internal/server/terminal"
)

// approvals decides about agents and sources over the API.
type approvals struct {
	*session
	waiting func(ctx context.Context) iter.Seq2[[]catalog.Listing, error]
}

var _ terminal.Approvals = approvals{}

// approvalsOf are the decisions that a chat over a backend asks for.
func approvalsOf(b backend) terminal.Approvals { return approvals{b.api(), b.Waiting} }

func (a approvals) Waiting(ctx context.Context) iter.Seq2[[]catalog.Listing, error] {
	return a.waiting(ctx)
}

func (a approvals) List(ctx context.Context) ([]catalog.Listing, error) { return a.agents(ctx) }

func (a approvals) Inspect(ctx context.Context, path string) (catalog.Inspection, error) {
	return a.inspect(ctx, path)
}

func (a approvals) Approve(ctx context.Context, path, hash string) (l catalog.Listing, err error) {
	err = a.Call(ctx, "POST /agents/approve", nil, httpauth.Approval{Path: path, Hash: hash}, &l)
	return l, err
}

func (a approvals) Deny(ctx context.Context, path string) (l catalog.Listing, err error) {
	err = a.Call(ctx, "POST /agents/deny", nil, httpauth.Refusal{Path: path}, &l)
	return l, err
}

// Waiting implements backend.
func (l *local) Waiting(ctx context.Context) iter.Seq2[[]catalog.Listing, error] {
	return func(yield func([]catalog.Listing, error) bool) {
		for {
			changed := l.catalog.Changed()
			if !yield(catalog.Waiting(l.catalog.Listings()), nil) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// Waiting implements backend. A connection that breaks is made again as long
// as it takes: who chats learns elsewhere that Steward is gone.
func (r *remote) Waiting(ctx context.Context) iter.Seq2[[]catalog.Listing, error] {
	return func(yield func([]catalog.Listing, error) bool) {
		for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 5*time.Second) {
			err := r.hearWaiting(ctx, yield)
			switch {
			case errors.Is(err, errLeft) || ctx.Err() != nil:
				return
			case !fault.HasCode(err, "server_unreachable"):
				yield(nil, err)
				return
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}

// hearWaiting listens over one connection until it breaks.
func (r *remote) hearWaiting(ctx context.Context, yield func([]catalog.Listing, error) bool) error {
	c, err := r.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	// What waits is told when there is something; that nothing does, the list
	// tells, after a connection that broke too.
	if err := c.Send(ctx, map[string]string{"type": "agents", "id": "1"}); err != nil {
		return err
	}
	for {
		var f struct {
			Type   string            `json:"type"`
			Agents []catalog.Listing `json:"agents"`
			errorFrame
		}
		if err := c.Receive(ctx, &f); err != nil {
			return err
		}
		switch f.Type {
		case "error":
			return f.fault()
		case "agents", "agents_waiting":
			if !yield(catalog.Waiting(f.Agents), nil) {
				return errLeft
			}
		}
	}
}

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
	for list, err := range l.Waiting(ctx) {
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
