package effect

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
)

// people are groups by user.
type people map[string][]string

func (p people) Principal(_ context.Context, user string) (policy.Principal, error) {
	if user == "lost" {
		return policy.Principal{}, errors.New("the directory is out")
	}
	return policy.Principal{User: user, Groups: p[user]}, nil
}

var family = people{"mum": {"parents"}, "dad": {"parents"}, "uncle": {"others"}}

// parental asks the parents.
var parental = judgeFunc(func(_ context.Context, q policy.Question) (policy.Decision, error) {
	d := policy.Decision{Verdict: policy.Ask, Reason: "it costs money", Rule: "family", Version: "v1"}
	if !strings.Contains(string(q.Args), "cheap") {
		d.Approvers = "parents"
	}
	if strings.Contains(string(q.Args), "banned") {
		d.Verdict = policy.Deny
	}
	return d, nil
})

func parents(s store.Store) *Engine {
	return newEngine(s, func(o *Options) { o.Authorizer, o.Directory = parental, family })
}

// posted are the questions that stand in the group's space.
func posted(t *testing.T, s store.Store) []store.Item {
	t.Helper()
	page, err := s.Query(context.Background(), store.ForGroup("mum", "parents"), store.Query{Type: typeQuestion})
	if err != nil {
		t.Fatal(err)
	}
	return page.Items
}

func TestAGroupAnswers(t *testing.T) {
	ctx := context.Background()
	for _, yes := range []bool{true, false} {
		s := openStore(t)
		e := parents(s)
		c := callOf(fileTool(echo), `{"path":"a"}`)
		r := begin(t, e, c)
		q := r.question()
		if q.Approvers != "parents" || q.Yours || q.NoGrant == "" || len(posted(t, s)) != 1 {
			t.Fatalf("%+v, %d posted", q, len(posted(t, s)))
		}
		for user, want := range map[string]string{"ann": "own", "mum": "yours", "uncle": "", "eve": ""} {
			list, err := e.Questions(ctx, user)
			got := ""
			if len(list) == 1 && list[0].Yours {
				got = "yours"
			} else if len(list) == 1 {
				got = "own"
			}
			if err != nil || got != want || len(list) > 1 || got != "" && list[0].Hash != q.Hash {
				t.Errorf("%s sees %+v, %v", user, list, err)
			}
		}
		d := Decision{ID: q.ID, Hash: q.Hash, Approve: yes, Reason: "because"}
		for user, code := range map[string]string{"ann": "approval_by_group", "uncle": "approval_not_found", "eve": "approval_not_found"} {
			for _, name := range []string{q.ID, q.Short} {
				d.ID = name
				if err := e.Decide(ctx, store.ForUser(user), d); !fault.HasCode(err, code) {
					t.Errorf("%s: %v", user, err)
				}
				if _, err := e.Question(ctx, store.ForUser(user), name, nil); user != "ann" && !fault.HasCode(err, code) {
					t.Errorf("%s sees it: %v", user, err)
				}
			}
		}
		if err := e.Decide(ctx, store.ForUser("lost"), d); err == nil {
			t.Error("answered by somebody whose groups cannot be told")
		}
		if got, err := e.Question(ctx, store.ForUser("dad"), q.Short, nil); err != nil || !got.Yours || got.Hash != q.Hash {
			t.Errorf("%+v, %v", got, err)
		}
		standing := d
		standing.Approve, standing.Standing = true, Always
		decided(t, e, "mum", standing, "grant_not_possible")
		decided(t, e, "mum", d, "")
		res := <-r.end
		in := stateOf(t, s, c)
		if yes {
			expect(t, res, message.OK, "[Allowed by mum of the group parents.]")
			if in.Approval == nil || in.Approval.By != "mum" || in.Approval.Shown != q.Hash {
				t.Errorf("%+v", in.Approval)
			}
		} else {
			expect(t, res, message.DeniedCall, "mum of the group parents denied it: because")
			if in.DeniedBy != "mum" {
				t.Errorf("%+v", in)
			}
		}
		for en, err := range store.Entries(ctx, s, store.ForGroup("mum", "parents"), store.LogQuery{}) {
			if err != nil || len(en.Body) > 0 {
				t.Errorf("the group's log keeps %s: %s, %v", en.URI, en.Body, err)
			}
		}
		if left := posted(t, s); len(left) != 0 {
			t.Errorf("%d questions stand in the group", len(left))
		}
	}
}

// The log says who of the group has answered.
func TestAGroupsAnswerIsOfWhoGaveIt(t *testing.T) {
	s := openStore(t)
	e := parents(s)
	c := callOf(fileTool(echo), `{"path":"a"}`)
	asked(t, e, c, "dad", false)
	page, err := s.Log(context.Background(), c.Scope, store.LogQuery{Type: TypeIntent})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(page.Entries, func(x resource.Entry) bool { return x.Actor == "dad" }) {
		t.Errorf("%+v", page.Entries)
	}
}

func TestNoGroupsNoAnswer(t *testing.T) {
	s := openStore(t)
	e := newEngine(s, func(o *Options) { o.Authorizer = parental })
	expect(t, run(t, e, callOf(fileTool(echo), `{"path":"a"}`)), message.DeniedCall, "groups are not available")
}

// What a crash has left in a group is taken back by who looks, and what is put
// again after a restart stands there once.
func TestQuestionsOfAGroupOverACrash(t *testing.T) {
	ctx := context.Background()
	s := openStore(t)
	e := parents(s)
	c := callOf(fileTool(echo), `{"path":"a"}`)
	stop, cancel := context.WithCancelCause(ctx)
	c.Notify = func(Progress) { cancel(request.ErrSuspend) }
	if _, err := e.Run(stop, c); !errors.Is(err, request.ErrSuspend) {
		t.Fatal(err)
	}
	before := posted(t, s)
	e = parents(s)
	r := begin(t, e, c)
	q := r.question()
	if after := posted(t, s); len(after) != 1 || after[0].Version != before[0].Version {
		t.Errorf("put again: %+v, %+v", before, after)
	}
	answer(t, e, "mum", q, true)
	expect(t, <-r.end, message.OK)
	if _, err := s.Commit(ctx, groupScope("parents"), store.Batch{Changes: []store.Change{{URI: before[0].URI, Body: before[0].Body, State: stateOpen}}}); err != nil {
		t.Fatal(err)
	}
	if list, err := e.Questions(ctx, "mum"); err != nil || len(list) != 0 || len(posted(t, s)) != 0 {
		t.Errorf("%+v, %v, %d posted", list, err, len(posted(t, s)))
	}
	// What stands there and is none of Steward's own questions is nobody's to answer.
	own := callOf(fileTool(echo), `{"path":"cheap"}`)
	mine := begin(t, e, own)
	theirs := mine.question()
	body := strings.ReplaceAll(string(before[0].Body), q.ID, theirs.ID)
	uri, err := resource.Parse(theirs.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(ctx, groupScope("parents"), store.Batch{Changes: []store.Change{{URI: questionURI(uri), Body: []byte(body), State: stateOpen}}}); err != nil {
		t.Fatal(err)
	}
	decided(t, e, "mum", Decision{ID: theirs.ID, Hash: theirs.Hash, Approve: true}, "approval_not_found")
	answer(t, e, "ann", theirs, false)
	<-mine.end
}

func TestEditingArguments(t *testing.T) {
	ctx := context.Background()
	s := openStore(t)
	e := parents(s)
	tl := fileTool(echo)
	c := callOf(tl, `{"path":"cheap","text":"x"}`)
	r := begin(t, e, c)
	q := r.question()
	for name, x := range map[string]struct{ args, code string }{
		"denied by policy":             {`{"path":"cheap banned"}`, "approval_edit_denied"},
		"somebody else would be asked": {`{"path":"dear"}`, "approval_by_group"},
		"not by the schema":            {`{"path":true}`, "args_invalid"},
		"unknown argument":             {`{"path":"cheap","odd":1}`, "args_invalid"},
		"a name twice":                 {`{"path":"cheap","path":"cheap"}`, ""},
		"no JSON":                      {`{`, ""},
	} {
		err := e.Decide(ctx, c.Scope, Decision{ID: q.ID, Hash: q.Hash, Approve: true, Args: []byte(x.args)})
		if err == nil || x.code != "" && !fault.HasCode(err, x.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if in := isState(t, s, c, intent.Awaiting); in.Args != `{"path":"cheap","text":"x"}` {
		t.Fatalf("refused edits have changed it: %+v", in)
	}
	d := Decision{ID: q.ID, Hash: q.Hash, Approve: true, Args: []byte(`{ "text": "y", "path": "cheap 2" }`)}
	for range 2 { // the same answer again
		decided(t, e, "ann", d, "")
	}
	res := <-r.end
	expect(t, res, message.OK, `changed the arguments first; it was called with {"path":"cheap 2","text":"y"}.]`+"\n", `{"path":"cheap 2","text":"y"}`)
	in := stateOf(t, s, c)
	if a := in.Approval; a == nil || a.Edited != `{"path":"cheap","text":"x"}` || a.ArgsHash != intent.HashArgs([]byte(in.Args)) || in.Args != `{"path":"cheap 2","text":"y"}` ||
		in.Key != intent.Key("files.write", []byte(in.Args), intent.CallIdentity(c.Ref)) {
		t.Errorf("%+v %+v", in, in.Approval)
	}
	expect(t, run(t, e, c), message.OK, "changed the arguments first") // after a restart: as recorded
	// The same arguments, written otherwise, are no edit.
	c = callOf(tl, `{"path":"cheap"}`)
	r = begin(t, e, c)
	q = r.question()
	decided(t, e, "ann", Decision{ID: q.ID, Hash: q.Hash, Approve: true, Args: []byte(`{ "path": "cheap" }`)}, "")
	expect(t, <-r.end, message.OK)
	if a := stateOf(t, s, c).Approval; a.Edited != "" {
		t.Errorf("%+v", a)
	}
}

// An edited approval that no longer counts when the run continues brings the
// model's own arguments back, and they are asked about.
func TestAnEditedApprovalThatLapses(t *testing.T) {
	ctx := context.Background()
	s := openStore(t)
	tl := fileTool(echo)
	c := callOf(tl, `{"path":"cheap","text":"x"}`)
	stop, cancel := context.WithCancelCause(ctx)
	asked := make(chan *Question, 1)
	c.Notify = func(p Progress) { asked <- p.Question; cancel(request.ErrSuspend) }
	e := parents(s)
	if _, err := e.Run(stop, c); !errors.Is(err, request.ErrSuspend) {
		t.Fatal(err)
	}
	q := <-asked
	d := Decision{ID: q.ID, Hash: q.Hash, Approve: true, Args: []byte(`{"path":"cheap 2"}`)}
	if err := parents(s).Decide(ctx, c.Scope, d); !fault.HasCode(err, "approval_edit_impossible") { // nobody knows the tool
		t.Errorf("%v", err)
	}
	e = parents(s)
	e.opt.Tool = lookup(tl)
	decided(t, e, "ann", d, "")
	if in := isState(t, s, c, intent.Approved); in.Args != `{"path":"cheap 2"}` {
		t.Fatalf("%+v", in)
	}
	rebuilt, err := e.CallOf(ctx, c.Scope, IntentURI(c.Message, c.Ref.Block), tl)
	if err != nil {
		t.Fatal(err)
	}
	rebuilt.Request = c.Request
	tl.setVersion("2")
	c.Notify = nil
	r := begin(t, e, c)
	q = r.question()
	if string(q.Args) != `{"path":"cheap","text":"x"}` || q.Version != "2" {
		t.Errorf("asked about %s of %s", q.Args, q.Version)
	}
	answer(t, e, "ann", q, true)
	if res := <-r.end; strings.Contains(res.Text(), "changed the arguments") || !strings.Contains(res.Text(), `"text":"x"`) {
		t.Errorf("%s", describe(res))
	}
	expect(t, run(t, e, rebuilt), message.OK, `"text":"x"`) // although it was rebuilt with the edited arguments
}

// Where the policy names a group at one point only, its member approves once
// and the call runs: nobody else is asked.
func TestAGroupNamedAtOnePointAnswersOnce(t *testing.T) {
	for _, at := range []policy.Point{policy.PointTool, policy.PointIntent} {
		s := openStore(t)
		e := newEngine(s, func(o *Options) {
			o.Directory = family
			o.Authorizer = judgeFunc(func(_ context.Context, q policy.Question) (policy.Decision, error) {
				d := policy.Decision{Verdict: policy.Ask, Reason: "it costs money"}
				if q.Point == at {
					d.Approvers = "parents"
				}
				return d, nil
			})
		})
		r := begin(t, e, callOf(fileTool(echo), `{"path":"a"}`))
		q := r.question()
		if q.Approvers != "parents" {
			t.Fatalf("%s: the question is put to %q", at, q.Approvers)
		}
		answer(t, e, "mum", q, true)
		expect(t, <-r.end, message.OK, "[Allowed by mum of the group parents.]")
	}
}
