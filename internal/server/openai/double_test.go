package openai_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/server/auth"
	"steward/internal/server/openai"
	"steward/internal/turn"
	"steward/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// node stands in for the runtime: a model that plays events, and
// conversations whose turns play frames.
type node struct {
	events []llm.Event        // the model's events; after them comes err, if it is set
	stream func() []llm.Event // returns the events of each call; nil: those of the field events
	err    error
	pause  chan struct{} // when set, the model waits for it before its first event
	frames func(acc turn.Accepted) []turn.Frame
	watch  error
	embed  func(model string, texts []string) (llm.Vectors, error)

	agents []kits.AgentView

	mu        sync.Mutex
	asked     *llm.Request
	cancelled bool
	turns     []turn.Input
}

func (n *node) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		n.mu.Lock()
		n.asked = r
		if n.stream != nil {
			n.events = n.stream()
		}
		n.mu.Unlock()
		if n.pause != nil {
			select {
			case <-n.pause:
			case <-ctx.Done():
				n.mu.Lock()
				n.cancelled = true
				n.mu.Unlock()
				yield(llm.Event{}, ctx.Err())
				return
			}
		}
		for _, ev := range n.events {
			if !yield(ev, nil) {
				return
			}
		}
		if n.err != nil {
			yield(llm.Event{}, n.err)
		}
	}
}

func notThere(name string) error {
	return fault.New(fault.NotFound, "model_not_found", "there is no model or alias %q", name)
}

func (n *node) FitRequest(_ context.Context, _ []string, _ *llm.Request, msgs []*message.Message, _ bool) ([]*message.Message, error) {
	return msgs, nil
}

func (n *node) Resolve(name string) (llm.Resolved, error) {
	if name == "default" || strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "down/") {
		return llm.Resolved{Name: name, Models: []string{"test/one"}, Model: n}, nil
	}
	return llm.Resolved{}, notThere(name)
}

func (n *node) Models(context.Context) (llm.Listing, []string) {
	at := time.Unix(1700000000, 0)
	return llm.Listing{Models: []llm.Listed{
		{Provider: "test", Info: llm.Info{Name: "one", Created: at, Window: 1000}},
		{Provider: "test", Info: llm.Info{Name: "group/two", Embedder: true}},
	}, Errors: map[string]error{"down": fault.New(fault.Unavailable, "unreachable", "down is not reached")}}, []string{"default", "fast"}
}

func (n *node) Agents(context.Context) []kits.AgentView { return n.agents }

func (n *node) Embed(_ context.Context, model string, texts []string) (llm.Vectors, error) {
	return n.embed(model, texts)
}

const (
	mine    = "00000000-0000-7000-8000-0000000000aa"
	foreign = "00000000-0000-7000-8000-0000000000bb"
)

var (
	turnID    = id.ID{15: 1, 8: 0x80, 6: 0x70}
	messageID = id.ID{15: 2, 8: 0x80, 6: 0x70}
)

func (n *node) Send(_ context.Context, user string, t turn.Input) (turn.Accepted, error) {
	if t.Conversation.Zero() && t.Agent != "" {
		if t.Agent == "nobody" {
			return turn.Accepted{}, fault.New(fault.NotFound, "agent_not_found", "there is no agent %q", t.Agent)
		}
		t.Conversation, _ = id.Parse(mine)
	}
	if t.Conversation.String() != mine || user != "ana" {
		return turn.Accepted{}, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %s", t.Conversation)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turns = append(n.turns, t)
	return turn.Accepted{Conversation: t.Conversation, Interaction: turnID, Message: messageID, Seq: 7}, nil
}

func (n *node) Watch(ctx context.Context, _ string, conv id.ID, from turn.Cursor) iter.Seq2[turn.Frame, error] {
	return func(yield func(turn.Frame, error) bool) {
		for _, f := range n.frames(turn.Accepted{Conversation: conv, Interaction: turnID, Seq: from.Seq}) {
			if !yield(f, nil) {
				return
			}
		}
		if n.watch != nil {
			yield(turn.Frame{}, n.watch)
			return
		}
		<-ctx.Done()
	}
}

// serve runs the server for the user ana.
func serve(t *testing.T, n *node, o openai.Options) *httptest.Server {
	t.Helper()
	o.Node = n
	o.Logger = slog.New(slog.DiscardHandler)
	h := openai.Handler(o)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Bare") == "" {
			r = r.WithContext(auth.With(r.Context(), auth.Caller{User: "ana"}))
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// do sends a request and returns the status and the body.
func do(t *testing.T, s *httptest.Server, method, path, body string, headers ...string) (int, http.Header, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, b
}

// tidy replaces the values that differ from run to run.
func tidy(t *testing.T, b []byte) string {
	t.Helper()
	var v struct {
		ID      string `json:"id"`
		Created int64  `json:"created"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	if len(v.ID) != len("chatcmpl-")+32 || !strings.HasPrefix(v.ID, "chatcmpl-") {
		t.Errorf("the id is %q", v.ID)
	}
	if since := time.Now().Unix() - v.Created; since < 0 || since > 60 {
		t.Errorf("created %d seconds ago", since)
	}
	created, _ := json.Marshal(v.Created)
	b = bytes.Replace(b, []byte(v.ID), []byte("ID"), 1)
	b = bytes.Replace(b, append([]byte(`"created":`), created...), []byte(`"created":0`), 1)
	return strings.TrimSpace(string(b))
}

// errorOf reads an error in OpenAI's form, strictly.
func errorOf(t *testing.T, b []byte) (message, typ, param, code string) {
	t.Helper()
	var v struct {
		Error *struct {
			Message *string          `json:"message"`
			Type    *string          `json:"type"`
			Param   *json.RawMessage `json:"param"`
			Code    *string          `json:"code"`
		} `json:"error"`
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	e := v.Error
	if e == nil || e.Message == nil || *e.Message == "" || e.Type == nil || e.Code == nil || !bytes.Contains(b, []byte(`"param":`)) {
		t.Fatalf("not OpenAI's form: %s", b)
	}
	if e.Param != nil {
		if err := json.Unmarshal(*e.Param, &param); err != nil {
			t.Fatal(err)
		}
	}
	return *e.Message, *e.Type, param, *e.Code
}

func text(s string) *message.Text { return &message.Text{Text: s} }

func done(stop message.Stop, blocks ...message.Block) llm.Event {
	return llm.Event{Kind: llm.Done, Reply: &llm.Reply{Model: "test/one", Blocks: blocks, Stop: stop,
		Usage: message.Usage{Input: 20, Output: 7, Reasoning: 3, CacheRead: 5}}}
}

const usage = `{"prompt_tokens":20,"completion_tokens":7,"total_tokens":27,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens_details":{"reasoning_tokens":3}}`

// handler returns the server for the user ana, without a network.
func handler(n *node) http.Handler {
	h := openai.Handler(openai.Options{Node: n, Logger: slog.New(slog.DiscardHandler)})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(auth.With(r.Context(), auth.Caller{User: "ana"})))
	})
}

func post(h http.Handler, path, body string) (int, []byte) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, jsonRequest(path, strings.NewReader(body)))
	return w.Code, w.Body.Bytes()
}

// jsonRequest posts JSON.
func jsonRequest(path string, body io.Reader) *http.Request {
	r := httptest.NewRequest("POST", path, body)
	r.Header.Set("Content-Type", "application/json")
	return r
}

func (n *node) ReadAttached(context.Context, string, string, []message.Block) error { return nil }
