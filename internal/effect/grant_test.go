package effect

import (
	"context"
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

// running is a call on its way.
type running struct {
	t     *testing.T
	asked chan *Question
	end   chan *message.ToolResult
}

// begin runs a call; what it asks is heard by question, how it ends by result.
func begin(t *testing.T, e *Engine, c Call) *running {
	r := &running{t, make(chan *Question, 9), make(chan *message.ToolResult, 1)}
	c.Notify = func(p Progress) {
		if p.Status == Awaiting {
			r.asked <- p.Question
		}
	}
	go func() {
		res, err := e.Run(context.Background(), c)
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		r.end <- res
	}()
	return r
}

func (r *running) question() *Question {
	r.t.Helper()
	select {
	case q := <-r.asked:
		return q
	case res := <-r.end:
		// A queued call ends while its question is open; both may be ready.
		r.end <- res
		select {
		case q := <-r.asked:
			return q
		default:
			r.t.Fatalf("it was not asked: %s", describe(res))
		}
	}
	return nil
}

// unasked waits for the end of a call that nobody is to be asked about.
func (r *running) unasked() *message.ToolResult {
	r.t.Helper()
	select {
	case q := <-r.asked:
		r.t.Fatalf("it is asked: %+v", q)
	case res := <-r.end:
		return res
	}
	return nil
}

// fileTool writes files, by a schema.
func fileTool(call func(context.Context, tool.Invocation) (tool.Result, error)) *fake {
	tl := action(call)
	tl.spec.Name = "files.write"
	tl.spec.Input = []byte(`{"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"}},"required":["path"],"additionalProperties":false}`)
	return tl
}

func echo(_ context.Context, in tool.Invocation) (tool.Result, error) {
	return tool.Text(string(in.Args)), nil
}

// give answers a question with a standing approval of a pattern.
func give(t *testing.T, e *Engine, q *Question, st Standing, words string, until time.Time) {
	t.Helper()
	sc := store.ForUser("ann")
	p, err := intent.ParsePattern(words, q.Pattern)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := e.Question(context.Background(), sc, q.ID, p)
	if err != nil {
		t.Fatal(err)
	}
	decided(t, e, "ann", Decision{ID: q.ID, Hash: shown.Hash, Approve: true, Standing: st, Pattern: p, Until: until}, "")
}

// standing runs a call and approves it with a standing approval of a pattern.
func standing(t *testing.T, e *Engine, c Call, st Standing, words string, until time.Time) {
	t.Helper()
	r := begin(t, e, c)
	give(t, e, r.question(), st, words, until)
	expect(t, <-r.end, message.OK)
}

// asked runs a call, about which a user must be asked, and answers.
func asked(t *testing.T, e *Engine, c Call, user string, approve bool) {
	t.Helper()
	r := begin(t, e, c)
	answer(t, e, user, r.question(), approve)
	if res := <-r.end; (res.Status == message.OK) != approve {
		t.Errorf("answered %v: %s", approve, describe(res))
	}
}

func newEngine(s store.Store, more func(*Options)) *Engine {
	o := Options{Store: s, Authorizer: policy.Fixed{}, Log: quiet}
	if more != nil {
		more(&o)
	}
	return New(o)
}

func TestAGrantCoversWhatWasShownAndNothingElse(t *testing.T) {
	s := openStore(t)
	e := newEngine(s, func(o *Options) { o.Authorizer = judge(policy.Ask) })
	tl := fileTool(echo)
	c := callOf(tl, `{"path":"notes/a","text":"x"}`)
	c.Labels = message.Private
	standing(t, e, c, Always, "path like notes/*\ntext any", time.Time{})
	list := oneGrant(t, e)
	other := fileTool(echo)
	other.spec.Name = "files.append"
	for _, x := range []struct {
		name    string
		args    string
		change  func(*Call)
		covered bool
	}{
		{"the same", `{"path":"notes/a","text":"x"}`, nil, true},
		{"what the pattern says", `{"path":"notes/b"}`, nil, true},
		{"another conversation", `{"path":"notes/b"}`, func(c *Call) {
			conv := resource.Root("common.Conversation", "c2")
			c.Message = conv.Child("common.Interaction", "i").ChildID("common.Message", c.Ref.Message)
			c.Request.Conversation = conv
		}, true},
		{"less was read", `{"path":"notes/b"}`, func(c *Call) { c.Labels = 0 }, true},
		{"another place", `{"path":"other/b"}`, nil, false},
		{"more was read", `{"path":"notes/b"}`, func(c *Call) { c.Labels |= message.Untrusted }, false},
		{"another agent", `{"path":"notes/b"}`, func(c *Call) { c.Agent = "desk" }, false},
		{"on behalf of another agent", `{"path":"notes/b"}`, func(c *Call) { c.Lineage = []string{"desk"} }, false},
		{"another tool", `{"path":"notes/b"}`, func(c *Call) { c.Tool, c.Name = other, "files.append" }, false},
		{"another user", `{"path":"notes/b"}`, func(c *Call) { c.Scope, c.Request.User = store.ForUser("bob"), "bob" }, false},
		{"a tool that wants to be asked", `{"path":"notes/b"}`, func(c *Call) {
			asks := fileTool(echo)
			asks.spec.Asks = true
			c.Tool = asks
		}, false},
		{"nobody is there", `{"path":"notes/b"}`, func(c *Call) { c.Attended = false }, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := callOf(tl, x.args)
			c.Labels = message.Private
			if x.change != nil {
				x.change(&c)
			}
			r := begin(t, e, c)
			if !x.covered {
				q := r.question()
				answer(t, e, c.Request.User, q, false)
				expect(t, <-r.end, message.DeniedCall)
				return
			}
			expect(t, r.unasked(), message.OK)
			in := stateOf(t, s, c)
			if a := in.Approval; a == nil || a.By != "ann" || a.Grant != grantURI(list[0].ID).String() {
				t.Errorf("recorded %+v", in.Approval)
			}
		})
	}
}

// What was given for a step of a plan covers no call that was decided after
// something of others had been read, unless the person says so.
func TestAGrantOfWhatWasFixed(t *testing.T) {
	ctx := context.Background()
	e := newEngine(openStore(t), nil)
	tl := fileTool(echo)
	const read = message.Private | message.Untrusted
	call := func(fixed bool) *running {
		c := callOf(tl, `{"path":"notes/a"}`)
		c.Labels, c.Flow = read, policy.Flow{Fixed: fixed}
		return begin(t, e, c)
	}
	r := call(true)
	give(t, e, r.question(), Always, "", time.Time{})
	expect(t, r.unasked(), message.OK)
	expect(t, call(true).unasked(), message.OK)
	open := call(false)
	q := open.question()
	list, err := e.Grants(ctx, "ann", false)
	if err != nil || len(list) != 1 || !list[0].Fixed {
		t.Fatal(list, err)
	}
	same, less := read, message.Untrusted
	if shown, err := e.ShowGrantEdit(ctx, "ann", list[0].ID, GrantEdit{Labels: &same}); err != nil || shown.Wider || !shown.Grant.Fixed {
		t.Errorf("%+v, %v", shown, err)
	}
	if shown, err := e.ShowGrantEdit(ctx, "ann", list[0].ID, GrantEdit{Labels: &less}); err != nil || !shown.Wider || shown.Grant.Fixed {
		t.Errorf("%+v, %v", shown, err)
	}
	answer(t, e, "ann", q, false)
	expect(t, open.unasked(), message.DeniedCall)
}

func TestAGrantOfAConversationIsForThatOne(t *testing.T) {
	_, e := open(t, policy.Fixed{})
	tl := fileTool(echo)
	standing(t, e, callOf(tl, `{"path":"a"}`), InConversation, "", time.Time{})
	expect(t, begin(t, e, callOf(tl, `{"path":"a"}`)).unasked(), message.OK)
	c := callOf(tl, `{"path":"a"}`)
	c.Message = resource.Root("common.Conversation", "c2").Child("common.Interaction", "i").ChildID("common.Message", c.Ref.Message)
	asked(t, e, c, "ann", true)
}

func TestAGrantEndsAndLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewModel()
		e := newEngine(s, nil)
		tl := fileTool(echo)
		standing(t, e, callOf(tl, `{"path":"a"}`), Always, "", time.Now().Add(72*time.Hour))
		time.Sleep(71 * time.Hour)
		expect(t, begin(t, e, callOf(tl, `{"path":"a"}`)).unasked(), message.OK)
		time.Sleep(time.Hour)
		asked(t, e, callOf(tl, `{"path":"a"}`), "ann", false)
		if list, err := e.Grants(context.Background(), "ann", false); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
		standing(t, e, callOf(tl, `{"path":"b"}`), Always, "", time.Time{})
		tl.setVersion("2")
		asked(t, e, callOf(tl, `{"path":"b"}`), "ann", false)
	})
}

// An offered width is shown with a hash of its own, and then covers what it says.
func TestAnOfferedWidthIsShownAndGiven(t *testing.T) {
	ctx, sc := context.Background(), store.ForUser("ann")
	e := newEngine(openStore(t), func(o *Options) { o.Authorizer = judge(policy.Ask) })
	tl := fileTool(echo)
	r := begin(t, e, callOf(tl, `{"path":"notes/a","text":"x"}`))
	q := r.question()
	if q.Summary != "Files: write notes/a" || q.Why == "" || len(q.Widths) != 3 || q.Widths[2].Pattern.String() != q.Pattern.String() {
		t.Fatalf("%q %q %+v", q.Summary, q.Why, q.Widths)
	}
	w := q.Widths[1]
	shown, err := e.Question(ctx, sc, q.ID, w.Pattern)
	if err != nil || shown.Hash == q.Hash || w.Name != "any file in notes" {
		t.Fatalf("%+v of %+v, %v", shown, w, err)
	}
	err = e.Decide(ctx, sc, Decision{ID: q.ID, Hash: q.Hash, Approve: true, Standing: Always, Pattern: w.Pattern})
	if !fault.HasCode(err, "approval_changed") {
		t.Errorf("it is given without being shown: %v", err)
	}
	decided(t, e, "ann", Decision{ID: q.ID, Hash: shown.Hash, Approve: true, Standing: Always, Pattern: w.Pattern}, "")
	expect(t, <-r.end, message.OK)
	expect(t, begin(t, e, callOf(tl, `{"path":"notes/b","text":"y"}`)).unasked(), message.OK)
	asked(t, e, callOf(tl, `{"path":"other/b","text":"y"}`), "ann", false)
}

func TestWhatNoGrantCanBeGivenFor(t *testing.T) {
	ctx := context.Background()
	_, e := open(t, policy.Fixed{})
	sc := store.ForUser("ann")
	asks, bare := fileTool(echo), fileTool(echo)
	asks.spec.Asks = true
	bare.spec.Version = ""
	secret := callOf(fileTool(echo), `{"path":"a"}`)
	secret.Labels = message.Secret
	for name, c := range map[string]Call{"asks each time": callOf(asks, `{"path":"a"}`), "has no version": callOf(bare, `{"path":"a"}`), "after a secret": secret} {
		r := begin(t, e, c)
		q := r.question()
		if q.NoGrant == "" || q.Widths != nil {
			t.Errorf("%s: a grant is offered: %+v", name, q.Widths)
		}
		err := e.Decide(ctx, sc, Decision{ID: q.ID, Hash: q.Hash, Approve: true, Standing: Always})
		if !fault.HasCode(err, "grant_not_possible") {
			t.Errorf("%s: %v", name, err)
		}
		answer(t, e, "ann", q, false)
		<-r.end
	}
	r := begin(t, e, callOf(fileTool(echo), `{"path":"a"}`))
	q := r.question()
	wide := intent.Pattern{"path": {Any: true}}
	for name, x := range map[string]struct {
		d    Decision
		code string
	}{
		"a pattern that was not shown": {Decision{Standing: Always, Pattern: wide}, "approval_changed"},
		"one of something else":        {Decision{Standing: Always, Pattern: intent.Pattern{"path": {Like: "b*"}}}, "grant_other"},
		"one that is none":             {Decision{Standing: Always, Pattern: intent.Pattern{"path": {}}}, "grant_invalid"},
		"an odd standing":              {Decision{Standing: "sometimes"}, "approval_invalid"},
		"an end before now":            {Decision{Standing: Always, Until: time.Now().Add(-time.Second)}, "grant_expiry_past"},
		"once, with an end":            {Decision{Until: time.Now().Add(time.Hour)}, "approval_invalid"},
		"with other arguments":         {Decision{Standing: Always, Args: []byte(`{"path":"b"}`)}, "approval_invalid"},
	} {
		x.d.ID, x.d.Hash, x.d.Approve = q.ID, q.Hash, true
		if err := e.Decide(ctx, sc, x.d); !fault.HasCode(err, x.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := e.Question(ctx, sc, q.ID, intent.Pattern{"path": {Like: "b*"}}); !fault.HasCode(err, "grant_other") {
		t.Error(err)
	}
	decided(t, e, "ann", Decision{ID: q.Short, Hash: q.Hash, Approve: true}, "")
	expect(t, <-r.end, message.OK)
	if list, err := e.Grants(ctx, "ann", true); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestEditingAGrant(t *testing.T) {
	ctx := context.Background()
	_, e := open(t, policy.Fixed{})
	tl := fileTool(echo)
	standing(t, e, callOf(tl, `{"path":"notes/a"}`), Always, "path like notes/*", time.Time{})
	list := oneGrant(t, e)
	g := list[0].ID
	soon, past, untrusted, secret := time.Now().Add(time.Hour), time.Now().Add(-time.Hour), message.Untrusted, message.Secret
	for name, ed := range map[string]GrantEdit{
		"a wider pattern": {Pattern: intent.Pattern{"path": {Any: true}}},
		"after more":      {Labels: &untrusted},
	} {
		shown, err := e.ShowGrantEdit(ctx, "ann", g, ed)
		if err != nil || !shown.Wider {
			t.Errorf("%s: %+v, %v", name, shown, err)
		}
		if _, err := e.EditGrant(ctx, "ann", g, ed); !fault.HasCode(err, "grant_wider") {
			t.Errorf("%s: %v", name, err)
		}
		if ed.Hash = shown.Hash + "0"; !fault.HasCode(func() error { _, err := e.EditGrant(ctx, "ann", g, ed); return err }(), "grant_wider") {
			t.Errorf("%s: by another hash", name)
		}
	}
	for name, x := range map[string]struct {
		ed   GrantEdit
		code string
	}{
		"no pattern": {GrantEdit{Pattern: intent.Pattern{"path": {}}}, "grant_invalid"}, "over": {GrantEdit{Until: &past}, "grant_expiry_past"},
		"odd": {GrantEdit{Standing: "odd"}, "approval_invalid"}, "secrets": {GrantEdit{Labels: &secret}, "grant_invalid"},
	} {
		if _, err := e.EditGrant(ctx, "ann", g, x.ed); !fault.HasCode(err, x.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := e.EditGrant(ctx, "bob", g, GrantEdit{Until: &soon}); !fault.HasCode(err, "grant_not_found") {
		t.Error(err)
	}
	if got, err := e.EditGrant(ctx, "ann", g, GrantEdit{Pattern: intent.Pattern{"path": {Is: []byte(`"notes/b"`)}}, Until: &soon, Standing: InConversation}); err != nil || got.Changed.IsZero() {
		t.Fatalf("narrower: %+v, %v", got, err)
	}
	expect(t, begin(t, e, callOf(tl, `{"path":"notes/b"}`)).unasked(), message.OK)
	ed := GrantEdit{Pattern: intent.Pattern{"path": {Like: "notes/*"}}, Until: new(time.Time), Standing: Always}
	shown, err := e.ShowGrantEdit(ctx, "ann", g, ed)
	if err != nil || !shown.Wider {
		t.Fatal(shown, err)
	}
	ed.Hash = shown.Hash
	if _, err := e.EditGrant(ctx, "ann", g, ed); err != nil {
		t.Fatal(err)
	}
	expect(t, begin(t, e, callOf(tl, `{"path":"notes/c"}`)).unasked(), message.OK)
	for range 2 {
		if err := e.Revoke(ctx, "ann", g); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.EditGrant(ctx, "ann", g, GrantEdit{Until: &soon}); !fault.HasCode(err, "grant_revoked") {
		t.Error(err)
	}
	c := callOf(tl, `{"path":"notes/c"}`)
	asked(t, e, c, "ann", false)
	if list, err := e.Grants(ctx, "ann", true); err != nil || len(list) != 1 || list[0].Revoked.IsZero() {
		t.Errorf("%+v, %v", list, err)
	}
}
