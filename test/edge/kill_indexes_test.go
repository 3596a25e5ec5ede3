package edge_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/test/edge"
)

// moments tells a test when the model is asked for something.
type moments struct {
	http.Handler
	mu   sync.Mutex
	what string        // the request to wait for: "embeddings", "facts" or "chat"
	came chan struct{} // closed when it has come
}

// next returns a channel that is closed when the model is asked for something the next time. That request is not
// answered.
func (m *moments) next(what string) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.what, m.came = what, make(chan struct{})
	return m.came
}

// at reports whether it is the moment that is waited for.
func (m *moments) at(what string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.what != what {
		return false
	}
	m.what = ""
	close(m.came)
	return true
}

// Steward is killed while it waits for vectors, while a conversation is read for facts, and right after a document was
// stored. Afterwards each index agrees with the store by count and hash, and each fact is there once.
func TestKilledIndexesAgree(t *testing.T) {
	t.Parallel()
	m := &moments{}
	inner := newRemembering(t)
	m.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what := ""
		switch {
		case strings.HasSuffix(r.URL.Path, "/embeddings"):
			what = "embeddings"
		case inner.readsFacts(r):
			what = "facts"
		}
		if what != "" && m.at(what) {
			io.Copy(io.Discard, r.Body) //nolint:errcheck // only then the end of the caller is noticed
			<-r.Context().Done()
			return
		}
		inner.ServeHTTP(w, r)
	})
	n := edge.Serve(t, edge.Options{Model: m, Settings: "models: {embed: openai/gpt-test}\nmemory: {rest: 1s}\n"})
	conv := ""
	for round, what := range killedAt() {
		killed := m.next(what)
		talk := n.Dial()
		for i := range 5 {
			in := map[string]any{"content": fmt.Sprintf("Line %d of round %d is about %s.", i, round, told)}
			if conv != "" {
				in["conversation_id"] = conv
			}
			conv = talk.Turn(in, nil).Conversation
		}
		n.Must("documents", "add", n.Write(fmt.Sprintf("# Paper\n\nThis is paper %d about walruses.\n", round), "papers", fmt.Sprintf("%d.md", round)))
		if what == "" {
			time.Sleep(time.Duration(round*137%900) * time.Millisecond)
		} else {
			<-killed
		}
		n.Kill()
		n.Serve()
	}
	n.Must("documents", "search", "walruses")
	n.Dial().Turn(map[string]any{"content": "One more word.", "conversation_id": conv}, nil)
	n.Until("a fact is read", func() bool { return strings.Contains(n.Must("memory", "list"), "hideout") })
	n.Must("search", "hideout")
	n.Stop()
	if got := strings.Count(n.Must("memory", "list", "--all"), told); got != 1 {
		t.Errorf("the fact is there %d times", got)
	}
	indexesAgree(t, n)
	if out := n.Run("doctor").Out; !strings.Contains(out, "search.db has all") || !strings.Contains(out, "vectors.db has all") || !strings.Contains(out, "documents.db has all") {
		t.Error(out)
	}
	db, err := sql.Open("sqlite", "file:"+n.Data("search.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "DELETE FROM doc_1 WHERE id = (SELECT min(id) FROM doc_1)")
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if out := n.Run("doctor").Out; !strings.Contains(out, "search.db does not hold what the database holds") {
		t.Error(out)
	}
}
