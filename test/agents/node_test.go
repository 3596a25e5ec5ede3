package agents_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/catalog"
	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/jobs"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/provider/offline"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/internal/turn"
	"steward/test/must"
)

const person = "local"

// home is a data folder with the example agents, and the node that uses it. Its
// clock starts at now.
type home struct {
	t       *testing.T
	began   time.Time
	ahead   time.Duration // how far the clock was advanced
	dir     string
	desk    *desk
	store   *sqlite.Store
	catalog *catalog.Catalog
	node    *runtime.Node
}

func newHome(t *testing.T) *home {
	t.Helper()
	h := &home{t: t, began: time.Now(), dir: t.TempDir()}
	var err error
	h.store, err = sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(h.dir, "steward.db"), Log: slog.New(slog.DiscardHandler)})
	h.must(err)
	t.Cleanup(func() {
		if err := h.store.Close(); err != nil {
			t.Error(err)
		}
	})
	h.desk = newDesk(t)
	names := h.desk.tools(t, h.dir, nil, h.clock).Names
	h.catalog = openCatalog(t, h.dir, h.store, names)
	h.open()
	t.Cleanup(h.close)
	return h
}

// clock returns the current time of the node. It is advanced only while the
// node is closed.
func (h *home) clock() time.Time { return now.Add(time.Since(h.began) + h.ahead) }

func (h *home) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// open starts the node and close stops it. Unfinished work continues at the
// next start.
func (h *home) open() {
	h.t.Helper()
	models, err := llm.New(llm.Config{Providers: []llm.Provider{offline.New(offline.Options{Now: h.clock})},
		Aliases: map[string]llm.Alias{"default": {Models: []string{offline.ProviderName + "/" + offline.ModelName}}}})
	h.must(err)
	alarms := jobs.New(jobs.Options{Store: h.store, Now: h.clock})
	h.node, err = runtime.Open(h.t.Context(), runtime.Options{Store: h.store, Models: models, Tools: h.desk.tools(h.t, h.dir, alarms, h.clock), Authorizer: policy.Fixed{},
		Catalog: h.catalog, Alarms: alarms, Log: slog.New(slog.DiscardHandler),
		Profile: func(context.Context, string, string) (string, error) { return "Time zone: " + zoneName, nil }})
	h.must(err)
}

func (h *home) close() {
	h.t.Helper()
	if h.node == nil {
		return
	}
	ctx := context.Background()
	h.must(h.node.Close(ctx))
	h.node = nil
}

// talk is the outcome of a message.
type talk struct {
	conv   id.ID
	answer string
	asked  []turn.ApprovalView // the questions to the person
	cursor turn.Cursor
}

// say sends a message to an agent in a new conversation and answers all
// questions alike.
func (h *home) say(agent, text string, approve bool) talk {
	h.t.Helper()
	ctx := h.t.Context()
	acc, err := h.node.Send(ctx, person, turn.Input{Agent: agent, Attended: true, Content: []message.Block{&message.Text{Text: text}}})
	h.must(err)
	out := talk{conv: acc.Conversation}
	answered := map[string]bool{}
	for f, err := range h.node.Watch(ctx, person, acc.Conversation, turn.Cursor{}) {
		h.must(err)
		out.cursor = f.Cursor
		switch {
		case f.Kind == turn.FrameCall && f.Call.Approval != nil && !answered[f.Call.Approval.ID]:
			q := *f.Call.Approval
			answered[q.ID] = true
			out.asked = append(out.asked, q)
			h.must(h.node.Effects.Decide(ctx, store.ForUser(person), effect.Decision{ID: q.ID, Hash: q.Hash, Approve: approve, Reason: "the test says so"}))
		case f.Kind == turn.FrameComplete && f.Interaction == acc.Interaction:
			out.answer = f.Stored.Text()
			return out
		case f.Kind == turn.FrameError:
			h.t.Fatalf("%q: %v", text, f.Err)
		}
	}
	h.t.Fatalf("%q: the answer did not come: %v", text, ctx.Err())
	return out
}

// told waits for the answer of a turn that opened by itself.
func (h *home) told(t talk) string {
	h.t.Helper()
	ctx := h.t.Context()
	for f, err := range h.node.Watch(ctx, person, t.conv, t.cursor) {
		h.must(err)
		if f.Kind == turn.FrameComplete {
			return f.Stored.Text()
		}
	}
	h.t.Fatalf("nothing was told: %v", ctx.Err())
	return ""
}

// tools returns the tools of the questions, with their agents.
func (t talk) tools() []string {
	var out []string
	for _, q := range t.asked {
		out = append(out, q.Agent+" "+q.Tool)
	}
	return out
}

const pa = "personal_assistant"

func TestAnEmailIsSentByTheAgentBelowOnceItIsAllowed(t *testing.T) {
	h := newHome(t)
	const wish = `Send an email to bob@example.com with subject "Lunch" saying "shall we meet at noon"`
	for _, approve := range []bool{false, true} {
		got := h.say(pa, wish, approve)
		if want := []string{"personal_assistant/email mail.send"}; !slices.Equal(got.tools(), want) {
			t.Fatalf("asked about %v, want %v", got.tools(), want)
		}
		if q := got.asked[0]; !strings.Contains(q.Args, `"shall we meet at noon"`) || !strings.Contains(q.Args, `"bob@example.com"`) {
			t.Errorf("the person was shown %s", q.Args)
		}
		sent := h.desk.mail.Sent()
		if approve != (len(sent) == 1) {
			t.Fatalf("allowed %v: %v was sent", approve, sent)
		}
		want := "Not done"
		if approve {
			want = "bob@example.com"
		}
		if !strings.Contains(got.answer, want) {
			t.Errorf("allowed %v: the answer is %q", approve, got.answer)
		}
	}
	sent := h.desk.mail.Sent()[0]
	for _, want := range []string{"Subject: Lunch\r\n", "shall we meet at noon\r\n"} {
		if !slices.Equal(sent.To, []string{"bob@example.com"}) || sent.From != "ann@example.com" || !strings.Contains(sent.Raw, want) {
			t.Errorf("the e-mail lacks %q: %+v", want, sent)
		}
	}
}

func TestEventsAndTasksLandInTheUsersLists(t *testing.T) {
	h := newHome(t)
	got := h.say(pa, `Add the event "meeting with Bob" tomorrow at 3pm for an hour, and add the task "buy milk"`, true)
	if tools := got.tools(); len(tools) != 2 || !slices.Contains(tools, "personal_assistant/calendar calendar.add") || !slices.Contains(tools, "personal_assistant/task todo.add") {
		t.Errorf("asked about %v", tools)
	}
	for _, want := range []string{`"meeting with Bob"`, "15:00–16:00", `"buy milk"`} {
		if !strings.Contains(got.answer, want) {
			t.Errorf("the answer lacks %s: %s", want, got.answer)
		}
	}
	// The assistant itself has the same lists.
	if got := h.say("", "What is in my calendar tomorrow?", false); !strings.Contains(got.answer, "meeting with Bob") || len(got.asked) > 0 {
		t.Errorf("the calendar: %s", got.answer)
	}
	if got := h.say("personal_assistant/task", "List my tasks", false); !strings.Contains(got.answer, "buy milk") {
		t.Errorf("the tasks: %s", got.answer)
	}
}

// A timer that an agent below has set tells the user in the user's conversation.
func TestATimerTellsTheUserThroughTheLevels(t *testing.T) {
	h := newHome(t)
	got := h.say(pa, `Set a timer for 1 second named "tea"`, true)
	if !strings.Contains(got.answer, "is set for") {
		t.Errorf("the answer: %s", got.answer)
	}
	if told := h.told(got); !strings.HasPrefix(told, `The timer "tea" is over.`) {
		t.Errorf("told %q", told)
	}
}

func TestATimerGoesOnAfterARestart(t *testing.T) {
	h := newHome(t)
	got := h.say(pa, `Set a timer for 20 minutes named "eggs"`, true)
	h.close()
	h.ahead = 20*time.Minute - 2*time.Second
	h.open()
	if told := h.told(got); !strings.HasPrefix(told, `The timer "eggs" is over.`) {
		t.Errorf("told %q", told)
	}
}

// Research hands the addresses of the pages that were found up to the answer.
func TestResearchCitesItsSources(t *testing.T) {
	h := newHome(t)
	got := h.say("research", `Search the web for "history of lighthouses"`, false)
	if !strings.Contains(got.answer, h.desk.site.URL+"/lighthouses") || len(got.asked) > 0 {
		t.Errorf("the answer: %s", got.answer)
	}
}

// Every example that an agent declares is right when said to the agent itself.
func TestTheExamplesAreRight(t *testing.T) {
	h := newHome(t)
	must.Do(t, os.MkdirAll(filepath.Join(h.dir, "workspace"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(h.dir, "workspace", "a.txt"), []byte("The invoice is paid.\n"), 0o600))
	for path, a := range h.catalog.Tree().ByPath {
		for _, e := range a.Examples {
			got := h.say(path, e.Say, true)
			if !strings.Contains(strings.ToLower(got.answer), strings.ToLower(e.Expect)) {
				t.Errorf("%q to %q: %q is not in the answer %s", e.Say, path, e.Expect, got.answer)
			}
		}
	}
}
