package effect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/request"
	"steward/internal/store"
	"steward/internal/store/storetest"
	"steward/internal/tool"
)

// deferred is an action whose calls are queued; order collects what was done.
func deferred(l *ledger, order *[]string) *fake {
	a := action(func(_ context.Context, in tool.Invocation) (tool.Result, error) {
		l.add(in.Key)
		if order != nil {
			*order = append(*order, string(in.Args))
		}
		return tool.Text("done " + string(in.Args)), nil
	})
	a.spec.Delivery = tool.Deferred
	return a
}

func settlement(c Call, tools ...tool.Tool) Settlement {
	return Settlement{Under: interaction, Scope: c.Scope, Request: c.Request, Attended: true,
		Tools: func(_, name string) (tool.Tool, bool) {
			for _, t := range tools {
				if t.Spec().Name == name {
					return t, true
				}
			}
			return nil, false
		}}
}

func TestDeferredActionsAreDoneInOrderWhenTheRunEnds(t *testing.T) {
	s, e := open(t, judge(policy.Allow))
	var l ledger
	var order []string
	tl := deferred(&l, &order)
	calls := []Call{}
	for i := range 5 {
		c := callOf(tl, fmt.Sprintf(`{"n":%d}`, i))
		if i > 0 { // ids do not order
			c.Ref.Message = id.Derive(fmt.Sprint("message", 100-i))
			c.Message = interaction.ChildID("common.Message", c.Ref.Message)
		}
		if i == 4 { // the second call of the last message
			c.Ref = message.Ref{Message: calls[3].Ref.Message, Block: 2}
			c.Message = calls[3].Message
		}
		expect(t, run(t, e, c), message.Queued, "done when this turn ends")
		expect(t, run(t, e, c), message.Queued) // again, as after a crash
		if in := stateOf(t, s, c); in.State != intent.Approved || !in.Deferred {
			t.Errorf("%+v", in)
		}
		calls = append(calls, c)
	}
	if l.total(false) != 0 {
		t.Fatal("a queued action was done at once")
	}
	out, err := e.Settle(context.Background(), settlement(calls[0], tl))
	if err != nil || len(out) != 5 {
		t.Fatal(out, err)
	}
	if !slices.Equal(order, []string{`{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`}) {
		t.Errorf("done in the order %v", order)
	}
	for i, o := range out {
		expect(t, o.Result, message.OK, "done")
		if o.Call != calls[i].Ref || o.Intent != IntentURI(calls[i].Message, calls[i].Ref.Block) {
			t.Errorf("outcome %d is of %+v", i, o)
		}
	}
	if out, err = e.Settle(context.Background(), settlement(calls[0], tl)); err != nil || len(out) != 0 || l.total(false) != 5 {
		t.Errorf("settled again: %v, %v, %d effects", out, err, l.total(false))
	}
	expect(t, run(t, e, calls[0]), message.OK, "done") // asked later, it is what it became
}

func TestDeferredTwinsAreDoneOnce(t *testing.T) {
	s, e := open(t, judge(policy.Allow))
	var l ledger
	tl := deferred(&l, nil)
	one, two, other := callOf(tl, `{"a":1,"b":2}`), callOf(tl, `{"b":2.0,"a":1}`), callOf(tl, `{"a":1}`)
	for _, c := range []Call{one, two, other} {
		expect(t, run(t, e, c), message.Queued)
	}
	if stateOf(t, s, one).Key != stateOf(t, s, two).Key || stateOf(t, s, one).Key == stateOf(t, s, other).Key {
		t.Error("keys")
	}
	out, err := e.Settle(context.Background(), settlement(one, tl))
	if err != nil || len(out) != 3 || l.total(false) != 2 {
		t.Fatal(out, err, l.total(false))
	}
	expect(t, out[0].Result, message.OK)
	expect(t, out[1].Result, message.Interrupted, "is done once")
	expect(t, out[2].Result, message.OK)
	// Outside of an interaction the message's place counts.
	c := callOf(tl, `{}`)
	c.Message = conversation.ChildID("common.Message", c.Ref.Message)
	expect(t, run(t, e, c), message.Queued)
}

func TestSettleStops(t *testing.T) {
	s, e := open(t, judge(policy.Allow))
	var l ledger
	tl := deferred(&l, nil)
	c := callOf(tl, `{}`)
	run(t, e, c)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(request.ErrSuspend)
	out, err := e.Settle(ctx, settlement(c, tl))
	if err == nil || l.total(false) != 0 || stateOf(t, s, c).State != intent.Approved {
		t.Errorf("%v, %v, %s", out, err, stateOf(t, s, c).State)
	}
	broken := c.Message.Child("effect.Intent", "9")
	put(t, s, store.Change{URI: broken, Body: []byte("{}"), State: "proposed"})
	if _, err := e.Settle(context.Background(), settlement(c, tl)); !fault.HasCode(err, "intent_broken") {
		t.Error(err)
	}
	if _, err := engine(&mortal{Store: s, dead: true}, judge(policy.Allow)).Settle(context.Background(), settlement(c, tl)); !errors.Is(err, errCrash) {
		t.Error(err)
	}
}

func TestManyQueuedActionsFillMoreThanAPage(t *testing.T) {
	_, e := open(t, judge(policy.Allow))
	var l ledger
	tl := deferred(&l, nil)
	var c Call
	for i := range store.DefaultLimit + 5 {
		c = callOf(tl, fmt.Sprintf(`{"n":%d}`, i%(store.DefaultLimit+3))) // the last two are twins of the first
		run(t, e, c)
	}
	out, err := e.Settle(context.Background(), settlement(c, tl))
	if err != nil || len(out) != store.DefaultLimit+5 || l.total(false) != store.DefaultLimit+3 {
		t.Errorf("%d outcomes, %d effects, %v", len(out), l.total(false), err)
	}
}

// pair is a run of which two queued actions are being settled, with a
// person asked about both.
type pair struct {
	e     *Engine
	l     *ledger
	scope store.Scope
	asked []*Question
	ended chan struct{} // then out and err are there
	out   []Outcome
	err   error
}

func settlingTwo(t *testing.T, args ...string) *pair {
	t.Helper()
	x := &pair{e: engine(storetest.NewModel(), policy.Fixed{}), l: &ledger{}, ended: make(chan struct{})}
	tl := deferred(x.l, nil)
	x.e.opt.Tool = lookup(tl)
	var c Call
	for _, a := range args {
		c = callOf(tl, a)
		c.Notify = func(p Progress) { x.asked = append(x.asked, p.Question) }
		expect(t, run(t, x.e, c), message.Queued)
		time.Sleep(time.Second) // they stand in the order of their time
	}
	x.scope = c.Scope
	go func() {
		defer close(x.ended)
		x.out, x.err = x.e.Settle(context.Background(), settlement(c, tl))
	}()
	synctest.Wait()
	return x
}

// What is asked about is changed into what was done before it: it is there once.
func TestChangedIntoWhatWasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := settlingTwo(t, `{"n":1}`, `{"n":2}`)
		for i, args := range [][]byte{nil, []byte(`{"n":1}`)} {
			d := Decision{ID: x.asked[i].ID, Hash: x.asked[i].Hash, Approve: true, Args: args}
			if err := x.e.Decide(context.Background(), x.scope, d); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the first is done before the other is answered
		}
		<-x.ended
		if x.err != nil || len(x.out) != 2 {
			t.Fatal(x.out, x.err)
		}
		expect(t, x.out[0].Result, message.OK)
		expect(t, x.out[1].Result, message.Interrupted, "Not done again")
		if n := x.l.total(false); n != 1 {
			t.Errorf("%d effects", n)
		}
	})
}

// While the first of two that are the same is asked about, a person says of
// the other that it is to be another one, or that it is not to be.
func TestTwinsOfWhichOneIsAnsweredMeanwhile(t *testing.T) {
	for how, want := range map[string]message.Status{"changed": message.OK, "refused": message.DeniedCall, "allowed": message.Interrupted} {
		synctest.Test(t, func(t *testing.T) {
			x := settlingTwo(t, `{"n":1}`, `{"n":1}`)
			d := Decision{ID: x.asked[1].ID, Hash: x.asked[1].Hash, Approve: how != "refused"}
			if how == "changed" {
				d.Args = []byte(`{"n":2}`)
			}
			for _, d := range []Decision{d, {ID: x.asked[0].ID, Hash: x.asked[0].Hash, Approve: true}} {
				if err := x.e.Decide(context.Background(), x.scope, d); err != nil {
					t.Fatal(err)
				}
			}
			<-x.ended
			if x.err != nil || len(x.out) != 2 {
				t.Fatal(how, x.out, x.err)
			}
			expect(t, x.out[0].Result, message.OK)
			expect(t, x.out[1].Result, want)
			if n := map[bool]int{true: 2, false: 1}[how == "changed"]; x.l.total(false) != n {
				t.Errorf("%s: %d effects", how, x.l.total(false))
			}
		})
	}
}
