package effect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/storetest"
	"steward/internal/tool"
)

// laws is a judge whose mind a test changes, by the point.
type laws struct {
	mu    sync.Mutex
	at    map[policy.Point]policy.Decision
	asked []policy.Question
}

func (l *laws) set(p policy.Point, d policy.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil {
		l.at = map[policy.Point]policy.Decision{}
	}
	l.at[p] = d
}

func (l *laws) Judge(_ context.Context, q policy.Question) (policy.Decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, q)
	if d, ok := l.at[q.Point]; ok {
		return d, nil
	}
	return policy.Decision{Verdict: policy.Allow, Rule: "all", Version: "v1"}, nil
}

func (l *laws) points() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, q := range l.asked {
		out = append(out, string(q.Point))
	}
	l.asked = nil
	return strings.Join(out, " ")
}

func TestActionsAreJudgedOnceMoreWhenTimeHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		l := &laws{}
		e := engine(s, l)
		var w ledger
		tl := action(func(_ context.Context, in tool.Invocation) (tool.Result, error) {
			w.add(in.Key)
			return tool.Text("sent"), nil
		})

		run(t, e, callOf(tl, `{}`)) // at once: judged once
		if got := l.points(); got != "tool" {
			t.Errorf("at once: judged at %s", got)
		}

		// After an approval: an ask is satisfied by it, a deny denies.
		l.set(policy.PointTool, policy.Decision{Verdict: policy.Ask, Reason: "look", Rule: "asks", Version: "v2"})
		l.set(policy.PointIntent, policy.Decision{Verdict: policy.Ask, Reason: "look", Rule: "asks", Version: "v3"})
		c := callOf(tl, `{}`)
		wg := answering(t, e, &c, true)
		expect(t, run(t, e, c), message.OK)
		wg.Wait()
		if in := stateOf(t, s, c); in.Policy != "v3" || in.Rule != "asks" || in.Approval == nil || in.Approval.By != "ann" {
			t.Errorf("%+v", in)
		}
		if got := l.points(); got != "tool intent" {
			t.Errorf("after an approval: judged at %s", got)
		}
		l.set(policy.PointIntent, policy.Decision{Verdict: policy.Deny, Reason: "not any more", Rule: "denies", Version: "v4"})
		c = callOf(tl, `{}`)
		wg = answering(t, e, &c, true)
		expect(t, run(t, e, c), message.DeniedCall, "not any more")
		wg.Wait()
		if in := stateOf(t, s, c); in.State != intent.Denied || in.DeniedBy != "" || in.Policy != "v4" {
			t.Errorf("%+v", in)
		}
		if w.total(false) != 2 {
			t.Errorf("%d effects", w.total(false))
		}

		// After the queue: what was allowed is asked about, if policy has come to that.
		l.set(policy.PointTool, policy.Decision{Verdict: policy.Allow})
		l.set(policy.PointIntent, policy.Decision{Verdict: policy.Ask, Reason: "since then"})
		var qw ledger
		dt := deferred(&qw, nil)
		c = callOf(dt, `{}`)
		c.Labels, c.Flow, c.Lineage = message.Private, policy.Flow{Fixed: true}, []string{"boss"}
		run(t, e, c)
		l.points()
		asked := 0
		st := settlement(c, dt)
		st.Notify = func(p Progress) {
			if p.Status == Awaiting {
				asked++
				go func() {
					if err := e.Decide(context.Background(), c.Scope, Decision{ID: p.Question.ID, Hash: p.Question.Hash, Approve: true}); err != nil {
						t.Error(err)
					}
				}()
			}
		}
		out, err := e.Settle(context.Background(), st)
		if err != nil || len(out) != 1 || out[0].Result.Status != message.OK || asked != 1 || qw.total(false) != 1 {
			t.Errorf("%v, %v, asked %d times", out, err, asked)
		}
		l.mu.Lock()
		for _, q := range l.asked { // what is recorded is what is judged
			if q.Labels != message.Private || !q.Flow.Fixed || len(q.Lineage) != 1 || string(q.Args) != `{}` {
				t.Errorf("%+v", q)
			}
		}
		l.mu.Unlock()
	})
}

// An approval of the user's does not do where policy has come to want a group's.
func TestApprovalByTheWrongPeople(t *testing.T) {
	s := openStore(t)
	l := &laws{}
	l.set(policy.PointTool, policy.Decision{Verdict: policy.Ask})
	l.set(policy.PointIntent, policy.Decision{Verdict: policy.Ask, Reason: "the parents decide", Obligations: policy.Obligations{Approvers: "parents"}})
	e := engine(s, l)
	c := callOf(action(says("sent")), `{}`)
	ctx, cancel := context.WithCancelCause(context.Background())
	questions := 0
	c.Notify = func(p Progress) {
		if p.Status != Awaiting {
			return
		}
		if questions++; questions == 2 {
			cancel(request.ErrStop)
			return
		}
		go func() {
			if err := e.Decide(context.Background(), c.Scope, Decision{ID: p.Question.ID, Hash: p.Question.Hash, Approve: true, By: "ann"}); err != nil {
				t.Error(err)
			}
		}()
	}
	res, err := e.Run(ctx, c)
	if err != nil || res.Status != message.Interrupted || questions != 2 || stateOf(t, s, c).Approvers != "parents" {
		t.Errorf("%s, %v, asked %d times", describe(res), err, questions)
	}
}

func TestActionsOutsideOfARunAreRefused(t *testing.T) {
	s := openStore(t)
	var said bytes.Buffer
	e := New(Options{Store: s, Judge: judge(policy.Allow), Log: slog.New(slog.NewTextHandler(&said, nil))})
	var w ledger
	tl := action(func(_ context.Context, in tool.Invocation) (tool.Result, error) {
		w.add(in.Key)
		return tool.Text("sent"), nil
	})
	good := callOf(tl, `{}`)
	for name, spoil := range map[string]func(*Call) context.Context{
		"no request": func(c *Call) context.Context { c.Request.ID = id.ID{}; return context.Background() },
		"another request": func(c *Call) context.Context {
			return request.With(context.Background(), request.Context{ID: id.New()})
		},
		"no message":              func(c *Call) context.Context { c.Ref.Message = id.ID{}; return context.Background() },
		"no place of the message": func(c *Call) context.Context { c.Message = resource.URI{}; return context.Background() },
		"another message":         func(c *Call) context.Context { c.Ref.Message = id.New(); return context.Background() },
	} {
		said.Reset()
		c := good
		ctx := spoil(&c)
		res, err := e.Run(ctx, c)
		if !fault.HasCode(err, "intent_outside_run") || res == nil || res.Status != message.Failed || w.total(false) != 0 {
			t.Errorf("%s: %s, %v", name, describe(res), err)
		}
		if !strings.Contains(said.String(), "level=ERROR") || !strings.Contains(said.String(), "intent_outside_run") {
			t.Errorf("%s: said %q", name, said.String())
		}
	}
	if res, err := e.Run(request.With(context.Background(), good.Request), good); err != nil || res.Status != message.OK {
		t.Error(res, err)
	}
}

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
		s := openStore(t)
		e := engine(s, judge(policy.Allow))
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
	s := openStore(t)
	e := engine(s, judge(policy.Allow))
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
		if in := stateOf(t, s, c); in.State != intent.Cancelled || in.Reason != ReasonStopped || in.Dead {
			t.Errorf("%+v", in)
		}
	}
}

// order is an action that can be taken back.
type orderTool struct {
	*fake
	undo func(context.Context, tool.Invocation, tool.Result) (tool.Result, error)
}

func (o *orderTool) Undo(ctx context.Context, in tool.Invocation, res tool.Result) (tool.Result, error) {
	return o.undo(ctx, in, res)
}

// anewCall prepares a person's wish about the intent of a call.
func anewCall(t testing.TB, e *Engine, c Call, of resource.URI, w Wish, tl tool.Tool) Call {
	t.Helper()
	uri, err := e.Wished(context.Background(), c.Scope, of, w)
	if err != nil {
		t.Fatal(err)
	}
	call, err := e.CallOf(context.Background(), c.Scope, uri, "ann", tl)
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
	first := anewCall(t, e, c, of, Undo, tl)
	expect(t, run(t, e, first), message.Failed, "changed since")
	if in := loadIntent(t, e, c, of); in.Undone != "" {
		t.Errorf("%+v", in)
	}
	if _, err := e.Wished(context.Background(), c.Scope, of.Child(TypeIntent, "undo"), Undo); !fault.HasCode(err, "intent_not_done") {
		t.Errorf("the undoing of what was not undone: %v", err)
	}
	fails = nil
	again := anewCall(t, e, c, of.Child(TypeIntent, "undo"), Retry, tl) // the undoing is tried again
	expect(t, run(t, e, again), message.OK, "taken back")
	in2 := loadIntent(t, e, c, of.Child(TypeIntent, "undo").Child(TypeIntent, "retry-1"))
	if in2.Undoes != of.String() || in2.Retries == "" || in2.State != intent.Done {
		t.Errorf("%+v", in2)
	}
	if in := loadIntent(t, e, c, of); in.Undone == "" {
		t.Errorf("%+v", in)
	}
	if _, err := e.Wished(context.Background(), c.Scope, of, Undo); !fault.HasCode(err, "intent_undone") {
		t.Error(err)
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
	second := anewCall(t, e, c, of, Retry, tl)
	expect(t, run(t, e, second), message.DeniedCall, "not today")
	if in := loadIntent(t, e, c, of); in.Dead || in.Retried == "" {
		t.Errorf("%+v", in)
	}
	if _, err := e.Wished(context.Background(), c.Scope, of, Retry); !fault.HasCode(err, "intent_retried") {
		t.Error(err)
	}
	if _, err := e.Wished(context.Background(), c.Scope, of.Child(TypeIntent, "retry-1"), Retry); !fault.HasCode(err, "intent_not_failed") {
		t.Errorf("what was denied: %v", err)
	}
	// What policy asks the user about, his wish has answered; what it asks a group about, not.
	c2 := callOf(tl, `{}`)
	l.set(policy.PointTool, policy.Decision{Verdict: policy.Allow})
	run(t, e, c2)
	of2 := IntentURI(c2.Message, c2.Ref.Block)
	l.set(policy.PointTool, policy.Decision{Verdict: policy.Ask, Reason: "asks"})
	err = nil
	third := anewCall(t, e, c2, of2, Retry, tl)
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
	if _, err := e.CallOf(context.Background(), c2.Scope, of2, "ann", tl); !fault.Is(err, fault.NotFound) {
		t.Errorf("what is no wish: %v", err)
	}
	if _, err := e.CallOf(context.Background(), c2.Scope, of2.Child(TypeIntent, "undo"), "ann", tl); !fault.HasCode(err, "intent_not_undoable") {
		t.Errorf("what cannot be undone: %v", err)
	}
}

func TestRetryOfWhatExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		e := New(Options{Store: s, Judge: policy.Fixed{}, Log: quiet, ApprovalTimeout: time.Hour})
		var w ledger
		tl := deferred(&w, nil)
		c := callOf(tl, `{}`)
		expect(t, run(t, e, c), message.Queued)
		if _, err := e.Wished(context.Background(), c.Scope, IntentURI(c.Message, c.Ref.Block), Retry); !fault.HasCode(err, "intent_unsettled") {
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
		expect(t, run(t, e, anewCall(t, e, c, of, Retry, tl)), message.OK)
		if w.total(false) != 1 {
			t.Errorf("%d effects", w.total(false))
		}
	})
}

func TestResolve(t *testing.T) {
	s := openStore(t)
	e := engine(s, judge(policy.Allow))
	ctx := context.Background()
	for _, done := range []bool{true, false} {
		c := callOf(action(func(context.Context, tool.Invocation) (tool.Result, error) {
			return tool.Result{}, errors.New("the line went dead")
		}), `{}`)
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
	plant(t, s, c, intent.Intent{Tool: "test.action", Version: "1", Args: "{}", ArgsHash: intent.HashArgs([]byte("{}")), User: "ann",
		Call: c.Ref, State: intent.Executing, Key: "k"})
	if err := e.Resolve(ctx, c.Scope, IntentURI(c.Message, c.Ref.Block), Resolution{Done: true}); !fault.HasCode(err, "intent_transition_illegal") {
		t.Errorf("what is being done: %v", err)
	}
	if err := e.Resolve(ctx, store.ForUser("bob"), IntentURI(c.Message, c.Ref.Block), Resolution{}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}
