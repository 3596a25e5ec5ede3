package runtime_test

import (
	"errors"
	"strings"
	"testing"

	"steward/internal/catalog"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/lease"
	"steward/internal/turn"
)

// TestALostTreeIsTakenUpAgain: another worker takes the tree of a turn that runs. What the turn's
// agents write from then on is refused. The turn takes the tree again, which the other worker loses
// in its turn, and goes on from what is stored: each effect happens once.
func TestALostTreeIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	w := made(t, &world{judge: allows{}, aliases: map[string]llm.Alias{"default": {Models: []string{"test/m"}}, "strong": {Models: []string{"test/m"}}}})
	w.model.begun = make(chan struct{}, 9)
	w.open()
	acc := w.sent(turn.Input{Agent: kits.PlannerAgent, Attended: true, Content: text(`call plan.start {"analysis":"a","plan":"p","confidence":1,"subtasks":[` +
		`{"name":"note","purpose":"call ledger.add {\"what\":\"tea\"}","selected_tools":["ledger.add"]},` +
		`{"name":"slow","purpose":"hang on","after":["note"],"selected_tools":["math.multiply"]}]}`)})
	<-w.model.begun
	ada := store.ForUser("anna")
	rival := lease.New(lease.Options{Store: w.store, Holder: "rival", Dead: func(string) bool { return true }})
	l, err := rival.Take(t.Context(), ada, resource.URI{})
	ok(t, err)
	close(w.model.gate) // the agent of the slow task has its answer, and cannot record it
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	var all []string
	for it, err := range store.Items(t.Context(), w.store, ada, store.Query{Type: "plan.Task"}) {
		ok(t, err)
		all = append(all, string(it.Body))
	}
	if got := strings.Join(all, "\n"); len(all) != 3 || strings.Count(got, `"state":"done"`) != 3 {
		t.Errorf("the tasks are %s", got)
	}
	if got := w.ledger.list(); got != "tea" {
		t.Errorf("the ledger has %q", got)
	}
	if err := l.End(t.Context()); !errors.Is(err, lease.ErrLost) {
		t.Errorf("the other worker ends what it has lost: %v", err)
	}
	r, err := w.store.Get(t.Context(), ada, l.At())
	if ok(t, err); r.State != "" || r.Version <= l.Number()+1 {
		t.Errorf("the tree's work is %q in version %d", r.State, r.Version)
	}
}

// The planner is told which of the agents and tools that it names wait for a person's approval.
func TestAPlanIsToldWhatWaitsForApproval(t *testing.T) {
	t.Parallel()
	g := &grove{listed: []catalog.Listing{{Path: "mailer", Status: catalog.Pending}, {Path: "mcp:notes", Status: catalog.Approved, Waiting: []string{"notes.add"}}}}
	g.plant()
	w := made(t, &world{aliases: map[string]llm.Alias{"default": {Models: []string{"test/m"}}, "strong": {Models: []string{"test/m"}}}})
	w.opt.Catalog = g
	w.open()
	acc := w.sent(turn.Input{Agent: kits.PlannerAgent, Content: text(`call plan.start {"analysis":"a","plan":"p","confidence":1,"purpose":"x",` +
		`"assistant":"mailer","selected_tools":["math.multiply","mailer.ask","notes.add","no.such"]}`)})
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	got := w.results(acc.Conversation)[0].Text()
	for _, want := range []string{`not_approved: in request, the agent "mailer" waits`, `not_approved: in request, the tool "mailer.ask" waits`,
		`not_approved: in request, the tool "notes.add" waits`, `unknown_tool: in request, there is no tool "no.such"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	if strings.Contains(got, "math.multiply") {
		t.Error(got)
	}
}

// A model that calls a tool of a server that nobody has approved yet is told so, and how to change it.
func TestAToolThatWaitsForApproval(t *testing.T) {
	t.Parallel()
	g := &grove{listed: []catalog.Listing{{Path: "mcp:wiki", Kind: catalog.KindSource, Status: catalog.Pending},
		{Path: "mcp:notes", Kind: catalog.KindSource, Status: catalog.Approved, Waiting: []string{"notes.add"}}}}
	g.plant()
	w := made(t, &world{})
	w.opt.Catalog = g
	w.open()
	for call, want := range map[string]string{
		"wiki.look_up": "wiki.look_up waits for the user's approval: steward agents approve mcp:wiki",
		"notes.add":    "notes.add waits for the user's approval: steward agents approve mcp:notes",
		"wikis.other":  `There is no tool named "wikis.other".`,
	} {
		acc := w.sent(turn.Input{Content: text("call " + call + " {}")})
		w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
		if got := w.results(acc.Conversation)[0].Text(); !strings.Contains(got, want) {
			t.Errorf("%s: %s", call, got)
		}
	}
}
