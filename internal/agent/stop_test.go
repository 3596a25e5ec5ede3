package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/agent"
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/request"
)

func TestDanglingCallsAreRunFirst(t *testing.T) {
	w := newWorld(t, says("done"))
	w.recorded(1, "a.one", "a.two")
	ran := w.notes()
	w.ends(t.Context(), agent.Answered, "uatta")
	if fmt.Sprint(*ran) != "[a.two]" {
		t.Errorf("ran %v", *ran)
	}
}

// A stop keeps what the model wrote so far, and ends the tools.
func TestStop(t *testing.T) {
	for name, c := range map[string]struct {
		steps []step
		at    agent.EventKind // that it is stopped at; 0: before the model is asked
		roles string
		last  string
	}{
		"before anything came": {[]step{{hang: true}}, 0, "ua", "(stopped)"},
		"in a stream":          {[]step{part("so far")}, agent.Delta, "ua", "so far"},
		"after a reset":        {[]step{{events: []llm.Event{{Kind: llm.TextDelta, Text: "gone"}, {Kind: llm.Reset}, {Kind: llm.TextDelta, Text: "kept"}}, hang: true}}, agent.Delta, "ua", "kept"},
		"in tools":             {[]step{calls("a.b", "c.d")}, agent.Stored, "uatta", "(stopped)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.steps...)
			ctx, cancel := context.WithCancelCause(t.Context())
			w.job.Emit = func(e agent.Event) {
				if e.Kind == c.at && e.Stream.Text != "gone" {
					cancel(request.ErrStop)
				}
			}
			w.job.Call = func(ctx context.Context, c agent.Call) (*message.ToolResult, error) {
				<-ctx.Done()
				return result(message.Interrupted, "stopped"), nil
			}
			if c.at == 0 {
				cancel(request.ErrStop)
			}
			w.ends(ctx, agent.Stopped, c.roles)
			if m := w.last(); m.Text() != c.last || m.Stop != message.StopCancelled || !m.Final {
				t.Errorf("%+v", m)
			}
		})
	}
}

func TestSuspendRecordsNothingMore(t *testing.T) {
	for name, first := range map[string]step{"model": {hang: true}, "tools": calls("a.b", "c.d")} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, first)
			ctx, cancel := context.WithCancelCause(t.Context())
			w.job.Call = func(ctx context.Context, c agent.Call) (*message.ToolResult, error) {
				cancel(request.ErrSuspend)
				return result(message.OK, "x"), nil
			}
			if name == "model" {
				cancel(request.ErrSuspend)
			}
			_, err := agent.Run(ctx, w.job)
			if !errors.Is(err, request.ErrSuspend) || w.outcome != "" || strings.Contains(w.roles(), "t") {
				t.Errorf("err %v, outcome %q, messages %s", err, w.outcome, w.roles())
			}
		})
	}
}

// TestSuspendedJustAfterTheResults: a node that closes right after the results of calls were
// recorded suspends the run, as if no person had stopped it.
func TestSuspendedJustAfterTheResults(t *testing.T) {
	w := newWorld(t, calls("a.b"))
	ctx, cancel := context.WithCancelCause(t.Context())
	w.job.Emit = func(e agent.Event) {
		if e.Kind == agent.Stored && e.Message.Role == message.Tool {
			cancel(request.ErrSuspend)
		}
	}
	_, err := agent.Run(ctx, w.job)
	if !errors.Is(err, request.ErrSuspend) || w.outcome != "" || w.roles() != "uat" {
		t.Errorf("err %v, outcome %q, messages %s", err, w.outcome, w.roles())
	}
}

func TestModelFailureEndsTheRunAndLeavesAValidHistory(t *testing.T) {
	w := newWorld(t, calls("a.b"), step{err: fault.New(fault.Unavailable, "overloaded", "try later")})
	if out := w.run(t.Context()); out != agent.Failure || w.code != "overloaded" || w.roles() != "uat" {
		t.Errorf("%s %s %s", out, w.code, w.roles())
	}
	if e := w.events[len(w.events)-1]; e.Kind != agent.Finished || !fault.HasCode(e.Err, "overloaded") {
		t.Errorf("the last event is %+v", e)
	}
}

func TestStreamWithoutItsEndIsAFailure(t *testing.T) {
	w := newWorld(t, step{events: []llm.Event{{Kind: llm.TextDelta, Text: "half"}}})
	if out := w.run(t.Context()); out != agent.Failure || w.code != "stream_broken" {
		t.Errorf("%s %s", out, w.code)
	}
}

func TestStoreFailureEndsEverything(t *testing.T) {
	full := fault.New(fault.Exhausted, "disk_full", "no room")
	for name, steps := range map[string][]step{"calls": {calls("a.b")}, "answer": {says("x")}, "length": {{reply: &llm.Reply{Stop: message.StopLength, Model: "m/m", Blocks: []message.Block{&message.Text{Text: "x"}}}}}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, steps...)
			w.fail = full
			w.job.Call = func(context.Context, agent.Call) (*message.ToolResult, error) {
				t.Error("a tool ran whose call is not durable")
				return nil, nil
			}
			if _, err := agent.Run(t.Context(), w.job); !fault.HasCode(err, "disk_full") {
				t.Error(err)
			}
		})
	}
}

func TestEffectThatCannotBeRecordedEndsTheRun(t *testing.T) {
	w := newWorld(t, calls("a.b", "c.d"))
	w.job.Call = func(_ context.Context, c agent.Call) (*message.ToolResult, error) {
		if c.Name == "a.b" {
			return nil, fault.New(fault.Exhausted, "disk_full", "no room")
		}
		return result(message.OK, "x"), nil
	}
	if _, err := agent.Run(t.Context(), w.job); !fault.HasCode(err, "disk_full") || w.roles() != "ua" {
		t.Errorf("%v %s", err, w.roles())
	}
}

// When what a round does cannot be recorded, nobody waits for those of its
// calls that would go on when a person answers: they are put aside. Those that
// work come to their end.
func TestCallsArePutAsideWhenARoundCannotBeRecorded(t *testing.T) {
	full := fault.New(fault.Exhausted, "disk_full", "no room")
	for _, order := range []string{"asks works fails", "fails works asks", "works asks results", "results asks works"} {
		for _, delay := range []time.Duration{0, time.Minute} { // until a person is asked; it fails in between
			t.Run(fmt.Sprint(order, " after ", delay), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					names := strings.Fields(order)
					for i := range names {
						names[i] = "a." + names[i]
					}
					w := newWorld(t, calls(names...))
					var asked, worked error
					w.job.Call = func(ctx context.Context, c agent.Call) (*message.ToolResult, error) {
						switch c.Name {
						case "a.fails":
							time.Sleep(time.Second)
							return nil, full
						case "a.results":
							time.Sleep(time.Second)
							w.fail = full
						case "a.asks":
							time.Sleep(delay)
							c.Progress(agent.Progress{Status: "awaiting_approval", Approval: "may I?"})
							select {
							case <-ctx.Done():
								asked = context.Cause(ctx)
								return nil, asked
							case <-time.After(7 * 24 * time.Hour):
							}
						case "a.works":
							time.Sleep(time.Hour)
							worked = ctx.Err()
						}
						return result(message.OK, "x"), nil
					}
					_, err := agent.Run(t.Context(), w.job)
					if !fault.HasCode(err, "disk_full") || w.outcome != "" {
						t.Errorf("it ends with %v, recorded as %q", err, w.outcome)
					}
					if worked != nil {
						t.Errorf("the one that worked was ended: %v", worked)
					}
					if asked != request.ErrSuspend {
						t.Errorf("the one that asked was ended with %v", asked)
					}
				})
			})
		}
	}
}
