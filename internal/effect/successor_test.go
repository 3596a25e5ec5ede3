package effect

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/test/storetest"
)

// order is an action that can be taken back.
type orderTool struct {
	*fake
	undo func(context.Context, tool.Invocation, tool.Result) (tool.Result, error)
}

func (o *orderTool) Undo(ctx context.Context, in tool.Invocation, res tool.Result) (tool.Result, error) {
	return o.undo(ctx, in, res)
}

// following has a person follow a settled intent, and returns the call by
// which that is carried out.
func following(t testing.TB, e *Engine, c Call, of resource.URI, s Step, tl tool.Tool) Call {
	t.Helper()
	at, err := e.Again(context.Background(), c.Scope, of, s, tl, nil)
	if err != nil {
		t.Fatal(err)
	}
	call, err := e.CallOf(context.Background(), c.Scope, at, tl)
	if err != nil {
		t.Fatal(err)
	}
	call.Request = c.Request
	return call
}

// cannot checks that a step after a settled intent is refused.
func cannot(t testing.TB, e *Engine, c Call, of resource.URI, s Step, code string) {
	t.Helper()
	if _, err := e.Again(context.Background(), c.Scope, of, s, c.Tool, nil); !fault.HasCode(err, code) {
		t.Errorf("%s of %s: %v; want %s", s, of.ID(), err, code)
	}
}

func loadIntent(t testing.TB, e *Engine, c Call, uri resource.URI) intent.Intent {
	t.Helper()
	r, err := e.load(context.Background(), c.Scope, uri)
	if err != nil {
		t.Fatal(err)
	}
	return r.in
}

func TestUndo(t *testing.T) {
	l := &laws{}
	l.set(policy.PointTool, policy.Decision{Verdict: policy.Ask, Reason: "all is asked about", Rule: "asks"})
	s, e := open(t, l)
	var key, said string
	fails := tool.NotDone(fault.New(fault.Conflict, "changed_since", "it was changed since"))
	tl := &orderTool{fake: action(says("ordered")), undo: func(_ context.Context, in tool.Invocation, res tool.Result) (tool.Result, error) {
		key, said = in.Key, res.Content[0].(*message.Text).Text
		return tool.Text("taken back"), fails
	}}
	c := callOf(tl, `{"a":1}`)
	expect(t, runAnswering(t, e, c, true), message.OK)
	of := IntentURI(c.Message, c.Ref.Block)
	undo := of.Child(TypeIntent, "undo")
	expect(t, run(t, e, following(t, e, c, of, Undo, tl)), message.Failed, "changed since")
	if in := loadIntent(t, e, c, of); in.Undone != "" {
		t.Errorf("%+v", in)
	}
	cannot(t, e, c, undo, Undo, "intent_not_done")
	fails = nil
	expect(t, run(t, e, following(t, e, c, undo, Retry, tl)), message.OK, "taken back") // the undo is retried
	in := loadIntent(t, e, c, of)
	if again := loadIntent(t, e, c, undo.Child(TypeIntent, "retry-1")); again.Undoes != of.String() || again.Retries == "" || again.State != intent.Done || in.Undone == "" {
		t.Errorf("%+v, %+v", in, again)
	}
	cannot(t, e, c, of, Undo, "intent_undone")
	if key != in.Key || said != "ordered" {
		t.Errorf("it was given the key %q and %q", key, said)
	}
	steps, err := s.Log(context.Background(), c.Scope, store.LogQuery{Of: undo})
	if err != nil || len(steps.Entries) < 3 || slices.ContainsFunc(steps.Entries, func(x resource.Entry) bool { return x.Request != c.Request.ID }) {
		t.Errorf("%+v, %v", steps.Entries, err)
	}
	if !slices.ContainsFunc(l.asked, func(q policy.Question) bool { return q.Action == ActionUndo }) {
		t.Error("policy does not see that it is an undo")
	}
}

func TestARetryIsJudgedAnew(t *testing.T) {
	l := &laws{}
	s, e := open(t, l)
	var keys []string
	err := tool.NotDone(fault.New(fault.Unavailable, "down", "it is down"))
	tl := action(func(_ context.Context, in tool.Invocation) (tool.Result, error) {
		keys = append(keys, in.Key)
		return tool.Text("sent"), err
	})
	fail := func() (Call, resource.URI) {
		c := callOf(tl, `{}`)
		expect(t, run(t, e, c), message.Unavailable)
		return c, IntentURI(c.Message, c.Ref.Block)
	}
	c, of := fail()
	if in := isState(t, s, c, intent.Failed); !in.Dead {
		t.Fatalf("%+v", in)
	}
	if page, err := s.Query(context.Background(), c.Scope, store.Query{Term: store.Term{Name: TermDead}}); err != nil || len(page.Items) != 1 {
		t.Fatal(page, err)
	}
	l.set(policy.PointTool, policy.Decision{Verdict: policy.Deny, Reason: "not today"})
	expect(t, run(t, e, following(t, e, c, of, Retry, tl)), message.DeniedCall, "not today")
	if in := loadIntent(t, e, c, of); in.Dead || in.Retried == "" {
		t.Errorf("%+v", in)
	}
	cannot(t, e, c, of, Retry, "intent_retried")
	cannot(t, e, c, of.Child(TypeIntent, "retry-1"), Retry, "intent_not_failed")

	// The person's request answers what policy asks the user about.
	l.set(policy.PointTool, policy.Decision{Verdict: policy.Allow})
	c, of = fail()
	l.set(policy.PointTool, policy.Decision{Verdict: policy.Ask, Reason: "asks"})
	err = nil
	retry := following(t, e, c, of, Retry, tl)
	retry.Notify = func(p Progress) {
		if p.Status == Awaiting {
			t.Error("the user is asked, although the user wants it")
		}
	}
	expect(t, run(t, e, retry), message.OK)
	in := loadIntent(t, e, c, retry.at)
	if in.Approval == nil || in.Approval.By != "ann" || in.Retries != of.String() || in.Key != intent.RetryKey(loadIntent(t, e, c, of).Key, retry.at.String()) {
		t.Errorf("%+v", in)
	}
	if len(keys) != 3 || keys[1] == keys[2] {
		t.Errorf("keys %v", keys)
	}
	if _, err := e.CallOf(context.Background(), c.Scope, retry.at.Child(TypeIntent, "undo"), tl); !fault.Is(err, fault.NotFound) {
		t.Errorf("an intent that is not recorded: %v", err)
	}
	cannot(t, e, c, retry.at, Undo, "intent_not_undoable")
}

func TestRetryOfAnExpiredAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		e := newEngine(s, func(o *Options) { o.ApprovalTimeout = time.Hour })
		var w ledger
		tl := deferred(&w)
		c := queue(t, e, tl, `{}`)[0]
		of := IntentURI(c.Message, c.Ref.Block)
		cannot(t, e, c, of, Retry, "intent_unsettled")
		begun := time.Now()
		settle(t, e, settlement(c, tl), message.DeniedCall)
		if isState(t, s, c, intent.Expired); time.Since(begun) < time.Hour-time.Second {
			t.Errorf("after %s", time.Since(begun))
		}
		time.Sleep(30 * 24 * time.Hour)
		expect(t, run(t, e, following(t, e, c, of, Retry, tl)), message.OK)
		if w.total(false) != 1 {
			t.Errorf("%d effects", w.total(false))
		}
	})
}

func TestResolve(t *testing.T) {
	s, e := open(t, judge(policy.Allow))
	ctx := context.Background()
	for _, done := range []bool{true, false} {
		c := callOf(action(fails(errors.New("the line went dead"))), `{}`)
		expect(t, run(t, e, c), message.UnknownEnd)
		uri := IntentURI(c.Message, c.Ref.Block)
		for range 2 {
			if err := e.Resolve(ctx, c.Scope, uri, Resolution{Done: done, Note: "I looked \xff"}); err != nil {
				t.Fatal(err)
			}
		}
		in := stateOf(t, s, c)
		if (in.State == intent.Done) != done || in.Dead || in.Resolved == nil || in.Resolved.By != "ann" || in.Resolved.Done != done {
			t.Errorf("%+v", in)
		}
		if err := e.Resolve(ctx, c.Scope, uri, Resolution{Done: !done}); !fault.HasCode(err, "intent_transition_illegal") {
			t.Error(err)
		}
		res := run(t, e, c)
		if (res.Status == message.OK) != done || !strings.Contains(res.Text(), "ann has checked") {
			t.Errorf("%s", describe(res))
		}
	}
	c := callOf(action(says("x")), `{}`)
	uri := IntentURI(c.Message, c.Ref.Block)
	for _, early := range []intent.State{intent.Executing, intent.Proposed} {
		plant(t, s, c, intent.Intent{State: early})
		if err := e.Resolve(ctx, c.Scope, uri, Resolution{Done: early == intent.Executing}); !fault.HasCode(err, "intent_transition_illegal") {
			t.Errorf("%s: %v", early, err)
		}
	}
	if err := e.Resolve(ctx, store.ForUser("bob"), uri, Resolution{}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

// If a person says that an undo of unknown outcome was done, the action is marked as undone.
func TestResolvedUndo(t *testing.T) {
	e := engine(openStore(t), judge(policy.Allow))
	tl := &orderTool{fake: action(says("ordered")), undo: func(context.Context, tool.Invocation, tool.Result) (tool.Result, error) {
		return tool.Result{}, errors.New("the line went dead")
	}}
	c := callOf(tl, `{}`)
	run(t, e, c)
	of := IntentURI(c.Message, c.Ref.Block)
	u := following(t, e, c, of, Undo, tl)
	expect(t, run(t, e, u), message.UnknownEnd)
	if err := e.Resolve(context.Background(), c.Scope, u.at, Resolution{Done: true}); err != nil {
		t.Fatal(err)
	}
	if in := loadIntent(t, e, c, of); in.Undone != u.at.String() {
		t.Errorf("%+v", in)
	}
}

// The question about an undo says so, and no standing approval can be given for it.
func TestAskedAboutAnUndo(t *testing.T) {
	l := &laws{}
	e := newEngine(openStore(t), func(o *Options) { o.Authorizer, o.Directory = l, family })
	tl := &orderTool{fake: action(says("ordered")), undo: func(context.Context, tool.Invocation, tool.Result) (tool.Result, error) {
		return tool.Text("taken back"), nil
	}}
	e.opt.Tool = lookup(tl)
	c := callOf(tl, `{}`)
	run(t, e, c)
	of := IntentURI(c.Message, c.Ref.Block)
	l.set(policy.PointTool, policy.Decision{Verdict: policy.Ask, Reason: "it costs money", Obligations: policy.Obligations{Approvers: "parents"}})
	u := following(t, e, c, of, Undo, tl)
	q := suspendedAt(t, e, u)
	if q.Undoes != of.String() || q.Reason != "this undoes an earlier action; it costs money" {
		t.Errorf("%+v", q)
	}
	in := loadIntent(t, e, c, u.at)
	if in.Approvers = ""; grantable(&in, tl) != "it undoes another action" {
		t.Errorf("a standing approval of it: %q", grantable(&in, tl))
	}
}
