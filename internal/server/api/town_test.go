package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/client"
	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/goals"
	"steward/internal/heartbeat"
	"steward/internal/identity"
	"steward/internal/jobs"
	"steward/internal/llm"
	"steward/internal/memory"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/policy/rego"
	"steward/internal/requests"
	"steward/internal/runtime"
	"steward/internal/search/fts"
	"steward/internal/server/api"
	"steward/internal/server/auth"
	"steward/internal/store"
	"steward/internal/store/audit"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
	"steward/internal/tools/job"
	"steward/test/leak"
	"steward/test/served"
	"steward/test/vendors"
)

func TestMain(m *testing.M) { leak.Main(m) }

// scripted is a model that calls the tool that the last message begins with, and otherwise
// repeats the message.
type scripted struct{}

func (scripted) Name() string             { return "test" }
func (s scripted) Model(string) llm.Model { return s }
func (scripted) Models(context.Context) ([]llm.Info, error) {
	return []llm.Info{{Name: "one", Window: 100_000}}, nil
}

func (scripted) Stream(_ context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		msgs := r.Transcript.Messages()
		last := msgs[len(msgs)-1]
		reply := &llm.Reply{Model: "test/one", Stop: message.StopEnd, Usage: message.Usage{Input: 9, Output: 3},
			Blocks: []message.Block{&message.Text{Text: "you said: " + last.Text()}}}
		if name, what, ok := strings.Cut(last.Text(), " "); ok && strings.HasPrefix(name, "test.") && last.Role == message.User {
			args, _ := json.Marshal(map[string]string{"what": what})
			reply.Stop, reply.Blocks = message.StopTools, []message.Block{&message.ToolCall{CallID: "call_1", Name: name, Args: args}}
		}
		yield(llm.Event{Kind: llm.Done, Reply: reply}, nil)
	}
}

// errand is a tool: test.get reads, and test.put changes something.
type errand tool.Effect

func (e errand) Spec() tool.Spec {
	name := map[tool.Effect]string{tool.Query: "test.get", tool.Action: "test.put"}[tool.Effect(e)]
	return tool.Spec{Name: name, Description: "Does an errand.", Effect: tool.Effect(e), Version: "1",
		Input: []byte(`{"type":"object","properties":{"what":{"type":"string"}},"required":["what"]}`)}
}

func (errand) Call(context.Context, tool.Invocation) (tool.Result, error) {
	return tool.Text("done"), nil
}

// Undo implements tool.Undoer.
func (errand) Undo(context.Context, tool.Invocation, tool.Result) (tool.Result, error) {
	return tool.Text("undone"), nil
}

// town is the server over a real node, with policies, two unapproved agents, and everything
// else that it can serve.
type town struct {
	t       *testing.T
	o       api.Options
	node    *runtime.Node
	judge   *rego.Authorizer
	index   *fts.Index
	store   *faulty
	agents  string // the folder of the agents
	rules   string // the folder of the policies
	service bool   // callers have the role of a service
}

// faulty is a store whose reads fail after a number of them; 0: never.
type faulty struct {
	*sqlite.Store
	left atomic.Int64
}

func (f *faulty) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	if f.left.Add(-1) == 0 {
		return store.Page{}, errors.New("read /secret/path: input/output error")
	}
	return f.Store.Query(ctx, sc, q)
}

func newTown(t *testing.T, more ...tool.Tool) *town {
	t.Helper()
	w := &town{t: t, agents: t.TempDir(), rules: t.TempDir()}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, name := range map[string]string{"email": "email", "email/agents/filter": "filter"} {
		folder := filepath.Join(w.agents, path)
		must(os.MkdirAll(folder, 0o755))
		must(os.WriteFile(filepath.Join(folder, "agent.yaml"), []byte("name: "+name+"\ndescription: Does "+name+".\n"), 0o644))
	}
	log := slog.New(slog.DiscardHandler)
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db"), Log: log})
	must(err)
	w.store = &faulty{Store: st}
	people := identity.New(st)
	w.judge, err = rego.Open(rego.Options{Dir: w.rules, Directory: people, Log: log, Settings: map[string]any{"approve": "actions"}})
	must(err)
	cat, err := catalog.Open(t.Context(), catalog.Options{Store: st, Folders: []string{w.agents}, Data: t.TempDir(), Log: log})
	must(err)
	models, err := llm.New(llm.Config{Providers: []llm.Provider{scripted{}}, Aliases: map[string]llm.Alias{"default": {Models: []string{"test/one"}}}})
	must(err)
	tools := &tool.Registry{}
	for _, x := range append([]tool.Tool{errand(tool.Query), errand(tool.Action)}, more...) {
		must(tools.Add(x))
	}
	w.index = fts.New(fts.Options{Path: filepath.Join(t.TempDir(), "search.db"), Store: st, Log: log})
	facts := memory.New(memory.Options{Store: st})
	w.node, err = runtime.Open(t.Context(), runtime.Options{Memory: facts, Vendors: vendors.All(), Store: w.store, Models: models, Tools: tools, Authorizer: w.judge, People: people, Search: w.index, Log: log})
	must(err)
	trail, err := audit.New(st, audit.Options{})
	must(err)
	w.o = api.Options{Memory: facts, Node: w.node, People: people, Agents: cat, Authorizer: w.judge, Resources: w.node.Resources(), Audit: trail, Logger: log,
		Jobs:      job.Service{Jobs: jobs.New(jobs.Options{Store: st}), Note: func(context.Context) string { return "keep it running" }},
		Heartbeat: heartbeat.Service{Jobs: jobs.New(jobs.Options{Store: st}), Settings: heartbeat.Settings{Every: 15 * time.Minute, At: "08:00", Caps: heartbeat.Caps{Calls: 40}}, Note: func(context.Context) string { return "keep it running" }},
		Goals:     goals.New(goals.Options{Store: st, Tasks: requests.EffortTasks{Store: st}})}
	t.Cleanup(func() {
		if err := errors.Join(w.node.Close(context.Background()), cat.Close(), w.judge.Close(), w.index.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// say sends a user's message to a conversation ("": a new one), and waits until it is
// answered or a call waits for approval.
func (w *town) say(user, conv, words string) client.Accepted {
	w.t.Helper()
	c := served.To(w.t, w.node, user, nil)
	got, err := c.Say(w.t.Context(), client.Message{Conversation: conv, Content: []client.Block{{Type: "text", Text: words}}})
	if err != nil {
		w.t.Fatal(err)
	}
	for f, err := range c.Watch(w.t.Context(), got.Conversation, got.Cursor) {
		if err != nil {
			w.t.Fatal(err)
		}
		if f.Type == client.FrameComplete && f.Stop == string(message.StopEnd) || f.Status == client.CallAwaiting {
			break
		}
	}
	return got
}

// as sends a request as a user ("+admin" for an admin, "-" for nobody) and returns the status
// and the body, or the error's code, and the headers.
func (w *town) as(user, method, path, body string, head ...string) (int, string, http.Header) {
	w.t.Helper()
	r := httptest.NewRequest(method, api.Prefix+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if name, admin := strings.CutSuffix(user, "+admin"); name != "-" {
		c := auth.Caller{User: name, Admin: admin}
		if w.service {
			c.Roles = []string{policy.RoleService}
		}
		r = r.WithContext(auth.With(r.Context(), c))
	}
	for _, h := range head {
		k, v, _ := strings.Cut(h, ": ")
		r.Header.Set(k, v)
	}
	out := httptest.NewRecorder()
	api.Handler(w.o).ServeHTTP(out, r)
	b, err := io.ReadAll(out.Result().Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var e struct{ Error fault.Error }
	if out.Code >= 400 && json.Unmarshal(b, &e) == nil && e.Error.Message != "" && e.Error.Kind != "" {
		return out.Code, e.Error.Code, out.Header()
	}
	return out.Code, strings.TrimSpace(string(b)), out.Header()
}

// want sends a request and wants a status and parts of the answer.
func (w *town) want(user, method, path, body string, status int, part string, head ...string) string {
	w.t.Helper()
	got, answer, _ := w.as(user, method, path, body, head...)
	if got != status || !strings.Contains(answer, part) {
		w.t.Errorf("%s %s as %s: %d %s\nwant %d with %s", method, path, user, got, answer, status, part)
	}
	return answer
}

// get decodes the answer to a request of ana's.
func get[T any](w *town, method, path, body string) (out T) {
	w.t.Helper()
	status, answer, _ := w.as("ana", method, path, body)
	if err := json.Unmarshal([]byte(answer), &out); err != nil || status >= 300 {
		w.t.Fatalf("%s %s: %d %s, %v", method, path, status, answer, err)
	}
	return out
}
