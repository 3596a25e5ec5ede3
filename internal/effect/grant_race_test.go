package effect

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/store"
	"steward/internal/tool"
)

// A grant that is taken back between the judging and the beginning does not
// count: the commit that begins the action sees it.
func TestAGrantRevokedOnTheWay(t *testing.T) {
	ctx := context.Background()
	w := &hooked{Store: openStore(t)}
	e := newEngine(w, nil)
	other := newEngine(w.Store, nil) // of another process
	tl := fileTool(echo)
	standing(t, e, callOf(tl, `{"path":"a"}`), Always, "", time.Time{})
	list := oneGrant(t, e)
	for _, at := range []intent.State{intent.Approved, intent.Executing} {
		once := false
		w.set(func(b *store.Batch) {
			if b != nil && b.Changes[0].State == string(at) && !once {
				once = true
				if err := other.Revoke(ctx, "ann", list[0].ID); err != nil {
					t.Error(err)
				}
			}
		})
		c := callOf(tl, `{"path":"a"}`)
		r := begin(t, e, c)
		q := r.question()
		w.set(nil)
		if in := stateOf(t, w, c); in.Attempts != 0 && in.State != intent.Awaiting || in.Approval != nil {
			t.Errorf("at %s: %+v", at, in)
		}
		give(t, e, q, Always, "", time.Time{})
		expect(t, <-r.end, message.OK)
		list = oneGrant(t, e)
	}
}

// Narrowing one on the way is seen as well, and one that still covers continues.
func TestAGrantChangedOnTheWayThatStillCovers(t *testing.T) {
	ctx := context.Background()
	w := &hooked{Store: openStore(t)}
	e := newEngine(w, nil)
	tl := fileTool(echo)
	standing(t, e, callOf(tl, `{"path":"a"}`), Always, "path any", time.Time{})
	list := oneGrant(t, e)
	once := false
	w.set(func(b *store.Batch) {
		if b != nil && b.Changes[0].State == string(intent.Executing) && !once {
			once = true
			if _, err := e.EditGrant(ctx, "ann", list[0].ID, GrantEdit{Pattern: intent.Pattern{"path": {Like: "*"}}}); err != nil {
				t.Error(err)
			}
		}
	})
	expect(t, begin(t, e, callOf(tl, `{"path":"a"}`)).unasked(), message.OK)
	if !once {
		t.Error("it was not changed on the way")
	}
}

// Of a queue that is done together, each is covered by its own approval.
func TestGrantsOfQueuedActions(t *testing.T) {
	ctx := context.Background()
	s, e := open(t, policy.Fixed{})
	tl := fileTool(echo)
	tl.spec.Delivery = tool.Deferred
	c := callOf(tl, `{"path":"a"}`)
	r := begin(t, e, c)
	q := r.question()
	expect(t, <-r.end, message.Queued)
	e.opt.Tool = func(string, string) (tool.Tool, bool) { return tl, true }
	give(t, e, q, Always, "path any", time.Time{})
	c2 := callOf(tl, `{"path":"b"}`)
	c2.Request = c.Request
	expect(t, run(t, e, c2), message.Queued)
	if in := isState(t, s, c2, intent.Approved); in.Approval == nil || in.Approval.Grant == "" {
		t.Fatalf("%+v", in)
	}
	list, err := e.Grants(ctx, "ann", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Revoke(ctx, "ann", list[0].ID); err != nil {
		t.Fatal(err)
	}
	// What was approved by it and has not begun is asked about; what a person has approved himself is done.
	var asked []string
	var wg sync.WaitGroup
	st := settlement(c, tl)
	refuse := answers(t, e, &wg, false)
	st.Notify = func(p Progress) {
		if p.Status == Awaiting {
			asked = append(asked, string(p.Args))
		}
		refuse(p)
	}
	settle(t, e, st, message.OK, message.DeniedCall)
	wg.Wait()
	if !slices.Equal(asked, []string{`{"path":"b"}`}) {
		t.Errorf("asked %v", asked)
	}
}

// lookup finds one tool.
func lookup(t tool.Tool) func(string, string) (tool.Tool, bool) {
	return func(string, string) (tool.Tool, bool) { return t, true }
}

// A query that is asked about is covered like an action, also where nobody is
// there; without a grant it is denied then, and nothing is recorded.
func TestAGrantOfAQuery(t *testing.T) {
	s := openStore(t)
	e := newEngine(s, func(o *Options) { o.Authorizer = judge(policy.Ask) })
	tl := query(echo)
	alone := callOf(tl, `{"q":"a"}`)
	alone.Attended = false
	expect(t, run(t, e, alone), message.DeniedCall, "nobody can be asked here")
	noIntent(t, s, alone)
	standing(t, e, callOf(tl, `{"q":"a"}`), Always, "", time.Time{})
	alone = callOf(tl, `{"q":"a"}`)
	alone.Attended = false
	expect(t, run(t, e, alone), message.OK)
	alone = callOf(tl, `{"q":"b"}`)
	alone.Attended = false
	expect(t, run(t, e, alone), message.DeniedCall, "nobody can be asked here")
}

// A standing approval stands in for a person whom policy wants asked, and not
// for policy: what it cannot decide the second time is denied.
func TestAGrantDoesNotStandInForPolicy(t *testing.T) {
	var judged int
	out := false
	e := newEngine(openStore(t), func(o *Options) {
		o.Authorizer = judgeFunc(func(context.Context, policy.Question) (policy.Decision, error) {
			if judged++; out && judged > 1 {
				return policy.Decision{}, errors.New("out of order")
			}
			return policy.Decision{Verdict: policy.Ask, Reason: "it reads"}, nil
		})
	})
	tl := query(says("read"))
	e.opt.Tool = lookup(tl)
	standing(t, e, callOf(tl, `{}`), Always, "", time.Time{})
	c := callOf(tl, `{}`)
	c.Attended = false
	judged, out = 0, true
	expect(t, run(t, e, c), message.DeniedCall, "policy evaluation failed")
}
