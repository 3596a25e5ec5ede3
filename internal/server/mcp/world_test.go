package mcp_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/identity"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/policy/rego"
	"steward/internal/runtime"
	"steward/internal/server/auth"
	"steward/internal/server/mcp"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
	"steward/test/leak"
	"steward/test/must"
	"steward/test/vendors"
)

func TestMain(m *testing.M) { leak.Main(m) }

// echo is a model that repeats the last message, or waits for the end if that is "wait".
type echo struct{ begun, ended chan struct{} }

func (echo) Name() string             { return "test" }
func (e echo) Model(string) llm.Model { return e }
func (echo) Models(context.Context) ([]llm.Info, error) {
	return []llm.Info{{Name: "one", Window: 100_000}}, nil
}

func (e echo) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		msgs := r.Transcript.Messages()
		last := msgs[len(msgs)-1]
		if last.Text() == "wait" {
			e.begun <- struct{}{}
			<-ctx.Done()
			e.ended <- struct{}{}
			yield(llm.Event{}, ctx.Err())
			return
		}
		reply := &llm.Reply{Model: "test/one", Stop: message.StopEnd, Usage: message.Usage{Input: 9, Output: 3},
			Blocks: []message.Block{&message.Text{Text: "you said: " + last.Text()}}}
		if what, ok := strings.CutPrefix(last.Text(), "put "); ok && last.Role == message.User {
			reply.Stop, reply.Blocks = message.StopTools, []message.Block{&message.ToolCall{CallID: "call_1", Name: "test.put", Args: []byte(`{"what":"` + what + `"}`)}}
		}
		yield(llm.Event{Kind: llm.Done, Reply: reply}, nil)
	}
}

// errand is a tool of a test.
type errand struct {
	spec tool.Spec
	call func(context.Context, tool.Invocation) (tool.Result, error)
}

func (e errand) Spec() tool.Spec { return e.spec }
func (e errand) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	return e.call(ctx, in)
}

// world is the server over a real node, whose policy asks about every action.
type world struct {
	t      *testing.T
	people *identity.Registry
	node   *runtime.Node
	store  *sqlite.Store
	server *mcp.Server
	url    string

	mu    sync.Mutex
	did   []string      // what test.put has done
	begun chan struct{} // test.wait, or the model that waits, has begun
	ended chan struct{} // it was cancelled
}

func serve(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, begun: make(chan struct{}, 10), ended: make(chan struct{}, 10)}
	log := slog.New(slog.DiscardHandler)
	st := must.Get(sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db"), Log: log}))
	w.store, w.people = st, identity.New(st)
	judge := must.Get(rego.Open(rego.Options{Dir: t.TempDir(), Directory: w.people, Log: log, Settings: map[string]any{"approve": "actions"}}))
	models := must.Get(llm.New(llm.Config{Providers: []llm.Provider{echo{w.begun, w.ended}}, Aliases: map[string]llm.Alias{"default": {Models: []string{"test/one"}}}}))
	tools := &tool.Registry{}
	what := []byte(`{"type":"object","properties":{"what":{"type":"string"}},"required":["what"]}`)
	for _, e := range []errand{
		{tool.Spec{Name: "test.get", Description: "Gets.", Effect: tool.Query, Version: "1", Input: what},
			func(_ context.Context, in tool.Invocation) (tool.Result, error) {
				in.Report(tool.Progress{Message: "half", Fraction: 0.5})
				return tool.Text(`{"got":true}`), nil
			}},
		{tool.Spec{Name: "test.put", Description: "Puts.", Effect: tool.Action, Version: "1", Input: what},
			func(_ context.Context, in tool.Invocation) (tool.Result, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.did = append(w.did, string(in.Args))
				return tool.Text("done"), nil
			}},
		{tool.Spec{Name: "test.wait", Description: "Waits.", Effect: tool.Query, Version: "1", Timeout: time.Hour, Input: []byte(`{"type":"object"}`)},
			func(ctx context.Context, _ tool.Invocation) (tool.Result, error) {
				w.begun <- struct{}{}
				<-ctx.Done()
				w.ended <- struct{}{}
				return tool.Result{}, ctx.Err()
			}},
		{tool.Spec{Name: "test.own", Description: "Ana's own.", Effect: tool.Query, Version: "1", For: tool.OwnedBy([]string{"ana"}, nil), Input: []byte(`{"type":"object"}`)},
			func(context.Context, tool.Invocation) (tool.Result, error) { return tool.Text("ana's"), nil }},
	} {
		must.Do(t, tools.Add(e))
	}
	w.node = must.Get(runtime.Open(t.Context(), runtime.Options{Vendors: vendors.All(), Store: st, Models: models, Tools: tools, Authorizer: judge, People: w.people, Log: log}))
	guard := auth.New(auth.Options{Keys: w.people, People: w.people, Logger: log, Intake: auth.NewIntake(auth.IntakeOptions{})})
	w.server = mcp.New(mcp.Options{Node: w.node, Approvals: w.node.Effects, Tree: w.node.Resources(), Logger: log,
		Examples: func(string) []string { return []string{"Water the plants", "What is new?"} }})
	s := httptest.NewServer(guard.Wrap(w.server, nil))
	w.url = s.URL
	t.Cleanup(func() {
		w.server.Close()
		s.Close()
		if err := errors.Join(w.node.Close(context.Background()), judge.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// key makes a user, if there is none, and a key of the user's.
func (w *world) key(user string, roles ...string) (secret string, key identity.Key) {
	w.t.Helper()
	if _, err := w.people.AddUser(w.t.Context(), identity.Local, user, identity.AccountChange{Roles: &roles}); err != nil && len(roles) > 0 {
		w.t.Fatal(err)
	}
	key, secret, err := w.people.Create(w.t.Context(), identity.Local, user, "test", time.Time{})
	if err != nil {
		w.t.Fatal(err)
	}
	return secret, key
}

// bearer sends a key with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// connect begins a session with a key.
func (w *world) connect(secret string, o *sdk.ClientOptions) (*sdk.ClientSession, error) {
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o)
	return c.Connect(w.t.Context(), &sdk.StreamableClientTransport{Endpoint: w.url, HTTPClient: &http.Client{Transport: bearer(secret)}, MaxRetries: -1}, nil)
}

// as begins a session of a member.
func (w *world) as(user string, o *sdk.ClientOptions) *sdk.ClientSession {
	w.t.Helper()
	secret, _ := w.key(user, policy.RoleMember)
	s, err := w.connect(secret, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { s.Close() }) //nolint:errcheck // the server may have ended it
	return s
}

// done is what test.put has done.
func (w *world) done() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.did
}

func text(r *sdk.CallToolResult) string {
	var all []string
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			all = append(all, t.Text)
		}
	}
	return strings.Join(all, "\n")
}
