package effect

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/test/storetest"
)

func TestKeyDoesNotDependOnTheProvider(t *testing.T) {
	s, e := open(t, judge(policy.Allow))
	one, two := callOf(action(says("")), `{"a":1}`), callOf(action(says("")), `{"a":1}`)
	run(t, e, one)
	run(t, e, two)
	if stateOf(t, s, one).Key == stateOf(t, s, two).Key {
		t.Error("two calls have one key")
	}
}

func TestOutcomesOfActions(t *testing.T) {
	s, e := open(t, judge(policy.Allow))
	yes, no, cannot := happened(true, nil), happened(false, nil), happened(false, errors.New("not now"))
	fails := func(context.Context, tool.Invocation) (bool, tool.Result, error) { panic("settling failed") }
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
		{name: "it was stopped", res: tool.Result{Content: tool.Text("half of it").Content, Stopped: true}, state: intent.Failed, status: message.Interrupted, says: "half of it"},
		{name: "it is refused", err: fault.New(fault.Invalid, "x", "no such address"), state: intent.Failed, status: message.Failed, says: "no such address"},
		{name: "it did nothing", err: tool.NotDone(doubt), state: intent.Failed, status: message.Failed, says: "line went dead"},
		{name: "it cannot be reached", err: tool.NotDone(fault.New(fault.Unavailable, "x", "gone")), state: intent.Failed, status: message.Unavailable, says: "gone"},
		{name: "doubt", err: doubt, state: intent.Unknown, status: message.UnknownEnd, says: "Do not repeat it"},
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
	s, e := open(t, judge(policy.Allow))
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
	s, e := open(t, judge(policy.Allow))
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
		tl := &settler{a, happened(false, nil)}
		c := callOf(tl, `{}`)
		expect(t, run(t, e, c), message.UnknownEnd, "did not answer within 30s")
		isState(t, s, c, intent.Unknown)
		page, err := s.Query(context.Background(), c.Scope, store.Query{State: string(intent.Unknown)})
		if err != nil || len(page.Items) != 1 {
			t.Errorf("a person cannot find it: %v, %v", page.Items, err)
		}
		close(stuck)
		synctest.Wait()
	})
}

// What a tool says of its failure need not be text.
func TestAnOutcomeInOddWordsIsRecorded(t *testing.T) {
	s := openStore(t)
	c := callOf(action(fails(errors.New("the line \xff went dead"))), `{}`)
	expect(t, run(t, engine(s, judge(policy.Allow)), c), message.UnknownEnd)
	if in := isState(t, s, c, intent.Unknown); in.Reason != "the line \uFFFD went dead" {
		t.Errorf("%+v", in)
	}
}

func TestLongResultOfAnAction(t *testing.T) {
	_, e := open(t, judge(policy.Allow))
	c := callOf(action(says(strings.Repeat("z", 50000))), `{}`)
	res := run(t, e, c)
	expect(t, res, message.OK, "Cut after")
	expect(t, run(t, e, callOf(e.ReadTool(), `{"uri":"`+res.Rest+`","offset":49999}`)), message.OK, "z\n[Bytes 49999 to 50000 of 50000.]")
}

func TestAnotherActionAtTheSamePlaceIsRefused(t *testing.T) {
	s, e := open(t, judge(policy.Allow))
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
	put(t, s, store.Change{URI: IntentURI(c.Message, 1), Body: []byte("{}")})
	if _, err := e.Run(context.Background(), c); !fault.HasCode(err, "intent_broken") {
		t.Error(err)
	}
}

func TestOverflowLivesUnderTheMessage(t *testing.T) {
	e := engine(openStore(t), policy.Fixed{})
	c := callOf(query(says(strings.Repeat("z", 50000))), `{}`)
	u, err := resource.Parse(run(t, e, c).Rest)
	if err != nil || u != c.Message.Child("tool.Overflow", "1") || !u.Under(conversation) {
		t.Errorf("%s, %v", u, err)
	}
}
