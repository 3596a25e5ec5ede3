package edge_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"steward/internal/memory/documents"
	"steward/internal/resource"
	"steward/internal/search/fts"
	"steward/internal/search/vector"
	"steward/internal/store"
	"steward/test/edge"
)

// told is what a person says and later wants forgotten. traces are what must not be left of
// it: parts of its words, since an index may keep a word without the letters that it shares
// with the one before.
const told = "My hideout is beside the zqxwombats of Kundalabar."

var traces = []string{"xwombat", "undalabar"}

// toldHash is under what a vector of the text is kept.
var toldHash = sha256.Sum256([]byte(told))

// tracesIn returns the files of a node in which a trace is left, in any case of its letters.
func tracesIn(n *edge.Node) (found []string) {
	n.T.Helper()
	err := filepath.WalkDir(n.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, toldHash[:]) {
			found = append(found, strings.TrimPrefix(path, n.Dir)+": the hash")
		}
		text := strings.ToLower(string(b))
		for _, trace := range traces {
			if strings.Contains(text, trace) {
				found = append(found, strings.TrimPrefix(path, n.Dir)+": "+trace)
			}
		}
		return err
	})
	if err != nil {
		n.T.Fatal(err)
	}
	return found
}

// remembering is a model that answers, summarises and finds facts, all by repeating what it
// is given. It embeds texts, and counts the ones that hold a trace.
type remembering struct {
	http.Handler
	mu                         sync.Mutex
	embedded, facts, summaries int
}

func newRemembering(t *testing.T) *remembering {
	m := &remembering{}
	chat := edge.Script(t, func(in edge.Asked) edge.Reply {
		first := in.Messages[0].Text()
		switch {
		case strings.Contains(first, asksForFacts):
			if !strings.Contains(in.Last().Text(), told) {
				return edge.Reply{Text: `{"facts":[]}`}
			}
			m.mu.Lock()
			m.facts++
			m.mu.Unlock()
			b, err := json.Marshal(map[string]any{"facts": []any{map[string]any{"message": 1, "subject": "", "text": told, "type": "place", "importance": 0.8, "replaces": []string{}}}})
			if err != nil {
				t.Error(err)
			}
			return edge.Reply{Text: string(b)}
		case strings.Contains(first, "You keep the notes of a conversation"):
			m.mu.Lock()
			m.summaries++
			m.mu.Unlock()
			return edge.Reply{Text: "So far: " + told}
		case strings.Contains(in.User(), told):
			return edge.Reply{Text: "You said " + told}
		}
		return edge.Reply{Text: "Noted."}
	})
	mux := http.NewServeMux()
	mux.Handle("/", chat)
	// As described at https://platform.openai.com/docs/api-reference/embeddings.
	mux.HandleFunc("POST /v1/embeddings", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		data := []any{}
		for i, text := range in.Input {
			if strings.Contains(text, told) {
				m.mu.Lock()
				m.embedded++
				m.mu.Unlock()
			}
			v := make([]float64, 64)
			for k, b := range []byte(text) {
				v[k%64] += float64(b)
			}
			data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": v})
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data, "model": "gpt-test", "usage": map[string]int{"prompt_tokens": 1, "total_tokens": 1}}) //nolint:errcheck // the caller may be gone
	})
	m.Handler = mux
	return m
}

// readsFacts reports whether a request asks for facts in a conversation.
func (m *remembering) readsFacts(r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && bytes.Contains(body, []byte(asksForFacts))
}

// asksForFacts is in the request for facts.
const asksForFacts = "note what is worth remembering"

func (m *remembering) has(embedded, facts int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.embedded >= embedded && m.facts >= facts && m.summaries > 0
}

// A person says something, and it gets everywhere: into messages, the indexes, vectors, a
// fact, the graph, a document, a summary. Then the person has it forgotten. Nothing of it is
// left in any file, nor in what is exported afterwards.
func TestForgettingIsComplete(t *testing.T) {
	t.Parallel()
	m := newRemembering(t)
	n := edge.Serve(t, edge.Options{Model: m, Settings: "models: {embed: openai/gpt-test}\nmemory: {rest: 1s}\n"})
	talk := n.Dial()
	first := talk.Turn(map[string]any{"content": told}, nil)
	conv := first.Conversation
	for range 6 {
		talk.Turn(map[string]any{"content": "And something else, which is long enough to count. " + strings.Repeat("Words and words. ", 20), "conversation_id": conv}, nil)
	}
	n.Must("conversations", "compact", conv)
	talk.Turn(map[string]any{"content": "What did I tell you?", "conversation_id": conv}, nil)
	n.Until("the message is embedded, and read for facts", func() bool { return m.has(1, 1) && strings.Contains(n.Must("memory", "list"), told) })
	var facts []struct{ ID, Text, Source string }
	n.JSON(&facts, "memory", "list")
	n.Must("graph", "assert", "hideout", "is beside", told, "--value")
	n.Must("graph", "assert", "Kundalabar", "has", "zqxwombats")
	for _, source := range []string{facts[0].Source, "cld:memory.Fact." + facts[0].ID} {
		if status, b := n.HTTP("POST", "/api/v1/graph/triples", map[string]string{"subject": "I", "predicate": "hide in", "object": "Kundalabar", "source": source}); status >= 300 {
			t.Fatalf("%d %s", status, b)
		}
	}
	paper := n.Write("# Hideout\n\n"+told+"\n", "hideout.md")
	n.Must("documents", "add", paper)
	for _, found := range [][]string{{"search", "zqxwombat"}, {"documents", "search", "zqxwombat"}, {"graph", "neighbours", "Kundalabar"}} {
		if out := n.Must(found...); !strings.Contains(strings.ToLower(out), "wombats") {
			t.Errorf("%v does not find it:\n%s", found, out)
		}
	}
	other := n.Ask("Where is my hideout?", nil).Conversation // the fact is recalled
	in := tracesIn(n)
	files := []string{"search.db", "vectors.db", "documents.db", "hideout.md"}
	if os.Getenv("STEWARD_TEST_STORE") == "" {
		files = append(files, "steward.db")
	}
	for _, file := range files {
		if !slices.ContainsFunc(in, func(s string) bool { return strings.Contains(s, file) }) {
			t.Errorf("%s has no trace before it is forgotten: %q", file, in)
		}
	}

	for _, c := range []string{conv, other} {
		var page struct{ Messages []json.RawMessage }
		n.Get("/api/v1/conversations/"+c+"/messages?limit=1000", &page)
		var gone []string
		for _, b := range page.Messages {
			var x struct{ ID string }
			if err := json.Unmarshal(b, &x); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(b), told) {
				gone = append(gone, x.ID)
			}
		}
		if len(gone) > 0 {
			n.Must(append([]string{"messages", "delete", "--erase", "--conversation", c}, gone...)...)
		}
	}
	if out := n.Must("memory", "list"); strings.Contains(out, told) {
		t.Errorf("the fact from the erased message is still there: %s", out)
	}
	n.Must("graph", "forget", "person")
	n.Must("documents", "remove", "--yes", paper)
	if err := os.Remove(paper); err != nil {
		t.Fatal(err)
	}
	if left := tracesIn(n); left != nil {
		t.Errorf("while it is served, there is a trace in %q", left)
	}
	n.Must("search", "else")
	n.Stop()
	for name, args := range map[string][]string{"audit": {"audit", "export", "--bodies"}, "facts": {"memory", "export"}, "graph": {"graph", "export"}, "log": {"log", "--json"}} {
		n.Write(n.Must(args...), "export-"+name)
	}
	if left := tracesIn(n); left != nil {
		t.Errorf("there is a trace in %q", left)
	}
	indexesAgree(t, n)
	noTraceInLog(t, n)
}

// indexesAgree compares all indexes of a node that is not served with its store.
func indexesAgree(t *testing.T, n *edge.Node) {
	t.Helper()
	st := n.ReadStore()
	words := fts.New(fts.Options{Path: n.Data("search.db"), Store: st})
	defer words.Close()
	vectors := vector.New(vector.Options{Path: n.Data("vectors.db"), Store: st})
	defer vectors.Close()
	if err := words.CatchUp(t.Context()); err != nil {
		t.Error(err)
	}
	if a, err := words.Verify(t.Context()); err != nil || a.Behind > 0 || !a.OK() || a.Texts == 0 {
		t.Errorf("search.db: %+v %v", a, err)
	}
	if err := vectors.CatchUp(t.Context()); err != nil {
		t.Error(err)
	}
	if a, err := vectors.Verify(t.Context()); err != nil || a.Behind > 0 || !a.OK() || a.Texts == 0 {
		t.Errorf("vectors.db: %+v %v", a, err)
	}
	papers := documents.New(documents.Options{Path: n.Data("documents.db"), Store: st})
	defer papers.Close()
	if err := papers.Forgotten(t.Context()); err != nil {
		t.Error(err)
	}
	if a, err := papers.Verify(t.Context()); err != nil || a.Behind > 0 || !a.OK() {
		t.Errorf("documents.db: %+v %v", a, err)
	}
}

// noTraceInLog looks for traces in the bodies of all entries, as they were written.
func noTraceInLog(t *testing.T, n *edge.Node) {
	t.Helper()
	st := n.ReadStore()
	for e, err := range store.Entries(t.Context(), st, store.ForNode(resource.System), store.LogQuery{Limit: 500}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, trace := range traces {
			if strings.Contains(strings.ToLower(e.URI.String()+string(e.Body)), trace) {
				t.Errorf("%s is in %s: %.300s", trace, e.URI, e.Body)
			}
		}
	}
}
