package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/catalog"
	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
)

// grove is a catalog whose tree can be replaced.
type grove struct {
	mu     sync.Mutex
	tree   atomic.Pointer[catalog.Tree]
	listed []catalog.Listing
}

func (g *grove) Tree() *catalog.Tree         { return g.tree.Load() }
func (g *grove) Listings() []catalog.Listing { return g.listed }

// plant replaces the tree. Agents come before those below them.
func (g *grove) plant(agents ...*catalog.Agent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := &catalog.Tree{Version: 1, Root: &catalog.Agent{Name: "assistant"}, ByPath: map[string]*catalog.Agent{}}
	if old := g.tree.Load(); old != nil {
		t.Version = old.Version + 1
	}
	t.ByPath[""] = t.Root
	for _, a := range agents {
		c := *a
		above := ""
		if i := strings.LastIndexByte(c.Path, '/'); i >= 0 {
			above = c.Path[:i]
		}
		c.Name = strings.TrimPrefix(c.Path[len(above):], "/")
		c.Children = nil
		if c.Version == "" {
			c.Version = "1"
		}
		t.ByPath[c.Path] = &c
		t.ByPath[above].Children = append(t.ByPath[above].Children, &c)
	}
	g.tree.Store(t)
}

// agentOf is an agent with tools of its own.
func agentOf(path string, tools ...tool.Tool) *catalog.Agent {
	a := &catalog.Agent{Path: path, Description: "It does what " + path + " does.", Tools: &tool.Registry{}}
	for _, t := range tools {
		if err := a.Tools.Add(t); err != nil {
			panic(err)
		}
	}
	return a
}

// ask returns the call that asks an agent to do something.
func ask(name, words string) string {
	b, err := json.Marshal(map[string]string{"request": words})
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("call %s.ask %s", name, b)
}

// action returns a tool that adds its argument to the ledger.
func (w *world) action(name string) tool.Tool {
	t := newTool(tool.Spec{Name: name, Description: "It does " + name + ".", Effect: tool.Action, Dedupes: true},
		func(_ context.Context, in tool.Invocation, a struct {
			What string `json:"what"`
		}) (string, error) {
			w.ledger.enter(in.Key, a.What)
			return "done " + a.What, nil
		})
	return t
}

// query returns a tool with a fixed answer.
func query(name, says string, yields message.Labels) tool.Tool {
	t := newTool(tool.Spec{Name: name, Description: "It tells " + name + ".", Effect: tool.Query, Yields: yields},
		func(context.Context, tool.Invocation, struct{}) (string, error) { return says, nil })
	return t
}

// enter adds an entry, once for each key.
func (l *ledger) enter(key, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keys == nil {
		l.keys = map[string]int{}
	}
	if l.keys[key]++; l.keys[key] == 1 {
		l.entries = append(l.entries, what)
	}
}

// approve answers the next question of a conversation.
func (w *world) approve(conv id.ID, from turn.Cursor, yes bool) turn.Frame {
	w.t.Helper()
	frames := w.until(conv, from, asksPerson)
	f := frames[len(frames)-1]
	ok(w.t, w.Effects.Decide(w.t.Context(), store.ForUser("anna"), effect.Decision{ID: f.Call.Approval.ID, Hash: f.Call.Approval.Hash, Approve: yes}))
	return f
}

// newLevels returns a world with the agents personal, personal/email and weather.
func newLevels(t testing.TB) (*world, *grove) {
	w, g := made(t, &world{}), &grove{}
	g.plant(agentOf("personal"), agentOf("personal/email", w.action("mail.send"), query("mail.read", "the secret of the mail", message.Private)),
		agentOf("weather", query("sky.look", "sunny", 0)))
	w.opt.Catalog = g
	w.open()
	return w, g
}

// closed waits until all requests are closed, and checks how many there are.
func (w *world) closed(conv id.ID, want int) []record.Request {
	w.t.Helper()
	w.settled()
	all := w.requests()
	if len(all) != want {
		w.t.Fatalf("there are %d requests, not %d: %+v", len(all), want, all)
	}
	return all
}

// requests returns the recorded requests of all users.
func (w *world) requests() (out []record.Request) {
	w.t.Helper()
	for it, err := range store.Items(w.t.Context(), w.store, store.ForNode(resource.System), store.Query{Type: record.TypeRequest}) {
		ok(w.t, err)
		var r record.Request
		ok(w.t, record.Decode(it.URI, it.Body, &r))
		if r.ID, _ = id.Parse(it.URI.ID()); (it.State == "") != !r.Closed.IsZero() {
			w.t.Errorf("%s: state %q, closed %v", it.URI, it.State, r.Closed)
		}
		out = append(out, r)
	}
	return out
}

// results returns the results of a conversation's calls, in order.
func (w *world) results(conv id.ID) []*message.ToolResult {
	w.t.Helper()
	page := w.messages(conv)
	var out []*message.ToolResult
	for _, m := range page {
		if r := m.Result(); r != nil {
			out = append(out, r)
		}
	}
	return out
}

// below waits until an agent is asked, and returns its conversation.
func (w *world) below(agent string) id.ID {
	w.t.Helper()
	var conv id.ID
	eventually(w.t, agent+" is asked", func() bool {
		for _, r := range w.requests() {
			if r.Kind == record.RequestAgent && r.Agent == agent {
				conv = r.Conversation
			}
		}
		return !conv.Zero()
	})
	return conv
}

func TestLabelsReachAskedAndAskingAgents(t *testing.T) {
	w, _ := newLevels(t)
	conv, _ := w.turn(id.ID{}, ask("personal", ask("email", "call mail.read {}")))
	res := w.results(conv)
	if len(res) != 1 || !message.LabelsOf(res[0].Content).Has(message.Private) || !res[0].Labels.Has(message.Private) {
		t.Errorf("the answer of who read something private is labelled %v", res[0].Labels)
	}
	w.turn(conv, ask("weather", "say nothing"))
	page, _, err := w.Conversations.Messages(t.Context(), store.ForUser("anna"), w.below("weather"), "", 0, false)
	if err != nil || len(page) != 2 {
		t.Fatalf("the weather's conversation: %d messages, %v", len(page), err)
	}
	b := page[0].Blocks[0].Base()
	if !b.Labels.Has(message.Private) || b.Origin != "agent:assistant" {
		t.Errorf("who is asked is told by %s with the labels %v", b.Origin, b.Labels)
	}
}

func TestParallelAgentsAskTheirOwnQuestions(t *testing.T) {
	w, g := newLevels(t)
	g.plant(agentOf("one", w.action("one.act")), agentOf("two", w.action("two.act")))
	acc := w.send(id.ID{}, ask("one", `call one.act {"what":"a"}`+"\n"+`call one.act {"what":"b"}`)+"\n"+ask("two", `call two.act {"what":"c"}`))
	answered := map[string]bool{}
	for f, err := range w.Watch(t.Context(), "anna", acc.Conversation, turn.Cursor{}) {
		ok(t, err)
		if f.Kind == turn.FrameComplete {
			break
		}
		if f.Kind != turn.FrameCall || f.Call.Approval == nil || answered[f.Call.Approval.ID] {
			continue
		}
		a := f.Call.Approval
		answered[a.ID] = true
		if want := f.Call.Name[:3]; a.Agent != want || a.Tool != want+".act" {
			t.Errorf("the call %s asks for %s of %s", f.Call.Name, a.Tool, a.Agent)
		}
		ok(t, w.Effects.Decide(t.Context(), store.ForUser("anna"), effect.Decision{ID: a.ID, Hash: a.Hash, Approve: !strings.Contains(a.Args, "b")}))
	}
	if len(answered) != 3 {
		t.Errorf("%d questions, want 3", len(answered))
	}
	if got := w.ledger.list(); len(got) != 3 || strings.Contains(got, "b") {
		t.Errorf("what was done: %s", got)
	}
	w.closed(acc.Conversation, 3)
}

func TestStopReachesAskedAgents(t *testing.T) {
	w, _ := newLevels(t)
	w.model.begun = make(chan struct{}, 1)
	acc := w.send(id.ID{}, ask("personal", ask("email", "hang")))
	<-w.model.begun
	ok(t, w.Stop(t.Context(), "anna", acc.Conversation))
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	for _, r := range w.closed(acc.Conversation, 3) {
		if r.Outcome != "stopped" {
			t.Errorf("%s %s ended as %s %s", r.Kind, r.Agent, r.Outcome, r.Error)
		}
	}
	if w.Running("anna", w.below("personal/email")) {
		t.Error("the one below runs on")
	}
}

func TestStoppedAgentIsAResult(t *testing.T) {
	w, _ := newLevels(t)
	w.model.begun = make(chan struct{}, 1)
	acc := w.send(id.ID{}, ask("personal", "hang"))
	<-w.model.begun
	ok(t, w.Stop(t.Context(), "anna", w.below("personal")))
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	res := w.results(acc.Conversation)
	if len(res) != 1 || res[0].Status != message.Failed || !strings.Contains(res[0].Text(), "agent_stopped") || !strings.Contains(res[0].Text(), "half") {
		t.Errorf("the result: %s %s", res[0].Status, res[0].Text())
	}
}

func TestReasonsForNoAnswer(t *testing.T) {
	w, g := newLevels(t)
	bounded := agentOf("bounded", query("a.b", "c", 0))
	bounded.Limits.Iterations = 1
	poor := agentOf("poor", query("d.e", "f", 0))
	poor.Limits.Tokens = 30
	g.plant(bounded, poor, agentOf("plain"))
	for _, c := range []struct{ agent, words, code string }{
		{"bounded", "call a.b {}", "agent_bound"},
		{"poor", "call d.e {}", "agent_bound"},
		{"plain", "fail", "no luck"},
		{"plain", "call no.such {}", ""},
	} {
		conv, _ := w.turn(id.ID{}, ask(c.agent, c.words))
		res := w.results(conv)[0]
		if failed := res.Status == message.Failed; failed != (c.code != "") {
			t.Errorf("%s %q: %s %s", c.agent, c.words, res.Status, res.Text())
		}
		if !strings.Contains(res.Text(), c.code) {
			t.Errorf("%s %q does not tell %s: %s", c.agent, c.words, c.code, res.Text())
		}
	}
}

func TestAskedAgentsSpendTheAskersBudget(t *testing.T) {
	w, g := newLevels(t)
	w.opt.Limits.Budget.MaxTokens = 5000
	w.reopen()
	g.plant(agentOf("one"), agentOf("one/below"), agentOf("two"))
	end := func(words string) *message.Message {
		t.Helper()
		_, frames := w.turn(id.ID{}, words)
		return frames[len(frames)-1].Stored
	}
	if m := end(ask("one", ask("below", "spend 1000"))); m.Stop != message.StopEnd || m.Text() != "ok: ok: spent" {
		t.Errorf("within the budget: %s %s", m.Stop, m.Text())
	}
	if m := end(ask("one", ask("below", "spend 4900"))); m.Stop != message.StopBound || !strings.Contains(m.Text(), "budget") {
		t.Errorf("two levels down more is spent than there is: %s %s", m.Stop, m.Text())
	}
	// A call that finds the rest reserved by the other agent's is refused at once; then the asker has enough to end.
	if m := end(ask("one", "spend 2600") + "\n" + ask("two", "spend 2300")); m.Stop != message.StopBound && !strings.Contains(m.Text(), "error_code: agent_bound") {
		t.Errorf("in parallel more is spent than there is: %s %s", m.Stop, m.Text())
	}
}

func TestUsageOfAskedAgentsCountsAfterACrash(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]message.Role{"the result above": message.Tool, "the answer below": message.Assistant} {
		t.Run(name, func(t *testing.T) {
			w, g := newLevels(t)
			w.opt.Limits.Budget.MaxTokens = 5000
			w.reopen()
			g.plant(agentOf("one"), agentOf("one/below"))
			crashed := make(chan struct{})
			var once sync.Once
			var top id.ID
			var mu sync.Mutex
			gone := false // and from then on nothing is stored any more
			w.faulty.set(func(b store.Batch) error {
				mu.Lock()
				defer mu.Unlock()
				if gone {
					return errCrash
				}
				for _, c := range b.Changes {
					if c.URI.Type() != record.TypeMessage {
						continue
					}
					m, err := record.DecodeMessage(c.URI, c.Body)
					if err != nil {
						return err
					}
					conv := record.IDOf(c.URI, record.TypeConversation)
					if m.Role == message.User && top.Zero() {
						top = conv
					}
					below := conv != top && m.Final && m.Text() != "spent"
					if lost == message.Tool && m.Role == message.Tool && conv == top || lost == message.Assistant && below {
						gone = true
						once.Do(func() { close(crashed) })
						return errCrash
					}
				}
				return nil
			})
			acc := w.send(id.ID{}, ask("one", ask("below", "spend 4900")))
			<-crashed
			w.kill()
			w.open()
			frames := w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
			if m := frames[len(frames)-1].Stored; m.Stop != message.StopBound || !strings.Contains(m.Text(), "budget") {
				t.Errorf("after a crash more is spent than there is: %s %s", m.Stop, m.Text())
			}
			w.closed(acc.Conversation, 3)
		})
	}
}

func TestAttachmentsOfAnswersAreKept(t *testing.T) {
	w, _ := newLevels(t)
	w.model.blocks = []message.Block{&message.Text{Text: "see"}, &message.Image{MIME: "image/png", Data: []byte("png")}, &message.File{Name: "a.txt", MIME: "text/plain", Data: []byte("a")}}
	conv, _ := w.turn(id.ID{}, ask("personal", "draw"))
	r := w.results(conv)[0]
	if len(r.Content) != 3 {
		t.Errorf("%d blocks came up: %s", len(r.Content), r.Text())
	}
}

func TestConversationsOfAskedAgents(t *testing.T) {
	w, _ := newLevels(t)
	conv, _ := w.turn(id.ID{}, ask("personal", ask("email", "say hello")))
	personal, email := w.below("personal"), w.below("personal/email")
	for _, c := range []id.ID{personal, email} {
		coded(t, second(w.Send(t.Context(), "anna", turn.Input{Conversation: c, Content: text("say x")})), "conversation_asked") // sending to it
		coded(t, w.Delete(t.Context(), "anna", c), "conversation_asked")                                                         // deleting it
		coded(t, second(w.Conversations.Get(t.Context(), store.ForUser("bob"), c)), "conversation_not_found")                    // a stranger
	}
	ok(t, w.Delete(t.Context(), "anna", conv))
	coded(t, second(w.Conversations.Get(t.Context(), store.ForUser("anna"), email)), "conversation_not_found") // below a deleted one
	ok(t, w.Undelete(t.Context(), "anna", conv, ""))
	if c, err := w.Conversations.Get(t.Context(), store.ForUser("anna"), email); err != nil || c.Agent != "personal/email" {
		t.Errorf("brought back: %+v, %v", c, err)
	}
	ok(t, w.Delete(t.Context(), "anna", conv))
	ok(t, w.RunMaintenance(t.Context(), time.Now().Add(365*24*time.Hour)))
	if all := w.requests(); len(all) != 0 {
		t.Errorf("erased, and there are: %+v", all)
	}
	coded(t, w.Undelete(t.Context(), "anna", conv, ""), "conversation_not_found")                                 // what was erased
	coded(t, second(w.store.Get(t.Context(), store.ForUser("anna"), record.ConversationURI(email))), "not_found") // the lowest is still there
}

func conversationEngine(w *world) *conversation.Engine {
	return conversation.New(w.store, conversation.Options{})
}

// An asked agent labels its asker with everything that it read, even if it
// answers nothing, fails, reaches a limit or is stopped.
func TestLabelsComeWithTheCallNotWithTheAnswer(t *testing.T) {
	const both = message.Private | message.Untrusted
	w, g := newLevels(t)
	bounded := agentOf("bounded", query("mail.read", "then nothing", both))
	bounded.Limits.Iterations = 1
	g.plant(bounded, agentOf("silent", query("mail.read", "then nothing", both)), agentOf("failing", query("mail.read", "then fail", both)),
		agentOf("hanging", query("mail.read", "then hang", both)), agentOf("above"), agentOf("above/silent", query("mail.read", "then nothing", both)))
	for _, name := range []string{"silent", "failing", "bounded"} {
		conv, _ := w.turn(id.ID{}, ask(name, "call mail.read {}"))
		if res := w.results(conv)[0]; !message.LabelsOf([]message.Block{res}).Has(both) {
			t.Errorf("%s answers %q with the labels %v", name, res.Text(), res.Labels)
		}
	}
	conv, _ := w.turn(id.ID{}, ask("above", ask("silent", "call mail.read {}")))
	if res := w.results(conv)[0]; !res.Labels.Has(both) {
		t.Errorf("two levels up the labels are %v", res.Labels)
	}

	w.model.begun = make(chan struct{}, 1)
	acc := w.send(id.ID{}, ask("hanging", "call mail.read {}"))
	<-w.model.begun
	ok(t, w.Stop(t.Context(), "anna", acc.Conversation))
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	if res := w.results(acc.Conversation)[0]; res.Status != message.Interrupted || !res.Labels.Has(both) {
		t.Errorf("stopped: %s with the labels %v", res.Status, res.Labels)
	}
}
