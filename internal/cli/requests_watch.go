package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/fault"
)

func (a *program) watchRequest() *cobra.Command {
	return &cobra.Command{Use: "watch ID", Short: "Follow everything that a request leads to until it ends", ValidArgsFunction: a.completeRequests(),
		Long: "Follow a request until it and everything that it led to has ended, or until Ctrl-C, which ends only the\n" +
			"watching. Each change of a task is a line; with --json it is the task as JSON, with the id of the one that\n" +
			"it belongs to. The command survives restarts of the Steward that serves. ID is as for steward requests show.\n\n" +
			"Exit codes: 0 answered, 1 failed, stopped or parked, 3 cut short by a limit, 130 interrupted.",
		RunE: func(c *cobra.Command, args []string) error { return a.watch(c.Context(), args[0]) },
	}
}

// The pauses of a watch.
const (
	watchRest    = 500 * time.Millisecond // between two looks at the tree
	watchRetries = 20                     // looks in a row that may fail
)

func (a *program) watch(ctx context.Context, which string) error {
	w := &requestWatch{program: a, which: which, told: map[string]string{}}
	for {
		err := a.withStored(ctx, toRead, func(s *session) error { return w.follow(ctx, s) })
		switch w.failed++; {
		case err == nil:
			return w.outcome()
		case w.failed > watchRetries || !fault.Is(err, fault.Unavailable):
			return err
		}
		if err := rest(ctx); err != nil {
			return err
		}
	}
}

// rest waits until the next look.
func rest(ctx context.Context) error {
	select {
	case <-time.After(watchRest):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// requestWatch shows a request while it changes.
type requestWatch struct {
	*program
	which  string
	tree   client.Request
	failed int               // how many looks in a row have failed
	told   map[string]string // the last line about each node
}

// follow prints what is new in the tree, until it ends.
func (w *requestWatch) follow(ctx context.Context, s *session) error {
	for first := true; ; first = false {
		own, err := newestRequest(ctx, s, w.which)
		if err != nil {
			return err
		}
		if w.tree, err = s.Request(ctx, own); err != nil {
			return err
		}
		w.which, w.failed = w.tree.ID, 0
		if first && s.alone() && !w.over() {
			w.Note("no Steward serves this data folder now; the request continues when one does")
		}
		if err := w.tell(&w.tree, ""); err != nil || w.over() {
			return err
		}
		if err := rest(ctx); err != nil {
			return err
		}
	}
}

// over reports whether nothing is left to watch. A parked turn waits for its user.
func (w *requestWatch) over() bool {
	return w.tree.State == requestClosed || w.tree.Status == requestParked
}

// outcome returns the end of the request as an exit code.
func (w *requestWatch) outcome() error {
	switch {
	case w.tree.Status == requestParked:
		w.Note("it is parked: steward requests resume %s, or cancel", requestRef(w.tree.ID))
	case w.tree.Outcome == "answered":
		return nil
	case w.tree.Outcome == "bound":
		return exitCode(exitBound)
	}
	return exitCode(exitFailed)
}

// tell prints a line for each node below above that has changed.
func (w *requestWatch) tell(v *client.Request, above string) error {
	own := cmp.Or(v.ID, v.Call)
	line := requestMark(v) + " " + plainLine(requestWhat(v))
	if w.told[own] != line {
		w.told[own] = line
		if v.Cost > 0 {
			line += fmt.Sprintf("  $%.4f", v.Cost)
		}
		line = time.Now().Format("15:04:05") + "  " + line + "  " + tookOf(v, time.Now())
		if w.json {
			node := *v
			node.Below, node.Parent = nil, above
			b, err := json.Marshal(node)
			if err != nil {
				return err
			}
			line = w.jsonText(string(b))
		}
		if err := w.print(line + "\n"); err != nil {
			return err
		}
	}
	for i := range v.Below {
		if err := w.tell(&v.Below[i], own); err != nil {
			return err
		}
	}
	return nil
}
