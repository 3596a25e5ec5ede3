package edge_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"steward/test/edge"
)

// embeddings is the double of a server of embeddings, in the form of OpenAI's API reference ("Create embeddings"). It
// knows one subject, in English and German.
type embeddings struct {
	mu   sync.Mutex
	seen []string
}

func (e *embeddings) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Model string
		Input []string
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	e.seen = append(e.seen, in.Input...)
	e.mu.Unlock()
	data := []any{}
	for i, text := range in.Input {
		v := []float64{0, 1}
		for _, word := range []string{"tax return", "Steuer"} {
			if strings.Contains(text, word) {
				v = []float64{1, 0.1}
			}
		}
		data = append(data, object{"object": "embedding", "index": i, "embedding": v})
	}
	b, err := json.Marshal(object{"object": "list", "data": data, "model": in.Model, "usage": object{"prompt_tokens": 1, "total_tokens": 1}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Write(b) //nolint:errcheck // the caller may be gone
}

// TestATaskFindsItsAgent: a task is given to the agent whose description is most similar by the embedding model,
// although they share no word and the agent is below another one. With a threshold that it does not reach, an agent is
// designed for the task.
func TestATaskFindsItsAgent(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{"": "answered by tax", "plans: {agent_threshold: 1}\n": "answered by designed"} {
		e := &embeddings{}
		script := edge.Script(t, func(in edge.Asked) edge.Reply {
			switch prompt := in.Messages[0].Text(); {
			case strings.Contains(prompt, "You prepare returns."):
				return edge.Reply{Text: "answered by tax"}
			case strings.Contains(prompt, "You plan for a person") && in.Rounds() == 0:
				return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: object{"analysis": "a", "plan": "p", "confidence": 1, "purpose": "Die Steuererklärung vorbereiten"}}}}
			case strings.Contains(prompt, "You plan for a person"):
				return edge.Reply{Text: strings.Join(in.Results(), "\n")}
			}
			return edge.Reply{Text: "answered by designed"}
		})
		mux := http.NewServeMux()
		mux.Handle("POST /v1/embeddings", e)
		mux.Handle("/", script)
		n := edge.New(t, edge.Options{Model: mux, Settings: "models: {embed: openai/text-embedding-3-small}\n" + settings})
		n.Write("name: office\ndescription: Writes letters and answers the phone\n", "data", "agents", "office", "agent.yaml")
		n.Write("You do the office.", "data", "agents", "office", "PROMPT.md")
		n.Write("name: tax\ndescription: Prepares the tax return\nmetadata: {applicability: only for private persons}\n", "data", "agents", "office", "agents", "tax", "agent.yaml")
		n.Write("You prepare returns.", "data", "agents", "office", "agents", "tax", "PROMPT.md")
		n.Must("agents", "approve", "office", "--yes")
		n.Must("agents", "approve", "office/tax", "--yes")
		n.Serve()
		if got := n.Must("ask", "-q", "--agent", "planner", "Hilfe beim Finanzamt"); !strings.Contains(got, want) {
			t.Errorf("with %q: %s", settings, got)
		}
		n.Stop()
		e.mu.Lock()
		if all := strings.Join(e.seen, "\x00"); !strings.Contains(all, "tax\nPrepares the tax return\nonly for private persons\x00") || !strings.Contains(all, "\x00Die Steuererklärung vorbereiten") {
			t.Errorf("the model was sent %q", e.seen)
		}
		e.mu.Unlock()
	}
}
