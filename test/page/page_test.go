// Package page_test drives the page of the built program with Chromium.
//
// A Go test starts a Steward whose model is a double (model), and a script in scripts/ that opens the browser.
// The script says what the model answers and how far (scripts/page.mjs: model.answers), so that it can reload the
// page in the middle of an answer, and waits for what the page shows, never for a time. It fails by an exception.
package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/test/edge"
)

func TestMain(m *testing.M) { os.Exit(edge.Main(m)) }

// patience bounds a script, on any machine: the longest looks at every screen five times.
const patience = 15 * time.Minute

// TestPage is the short form: signing in, a chat with a tool, what a person allows and denies, a reload in the middle
// of an answer, stop, a plan to its end, and a fact that is edited and forgotten.
func TestPage(t *testing.T) { play(t, "short") }

// world is what a script has.
type world struct {
	*edge.Node
	model    *model
	settings string // the content of steward.yaml
}

// play runs scripts/NAME.mjs with a Steward that may write in the folder docs. prepare, if given, adds to it before
// it is served; what it returns is in the script's variable given.
func play(t *testing.T, name string, prepare ...func(w *world) map[string]any) {
	t.Helper()
	w := &world{model: newModel(t)}
	w.Node = edge.New(t, edge.Options{Model: w.model.handler(t)})
	docs := filepath.Dir(w.Write("milk\n", "docs", "list.txt"))
	w.settings = fmt.Sprintf("folders: [{name: docs, path: %q, write: true}]\n", docs)
	control := httptest.NewServer(w.model.control())
	t.Cleanup(control.Close)
	given := map[string]any{}
	for _, p := range prepare {
		maps.Copy(given, p(w))
	}
	w.Write(w.settings, ".config", "steward", "steward.yaml")
	w.Serve()
	more, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	pictures := os.Getenv("PAGE_PICTURES") // the folder for screenshots that scripts make
	if pictures == "" {
		pictures = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", filepath.Join("scripts", name+".mjs"))
	cmd.Env = append(os.Environ(), "PAGE_URL="+w.URL, "PAGE_LINK="+w.Must("link"), "PAGE_BIN="+edge.Binary(), "STEWARD_DATA="+w.Data(), "PAGE_HOME="+w.Dir,
		"PAGE_MODEL="+control.URL, "PAGE_GIVEN="+string(more), "PAGE_PICTURES="+pictures)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", name, err, out, w.Log())
	}
	t.Logf("%s", out)
}

// step is a part of what the model answers.
type step struct {
	Text      string          // streamed as one piece
	Reasoning string          // likewise
	Tool      string          // a call, with its arguments
	Args      json.RawMessage `json:"args"`
	Refuse    bool            // the key is refused, as OpenAI does it
	Hold      string          // the answer waits here until the script releases it
}

// model is a double of a model: an OpenAI-compatible server (edge.Script) that answers as a script has told it,
// by the text of the user's message, or by its first line: that of a task of a plan. Other messages are repeated.
// In a conversation that it is to read for facts, it finds those that a script has told it.
type model struct {
	mu       sync.Mutex
	change   chan struct{}       // closed at the next change
	answers  map[string][][]step // by the user's message: one answer a round
	held     map[string]bool     // the answer has come to this point
	released map[string]bool
	gone     map[string]bool // the client has left while this was held
	facts    []string        // that it finds where a user has said them
	seen     []string        // the requests that it has got
}

func newModel(t *testing.T) *model {
	m := &model{change: make(chan struct{}), answers: map[string][][]step{}, held: map[string]bool{}, released: map[string]bool{}, gone: map[string]bool{}}
	t.Cleanup(func() { m.set(func() { m.released[""] = true }) })
	return m
}

func (m *model) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	close(m.change)
	m.change = make(chan struct{})
}

// until waits until something is so.
func (m *model) until(ctx context.Context, so func() bool) error {
	for {
		m.mu.Lock()
		ok, change := so(), m.change
		m.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *model) handler(t *testing.T) http.Handler {
	return edge.Script(t, func(in edge.Asked) edge.Reply {
		m.set(func() { m.seen = append(m.seen, string(in.Body)) })
		m.mu.Lock()
		rounds, ok := m.answers[in.User()]
		if first, _, _ := strings.Cut(in.User(), "\n"); !ok {
			rounds = m.answers[first]
		}
		facts := m.facts
		m.mu.Unlock()
		if bytes.Contains(in.Body, []byte(`"name":"facts"`)) {
			return edge.Reply{Text: readFacts(in.Body, facts)}
		}
		steps := []step{{Text: "You said: " + in.User()}}
		if in.Rounds() < len(rounds) {
			steps = rounds[in.Rounds()]
		}
		return edge.Reply{Raw: func(w http.ResponseWriter, r *http.Request) {
			if len(steps) > 0 && steps[0].Refuse {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprint(w, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			m.write(w, r, len(in.Messages), steps)
		}}
	})
}

// readFacts is the answer to the request to find facts in a conversation.
func readFacts(body []byte, facts []string) string {
	found := []any{}
	for _, f := range facts {
		if bytes.Contains(body, []byte(f)) {
			found = append(found, map[string]any{"message": 1, "subject": "user", "text": f, "type": "fact", "importance": 0.7, "replaces": []string{}})
		}
	}
	text, err := json.Marshal(map[string]any{"facts": found})
	if err != nil {
		panic(err) // texts: cannot fail
	}
	return string(text)
}

func (m *model) write(w http.ResponseWriter, r *http.Request, messages int, steps []step) {
	finish := "stop"
	for i, s := range steps {
		switch {
		case s.Text != "":
			edge.Chunk(w, map[string]any{"content": s.Text}, nil)
		case s.Reasoning != "":
			edge.Chunk(w, map[string]any{"reasoning_content": s.Reasoning}, nil)
		case s.Tool != "":
			finish = "tool_calls"
			edge.Chunk(w, map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": fmt.Sprintf("call_%d_%d", messages, i), "type": "function",
				"function": map[string]any{"name": s.Tool, "arguments": string(s.Args)}}}}, nil)
		case s.Hold != "":
			if err := http.NewResponseController(w).Flush(); err != nil {
				return
			}
			m.set(func() { m.held[s.Hold] = true })
			if m.until(r.Context(), func() bool { return m.released[s.Hold] || m.released[""] }) != nil {
				m.set(func() { m.gone[s.Hold] = true })
				return
			}
		}
	}
	edge.Chunk(w, map[string]any{}, finish)
	fmt.Fprint(w, `data: {"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}}`+"\n\ndata: [DONE]\n\n")
}

// control is what scripts ask of the double.
func (m *model) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /answers", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			User   string
			Rounds [][]step
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m.set(func() { m.answers[in.User] = in.Rounds })
	})
	mux.HandleFunc("POST /release/{hold}", func(_ http.ResponseWriter, r *http.Request) {
		m.set(func() { m.released[r.PathValue("hold")] = true })
	})
	mux.HandleFunc("POST /facts", func(w http.ResponseWriter, r *http.Request) {
		var in []string
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m.set(func() { m.facts = in })
	})
	mux.HandleFunc("GET /seen/{text}", func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !slices.ContainsFunc(m.seen, func(s string) bool { return strings.Contains(s, r.PathValue("text")) }) {
			http.Error(w, "no request to the model has this text", http.StatusNotFound)
		}
	})
	wait := func(what map[string]bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if m.until(r.Context(), func() bool { return what[r.PathValue("hold")] }) != nil {
				http.Error(w, "gone", http.StatusServiceUnavailable)
			}
		}
	}
	mux.HandleFunc("GET /held/{hold}", wait(m.held))
	mux.HandleFunc("GET /gone/{hold}", wait(m.gone))
	return mux
}
