package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"steward/internal/agent"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/request"
)

// said returns the roles and texts of a journal.
func said(j *journal) string {
	var out []string
	for _, m := range j.tr.Messages() {
		out = append(out, string(m.Role)+" "+m.Text())
	}
	return strings.Join(out, "; ")
}

func TestHooksSeeAndNote(t *testing.T) {
	w := newWorld(t, calls("a.b"), says("done"))
	var seen []string
	w.job.Hooks = agent.Hooks{
		Begin: func(_ context.Context, asked string) (string, error) {
			seen = append(seen, "begin "+asked)
			return "be brief", nil
		},
		Before: func(context.Context) (string, error) {
			seen = append(seen, "before")
			if len(seen) > 3 {
				return "hurry", nil
			}
			return "", nil
		},
		After: func(_ context.Context, wrote string) error {
			seen = append(seen, "after "+wrote)
			for _, e := range w.events {
				if e.Kind == agent.Delta {
					t.Errorf("%q was told before it was looked at", e.Stream.Text)
				}
			}
			return nil
		},
	}
	if out := w.run(t.Context()); out != agent.Answered {
		t.Errorf("outcome %s", out)
	}
	if got, want := strings.Join(seen, ", "), "begin do it, before, after , before, after done"; got != want {
		t.Errorf("the hooks saw %q, want %q", got, want)
	}
	if got, want := said(w.journal), "user do it; user be brief; assistant ; tool ran a.b; user hurry; assistant done"; got != want {
		t.Errorf("the conversation is %q, want %q", got, want)
	}
	if o := w.tr.Messages()[1].Blocks[0].Base().Origin; o != "hook:before_request" {
		t.Errorf("the note is of %s", o)
	}
}

func TestAHookRefuses(t *testing.T) {
	no := fault.New(fault.Denied, "hook_refused", "a hook refused this: not on Sundays")
	for name, c := range map[string]struct {
		hooks agent.Hooks
		asked int
		used  int64
	}{
		"the request": {agent.Hooks{Begin: func(context.Context, string) (string, error) { return "", no }}, 0, 0},
		"a call":      {agent.Hooks{Before: func(context.Context) (string, error) { return "", no }}, 0, 0},
		"an answer":   {agent.Hooks{After: func(context.Context, string) error { return no }}, 1, 10},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, says("rude words"))
			w.job.Hooks = c.hooks
			if out := w.run(t.Context()); out != agent.Bounded || w.code != "hook_refused" {
				t.Errorf("outcome %s, code %s", out, w.code)
			}
			if m := w.last(); m.Stop != message.StopBound || !m.Final || !strings.Contains(m.Text(), "not on Sundays") || m.Usage.Input != c.used {
				t.Errorf("the last message: %+v", m)
			}
			if strings.Contains(said(w.journal), "rude") || len(w.model.asked) != c.asked {
				t.Errorf("%d calls, and: %s", len(w.model.asked), said(w.journal))
			}
			if e := w.events[len(w.events)-1]; e.Kind != agent.Finished || e.Err != nil {
				t.Errorf("the end: %+v", e)
			}
		})
	}
}

func TestHooksAndACrash(t *testing.T) {
	w := newWorld(t, says("done"))
	w.add(&message.Message{ID: user("").ID, Role: message.User, Blocks: []message.Block{
		&message.Text{Common: message.Common{Origin: agent.OriginHook + "before_request"}, Text: "be brief"}}})
	w.job.Hooks.Begin = func(context.Context, string) (string, error) {
		t.Error("it was called again although its note is kept")
		return "", nil
	}
	w.run(t.Context())

	w = newWorld(t, says("done"))
	w.job.Hooks.Begin = w.noBegin(t)
	w.recorded(0, "a.b")
	w.run(t.Context()) // the model was asked before
}

func TestAStopInAHook(t *testing.T) {
	for cause, want := range map[error]agent.Outcome{request.ErrStop: agent.Stopped, request.ErrSuspend: agent.Failure} {
		w := newWorld(t, says("done"))
		ctx, cancel := context.WithCancelCause(t.Context())
		w.job.Hooks.Before = func(ctx context.Context) (string, error) {
			cancel(cause)
			return "", ctx.Err()
		}
		out, err := agent.Run(ctx, w.job)
		if out != want || (err != nil) != (cause == request.ErrSuspend) {
			t.Errorf("%v: %s, %v", cause, out, err)
		}
	}
}

func TestANoteThatCannotBeKept(t *testing.T) {
	broken := errors.New("the disk is full")
	w := newWorld(t, says("done"))
	w.job.Hooks.Before = func(context.Context) (string, error) {
		w.fail = broken
		return "a note", nil
	}
	if _, err := agent.Run(t.Context(), w.job); !errors.Is(err, broken) {
		t.Errorf("it goes on: %v", err)
	}
	w = newWorld(t, says("done"))
	w.job.Ready = func() error { return broken }
	w.job.Hooks.Begin = w.noBegin(t)
	if _, err := agent.Run(t.Context(), w.job); !errors.Is(err, broken) {
		t.Errorf("a turn that was not recorded: %v", err)
	}
}

func TestWhatCameOfAStreamIsNotKeptUnseen(t *testing.T) {
	w := newWorld(t, part("half"))
	w.job.Hooks.After = func(context.Context, string) error { return nil }
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(request.ErrStop)
	if out := w.run(ctx); out != agent.Stopped || strings.Contains(said(w.journal), "half") {
		t.Errorf("%s: %s", out, said(w.journal))
	}
}

// noBegin is a hook that must not be called.
func (w *world) noBegin(t *testing.T) func(context.Context, string) (string, error) {
	return func(context.Context, string) (string, error) {
		t.Error("the hook of the beginning was called")
		return "", nil
	}
}
