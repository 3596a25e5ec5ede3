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
	"steward/internal/store"
	"steward/internal/store/storetest"
	"steward/internal/tool"
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
			c := callOf(action(func(_ context.Context, in tool.Invocation) (tool.Result, error) {
				l.add(in.Key)
				return tool.Text("sent"), nil
			}), `{}`)
			in := intent.Intent{Tool: "test.action", Version: "1", Args: "{}", ArgsHash: intent.HashArgs([]byte("{}")), User: "ann",
				Call: c.Ref, State: intent.Approved, Key: "k",
				Approval: &intent.Approval{By: "ann", ArgsHash: intent.HashArgs([]byte("{}")), Version: "1", Expires: time.Now().Add(time.Hour)}}
			change(&in)
			plant(t, s, c, in)
			wg := answering(t, e, &c, false)
			expect(t, run(t, e, c), message.DeniedCall, "the user said no")
			wg.Wait()
			if l.total(false) != 0 {
				t.Error("it was done")
			}
		})
	}
}

// plant records an intent as an earlier run had left it.
func plant(t testing.TB, s store.Store, c Call, in intent.Intent) {
	t.Helper()
	body, err := intent.Encode(in)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Commit(context.Background(), c.Scope, store.Batch{Changes: []store.Change{
		{URI: IntentURI(c.Message, c.Ref.Block), Body: body, State: in.State.Mark()}}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPolicyThatHasChangedSinceTheCrash(t *testing.T) {
	s := openStore(t)
	for _, st := range []intent.State{intent.Proposed, intent.Awaiting, intent.Approved} {
		c := callOf(action(says("sent")), `{}`)
		plant(t, s, c, intent.Intent{Tool: "test.action", Version: "1", Args: "{}", ArgsHash: intent.HashArgs([]byte("{}")), User: "ann",
			Call: c.Ref, State: st, Key: "k", Expires: time.Now().Add(time.Hour),
			Approval: &intent.Approval{By: "ann", ArgsHash: intent.HashArgs([]byte("{}")), Version: "1", Expires: time.Now().Add(time.Hour)}})
		expect(t, run(t, engine(s, judge(policy.Deny)), c), message.DeniedCall, "as the test wants it")
		if in := stateOf(t, s, c); in.State != intent.Denied {
			t.Errorf("%s: %+v", st, in)
		}
	}
}

func TestExecutingAfterACrash(t *testing.T) {
	s := openStore(t)
	answer := func(happened bool, err error) func(context.Context, tool.Invocation) (bool, tool.Result, error) {
		return func(context.Context, tool.Invocation) (bool, tool.Result, error) {
			return happened, tool.Text("it had happened"), err
		}
	}
	for _, c := range []struct {
		name     string
		settle   func(context.Context, tool.Invocation) (bool, tool.Result, error)
		dedupes  bool
		version  string
		attempts int
		ctx      error
		status   message.Status
		state    intent.State
		effects  int
	}{
		{"it happened", answer(true, nil), false, "1", 1, nil, message.OK, intent.Done, 0},
		{"it did not", answer(false, nil), false, "1", 1, nil, message.OK, intent.Done, 1},
		{"it did not, and was stopped", answer(false, nil), false, "1", 1, request.ErrStop, message.Failed, intent.Failed, 0},
		{"it did not, and the tool changed", answer(false, nil), false, "0", 1, nil, message.Failed, intent.Failed, 0},
		{"it did not, too often", answer(false, nil), false, "1", maxAttempts, nil, message.Failed, intent.Failed, 0},
		{"nobody can tell", answer(false, errors.New("?")), false, "1", 1, nil, message.UnknownEnd, intent.Unknown, 0},
		{"nobody can tell, it dedupes", answer(false, errors.New("?")), true, "1", 1, nil, message.OK, intent.Done, 1},
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
			plant(t, s, call, intent.Intent{Tool: "test.action", Version: c.version, Args: "{}", ArgsHash: intent.HashArgs([]byte("{}")), User: "ann",
				Call: call.Ref, State: intent.Executing, Key: "the key", Attempts: c.attempts})
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
		plant(t, s, c, intent.Intent{Tool: "test.action", Version: "1", Args: "{}", ArgsHash: intent.HashArgs([]byte("{}")), User: "ann",
			Call: c.Ref, State: intent.Executing, Key: "k", Attempts: 1})
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(time.Second, func() { cancel(request.ErrSuspend) })
		if _, err := e.Run(ctx, c); !errors.Is(err, request.ErrSuspend) {
			t.Error(err)
		}
		close(stuck)
		synctest.Wait()
	})
}
