package effect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	"steward/internal/tool"
	"steward/test/storetest"
)

func TestDeferredActionsAreDoneInOrderWhenTheRunEnds(t *testing.T) {
	s, e := open(t, judge(policy.Allow))
	var l ledger
	var order []string
	tl := deferred(&l)
	do := tl.call
	tl.call = func(ctx context.Context, in tool.Invocation) (tool.Result, error) {
		order = append(order, string(in.Args))
		return do(ctx, in)
	}
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
		if in := isState(t, s, c, intent.Approved); !in.Deferred {
			t.Errorf("%+v", in)
		}
		calls = append(calls, c)
	}
	if l.total(false) != 0 {
		t.Fatal("a queued action was done at once")
	}
	out := settle(t, e, settlement(calls[0], tl), message.OK, message.OK, message.OK, message.OK, message.OK)
	if !slices.Equal(order, []string{`{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`}) {
		t.Errorf("done in the order %v", order)
	}
	for i, o := range out {
		if o.Call != calls[i].Ref || o.Intent != IntentURI(calls[i].Message, calls[i].Ref.Block) {
			t.Errorf("outcome %d is of %+v", i, o)
		}
	}
	if settle(t, e, settlement(calls[0], tl)); l.total(false) != 5 {
		t.Errorf("settled again: %d effects", l.total(false))
	}
	expect(t, run(t, e, calls[0]), message.OK, "done") // asked later, it is what it became
}

func TestDeferredTwinsAreDoneOnce(t *testing.T) {
	s, e := open(t, judge(policy.Allow))
	var l ledger
	tl := deferred(&l)
	calls := queue(t, e, tl, `{"a":1,"b":2}`, `{"b":2.0,"a":1}`, `{"a":1}`)
	if key := stateOf(t, s, calls[0]).Key; key != stateOf(t, s, calls[1]).Key || key == stateOf(t, s, calls[2]).Key {
		t.Error("keys")
	}
	out := settle(t, e, settlement(calls[0], tl), message.OK, message.Interrupted, message.OK)
	expect(t, out[1].Result, message.Interrupted, "is done once")
	if l.total(false) != 2 {
		t.Errorf("%d effects", l.total(false))
	}
	// Outside of an interaction the message's place counts.
	c := callOf(tl, `{}`)
	c.Message = conversation.ChildID("common.Message", c.Ref.Message)
	expect(t, run(t, e, c), message.Queued)
}

func TestSettleStops(t *testing.T) {
	s, e := open(t, judge(policy.Allow))
	var l ledger
	tl := deferred(&l)
	c := queue(t, e, tl, `{}`)[0]
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(request.ErrSuspend)
	if out, err := e.Settle(ctx, settlement(c, tl)); !errors.Is(err, request.ErrSuspend) || l.total(false) != 0 {
		t.Errorf("%v, %v", out, err)
	}
	isState(t, s, c, intent.Approved)
	put(t, s, store.Change{URI: c.Message.Child("effect.Intent", "9"), Body: []byte("{}"), State: "proposed"})
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
	tl := deferred(&l)
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
	tl := deferred(x.l)
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

// While the first of two equal actions is asked about, a person answers the question about
// the other one.
func TestAnswersAboutEqualActions(t *testing.T) {
	for how, want := range map[string]struct {
		first, second message.Status
		effects       int
	}{
		"second changed":                     {message.OK, message.OK, 2},
		"second refused":                     {message.OK, message.DeniedCall, 1},
		"both allowed":                       {message.OK, message.Interrupted, 1},
		"second allowed, first refused":      {message.DeniedCall, message.OK, 1},
		"second not answered, first refused": {message.DeniedCall, message.Interrupted, 0},
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := settlingTwo(t, `{"n":1}`, `{"n":1}`)
				d := Decision{ID: x.asked[1].ID, Hash: x.asked[1].Hash, Approve: how != "second refused"}
				if how == "second changed" {
					d.Args = []byte(`{"n":2}`)
				}
				if !strings.HasPrefix(how, "second not") {
					decided(t, x.e, "ann", d, "")
				}
				answer(t, x.e, "ann", x.asked[0], !strings.HasSuffix(how, "first refused"))
				<-x.ended
				if x.err != nil || len(x.out) != 2 {
					t.Fatal(x.out, x.err)
				}
				expect(t, x.out[0].Result, want.first)
				expect(t, x.out[1].Result, want.second)
				if n := x.l.total(false); n != want.effects {
					t.Errorf("%d effects", n)
				}
			})
		})
	}
}
