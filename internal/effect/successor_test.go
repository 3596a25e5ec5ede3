package effect

import (
	"context"
	"errors"
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
	"steward/internal/store/storetest"
	"steward/internal/tool"
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

func loadIntent(t testing.TB, e *Engine, c Call, uri resource.URI) intent.Intent {
	t.Helper()
	r, err := e.load(context.Background(), c.Scope, uri)
	if err != nil {
		t.Fatal(err)
	}
	return r.in
}

func TestUndo(t *testing.T) {
	s := openStore(t)
	l := &laws{}
	l.set(policy.PointTool, policy.Decision{Verdict: policy.Ask, Reason: "all is asked about", Rule: "asks"})
	e := engine(s, l)
	var key, said string
	fails := tool.NotDone(fault.New(fault.Conflict, "changed_since", "it was changed since"))
	tl := &orderTool{fake: action(says("ordered")), undo: func(_ context.Context, in tool.Invocation, res tool.Result) (tool.Result, error) {
		key, said = in.Key, res.Content[0].(*message.Text).Text
		return tool.Text("taken back"), fails
	}}
	c := callOf(tl, `{"a":1}`)
	wg := answering(t, e, &c, true)
	run(t, e, c)
	wg.Wait()
	of := IntentURI(c.Message, c.Ref.Block)
	first := following(t, e, c, of, Undo, tl)
	expect(t, run(t, e, first), message.Failed, "changed since")
	if in := loadIntent(t, e, c, of); in.Undone != "" {
		t.Errorf("%+v", in)
	}
	if _, err := e.Again(context.Background(), c.Scope, of.Child(TypeIntent, "undo"), Undo, tl, nil); !fault.HasCode(err, "intent_not_done") {
		t.Errorf("the undoing of what was not undone: %v", err)
	}
	fails = nil
	again := following(t, e, c, of.Child(TypeIntent, "undo"), Retry, tl) // the undoing is tried again
	expect(t, run(t, e, again), message.OK, "taken back")
	in2 := loadIntent(t, e, c, of.Child(TypeIntent, "undo").Child(TypeIntent, "retry-1"))
	if in2.Undoes != of.String() || in2.Retries == "" || in2.State != intent.Done {
		t.Errorf("%+v", in2)
	}
	if in := loadIntent(t, e, c, of); in.Undone == "" {
		t.Errorf("%+v", in)
	}
	if _, err := e.Again(context.Background(), c.Scope, of, Undo, tl, nil); !fault.HasCode(err, "intent_undone") {
		t.Error(err)
	}
	steps, err := s.Log(context.Background(), c.Scope, store.LogQuery{Of: of.Child(TypeIntent, "undo")})
	if err != nil || len(steps.Entries) < 3 {
		t.Fatal(steps, err)
	}
	for _, entry := range steps.Entries {
		if entry.Request != c.Request.ID {
			t.Errorf("the log tells of another request: %+v", entry)
		}
	}
	in := loadIntent(t, e, c, of)
	if key != in.Key || said != "ordered" {
		t.Errorf("it was given the key %q and %q", key, said)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	undos := 0
	for _, q := range l.asked {
		if q.Action == "undo" {
			undos++
		}
	}
	if undos == 0 {
		t.Error("policy was not told that it is an undoing")
	}
}

func TestRetryIsJudgedAndApprovedAnew(t *testing.T) {
	s := openStore(t)
	l := &laws{}
	e := engine(s, l)
	var keys []string
	err := tool.NotDone(fault.New(fault.Unavailable, "down", "it is down"))
	tl := action(func(_ context.Context, in tool.Invocation) (tool.Result, error) {
		keys = append(keys, in.Key)
		return tool.Text("sent"), err
	})
	c := callOf(tl, `{}`)
	expect(t, run(t, e, c), message.Unavailable)
	of := IntentURI(c.Message, c.Ref.Block)
	if in := loadIntent(t, e, c, of); !in.Dead || in.State != intent.Failed {
		t.Fatalf("%+v", in)
	}
	page, qerr := s.Query(context.Background(), c.Scope, store.Query{Term: store.Term{Name: TermDead}})
	if qerr != nil || len(page.Items) != 1 {
		t.Fatal(page, qerr)
	}
	l.set(policy.PointTool, policy.Decision{Verdict: policy.Deny, Reason: "not today"})
	second := following(t, e, c, of, Retry, tl)
	expect(t, run(t, e, second), message.DeniedCall, "not today")
	if in := loadIntent(t, e, c, of); in.Dead || in.Retried == "" {
		t.Errorf("%+v", in)
	}
	if _, err := e.Again(context.Background(), c.Scope, of, Retry, tl, nil); !fault.HasCode(err, "intent_retried") {
		t.Error(err)
	}
	if _, err := e.Again(context.Background(), c.Scope, of.Child(TypeIntent, "retry-1"), Retry, tl, nil); !fault.HasCode(err, "intent_not_failed") {
		t.Errorf("what was denied: %v", err)
	}
	// What policy asks the user about, his wish has answered; what it asks a group about, not.
	c2 := callOf(tl, `{}`)
	l.set(policy.PointTool, policy.Decision{Verdict: policy.Allow})
	run(t, e, c2)
	of2 := IntentURI(c2.Message, c2.Ref.Block)
	l.set(policy.PointTool, policy.Decision{Verdict: policy.Ask, Reason: "asks"})
	err = nil
	third := following(t, e, c2, of2, Retry, tl)
	third.Notify = func(p Progress) {
		if p.Status == Awaiting {
			t.Error("asked, although the wish is the answer")
		}
	}
	expect(t, run(t, e, third), message.OK)
	in := loadIntent(t, e, c2, of2.Child(TypeIntent, "retry-1"))
	if in.Approval == nil || in.Approval.By != "ann" || in.Retries != of2.String() || in.Key != intent.RetryKey(loadIntent(t, e, c2, of2).Key, of2.Child(TypeIntent, "retry-1").String()) {
		t.Errorf("%+v", in)
	}
	if len(keys) != 3 || keys[1] == keys[2] {
		t.Errorf("keys %v", keys)
	}
	done := of2.Child(TypeIntent, "retry-1")
	if _, err := e.CallOf(context.Background(), c2.Scope, done.Child(TypeIntent, "undo"), tl); !fault.Is(err, fault.NotFound) {
		t.Errorf("what is not recorded: %v", err)
	}
	if _, err := e.Again(context.Background(), c2.Scope, done, Undo, tl, nil); !fault.HasCode(err, "intent_not_undoable") {
		t.Errorf("what cannot be undone: %v", err)
	}
}

func TestRetryOfWhatExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		e := New(Options{Store: s, Authorizer: policy.Fixed{}, Log: quiet, ApprovalTimeout: time.Hour})
		var w ledger
		tl := deferred(&w)
		c := callOf(tl, `{}`)
		expect(t, run(t, e, c), message.Queued)
		if _, err := e.Again(context.Background(), c.Scope, IntentURI(c.Message, c.Ref.Block), Retry, tl, nil); !fault.HasCode(err, "intent_unsettled") {
			t.Error(err)
		}
		begun := time.Now()
		out, err := e.Settle(context.Background(), settlement(c, tl))
		if err != nil || len(out) != 1 || time.Since(begun) < time.Hour-time.Second {
			t.Fatal(out, err, time.Since(begun))
		}
		of := IntentURI(c.Message, c.Ref.Block)
		if in := loadIntent(t, e, c, of); in.State != intent.Expired || w.total(false) != 0 {
			t.Fatalf("%+v", in)
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
		if (res.Status == message.OK) != done || !strings.Contains(res.Text(), "ann has looked") {
			t.Errorf("%s", describe(res))
		}
	}
	c := callOf(action(says("x")), `{}`)
	plant(t, s, c, intent.Intent{State: intent.Executing})
	if err := e.Resolve(ctx, c.Scope, IntentURI(c.Message, c.Ref.Block), Resolution{Done: true}); !fault.HasCode(err, "intent_transition_illegal") {
		t.Errorf("what is being done: %v", err)
	}
	early := callOf(action(says("x")), `{}`)
	plant(t, s, early, intent.Intent{State: intent.Proposed})
	if err := e.Resolve(ctx, c.Scope, IntentURI(early.Message, early.Ref.Block), Resolution{}); !fault.HasCode(err, "intent_transition_illegal") {
		t.Errorf("what is to be judged: %v", err)
	}
	if err := e.Resolve(ctx, store.ForUser("bob"), IntentURI(c.Message, c.Ref.Block), Resolution{}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

// What is unknown of a taking back, and a person says that it was done, is
// noted at what was taken back.
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

// Who is asked about a taking back is told that it is one, and cannot allow
// the doing with it.
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
	if q.Undoes != of.String() || q.Reason != "this takes back what was done; it costs money" {
		t.Errorf("%+v", q)
	}
	in := loadIntent(t, e, c, u.at)
	if in.Approvers = ""; grantable(&in, tl) != "it takes something back" {
		t.Errorf("a standing approval of it: %q", grantable(&in, tl))
	}
}
