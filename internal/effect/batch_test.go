package effect

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/store/storetest"
	"steward/internal/tool"
)

// many is a deferred tool that takes several calls at once.
type many struct {
	*fake
	world  *ledger
	groups [][]string
	answer func(ins []tool.Invocation) []tool.Outcome // nil: all is done
}

func newMany(w *ledger) *many {
	m := &many{fake: deferred(w, nil), world: w}
	return m
}

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
	s := openStore(t)
	l := &laws{}
	e := engine(s, l)
	var w ledger
	m, other := newMany(&w), deferred(&w, nil)
	other.spec.Name = "test.other"
	var last Call
	for _, x := range []struct {
		tool tool.Tool
		args string
	}{{m, `{"n":1}`}, {m, `{"n":2}`}, {m, `{"n":1}`}, {m, `{"n":3}`}, {other, `{"n":4}`}, {m, `{"n":5}`}} {
		last = callOf(x.tool, x.args)
		expect(t, run(t, e, last), message.Queued)
	}
	l.set(policy.PointIntent, policy.Decision{Verdict: policy.Allow, Version: "v9"})
	out, err := e.Settle(context.Background(), settlement(last, m, other))
	if err != nil || len(out) != 6 {
		t.Fatal(out, err)
	}
	if got := fmt.Sprint(m.groups); got != `[[{"n":1} {"n":2}] [{"n":3}]]` { // then its twin falls away
		t.Errorf("together: %s", got)
	}
	if w.total(false) != 5 {
		t.Errorf("%d effects", w.total(false))
	}
	for i, want := range []message.Status{message.OK, message.OK, message.Interrupted, message.OK, message.OK, message.OK} {
		expect(t, out[i].Result, want)
	}
	if in := stateOf(t, s, last); in.State != intent.Done || in.Policy != "v9" || in.Attempts != 1 {
		t.Errorf("%+v", in)
	}
}

func TestEachOfABatchHasItsOwnOutcome(t *testing.T) {
	s := openStore(t)
	l := &laws{}
	e := engine(s, l)
	var w ledger
	m := newMany(&w)
	tries := 0
	m.call = func(_ context.Context, in tool.Invocation) (tool.Result, error) {
		tries++
		w.add(in.Key)
		return tool.Text("done at last"), nil
	}
	m.answer = func(ins []tool.Invocation) []tool.Outcome {
		w.add(ins[0].Key)
		return []tool.Outcome{
			{Result: tool.Text("done")},
			{Err: fault.New(fault.Invalid, "bad", "that will never do")},
			{Err: errors.New("the line went dead")},
			{Err: tool.NotDone(fault.New(fault.Unavailable, "busy", "come again").Retrying(fault.RetryImmediate, 0))},
			{Result: tool.Result{Failed: true, Content: []message.Block{&message.Text{Text: "refused"}}}},
		}
	}
	var calls []Call
	for i := range 5 {
		calls = append(calls, callOf(m, fmt.Sprintf(`{"n":%d}`, i)))
		run(t, e, calls[i])
	}
	var heard []message.Status
	st := settlement(calls[0], m)
	st.Settled = func(o Outcome) { heard = append(heard, o.Result.Status) }
	out, err := e.Settle(context.Background(), st)
	if err != nil || len(out) != 5 {
		t.Fatal(out, err)
	}
	want := []intent.State{intent.Done, intent.Failed, intent.Unknown, intent.Done, intent.Failed}
	for i, c := range calls {
		if in := stateOf(t, s, c); in.State != want[i] || in.Dead != (want[i] != intent.Done) {
			t.Errorf("%d: %+v", i, in)
		}
	}
	if tries != 1 || w.total(false) != 2 || len(heard) != 5 {
		t.Errorf("tried %d times, %d effects, heard of %d", tries, w.total(false), len(heard))
	}
}

func TestABatchThatSaysTooLittleOrPanics(t *testing.T) {
	for name, answer := range map[string]func([]tool.Invocation) []tool.Outcome{
		"too little": func([]tool.Invocation) []tool.Outcome { return []tool.Outcome{{Result: tool.Text("done")}} },
		"panic":      func([]tool.Invocation) []tool.Outcome { panic("oh no") },
	} {
		_, e := open(t, judge(policy.Allow))
		var w ledger
		m := newMany(&w)
		m.answer = answer
		a, b := callOf(m, `{"n":1}`), callOf(m, `{"n":2}`)
		run(t, e, a)
		run(t, e, b)
		out, err := e.Settle(context.Background(), settlement(a, m))
		if err != nil || len(out) != 2 {
			t.Fatal(name, out, err)
		}
		for _, o := range out {
			expect(t, o.Result, message.UnknownEnd)
		}
	}
}

// What policy has come to deny is taken out of the batch; the rest is done.
func TestABatchWithoutWhatIsDenied(t *testing.T) {
	s := openStore(t)
	var w ledger
	m := newMany(&w)
	e := engine(s, judgeFunc(func(_ context.Context, q policy.Question) (policy.Decision, error) {
		if q.Point == policy.PointIntent && string(q.Args) == `{"n":2}` {
			return policy.Decision{Verdict: policy.Deny, Reason: "not this one"}, nil
		}
		return policy.Decision{Verdict: policy.Allow}, nil
	}))
	var calls []Call
	for i := range 3 {
		calls = append(calls, callOf(m, fmt.Sprintf(`{"n":%d}`, i+1)))
		run(t, e, calls[i])
	}
	out, err := e.Settle(context.Background(), settlement(calls[0], m))
	if err != nil || len(out) != 3 || fmt.Sprint(m.groups) != `[[{"n":1} {"n":3}]]` {
		t.Fatal(out, err, m.groups)
	}
	expect(t, out[1].Result, message.DeniedCall, "not this one")
	for _, c := range calls {
		if in := stateOf(t, s, c); !in.State.Settled() {
			t.Errorf("%+v", in)
		}
	}
}

func TestAStoppedRunSettlesNothing(t *testing.T) {
	s, e := open(t, judge(policy.Allow))
	var w ledger
	tl := deferred(&w, nil)
	a, b := callOf(tl, `{"n":1}`), callOf(tl, `{"n":2}`)
	run(t, e, a)
	run(t, e, b)
	st := settlement(a, tl)
	st.Stopped = true
	out, err := e.Settle(context.Background(), st)
	if err != nil || len(out) != 2 || w.total(false) != 0 {
		t.Fatal(out, err, w.total(false))
	}
	for _, c := range []Call{a, b} {
		if in := stateOf(t, s, c); in.State != intent.Cancelled || in.Reason != reasonStopped || in.Dead {
			t.Errorf("%+v", in)
		}
	}
}

func TestABatchThatFindsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(storetest.NewModel(), judge(policy.Allow))
		var w ledger
		m := newMany(&w)
		m.spec.Concurrency, m.spec.Timeout = 1, time.Minute
		a, b := callOf(m, `{"n":1}`), callOf(m, `{"n":2}`)
		run(t, e, a)
		run(t, e, b)
		release, err := e.enter(context.Background(), m.spec.Name+"/1", 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		out, err := e.Settle(context.Background(), settlement(a, m))
		if err != nil || len(out) != 2 {
			t.Fatal(out, err)
		}
		for _, o := range out {
			expect(t, o.Result, message.Unavailable, "busy")
		}
	})
}

// What policy allows is done before a person is asked about what comes after it.
func TestABatchDoesNotWaitForAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		var w ledger
		m := newMany(&w)
		e := engine(s, judgeFunc(func(_ context.Context, q policy.Question) (policy.Decision, error) {
			if q.Point == policy.PointIntent && string(q.Args) == `{"n":2}` {
				return policy.Decision{Verdict: policy.Ask, Reason: "this one"}, nil
			}
			return policy.Decision{Verdict: policy.Allow}, nil
		}))
		a, b, c := callOf(m, `{"n":1}`), callOf(m, `{"n":2}`), callOf(m, `{"n":3}`)
		for _, x := range []Call{a, b, c} {
			run(t, e, x)
			time.Sleep(time.Second) // they stand in the order of their time
		}
		st := settlement(a, m)
		st.Notify = func(p Progress) {
			if p.Status != Awaiting {
				return
			}
			if in := stateOf(t, s, a); in.State != intent.Done {
				t.Errorf("the one before it is %s", in.State)
			}
			go func() {
				answer(t, e, "ann", p.Question, true)
			}()
		}
		out, err := e.Settle(context.Background(), st)
		if err != nil || len(out) != 3 || w.total(false) != 3 {
			t.Fatal(out, err, w.total(false))
		}
	})
}
