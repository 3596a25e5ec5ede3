package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/effect"
	"steward/internal/identity"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy/rego"
	"steward/internal/runtime"
	"steward/internal/server/api"
	"steward/internal/server/auth"
	"steward/internal/server/page"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
	"steward/test/vendors"
)

// house is the page over a real node. A request is made as the user that its header X-User names.
type house struct {
	t    *testing.T
	node *runtime.Node
	url  string

	own     http.Handler // the page itself
	people  *identity.Registry
	closing chan struct{} // what the server closes when it stops
}

// scripted is a model. As the planner it makes a plan of two tasks, and the first asks the person; otherwise it
// calls the tool that a message begins with, or repeats the message.
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
		said := last.Text()
		reply := &llm.Reply{Model: "test/one", Stop: message.StopEnd, Usage: message.Usage{Input: 9, Output: 3}, Blocks: []message.Block{&message.Text{Text: "you said: " + said}}}
		call := func(name, args string) {
			reply.Stop, reply.Blocks = message.StopTools, []message.Block{&message.ToolCall{CallID: "call_1", Name: name, Args: []byte(args)}}
		}
		name, what, ok := strings.Cut(said, " ")
		switch {
		case last.Role != message.User:
		case strings.Contains(r.System, "You plan for a person"):
			call("plan.start", `{"analysis":"a","plan":"p","confidence":1,"subtasks":[{"name":"date","purpose":"Find the date"},{"name":"rest","purpose":"Do the rest","after":["date"]}]}`)
		case strings.HasPrefix(said, "Find the date"):
			call("person.ask", `{"question":"Which <b>weekend</b>?"}`)
		case ok && strings.HasPrefix(name, "test."):
			args, err := json.Marshal(map[string]string{"what": what})
			if err != nil {
				yield(llm.Event{}, err)
				return
			}
			call(name, string(args))
		}
		yield(llm.Event{Kind: llm.Done, Reply: reply}, nil)
	}
}

// errand is a tool: test.put changes something, and can take it back.
type errand struct{}

func (errand) Spec() tool.Spec {
	return tool.Spec{Name: "test.put", Description: "Does an errand.", Effect: tool.Action, Version: "1",
		Input: []byte(`{"type":"object","properties":{"what":{"type":"string"}},"required":["what"]}`)}
}

func (errand) Call(context.Context, tool.Invocation) (tool.Result, error) {
	return tool.Text("done"), nil
}

// Undo implements tool.Undoer.
func (errand) Undo(context.Context, tool.Invocation, tool.Result) (tool.Result, error) {
	return tool.Text("undone"), nil
}

// furnishing is what the node of a house has. All but the model may be nil.
type furnishing struct {
	model llm.Provider
	tools []tool.Tool
	node  func(o *runtime.Options)
	api   func(o *api.Options) // once the node is open
	close func() error         // after the node

	cluster string // name of the node in its cluster
}

func newHouse(t *testing.T, model llm.Provider) *house {
	t.Helper()
	return newHouseOf(t, furnishing{model: model, tools: []tool.Tool{errand{}}})
}

func newHouseOf(t *testing.T, f furnishing) *house {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.DiscardHandler)
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db"), Log: log})
	must(err)
	people := identity.New(st)
	judge, err := rego.Open(rego.Options{Dir: t.TempDir(), Directory: people, Log: log, Settings: map[string]any{"approve": "actions"}})
	must(err)
	one := llm.Alias{Models: []string{"test/one"}}
	models, err := llm.New(llm.Config{Providers: []llm.Provider{f.model}, Aliases: map[string]llm.Alias{"default": one, "strong": one, "fast": one}})
	must(err)
	tools := &tool.Registry{}
	for _, x := range f.tools {
		must(tools.Add(x))
	}
	o := runtime.Options{Vendors: vendors.All(), Store: st, Models: models, Tools: tools, Authorizer: judge, People: people, Log: log}
	if f.node != nil {
		f.node(&o)
	}
	node, err := runtime.Open(t.Context(), o)
	must(err)
	served := api.Options{Node: node, People: people, Authorizer: judge, Resources: node.Resources(), Inside: true, Logger: log}
	if f.api != nil {
		f.api(&served)
	}
	closing := make(chan struct{})
	own, err := page.Handler(page.Options{Node: node, People: people, Version: "test", Cluster: f.cluster, Logger: log, Closing: closing, API: api.Handler(served)})
	must(err)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, admin := strings.CutSuffix(r.Header.Get("X-User"), "+admin")
		own.ServeHTTP(w, r.WithContext(auth.With(r.Context(), auth.Caller{User: name, Admin: admin})))
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		err := node.Close(context.Background())
		if f.close != nil {
			err = errors.Join(err, f.close())
		}
		if err := errors.Join(err, judge.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return &house{t: t, node: node, url: srv.URL, own: own, people: people, closing: closing}
}

func (h *house) request(user, method, path string, body io.Reader) *http.Response {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, body)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("X-User", user)
	r.Header.Set("Accept", "text/html")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	return res
}

// get returns a screen, whose status must be as wanted.
func (h *house) get(user, path string, status int) string {
	h.t.Helper()
	res := h.request(user, "GET", path, nil)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status {
		h.t.Fatalf("%s: %d, %v\n%s", path, res.StatusCode, err, b)
	}
	return string(b)
}

// done is the answer to an action.
type done struct {
	Patches []struct{ ID, HTML string }
	Go      string
	Toast   string
	Error   struct{ Code string }
}

// html returns the HTML of all patches.
func (d *done) html() string {
	var b strings.Builder
	for _, p := range d.Patches {
		b.WriteString(p.HTML)
	}
	return b.String()
}

// do does an action.
func (h *house) do(user, name string, fields map[string]string) done {
	h.t.Helper()
	in, err := json.Marshal(fields)
	if err != nil {
		h.t.Fatal(err)
	}
	res := h.request(user, "POST", "/do/"+name, strings.NewReader(string(in)))
	defer res.Body.Close()
	var out done
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		h.t.Fatal(err)
	}
	return out
}

// say sends a message to a new conversation, and returns the address of its screen.
func (h *house) say(user, text, agent string) string {
	h.t.Helper()
	out := h.do(user, "send", map[string]string{"text": text, "agent": agent})
	if !strings.HasPrefix(out.Go, "/chat/") {
		h.t.Fatalf("%+v", out)
	}
	return out.Go
}

// asked waits until so many questions wait for a user.
func (h *house) asked(user string, n int) []effect.Question {
	h.t.Helper()
	for list, err := range h.node.FollowApprovals(h.t.Context(), user) {
		if err != nil {
			h.t.Fatal(err)
		}
		if len(list) == n {
			return list
		}
	}
	h.t.Fatal("no question")
	return nil
}

// has checks that HTML has parts. Those with a hyphen before them must be absent.
func (h *house) has(html string, parts ...string) {
	h.t.Helper()
	for _, p := range parts {
		if what, absent := strings.CutPrefix(p, "-"); strings.Contains(html, what) == absent {
			h.t.Errorf("%q in\n%s", p, html)
		}
	}
}
