package effect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/store"
	"steward/internal/tool"
)

// receiver is the tool of the crash tests, with the world behind it. The
// process can die inside a call, before or after the effect.
type receiver struct {
	*fake
	world   *ledger
	process *mortal
	die     string // "before", "after", or never
	asks    bool   // the world can be asked
}

func newReceiver(w *ledger, kind string, delivery tool.Delivery) *receiver {
	r := &receiver{world: w, asks: kind == "settles"}
	r.fake = action(r.effect)
	r.spec.Delivery, r.spec.Dedupes = delivery, kind == "dedupes"
	return r
}

func (r *receiver) effect(_ context.Context, in tool.Invocation) (tool.Result, error) {
	if r.die == "before" {
		r.die = ""
		r.process.kill()
		return tool.Result{}, errCrash
	}
	r.world.add(in.Key)
	if r.die == "after" {
		r.die = ""
		r.process.kill()
		return tool.Result{}, errCrash
	}
	return tool.Text("sent"), nil
}

func (r *receiver) Settle(_ context.Context, in tool.Invocation) (bool, tool.Result, error) {
	if !r.asks {
		return false, tool.Result{}, errors.New("cannot be asked")
	}
	return r.world.has(in.Key), tool.Text("sent"), nil
}

// TestCrashAtEveryCommit lets the process die at every commit of an action's
// way (before and after it took effect), and inside the call, and starts it
// again until the action is settled. An outside ledger counts the effects.
func TestCrashAtEveryCommit(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	for _, kind := range []string{"plain", "settles", "dedupes"} {
		for _, j := range []policy.Authorizer{judge(policy.Allow), policy.Fixed{}} {
			for _, delivery := range []tool.Delivery{tool.Inline, tool.Deferred} {
				for _, inside := range []string{"", "before", "after"} {
					for _, after := range []bool{false, true} {
						for at := 1; ; at++ {
							name := fmt.Sprintf("%s, %T, %s, in the call %q, commit %d, after %v", kind, j, delivery, inside, at, after)
							var w ledger
							r := newReceiver(&w, kind, delivery)
							r.die = inside
							died, res := lives(t, s, r, j, &mortal{Store: s, left: at, after: after})
							check(t, name, kind, w.total(kind == "dedupes"), res)
							if !died {
								break
							}
							if at > 20 {
								t.Fatalf("%s: still dying", name)
							}
						}
					}
				}
			}
		}
	}
}

// lives runs a call through as many lives of the process as it takes. It
// reports whether the first one ended at the commit that was meant.
func lives(t *testing.T, s store.Store, r *receiver, j policy.Authorizer, first *mortal) (died bool, res *message.ToolResult) {
	t.Helper()
	c := callOf(r, "") // in an interaction of its own, so that no other is its twin
	c.Message = conversation.ChildID("common.Interaction", id.New()).ChildID("common.Message", c.Ref.Message)
	r.process = first
	for life := 0; life < 9; life++ {
		e := engine(r.process, j)
		mine := c
		wg := answering(t, e, &mine, true)
		var err error
		res, err = e.Run(context.Background(), mine)
		if err == nil && res.Status == message.Queued {
			st := settlement(mine, r)
			st.Under = c.Message.Parent()
			st.Notify = mine.Notify
			var out []Outcome
			out, err = e.Settle(context.Background(), st)
			if err == nil && len(out) == 1 {
				res = out[0].Result
			} else if err == nil { // settled in an earlier life
				res, err = e.Run(context.Background(), mine)
			}
		}
		wg.Wait()
		if err == nil {
			if in := stateOf(t, s, c); !in.State.Settled() {
				t.Fatalf("a result, and the intent is %s", in.State)
			}
			again, err := engine(s, j).Run(context.Background(), c)
			if err != nil || again.Status != res.Status || again.Text() != res.Text() {
				t.Fatalf("%s; run again %s, %v", describe(res), describe(again), err)
			}
			return died, res
		}
		if !errors.Is(err, errCrash) {
			t.Fatalf("life %d: %v; %+v", life, err, stateOf(t, s, c))
		}
		died = died || first.left <= 0
		r.process = &mortal{Store: s, left: -1}
	}
	t.Fatal("the call is not settled after many lives")
	return
}

// check judges what a life, or several, came to.
func check(t *testing.T, name, kind string, effects int, res *message.ToolResult) {
	t.Helper()
	switch {
	case effects > 1:
		t.Errorf("%s: done %d times", name, effects)
	case res.Status == message.OK && effects != 1:
		t.Errorf("%s: said to be done, and was not", name)
	case res.Status != message.OK && res.Status != message.UnknownEnd && effects != 0:
		t.Errorf("%s: said to be %s, and was done", name, describe(res))
	case kind != "plain" && (res.Status != message.OK || effects != 1):
		t.Errorf("%s: could have been found out, and is %s with %d effects", name, describe(res), effects)
	}
}

// Two nodes at the same call of one store: one does it.
func TestTwoNodesAtOneCall(t *testing.T) {
	s := openStore(t)
	for range 30 {
		var w ledger
		tl := action(adds(&w, "sent"))
		c := callOf(tl, `{}`)
		plant(t, s, c, intent.Intent{State: intent.Proposed})
		var wg sync.WaitGroup
		for range 2 {
			e := engine(s, judge(policy.Allow))
			wg.Go(func() {
				res, err := e.Run(context.Background(), c)
				if err == nil && res.Status != message.OK && res.Status != message.UnknownEnd || err != nil && !fault.HasCode(err, "effect_contended") && !fault.HasCode(err, "conflict") {
					t.Errorf("%s, %v", describe(res), err)
				}
			})
		}
		wg.Wait()
		if w.total(false) != 1 {
			t.Errorf("%d effects", w.total(false))
		}
	}
}

// When the outcome cannot be recorded, the loop gets the outcome and the error.
func TestOutcomeThatCannotBeRecorded(t *testing.T) {
	s := openStore(t)
	e := engine(&mortal{Store: s, left: 3}, judge(policy.Allow))
	res, err := e.Run(context.Background(), callOf(action(says("sent")), `{}`))
	if !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	expect(t, res, message.OK, "sent")
	res, err = engine(&mortal{Store: s, left: 1}, judge(policy.Allow)).Run(context.Background(), callOf(action(says("sent")), `{}`))
	if !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	expect(t, res, message.Failed, "could not be recorded")
}
