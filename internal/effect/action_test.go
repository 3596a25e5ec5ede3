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
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/storetest"
	"steward/internal/tool"
)

func TestAllowedAction(t *testing.T) {
	s := openStore(t)
	e := engine(s, judge(policy.Allow))
	var got tool.Invocation
	c := callOf(action(func(_ context.Context, in tool.Invocation) (tool.Result, error) {
		got = in
		return tool.Text("sent"), nil
	}), `{"to":"bob"}`)
	first := run(t, e, c)
	expect(t, first, message.OK, "sent")
	in := stateOf(t, s, c)
	if in.State != intent.Done || in.Key == "" || in.Key != got.Key || in.Attempts != 1 || in.User != "ann" || in.Agent != "assistant" ||
		in.Version != "1" || in.ArgsHash != intent.HashArgs([]byte(`{"to":"bob"}`)) || in.Request != c.Request.ID || in.Approval != nil {
		t.Errorf("%+v", in)
	}
	got = tool.Invocation{}
	again := run(t, e, c)
	if got.Key != "" || again.Text() != first.Text() || again.Status != first.Status || again.Call != first.Call {
		t.Errorf("run again: %s, the tool got %+v", describe(again), got)
	}
}

func TestKeyDoesNotDependOnTheProvider(t *testing.T) {
	s := openStore(t)
	e := engine(s, judge(policy.Allow))
	one, two := callOf(action(says("")), `{"a":1}`), callOf(action(says("")), `{"a":1}`)
	run(t, e, one)
	run(t, e, two)
	if stateOf(t, s, one).Key == stateOf(t, s, two).Key {
		t.Error("two calls have one key")
	}
}

func TestApprovedAction(t *testing.T) {
	s := openStore(t)
	e := engine(s, policy.Fixed{})
	c := callOf(action(says("sent")), `{"b":1,"a":2}`)
	var asked, running Progress
	c.Notify = func(p Progress) {
		switch p.Status {
		case Awaiting:
			asked = p
			if in := stateOf(t, s, c); in.State != intent.Awaiting {
				t.Errorf("the face was told before it was recorded: %s", in.State)
			}
		case Running:
			running = p
			if in := stateOf(t, s, c); in.State != intent.Executing {
				t.Errorf("it runs before it was recorded: %s", in.State)
			}
		}
	}
	wg := answering(t, e, &c, true)
	expect(t, run(t, e, c), message.OK, "sent")
	wg.Wait()
	if asked.Question == nil || asked.Question.ID != IntentURI(c.Message, 1).String() || string(asked.Question.Args) != string(asked.Args) || len(asked.Question.Hash) != 64 ||
		string(asked.Args) != `{"a":2,"b":1}` || asked.Question.Reason == "" || time.Until(asked.Question.Expires) < 7*24*time.Hour-time.Minute || asked.Tool != "test.action" {
		t.Errorf("asked %+v", asked)
	}
	if running.Call != c.Ref {
		t.Errorf("running %+v", running)
	}
	in := stateOf(t, s, c)
	if a := in.Approval; in.State != intent.Done || a == nil || a.By != "ann" || a.ArgsHash != in.ArgsHash || a.Version != "1" || a.Expires.IsZero() {
		t.Errorf("%+v", in)
	}
}

func TestDeniedByAPerson(t *testing.T) {
	s := openStore(t)
	e := engine(s, policy.Fixed{})
	var l ledger
	c := callOf(action(func(_ context.Context, in tool.Invocation) (tool.Result, error) {
		l.add(in.Key)
		return tool.Text("sent"), nil
	}), `{}`)
	d := make(chan Decision, 1)
	c.Notify = func(p Progress) { d <- Decision{ID: p.Question.ID, Hash: p.Question.Hash, Reason: "too early"} }
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := e.Decide(context.Background(), c.Scope, <-d); err != nil {
			t.Error(err)
		}
	}()
	expect(t, run(t, e, c), message.DeniedCall, "the user said no: too early")
	<-done
	expect(t, run(t, e, c), message.DeniedCall, "the user said no: too early")
	if in := stateOf(t, s, c); in.State != intent.Denied || in.DeniedBy != "ann" || l.total(false) != 0 {
		t.Errorf("%+v", in)
	}
}

func TestUnattendedActionIsDenied(t *testing.T) {
	s := openStore(t)
	c := callOf(action(says("sent")), `{}`)
	c.Attended = false
	e := engine(s, policy.Fixed{})
	expect(t, run(t, e, c), message.DeniedCall, "steward chat")
	expect(t, run(t, e, c), message.DeniedCall, "steward chat")
	if in := stateOf(t, s, c); in.State != intent.Denied || in.Reason == "" {
		t.Errorf("%+v", in)
	}
}

// A query that policy wants a person to confirm goes through an intent too.
func TestQueryThatIsAskedAbout(t *testing.T) {
	s := openStore(t)
	e := engine(s, judge(policy.Ask))
	c := callOf(query(says("read")), `{}`)
	wg := answering(t, e, &c, true)
	expect(t, run(t, e, c), message.OK, "read")
	wg.Wait()
	failing := callOf(query(func(context.Context, tool.Invocation) (tool.Result, error) {
		return tool.Result{}, errors.New("broken")
	}), `{}`)
	wg = answering(t, e, &failing, true)
	expect(t, run(t, e, failing), message.Failed, "broken") // no harm can be done
	wg.Wait()
	for cause, want := range map[error]intent.State{request.ErrStop: intent.Failed, request.ErrSuspend: intent.Executing} {
		ctx, cancel := context.WithCancelCause(context.Background())
		stopped := callOf(query(func(ctx context.Context, _ tool.Invocation) (tool.Result, error) {
			cancel(cause)
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		}), `{}`)
		wg = answering(t, e, &stopped, true)
		res, err := e.Run(ctx, stopped)
		wg.Wait()
		expect(t, res, message.Interrupted)
		if (err != nil) != (cause == request.ErrSuspend) || stateOf(t, s, stopped).State != want {
			t.Errorf("%v: %v, %s", cause, err, stateOf(t, s, stopped).State)
		}
		if want == intent.Executing { // a query is simply run again
			stopped.Tool = query(says("read"))
			expect(t, run(t, e, stopped), message.OK, "read")
		}
	}
}

func TestDecideRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		e := engine(s, policy.Fixed{})
		ctx := context.Background()
		tl := action(says("sent"))
		c := callOf(tl, `{"a":1}`)
		asked := make(chan Progress, 1)
		c.Notify = func(p Progress) {
			if p.Status == Awaiting {
				asked <- p
			}
		}
		end := make(chan *message.ToolResult, 1)
		go func() { end <- run(t, e, c) }()
		p := <-asked
		good := Decision{ID: p.Question.ID, Hash: p.Question.Hash, Approve: true, By: "ann"}
		with := func(change func(*Decision)) Decision {
			d := good
			change(&d)
			return d
		}
		other := c.Message.Child("effect.Intent", "99").String()
		for _, x := range []struct {
			name string
			sc   store.Scope
			d    Decision
			code string
		}{
			{"another user", store.ForUser("bob"), good, "approval_not_found"},
			{"another id", c.Scope, with(func(d *Decision) { d.ID = other }), "approval_not_found"},
			{"no id", c.Scope, with(func(d *Decision) { d.ID = "" }), "approval_not_found"},
			{"no intent", c.Scope, with(func(d *Decision) { d.ID = c.Message.String() }), "approval_not_found"},
			{"another hash", c.Scope, with(func(d *Decision) { d.Hash = intent.HashArgs([]byte(`{"a":2}`)) }), "approval_changed"},
			{"no hash", c.Scope, with(func(d *Decision) { d.Hash = "" }), "approval_changed"},
		} {
			if err := e.Decide(ctx, x.sc, x.d); !fault.HasCode(err, x.code) {
				t.Errorf("%s: %v; want %s", x.name, err, x.code)
			}
		}
		tl.setVersion("2")
		if err := e.Decide(ctx, c.Scope, good); !fault.HasCode(err, "approval_tool_changed") {
			t.Error(err)
		}
		tl.setVersion("1")
		for range 2 { // the same answer again
			if err := e.Decide(ctx, c.Scope, good); err != nil {
				t.Error(err)
			}
		}
		expect(t, <-end, message.OK, "sent")
		if err := e.Decide(ctx, c.Scope, good); err != nil {
			t.Errorf("the same answer, after it was done: %v", err)
		}
		if err := e.Decide(ctx, c.Scope, with(func(d *Decision) { d.Approve = false })); !fault.HasCode(err, "approval_decided") {
			t.Error(err)
		}
	})
}

func TestDenialIsIdempotentToo(t *testing.T) {
	s := openStore(t)
	e := engine(s, policy.Fixed{})
	c := callOf(action(says("sent")), `{}`)
	var asked Progress
	c.Notify = func(p Progress) { asked = p }
	wg := answering(t, e, &c, false)
	expect(t, run(t, e, c), message.DeniedCall)
	wg.Wait()
	d := Decision{ID: asked.Question.ID, Hash: asked.Question.Hash}
	if err := e.Decide(context.Background(), c.Scope, d); err != nil {
		t.Error(err)
	}
	d.Approve = true
	if err := e.Decide(context.Background(), c.Scope, d); !fault.HasCode(err, "approval_decided") {
		t.Error(err)
	}
	// What nobody was asked about cannot be answered.
	c2 := callOf(action(says("sent")), `{}`)
	m := &mortal{Store: s, left: 2}
	if _, err := engine(m, policy.Fixed{}).Run(context.Background(), c2); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	err := e.Decide(context.Background(), c2.Scope, Decision{ID: IntentURI(c2.Message, 1).String(), Hash: stateOf(t, s, c2).ArgsHash, Approve: true})
	if !fault.HasCode(err, "approval_not_asked") {
		t.Error(err)
	}
	broken := c.Message.Child("effect.Intent", "7")
	if _, err := s.Commit(context.Background(), c.Scope, store.Batch{Changes: []store.Change{{URI: broken, Body: []byte("{}")}}}); err != nil {
		t.Fatal(err)
	}
	if err := e.Decide(context.Background(), c.Scope, Decision{ID: broken.String()}); !fault.HasCode(err, "intent_broken") {
		t.Error(err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		e := engine(s, policy.Fixed{})
		c := callOf(action(says("sent")), `{}`)
		var asked Progress
		c.Notify = func(p Progress) { asked = p }
		began := time.Now()
		expect(t, run(t, e, c), message.DeniedCall, "nobody answered in time")
		if d := time.Since(began); d != 7*24*time.Hour {
			t.Errorf("after %s", d)
		}
		if in := stateOf(t, s, c); in.State != intent.Expired {
			t.Errorf("%+v", in)
		}
		err := e.Decide(context.Background(), c.Scope, Decision{ID: asked.Question.ID, Hash: asked.Question.Hash, Approve: true})
		if !fault.HasCode(err, "approval_expired") {
			t.Error(err)
		}
		expect(t, run(t, e, c), message.DeniedCall, "nobody answered in time")
	})
}

// An answer that comes when the question has expired, but before anybody
// recorded that, is too late as well.
func TestAnswerAfterTheExpiryOfAnAbandonedQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		e := engine(s, policy.Fixed{})
		c := callOf(action(says("sent")), `{}`)
		ctx, cancel := context.WithCancelCause(context.Background())
		var asked Progress
		c.Notify = func(p Progress) { asked = p; cancel(request.ErrSuspend) }
		if _, err := e.Run(ctx, c); !errors.Is(err, request.ErrSuspend) {
			t.Fatal(err)
		}
		if in := stateOf(t, s, c); in.State != intent.Awaiting {
			t.Fatalf("a closing node withdrew the question: %s", in.State)
		}
		time.Sleep(7*24*time.Hour + time.Minute)
		d := Decision{ID: asked.Question.ID, Hash: asked.Question.Hash, Approve: true}
		if err := e.Decide(context.Background(), c.Scope, d); !fault.HasCode(err, "approval_expired") {
			t.Error(err)
		}
		// The next start puts the question anew.
		c.Notify = nil
		wg := answering(t, e, &c, true)
		expect(t, run(t, e, c), message.OK, "sent")
		wg.Wait()
	})
}

func TestStopWhileAwaiting(t *testing.T) {
	s := openStore(t)
	e := engine(s, policy.Fixed{})
	ctx, cancel := context.WithCancelCause(context.Background())
	c := callOf(action(says("sent")), `{}`)
	var asked Progress
	c.Notify = func(p Progress) { asked = p; cancel(request.ErrStop) }
	res, err := e.Run(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, res, message.Interrupted)
	if in := stateOf(t, s, c); in.State != intent.Cancelled {
		t.Errorf("%+v", in)
	}
	err = e.Decide(context.Background(), c.Scope, Decision{ID: asked.Question.ID, Hash: asked.Question.Hash, Approve: true})
	if !fault.HasCode(err, "approval_decided") {
		t.Error(err)
	}
	expect(t, run(t, e, c), message.Interrupted)

	// Stopped before anything was recorded: nothing is.
	c = callOf(action(says("sent")), `{}`)
	if res, err = e.Run(ctx, c); err != nil {
		t.Fatal(err)
	}
	expect(t, res, message.Interrupted)
	noIntent(t, s, c)
}

func TestStopWhileJudging(t *testing.T) {
	s := openStore(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	e := engine(s, judgeFunc(func(context.Context, policy.Question) (policy.Decision, error) {
		cancel(request.ErrStop)
		return policy.Decision{Verdict: policy.Allow}, nil
	}))
	c := callOf(action(says("sent")), `{}`)
	res, err := e.Run(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, res, message.Interrupted)
	if in := stateOf(t, s, c); in.State != intent.Cancelled {
		t.Errorf("%+v", in)
	}
}

// An answer given through another node of the same store is seen.
func TestAnswerThroughAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		here, there := engine(s, policy.Fixed{}), engine(s, policy.Fixed{})
		c := callOf(action(says("sent")), `{}`)
		wg := answering(t, there, &c, true)
		began := time.Now()
		expect(t, run(t, here, c), message.OK, "sent")
		wg.Wait()
		if d := time.Since(began); d > 2*followEvery {
			t.Errorf("after %s", d)
		}
	})
}

func TestOutcomesOfActions(t *testing.T) {
	s := openStore(t)
	e := engine(s, judge(policy.Allow))
	yes := func(context.Context, tool.Invocation) (bool, tool.Result, error) {
		return true, tool.Text("it had happened"), nil
	}
	no := func(context.Context, tool.Invocation) (bool, tool.Result, error) { return false, tool.Result{}, nil }
	cannot := func(context.Context, tool.Invocation) (bool, tool.Result, error) {
		return false, tool.Result{}, errors.New("not now")
	}
	fails := func(context.Context, tool.Invocation) (bool, tool.Result, error) { panic("settling failed") }
	type settleFunc = func(context.Context, tool.Invocation) (bool, tool.Result, error)
	doubt := errors.New("the line went dead")
	for _, c := range []struct {
		name   string
		res    tool.Result
		err    error
		panics bool
		settle settleFunc
		state  intent.State
		status message.Status
		says   string
	}{
		{name: "it says no", res: tool.Result{Content: tool.Text("no such address").Content, Failed: true}, state: intent.Failed, status: message.Failed, says: "no such address"},
		{name: "it is refused", err: fault.New(fault.Invalid, "x", "no such address"), state: intent.Failed, status: message.Failed, says: "no such address"},
		{name: "it did nothing", err: tool.NotDone(doubt), state: intent.Failed, status: message.Failed, says: "line went dead"},
		{name: "it cannot be reached", err: tool.NotDone(fault.New(fault.Unavailable, "x", "gone")), state: intent.Failed, status: message.Unavailable, says: "gone"},
		{name: "doubt", err: doubt, state: intent.Unknown, status: message.UnknownEnd, says: "Do not do it again"},
		{name: "doubt by code", err: fault.New(fault.Unavailable, "x", "gone"), state: intent.Unknown, status: message.UnknownEnd, says: "gone"},
		{name: "a panic", panics: true, state: intent.Unknown, status: message.UnknownEnd, says: "panicked"},
		{name: "doubt, it happened", err: doubt, settle: yes, state: intent.Done, status: message.OK, says: "it had happened"},
		{name: "a panic, it happened", panics: true, settle: yes, state: intent.Done, status: message.OK, says: "it had happened"},
		{name: "doubt, it did not happen", err: doubt, settle: no, state: intent.Failed, status: message.Failed, says: "it was not done: the line went dead"},
		{name: "doubt that stays", err: doubt, settle: cannot, state: intent.Unknown, status: message.UnknownEnd, says: "line went dead"},
		{name: "settling fails", err: doubt, settle: fails, state: intent.Unknown, status: message.UnknownEnd, says: "line went dead"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l ledger
			a := action(func(_ context.Context, in tool.Invocation) (tool.Result, error) {
				l.add(in.Key)
				if c.panics {
					panic("oh no")
				}
				return c.res, c.err
			})
			a.spec.Yields = message.Untrusted
			var tl tool.Tool = a
			if c.settle != nil {
				tl = &settler{a, c.settle}
			}
			call := callOf(tl, `{}`)
			for range 2 {
				res := run(t, e, call)
				expect(t, res, c.status, c.says)
				for _, b := range res.Content { // also an error is in the tool's own words
					if !b.Base().Labels.Has(message.Untrusted) || !res.Labels.Has(message.Untrusted) {
						t.Errorf("what it says is labelled %v, the result %v", b.Base().Labels, res.Labels)
					}
				}
			}
			if in := stateOf(t, s, call); in.State != c.state || in.Attempts != 1 || l.total(false) != 1 {
				t.Errorf("%s after %d attempts, %d effects; want %s", in.State, in.Attempts, l.total(false), c.state)
			}
		})
	}
}

func TestRepeatedWhereTheReceiverDedupes(t *testing.T) {
	s := openStore(t)
	e := engine(s, judge(policy.Allow))
	for _, c := range []struct {
		failures, attempts int
		status             message.Status
	}{{0, 1, message.OK}, {1, 2, message.OK}, {2, 3, message.OK}, {3, 3, message.UnknownEnd}} {
		var l ledger
		tries := 0
		a := action(func(_ context.Context, in tool.Invocation) (tool.Result, error) {
			l.add(in.Key)
			if tries++; tries <= c.failures {
				return tool.Result{}, errors.New("the line went dead")
			}
			return tool.Text("sent"), nil
		})
		a.spec.Dedupes = true
		call := callOf(a, `{}`)
		expect(t, run(t, e, call), c.status)
		if in := stateOf(t, s, call); in.Attempts != c.attempts || l.total(true) != 1 {
			t.Errorf("%d failures: %d attempts, %d keys", c.failures, in.Attempts, l.total(true))
		}
	}
}

func TestStopInTheMiddleOfAnAction(t *testing.T) {
	s := openStore(t)
	e := engine(s, judge(policy.Allow))
	happened := false
	for _, c := range []struct {
		name    string
		cause   error
		dedupes bool
		settles bool
		returns error
		state   intent.State
		status  message.Status
	}{
		{"done in spite of it", request.ErrStop, false, false, nil, intent.Done, message.OK},
		{"in doubt", request.ErrStop, false, false, context.Canceled, intent.Unknown, message.UnknownEnd},
		{"not repeated after a stop", request.ErrStop, true, false, context.Canceled, intent.Unknown, message.UnknownEnd},
		{"settled", request.ErrStop, false, true, context.Canceled, intent.Done, message.OK},
		{"left to the next start", request.ErrSuspend, false, true, context.Canceled, intent.Executing, message.Interrupted},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.Background())
			a := action(func(ctx context.Context, in tool.Invocation) (tool.Result, error) {
				cancel(c.cause)
				<-ctx.Done()
				happened = true
				return tool.Text("sent"), c.returns
			})
			a.spec.Dedupes = c.dedupes
			var tl tool.Tool = a
			if c.settles {
				tl = &settler{a, func(context.Context, tool.Invocation) (bool, tool.Result, error) {
					return happened, tool.Text("sent"), nil
				}}
			}
			call := callOf(tl, `{}`)
			res, err := e.Run(ctx, call)
			if (err != nil) != (c.state == intent.Executing) {
				t.Fatal(err)
			}
			expect(t, res, c.status)
			if in := stateOf(t, s, call); in.State != c.state {
				t.Errorf("%s", in.State)
			}
			if c.state == intent.Executing { // and the next start settles it
				expect(t, run(t, e, call), message.OK, "sent")
			}
		})
	}
}

func TestHangingActionIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		e := engine(s, judge(policy.Allow))
		stuck := make(chan struct{})
		a := action(func(context.Context, tool.Invocation) (tool.Result, error) { <-stuck; return tool.Text("sent"), nil })
		// The receiver says "not yet", but the call is still on its way.
		tl := &settler{a, func(context.Context, tool.Invocation) (bool, tool.Result, error) { return false, tool.Result{}, nil }}
		c := callOf(tl, `{}`)
		expect(t, run(t, e, c), message.UnknownEnd, "did not answer within 30s")
		if in := stateOf(t, s, c); in.State != intent.Unknown {
			t.Errorf("%+v", in)
		}
		page, err := s.Query(context.Background(), c.Scope, store.Query{State: string(intent.Unknown)})
		if err != nil || len(page.Items) != 1 {
			t.Errorf("a person cannot find it: %v, %v", page.Items, err)
		}
		close(stuck)
		synctest.Wait()
	})
}

func TestLongResultOfAnAction(t *testing.T) {
	s := openStore(t)
	e := engine(s, judge(policy.Allow))
	c := callOf(action(says(strings.Repeat("z", 50000))), `{}`)
	res := run(t, e, c)
	expect(t, res, message.OK, "Cut after")
	expect(t, run(t, e, callOf(e.ReadTool(), `{"uri":"`+res.Rest+`","offset":49999}`)), message.OK, "z\n[Bytes 49999 to 50000 of 50000.]")
}

func TestAnotherActionAtTheSamePlaceIsRefused(t *testing.T) {
	s := openStore(t)
	e := engine(s, judge(policy.Allow))
	c := callOf(action(says("sent")), `{"a":1}`)
	run(t, e, c)
	for name, change := range map[string]func(*Call){
		"other arguments": func(c *Call) { c.Args = []byte(`{"a":2}`) },
		"another user":    func(c *Call) { c.Request.User = "bob" },
		"another tool": func(c *Call) {
			other := action(says("sent"))
			other.spec.Name = "test.other"
			c.Tool = other
		},
	} {
		d := c
		change(&d)
		res, err := e.Run(context.Background(), d)
		if !fault.HasCode(err, "intent_mismatch") || res == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Commit(context.Background(), c.Scope, store.Batch{Changes: []store.Change{{URI: IntentURI(c.Message, 1), Body: []byte("{}")}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Run(context.Background(), c); !fault.HasCode(err, "intent_broken") {
		t.Error(err)
	}
}

func TestToolThatChangesWhileAPersonThinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		e := engine(s, policy.Fixed{})
		tl := action(says("sent"))
		c := callOf(tl, `{}`)
		var questions []Progress
		asked := make(chan Progress, 9)
		c.Notify = func(p Progress) {
			if p.Status == Awaiting {
				questions = append(questions, p)
				asked <- p
			}
		}
		end := make(chan *message.ToolResult, 1)
		go func() { end <- run(t, e, c) }()
		p := <-asked
		d := Decision{ID: p.Question.ID, Hash: p.Question.Hash, Approve: true}
		// The answer was given on another node, which does not see the change.
		if err := engine(s, policy.Fixed{}).Decide(context.Background(), c.Scope, d); err != nil {
			t.Fatal(err)
		}
		tl.setVersion("2")
		p = <-asked // the approval is void: it is asked again
		if in := stateOf(t, s, c); in.Approval != nil || in.Version != "2" || !strings.Contains(p.Question.Reason, "changed") {
			t.Errorf("%+v, %+v", in, p)
		}
		if err := e.Decide(context.Background(), c.Scope, d); !fault.HasCode(err, "approval_changed") {
			t.Errorf("what was said to the old question: %v", err)
		}
		d.Hash = p.Question.Hash
		if err := e.Decide(context.Background(), c.Scope, d); err != nil {
			t.Error(err)
		}
		expect(t, <-end, message.OK, "sent")
		if len(questions) != 2 {
			t.Errorf("%d questions", len(questions))
		}
	})
}

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

func TestOverflowLivesUnderTheMessage(t *testing.T) {
	e := engine(openStore(t), policy.Fixed{})
	c := callOf(query(says(strings.Repeat("z", 50000))), `{}`)
	u, err := resource.Parse(run(t, e, c).Rest)
	if err != nil || u != c.Message.Child("tool.Overflow", "1") || !u.Under(conversation) {
		t.Errorf("%s, %v", u, err)
	}
}
