package edge_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/test/edge"
	"steward/test/must"
)

// When another program keeps the search index locked, the index falls behind the log: /readyz names it, and the
// metrics say by how much. Once the lock is gone, Steward is ready again by itself.
func TestReadyzWhenAFollowerIsStuck(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Settings: "metrics: {listen: '127.0.0.1:0', stuck: 10s}\n"})
	n.Must("ask", "-q", "What is 3 times 4?")
	n.Must("search", "times") // makes the index
	n.Serve()
	at := metricsAt(t, n)
	n.Until("the index is at the end of the log", func() bool { return scrape(t, at+"/metrics")[`steward_follower_lag_entries{follower="search"}`] == 0 })
	db := must.Get(sqlite.OpenConn(n.Data("search.db"), sqlite.OpenReadWrite))
	defer db.Close()
	must.Do(t, sqlitex.ExecuteTransient(db, "BEGIN IMMEDIATE", nil))
	n.Dial().Turn(map[string]any{"content": "What is 5 times 6?"}, nil)
	var text string
	n.Until("the search alone is stuck", func() bool { // other indexes read the log when it has been quiet for a while
		_, text = readyz(t, n.URL)
		return strings.Contains(text, `"followers":["search"]`)
	})
	var said struct {
		Code    string
		Reasons []struct {
			Code    string
			Details map[string]any
		}
	}
	must.Do(t, json.Unmarshal([]byte(text), &said))
	if said.Code != "follower_stuck" || len(said.Reasons) != 1 || strings.Contains(text, "/") {
		t.Errorf("/readyz says %s", text)
	}
	now := scrape(t, at+"/metrics")
	if now[`steward_follower_lag_entries{follower="search"}`] == 0 || now["steward_ready"] != 0 {
		t.Errorf("the metrics say that the index is %v behind, and Steward ready: %v", now[`steward_follower_lag_entries{follower="search"}`], now["steward_ready"])
	}
	must.Do(t, sqlitex.ExecuteTransient(db, "ROLLBACK", nil))
	n.Until("it is ready again", func() bool { status, _ := readyz(t, n.URL); return status == 200 })
}

// When nothing can be written beside the database any more, /readyz says so although nobody has tried since. The
// folder is taken away, because no mode of a folder binds root.
func TestReadyzWhenNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{})
	if status, text := readyz(t, n.URL); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	away := filepath.Join(n.Dir, "away")
	must.Do(t, os.Rename(n.Data(), away))
	n.Until("it is not ready", func() bool { status, _ := readyz(t, n.URL); return status == 503 })
	if _, text := readyz(t, n.URL); strings.Contains(text, n.Dir) || !strings.Contains(text, `"reasons"`) {
		t.Errorf("/readyz says %s", text)
	}
	must.Do(t, os.Rename(away, n.Data()))
	n.Until("it is ready again", func() bool { status, _ := readyz(t, n.URL); return status == 200 })
}
