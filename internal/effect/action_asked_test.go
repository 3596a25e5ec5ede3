package effect

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/request"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/test/storetest"
)

func TestApprovedAction(t *testing.T) {
	s, e := open(t, policy.Fixed{})
	c := callOf(action(says("sent")), `{"b":1,"a":2}`)
	var asked, running Progress
	c.Notify = func(p Progress) {
		switch p.Status {
		case Awaiting:
			asked = p
			isState(t, s, c, intent.Awaiting)
		case Running:
			running = p
			isState(t, s, c, intent.Executing)
		}
	}
	expect(t, runAnswering(t, e, c, true), message.OK, "sent")
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

func TestUnattendedActionIsDenied(t *testing.T) {
	s := openStore(t)
	c := callOf(action(says("sent")), `{}`)
	c.Attended = false
	e := engine(s, policy.Fixed{})
	expect(t, run(t, e, c), message.DeniedCall, "steward chat")
	expect(t, run(t, e, c), message.DeniedCall, "steward chat")
	if in := isState(t, s, c, intent.Denied); in.Reason == "" {
		t.Errorf("%+v", in)
	}
}

// A query that policy wants a person to confirm goes through an intent too.
func TestQueryThatIsAskedAbout(t *testing.T) {
	s, e := open(t, judge(policy.Ask))
	c := callOf(query(says("read")), `{}`)
	expect(t, runAnswering(t, e, c, true), message.OK, "read")
	failing := callOf(query(fails(errors.New("broken"))), `{}`)
	expect(t, runAnswering(t, e, failing, true), message.Failed, "broken") // no harm can be done
	for cause, want := range map[error]intent.State{request.ErrStop: intent.Failed, request.ErrSuspend: intent.Executing} {
		ctx, cancel := context.WithCancelCause(context.Background())
		stopped := callOf(query(func(ctx context.Context, _ tool.Invocation) (tool.Result, error) {
			cancel(cause)
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		}), `{}`)
		wg := answering(t, e, &stopped, true)
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

func TestDenialIsIdempotentToo(t *testing.T) {
	s, e := open(t, policy.Fixed{})
	c := callOf(action(says("sent")), `{}`)
	q := suspendedAt(t, e, c)
	for range 2 {
		answer(t, e, "ann", q, false)
	}
	expect(t, run(t, e, c), message.DeniedCall)
	decided(t, e, "ann", Decision{ID: q.ID, Hash: q.Hash, Approve: true}, "approval_decided")
	// Nobody was asked about this one.
	c2 := callOf(action(says("sent")), `{}`)
	if _, err := engine(&mortal{Store: s, left: 2}, policy.Fixed{}).Run(context.Background(), c2); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	decided(t, e, "ann", Decision{ID: IntentURI(c2.Message, 1).String(), Approve: true}, "approval_not_asked")
	broken := c.Message.Child("effect.Intent", "7")
	put(t, s, store.Change{URI: broken, Body: []byte("{}"), Terms: []store.Term{{Name: TermIntent, Value: IntentID(broken).String()}}})
	decided(t, e, "ann", Decision{ID: broken.String()}, "intent_broken")
}

func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		e := engine(s, policy.Fixed{})
		c := callOf(action(says("sent")), `{}`)
		var asked Progress
		c.Notify = func(p Progress) { asked = p }
		began := time.Now()
		expect(t, run(t, e, c), message.DeniedCall, "expired without an answer")
		if d := time.Since(began); d != 7*24*time.Hour {
			t.Errorf("after %s", d)
		}
		isState(t, s, c, intent.Expired)
		err := e.Decide(context.Background(), c.Scope, Decision{ID: asked.Question.ID, Hash: asked.Question.Hash, Approve: true})
		if !fault.HasCode(err, "approval_expired") {
			t.Error(err)
		}
		expect(t, run(t, e, c), message.DeniedCall, "expired without an answer")
	})
}

func TestStopWhileAwaiting(t *testing.T) {
	s, e := open(t, policy.Fixed{})
	ctx, cancel := context.WithCancelCause(context.Background())
	c := callOf(action(says("sent")), `{}`)
	var q *Question
	c.Notify = func(p Progress) { q = p.Question; cancel(request.ErrStop) }
	for range 2 {
		res, err := e.Run(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, res, message.Interrupted)
	}
	isState(t, s, c, intent.Cancelled)
	decided(t, e, "ann", Decision{ID: q.ID, Hash: q.Hash, Approve: true}, "approval_decided")
	c = callOf(action(says("sent")), `{}`) // stopped before it was recorded: nothing is
	if res, err := e.Run(ctx, c); err != nil || res.Status != message.Interrupted {
		t.Fatal(describe(res), err)
	}
	noIntent(t, s, c)
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

func TestAnApprovalThatExpiresWhileWaitingForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		e := newEngine(s, func(o *Options) { o.ApprovalTimeout = time.Minute })
		var w ledger
		tl := action(adds(&w, "x"))
		tl.spec.Concurrency, tl.spec.Timeout = 1, time.Hour
		release, err := e.acquireSlot(context.Background(), tl.spec.Name+"/1", 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := callOf(tl, `{}`)
		r := begin(t, e, c)
		q := r.question()
		answer(t, e, "ann", q, true)
		time.Sleep(10 * time.Minute)
		release()
		synctest.Wait()
		if in := stateOf(t, s, c); w.total(false) != 0 || in.State != intent.Awaiting || in.Reason != "the approval has expired" {
			t.Errorf("%d effects, %+v", w.total(false), in)
		}
		expect(t, <-r.end, message.DeniedCall)
	})
}
