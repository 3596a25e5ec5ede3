package effect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/tool"
	"steward/test/storetest"
)

// many is a deferred tool that takes several calls at once.
type many struct {
	*fake
	world  *ledger
	groups [][]string
	answer func(ins []tool.Invocation) []tool.Outcome // nil: all is done
}

func newMany(w *ledger) *many { return &many{fake: deferred(w), world: w} }

func (m *many) CallAll(_ context.Context, ins []tool.Invocation) []tool.Outcome {
	var group []string
	out := make([]tool.Outcome, len(ins))
	for i, in := range ins {
		group = append(group, string(in.Args))
		out[i].Result = tool.Text("done " + string(in.Args))
	}
	m.groups = append(m.groups, group)
	if m.answer != nil {
		return m.answer(ins)
	}
	for _, in := range ins {
		m.world.add(in.Key)
	}
	return out
}

func TestConsecutiveActionsOfOneToolAreDoneTogether(t *testing.T) {
	l := &laws{}
	s, e := open(t, l)
	var w ledger
	m, other := newMany(&w), deferred(&w)
	other.spec.Name = "test.other"
	queue(t, e, m, `{"n":1}`, `{"n":2}`, `{"n":1}`, `{"n":3}`)
	queue(t, e, other, `{"n":4}`)
	last := queue(t, e, m, `{"n":5}`)[0]
	l.set(policy.PointIntent, policy.Decision{Verdict: policy.Allow, Version: "v9"})
	settle(t, e, settlement(last, m, other), message.OK, message.OK, message.Interrupted, message.OK, message.OK, message.OK)
	if got := fmt.Sprint(m.groups); got != `[[{"n":1} {"n":2}] [{"n":3}]]` || w.total(false) != 5 { // the duplicate ends a batch
		t.Errorf("%d effects, together: %s", w.total(false), got)
	}
	if in := isState(t, s, last, intent.Done); in.Policy != "v9" || in.Attempts != 1 {
		t.Errorf("%+v", in)
	}
}

func TestEachOfABatchHasItsOwnOutcome(t *testing.T) {
	s, e := open(t, &laws{})
	var w ledger
	m := newMany(&w)
	m.call = adds(&w, "done at last")
	m.answer = func(ins []tool.Invocation) []tool.Outcome {
		w.add(ins[0].Key)
		return []tool.Outcome{
			{Result: tool.Text("done")},
			{Err: fault.New(fault.Invalid, "bad", "that will never do")},
			{Err: errors.New("the line went dead")},
			{Err: tool.NotDone(fault.New(fault.Unavailable, "busy", "come again").Retrying(fault.RetryImmediate, 0))},
			{Result: tool.Result{Failed: true, Content: tool.Text("refused").Content}},
		}
	}
	calls := queue(t, e, m, `{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`)
	st, heard := settlement(calls[0], m), 0
	st.Settled = func(Outcome) { heard++ }
	settle(t, e, st, message.OK, message.Failed, message.UnknownEnd, message.OK, message.Failed)
	for i, want := range []intent.State{intent.Done, intent.Failed, intent.Unknown, intent.Done, intent.Failed} {
		if in := isState(t, s, calls[i], want); in.Dead != (want != intent.Done) {
			t.Errorf("%d: %+v", i, in)
		}
	}
	if w.total(false) != 2 || heard != 5 { // the fourth one was tried again by itself
		t.Errorf("%d effects, heard of %d", w.total(false), heard)
	}
}

func TestABatchThatSaysTooLittleOrPanics(t *testing.T) {
	for _, answer := range []func([]tool.Invocation) []tool.Outcome{
		func([]tool.Invocation) []tool.Outcome { return []tool.Outcome{{Result: tool.Text("done")}} },
		func([]tool.Invocation) []tool.Outcome { panic("oh no") },
	} {
		_, e := open(t, judge(policy.Allow))
		m := newMany(&ledger{})
		m.answer = answer
		calls := queue(t, e, m, `{"n":1}`, `{"n":2}`)
		settle(t, e, settlement(calls[0], m), message.UnknownEnd, message.UnknownEnd)
	}
}

// judgingOne decides otherwise about one action that is about to begin.
func judgingOne(args string, d policy.Decision) policy.Authorizer {
	return judgeFunc(func(_ context.Context, q policy.Question) (policy.Decision, error) {
		if q.Point == policy.PointIntent && string(q.Args) == args {
			return d, nil
		}
		return policy.Decision{Verdict: policy.Allow}, nil
	})
}

// An action that policy denies by now is taken out of the batch; the rest is done.
func TestABatchWithoutWhatIsDenied(t *testing.T) {
	m := newMany(&ledger{})
	_, e := open(t, judgingOne(`{"n":2}`, policy.Decision{Verdict: policy.Deny, Reason: "not this one"}))
	calls := queue(t, e, m, `{"n":1}`, `{"n":2}`, `{"n":3}`)
	out := settle(t, e, settlement(calls[0], m), message.OK, message.DeniedCall, message.OK)
	expect(t, out[1].Result, message.DeniedCall, "not this one")
	if fmt.Sprint(m.groups) != `[[{"n":1} {"n":3}]]` {
		t.Error(m.groups)
	}
}

func TestAStoppedRunSettlesNothing(t *testing.T) {
	s, e := open(t, judge(policy.Allow))
	var w ledger
	tl := deferred(&w)
	calls := queue(t, e, tl, `{"n":1}`, `{"n":2}`)
	st := settlement(calls[0], tl)
	st.Stopped = true
	settle(t, e, st, message.Interrupted, message.Interrupted)
	for _, c := range calls {
		if in := isState(t, s, c, intent.Cancelled); in.Reason != reasonStopped || in.Dead || w.total(false) != 0 {
			t.Errorf("%d effects, %+v", w.total(false), in)
		}
	}
}

func TestABatchThatFindsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(storetest.NewModel(), judge(policy.Allow))
		m := newMany(&ledger{})
		m.spec.Concurrency, m.spec.Timeout = 1, time.Minute
		calls := queue(t, e, m, `{"n":1}`, `{"n":2}`)
		release, err := e.acquireSlot(context.Background(), m.spec.Name+"/1", 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		settle(t, e, settlement(calls[0], m), message.Unavailable, message.Unavailable)
	})
}

// What policy allows is done before a person is asked about what comes after it.
func TestABatchDoesNotWaitForAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		var w ledger
		m := newMany(&w)
		e := engine(s, judgingOne(`{"n":2}`, policy.Decision{Verdict: policy.Ask, Reason: "this one"}))
		var first Call
		for i, args := range []string{`{"n":1}`, `{"n":2}`, `{"n":3}`} {
			c := queue(t, e, m, args)[0]
			if i == 0 {
				first = c
			}
			time.Sleep(time.Second) // the queue is in the order of their time
		}
		st := settlement(first, m)
		var wg sync.WaitGroup
		answer := answers(t, e, &wg, true)
		st.Notify = func(p Progress) {
			if p.Status == Awaiting {
				isState(t, s, first, intent.Done)
			}
			answer(p)
		}
		settle(t, e, st, message.OK, message.OK, message.OK)
		wg.Wait()
	})
}
