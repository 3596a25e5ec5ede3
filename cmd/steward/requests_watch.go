package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"steward/client"
	"steward/internal/events"
	"steward/internal/fault"
)

func (a *app) watchRequest() *cobra.Command {
	return &cobra.Command{Use: "watch ID", Short: "Follow everything that a request leads to until it ends", ValidArgsFunction: a.completeRequests(),
		Long: "Follow a request until it and everything that it led to has ended, or until Ctrl-C, which ends only the\n" +
			"watching. On a terminal the tree of steward requests show is drawn in place. Otherwise each change of a\n" +
			"task is a line; with --json it is the task as JSON, with the id of the one that it belongs to. The command\n" +
			"survives restarts of the Steward that serves. ID is as for steward requests show.\n\n" +
			"Exit codes: 0 answered, 1 failed, stopped or parked, 3 cut short by a limit, 130 interrupted.",
		RunE: func(c *cobra.Command, args []string) error { return a.watch(c.Context(), args[0]) },
	}
}

// How a watch goes on.
const (
	watchTick    = time.Second            // the clocks of a drawn tree advance, and without a server the folder is read again
	watchRest    = 200 * time.Millisecond // between two looks at the tree, however much happens
	watchRetries = 10                     // attempts in a row to reach Steward again
)

// watchedTypes are the types of what a tree is made of.
var watchedTypes = []string{"plan.Task", "common.Request", "common.Message", "agent.Run", "effect.Intent"}

func (a *app) watch(ctx context.Context, which string) error {
	w := &requestWatch{app: a, which: which, told: map[string]string{}}
	if isTerminal(a.stdout) && !a.json {
		w.screen = fileOf(a.stdout)
	}
	for failed := 0; ; {
		looks := w.looks
		err := a.withStored(ctx, toRead, func(s *session) error { return w.follow(ctx, s) })
		if w.looks > looks {
			failed = 0
		}
		switch failed++; {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			return w.outcome()
		case failed > watchRetries || !fault.Is(err, fault.Unavailable):
			return err
		}
		select {
		case <-time.After(min(time.Second, 50*time.Millisecond<<failed)):
		case <-ctx.Done():
		}
	}
}

// requestWatch shows a request while it changes.
type requestWatch struct {
	*app
	which  string
	tree   client.Request
	looks  int               // how often the tree was read
	told   map[string]string // the last line about each node
	screen *os.File          // nil: lines are appended
	drawn  int               // lines on the screen that are drawn over
}

// follow shows the tree until it ends. Events only say that it is to be read again.
func (w *requestWatch) follow(ctx context.Context, s *session) error {
	ctx, cancel := context.WithCancel(ctx)
	changed, broken, gone := make(chan struct{}, 1), make(chan error, 1), make(chan struct{})
	defer func() { cancel(); <-gone }()
	go func() {
		defer close(gone)
		if s.alone() {
			changed <- struct{}{}
			return
		}
		for _, err := range s.Subscribe(ctx, events.Filter{Types: watchedTypes}, "now") {
			if err != nil {
				broken <- err
				return
			}
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	for {
		select {
		case <-changed:
			if err := w.look(ctx, s); err != nil || w.over() {
				return err
			}
			time.Sleep(watchRest)
		case <-tick.C:
			if s.alone() {
				if err := w.look(ctx, s); err != nil || w.over() {
					return err
				}
			}
			w.draw()
		case err := <-broken:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look reads the tree and shows what is new.
func (w *requestWatch) look(ctx context.Context, s *session) error {
	own, err := newestRequest(ctx, s, w.which)
	if err != nil {
		return err
	}
	if w.tree, err = s.Request(ctx, own); err != nil {
		return err
	}
	w.which = w.tree.ID
	if w.looks++; w.looks == 1 && s.alone() && !w.over() {
		w.note("no Steward serves this data folder now; the request goes on when one does")
	}
	w.draw()
	return w.tell(&w.tree, "")
}

// over reports whether nothing is left to watch. A parked turn waits for its user.
func (w *requestWatch) over() bool {
	return w.looks > 0 && (w.tree.State == requestClosed || w.tree.Status == requestParked)
}

// outcome returns the end of the request as an exit code.
func (w *requestWatch) outcome() error {
	switch {
	case w.tree.Status == requestParked:
		w.note("it is parked: steward requests resume %s, or cancel", requestRef(w.tree.ID))
	case w.tree.Outcome == "answered":
		return nil
	case w.tree.Outcome == "bound":
		return exitCode(exitBound)
	}
	return exitCode(exitFailed)
}

// tell prints a line for each node below above that has changed, if nothing is drawn in place.
func (w *requestWatch) tell(v *client.Request, above string) error {
	if w.screen != nil {
		return nil
	}
	own := v.ID
	if own == "" {
		own = v.Call
	}
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

// draw draws the tree over what was drawn before. Only the last drawing may be higher than the screen.
func (w *requestWatch) draw() {
	if w.screen == nil || w.looks == 0 {
		return
	}
	width, height, err := term.GetSize(int(w.screen.Fd()))
	if err != nil {
		width, height = 80, 24
	}
	tree := w.tree
	text := requestTree(&tree, width-1, time.Now())
	if !w.over() {
		for _, done := range []string{requestTool, requestAgent, requestPlanned} {
			if strings.Count(text, "\n") >= height {
				tree = withoutEnded(tree, done)
				text = requestTree(&tree, width-1, time.Now())
			}
		}
		if lines := strings.SplitAfter(text, "\n"); len(lines) > height {
			text = strings.Join(lines[:height-2], "") + fmt.Sprintf("… and %d more\n", len(lines)-height+1)
		}
	}
	over := ""
	if w.drawn > 0 {
		over = fmt.Sprintf("\x1b[%dA\x1b[J", w.drawn)
	}
	w.drawn = strings.Count(text, "\n")
	fmt.Fprint(w.screen, over+text)
}

// withoutEnded returns a tree without the nodes of a kind that are over, unless something below them is not.
func withoutEnded(v client.Request, kind string) client.Request {
	v.Below = slices.Clone(v.Below)
	for i := range v.Below {
		v.Below[i] = withoutEnded(v.Below[i], kind)
	}
	v.Below = slices.DeleteFunc(v.Below, func(b client.Request) bool { return len(b.Below) == 0 && b.Kind == kind && b.State == requestClosed })
	return v
}
