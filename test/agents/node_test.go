package agents_test

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/catalog"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/provider/offline"
	"steward/internal/runtime"
	"steward/internal/store/sqlite"
)

const person = "local"

// patience is how long to wait for an expected event, long enough for any
// machine.
const patience = 5 * time.Minute

// home is a data folder with the example agents, and the node that uses it. Its
// clock starts at now.
type home struct {
	t       *testing.T
	began   time.Time
	ahead   time.Duration // how far the clock was advanced
	dir     string
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
	h.catalog = openCatalog(t, h.dir, h.store, h.clock)
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
	h.node, err = runtime.Open(h.t.Context(), runtime.Options{Store: h.store, Models: models, Tools: ownTools(h.t), Authorizer: policy.Fixed{},
		Catalog: h.catalog, Log: slog.New(slog.DiscardHandler),
		Profile: func(context.Context, string) (string, error) { return "Time zone: " + zoneName, nil }})
	h.must(err)
}

func (h *home) close() {
	h.t.Helper()
	if h.node == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h.must(h.node.Close(ctx))
	h.node = nil
}

// talk is the outcome of a message.
type talk struct {
	conv   id.ID
	answer string
	asked  []runtime.ApprovalView // the questions to the person
	cursor runtime.Cursor
}

// say sends a message to an agent in a new conversation and answers all
// questions alike.
func (h *home) say(agent, text string, approve bool) talk {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	acc, err := h.node.Send(ctx, person, runtime.Turn{Agent: agent, Attended: true, Content: []message.Block{&message.Text{Text: text}}})
	h.must(err)
	out := talk{conv: acc.Conversation}
	answered := map[string]bool{}
	for f, err := range h.node.Watch(ctx, person, acc.Conversation, runtime.Cursor{}) {
		h.must(err)
		out.cursor = f.Cursor
		switch {
		case f.Kind == runtime.FrameCall && f.Call.Approval != nil && !answered[f.Call.Approval.ID]:
			q := *f.Call.Approval
			answered[q.ID] = true
			out.asked = append(out.asked, q)
			h.must(h.node.Decide(ctx, person, runtime.Verdict{ID: q.ID, Hash: q.Hash, Approve: approve, Reason: "the test says so"}))
		case f.Kind == runtime.FrameComplete && f.Interaction == acc.Interaction:
			out.answer = f.Stored.Text()
			return out
		case f.Kind == runtime.FrameError:
			h.t.Fatalf("%q: %v", text, f.Err)
		}
	}
	h.t.Fatalf("%q: the answer did not come: %v", text, ctx.Err())
	return out
}

// told waits for the answer of a turn that opened by itself.
func (h *home) told(t talk) string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	opened := id.ID{}
	for f, err := range h.node.Watch(ctx, person, t.conv, t.cursor) {
		h.must(err)
		switch {
		case f.Kind == runtime.FrameOpened:
			opened = f.Interaction
		case f.Kind == runtime.FrameComplete && f.Interaction == opened:
			return f.Stored.Text()
		}
	}
	h.t.Fatalf("nothing was told: %v", ctx.Err())
	return ""
}

// files returns the agents' private files with a suffix.
func (h *home) files(ending string) []string {
	h.t.Helper()
	private := filepath.Join(h.dir, "private") // the agents create it only when needed
	h.must(os.MkdirAll(private, 0o700))
	var out []string
	h.must(filepath.WalkDir(private, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ending) {
			out = append(out, path)
		}
		return err
	}))
	return out
}

func (h *home) read(path string) string {
	h.t.Helper()
	b, err := os.ReadFile(path)
	h.must(err)
	return string(b)
}

// tools returns the tools of the questions, with their agents.
func (t talk) tools() []string {
	var out []string
	for _, q := range t.asked {
		out = append(out, q.Agent+" "+q.Tool)
	}
	return out
}

func TestAnEmailIsSentThreeLevelsDownOnceItIsAllowed(t *testing.T) {
	h := newHome(t)
	const wish = `Send an email to ann@example.com with subject "Lunch" saying "shall we meet at noon"`
	for _, approve := range []bool{false, true} {
		got := h.say("", wish, approve)
		if want := []string{"personal_assistant/email email.send"}; !slices.Equal(got.tools(), want) {
			t.Fatalf("asked about %v, want %v", got.tools(), want)
		}
		if q := got.asked[0]; !strings.Contains(q.Args, `"shall we meet at noon"`) || !strings.Contains(q.Args, `"ann@example.com"`) {
			t.Errorf("the person was shown %s", q.Args)
		}
		sent := h.files(".eml")
		if approve != (len(sent) == 1) {
			t.Fatalf("allowed %v: the outbox has %v", approve, sent)
		}
		want := "was not allowed"
		if approve {
			want = `Sent the e-mail "Lunch" to ann@example.com.`
		}
		if !strings.Contains(got.answer, want) {
			t.Errorf("allowed %v: the answer is %q", approve, got.answer)
		}
	}
	text := h.read(h.files(".eml")[0])
	for _, want := range []string{"To: <ann@example.com>\r\n", "Subject: Lunch\r\n", "From: \"Me\" <me@example.com>\r\n", "\r\n\r\nshall we meet at noon\r\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the e-mail lacks %q:\n%s", want, text)
		}
	}
}

func TestEventsAndTasksLandInTheirFiles(t *testing.T) {
	h := newHome(t)
	got := h.say("", `Add the event "meeting with Bob" tomorrow at 3pm for an hour, and add the task "buy milk"`, true)
	if tools := got.tools(); len(tools) != 2 || !slices.Contains(tools, "personal_assistant/calendar calendar.add") || !slices.Contains(tools, "personal_assistant/task task.add") {
		t.Errorf("asked about %v", tools)
	}
	for _, want := range []string{`"meeting with Bob"`, "15:00–16:00", `"buy milk"`} {
		if !strings.Contains(got.answer, want) {
			t.Errorf("the answer lacks %s: %s", want, got.answer)
		}
	}
	z := zone(t)
	d := now.In(z).AddDate(0, 0, 1)
	start := time.Date(d.Year(), d.Month(), d.Day(), 15, 0, 0, 0, z).UTC().Format("20060102T150405Z")
	if list := h.files("calendar.ics"); len(list) != 1 || !strings.Contains(h.read(list[0]), "DTSTART:"+start) {
		t.Errorf("no event at %s in %v", start, list)
	}
	if list := h.files("tasks.md"); len(list) != 1 || !strings.HasPrefix(h.read(list[0]), "- [ ] buy milk\n") {
		t.Errorf("the tasks: %v", list)
	}
	if got := h.say("", "What is in my calendar tomorrow?", false); !strings.Contains(got.answer, "meeting with Bob") || len(got.asked) > 0 {
		t.Errorf("the calendar: %s", got.answer)
	}
	if got := h.say("personal_assistant/task", "List my tasks", false); !strings.Contains(got.answer, "buy milk") {
		t.Errorf("the tasks: %s", got.answer)
	}
}

func TestATimerTellsTheUserThroughTheLevels(t *testing.T) {
	h := newHome(t)
	got := h.say("", `Set a timer for 1 second named "tea"`, true)
	if !strings.Contains(got.answer, "was started") {
		t.Errorf("the answer: %s", got.answer)
	}
	if told := h.told(got); told != `The timer "tea" is over.` {
		t.Errorf("told %q", told)
	}
}

func TestATimerGoesOnAfterARestart(t *testing.T) {
	h := newHome(t)
	got := h.say("", `Set a timer for 20 minutes named "eggs"`, true)
	h.close()
	h.ahead = 20*time.Minute - 2*time.Second
	h.open()
	if told := h.told(got); told != `The timer "eggs" is over.` {
		t.Errorf("told %q", told)
	}
	if list := h.files(".json"); len(list) != 1 {
		t.Errorf("%d timers were set", len(list))
	}
}

// Every example that an agent declares is right when said to the agent itself.
// Those of the top-level agents are also right when said to the assistant above
// them.
func TestTheExamplesAreRight(t *testing.T) {
	h := newHome(t)
	for path, a := range h.catalog.Tree().ByPath {
		for _, e := range a.Examples {
			to := []string{path}
			if !strings.Contains(path, "/") {
				to = append(to, "")
			}
			for _, agent := range to {
				got := h.say(agent, e.Say, true)
				if !strings.Contains(strings.ToLower(got.answer), strings.ToLower(e.Expect)) {
					t.Errorf("%q to %q: %q is not in the answer %s", e.Say, agent, e.Expect, got.answer)
				}
			}
		}
	}
}
