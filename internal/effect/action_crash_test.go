package effect

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/request"
	"steward/internal/tool"
	"steward/test/storetest"
)

func TestApprovalThatIsForgedOrLapsedIsVoid(t *testing.T) {
	s := openStore(t)
	for name, change := range map[string]func(*intent.Intent){
		"another hash":    func(in *intent.Intent) { in.Approval.ArgsHash = "x" },
		"another version": func(in *intent.Intent) { in.Approval.Version = "0" },
		"lapsed":          func(in *intent.Intent) { in.Approval.Expires = time.Now().Add(-time.Second) },
		"an old version":  func(in *intent.Intent) { in.Version, in.Approval = "0", nil },
		"no approval":     func(in *intent.Intent) { in.Approval = nil },
	} {
		t.Run(name, func(t *testing.T) {
			e := engine(s, policy.Fixed{})
			var l ledger
			c := callOf(action(adds(&l, "sent")), `{}`)
			in := intent.Intent{State: intent.Approved, Version: "1",
				Approval: &intent.Approval{By: "ann", ArgsHash: intent.HashArgs([]byte("{}")), Version: "1", Expires: time.Now().Add(time.Hour)}}
			change(&in)
			plant(t, s, c, in)
			expect(t, runAnswering(t, e, c, false), message.DeniedCall, "the user denied it")
			if l.total(false) != 0 {
				t.Error("it was done")
			}
		})
	}
}

func TestPolicyThatHasChangedSinceTheCrash(t *testing.T) {
	s := openStore(t)
	for _, st := range []intent.State{intent.Proposed, intent.Awaiting, intent.Approved} {
		c := callOf(action(says("sent")), `{}`)
		plant(t, s, c, intent.Intent{State: st, Expires: time.Now().Add(time.Hour),
			Approval: &intent.Approval{By: "ann", ArgsHash: intent.HashArgs([]byte("{}")), Version: "1", Expires: time.Now().Add(time.Hour)}})
		expect(t, run(t, engine(s, judge(policy.Deny)), c), message.DeniedCall, "as the test wants it")
		isState(t, s, c, intent.Denied)
	}
}

func TestExecutingAfterACrash(t *testing.T) {
	s := openStore(t)
	for _, c := range []struct {
		name     string
		settle   settleFunc
		dedupes  bool
		version  string
		attempts int
		ctx      error
		status   message.Status
		state    intent.State
		effects  int
	}{
		{"it happened", happened(true, nil), false, "1", 1, nil, message.OK, intent.Done, 0},
		{"it did not", happened(false, nil), false, "1", 1, nil, message.OK, intent.Done, 1},
		{"it did not, and was stopped", happened(false, nil), false, "1", 1, request.ErrStop, message.Failed, intent.Failed, 0},
		{"it did not, and the tool changed", happened(false, nil), false, "0", 1, nil, message.Failed, intent.Failed, 0},
		{"it did not, too often", happened(false, nil), false, "1", maxAttempts, nil, message.Failed, intent.Failed, 0},
		{"nobody can tell", happened(false, errors.New("?")), false, "1", 1, nil, message.UnknownEnd, intent.Unknown, 0},
		{"nobody can tell, it dedupes", happened(false, errors.New("?")), true, "1", 1, nil, message.OK, intent.Done, 1},
		{"nobody to ask", nil, false, "1", 1, nil, message.UnknownEnd, intent.Unknown, 0},
		{"it dedupes", nil, true, "1", 1, nil, message.OK, intent.Done, 1},
		{"it dedupes, and was stopped", nil, true, "1", 1, request.ErrStop, message.UnknownEnd, intent.Unknown, 0},
		{"it dedupes, and the tool changed", nil, true, "0", 1, nil, message.UnknownEnd, intent.Unknown, 0},
		{"it dedupes, too often", nil, true, "1", maxAttempts, nil, message.UnknownEnd, intent.Unknown, 0},
		{"closing at once", nil, true, "1", 1, request.ErrSuspend, message.Interrupted, intent.Executing, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l ledger
			a := action(func(_ context.Context, in tool.Invocation) (tool.Result, error) {
				if in.Key != "the key" {
					t.Errorf("repeated under the key %q", in.Key)
				}
				l.add(in.Key)
				return tool.Text("sent"), nil
			})
			a.spec.Dedupes = c.dedupes
			var tl tool.Tool = a
			if c.settle != nil {
				tl = &settler{a, c.settle}
			}
			call := callOf(tl, `{}`)
			plant(t, s, call, intent.Intent{Version: c.version, State: intent.Executing, Attempts: c.attempts})
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			e := engine(s, judge(policy.Allow))
			res, err := e.Run(cancelled(ctx, cancel, c.ctx), call)
			if (err != nil) != (c.state == intent.Executing) {
				t.Fatal(err)
			}
			expect(t, res, c.status)
			if in := stateOf(t, s, call); in.State != c.state || l.total(false) != c.effects {
				t.Errorf("%s, %d effects", in.State, l.total(false))
			}
		})
	}
}

func cancelled(ctx context.Context, cancel context.CancelCauseFunc, cause error) context.Context {
	if cause != nil {
		cancel(cause)
	}
	return ctx
}

func TestRepeatThatFindsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		e := engine(s, judge(policy.Allow))
		stuck := make(chan struct{})
		a := action(func(context.Context, tool.Invocation) (tool.Result, error) { <-stuck; return tool.Text("ok"), nil })
		a.spec.Concurrency, a.spec.Dedupes = 1, true
		c := callOf(a, `{}`)
		expect(t, run(t, e, c), message.UnknownEnd, "is busy") // its own hanging call holds the place
		c = callOf(a, `{}`)
		plant(t, s, c, intent.Intent{State: intent.Executing})
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(time.Second, func() { cancel(request.ErrSuspend) })
		if _, err := e.Run(ctx, c); !errors.Is(err, request.ErrSuspend) {
			t.Error(err)
		}
		close(stuck)
		synctest.Wait()
	})
}

// What a run before had begun is settled, also where the call cannot be made
// any more: its tool is gone, or takes other arguments by now.
func TestACallThatCannotBeMadeAnyMore(t *testing.T) {
	asked := func(happened bool) func(context.Context, tool.Invocation) (bool, tool.Result, error) {
		return func(_ context.Context, in tool.Invocation) (bool, tool.Result, error) {
			if in.Key != "the key" || string(in.Args) != "{}" {
				t.Errorf("asked about %s under the key %q", in.Args, in.Key)
			}
			return happened, tool.Text("it had happened"), nil
		}
	}
	s, e := open(t, judge(policy.Allow))
	for _, c := range []struct {
		name   string
		was    intent.State
		tool   tool.Tool
		status message.Status
		state  intent.State
	}{
		{"gone, executing", intent.Executing, nil, message.UnknownEnd, intent.Unknown},
		{"gone, approved", intent.Approved, nil, message.Failed, intent.Cancelled},
		{"gone, asked about", intent.Awaiting, nil, message.Failed, intent.Cancelled},
		{"gone, denied", intent.Denied, nil, message.DeniedCall, intent.Denied},
		{"otherwise, executing", intent.Executing, action(says("x")), message.UnknownEnd, intent.Unknown},
		{"otherwise, it happened", intent.Executing, &settler{action(says("x")), asked(true)}, message.OK, intent.Done},
		{"otherwise, it did not", intent.Executing, &settler{action(says("x")), asked(false)}, message.Failed, intent.Failed},
		{"otherwise, approved", intent.Approved, action(says("x")), message.Failed, intent.Cancelled},
		{"otherwise, a query", intent.Executing, query(says("x")), message.Failed, intent.Failed},
	} {
		switch tl := c.tool.(type) {
		case *fake:
			tl.spec.Input = []byte(`{"type":"object","required":["a"]}`)
		case *settler:
			tl.spec.Input = []byte(`{"type":"object","required":["a"]}`)
		}
		call := callOf(c.tool, `{}`)
		call.Name = "test.action"
		plant(t, s, call, intent.Intent{State: c.was})
		for range 2 {
			expect(t, run(t, e, call), c.status)
		}
		if in := stateOf(t, s, call); in.State != c.state {
			t.Errorf("%s: %+v", c.name, in)
		}
	}
	broken := &mortal{Store: s, dead: true}
	if _, err := engine(broken, judge(policy.Allow)).Run(context.Background(), callOf(nil, `{}`)); !errors.Is(err, errCrash) {
		t.Errorf("what is recorded of it cannot be read: %v", err)
	}
}

// A call that was left alone may be doing its effect yet: that its receiver
// has not seen it says nothing, as long as this process lives.
func TestACallThatHangsAndWhoseOutcomeWasNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		var w ledger
		goOn := make(chan struct{})
		tl := &settler{action(func(_ context.Context, in tool.Invocation) (tool.Result, error) {
			<-goOn
			w.add(in.Key)
			return tool.Text("done"), nil
		}), func(_ context.Context, in tool.Invocation) (bool, tool.Result, error) {
			return w.has(in.Key), tool.Result{}, nil
		}}
		tl.spec.Timeout = time.Second
		dying := &mortal{Store: s, left: 3} // it is recorded, begins, and its outcome is refused
		e := engine(dying, judge(policy.Allow))
		c := callOf(tl, `{}`)
		if _, err := e.Run(context.Background(), c); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		dying.dead, dying.left = false, -1
		expect(t, run(t, e, c), message.UnknownEnd)
		close(goOn)
		synctest.Wait()
		if in := isState(t, s, c, intent.Unknown); w.total(false) != 1 {
			t.Errorf("%d effects, %+v", w.total(false), in)
		}
		if _, still := e.hanging.Load(IntentURI(c.Message, c.Ref.Block)); still {
			t.Error("what is settled is remembered")
		}
	})
}
