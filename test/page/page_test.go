// Package page_test drives the page of the built program with Chromium.
//
// A Go test starts a Steward whose model is a double (model), and a script in scripts/ that opens the browser.
// The script says what the model answers and how far (scripts/page.mjs: model.answers), so that it can reload the
// page in the middle of an answer, and waits for what the page shows, never for a time. It fails by an exception.
package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"steward/test/edge"
)

func TestMain(m *testing.M) { os.Exit(edge.Main(m)) }

// patience bounds a script, on any machine.
const patience = 8 * time.Minute

// TestPage is the short form: signing in, a chat with a tool, an approval, a reload in the middle of an answer,
// stop.
func TestPage(t *testing.T) { play(t, "short") }

// world is what a script has.
type world struct {
	*edge.Node
	model *model
}

// play runs scripts/NAME.mjs with a Steward that may write in the folder docs. prepare, if given, adds to it before
// it is served; what it returns is in the script's variable given.
func play(t *testing.T, name string, prepare ...func(w *world) map[string]any) {
	t.Helper()
	w := &world{model: newModel(t)}
	w.Node = edge.New(t, edge.Options{Model: w.model.handler(t)})
	docs := filepath.Dir(w.Write("milk\n", "docs", "list.txt"))
	w.Write(fmt.Sprintf("folders: [{name: docs, path: %q, write: true}]\n", docs), ".config", "steward", "steward.yaml")
	control := httptest.NewServer(w.model.control())
	t.Cleanup(control.Close)
	given := map[string]any{}
	for _, p := range prepare {
		maps.Copy(given, p(w))
	}
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
	Hold      string          // the answer waits here until the script releases it
}

// model is a double of a model: an OpenAI-compatible server (edge.Script) that answers as a script has told it,
// by the text of the user's message. Other messages are repeated.
type model struct {
	mu       sync.Mutex
	change   chan struct{}       // closed at the next change
	answers  map[string][][]step // by the user's message: one answer a round
	held     map[string]bool     // the answer has come to this point
	released map[string]bool
	gone     map[string]bool // the client has left while this was held
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
		m.mu.Lock()
		rounds := m.answers[in.User()]
		m.mu.Unlock()
		steps := []step{{Text: "You said: " + in.User()}}
		if in.Rounds() < len(rounds) {
			steps = rounds[in.Rounds()]
		}
		return edge.Reply{Raw: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			m.write(w, r, len(in.Messages), steps)
		}}
	})
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
