package edge_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // SQL driver

	"steward/internal/resource"
	"steward/internal/store"
	"steward/test/edge"
)

// longChat imports a conversation with the given number of messages through the
// API and returns its path.
func longChat(t *testing.T, n *edge.Node, messages int) string {
	t.Helper()
	var b strings.Builder
	for i := 0; i < messages; i += 4 {
		fmt.Fprintf(&b, `,{"role":"user","content":"question %d"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function","function":{"name":"math__multiply","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c%d","content":"result %d"},{"role":"assistant","content":"answer %d"}`, i, i, i, i, i)
	}
	status, answer := n.HTTP("POST", "/api/v1/import", json.RawMessage("["+b.String()[1:]+"]"))
	var got struct{ Imported []struct{ ID string } }
	if err := json.Unmarshal(answer, &got); err != nil || status != http.StatusOK || len(got.Imported) != 1 {
		t.Fatalf("%d %s", status, answer)
	}
	return "/api/v1/conversations/" + got.Imported[0].ID
}

// newestOf returns the ids of the newest messages, newest first.
func newestOf(n *edge.Node, conv string) (ids []string) {
	var list struct{ Messages []struct{ ID string } }
	n.Get(conv+"/messages?reverse=true&limit=20", &list)
	for _, m := range list.Messages {
		ids = append(ids, m.ID)
	}
	return ids
}

// entries returns the length of the node's log.
func entries(t *testing.T, n *edge.Node) int {
	t.Helper()
	page, err := n.ReadStore().Log(t.Context(), store.ForNode(resource.System), store.LogQuery{Reverse: true, Limit: 1})
	if err != nil || len(page.Entries) == 0 {
		t.Fatal(page, err)
	}
	return int(page.Entries[0].Seq)
}

// A change to the view of a long conversation, or to one of its messages,
// writes a few log entries, not one for each message.
func TestALongConversationIsChangedByFewEntries(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{})
	const messages = 4000
	conv := longChat(t, n, messages)
	newest := newestOf(n, conv)
	for _, c := range []struct {
		path string
		in   map[string]any
		most int
		want string
	}{
		{"/tidy", map[string]any{"how": "optimize", "tools": []string{"time.*"}}, 1, fmt.Sprintf(`{"changed":%d}`, messages/4)},
		{"/tidy", map[string]any{"how": "restore"}, 1, fmt.Sprintf(`{"changed":%d}`, messages/4)},
		{"/messages/mark", map[string]any{"messages": newest[4:5], "state": "archived"}, 2, ""},
		{"/messages/insert", map[string]any{"after": newest[4], "text": "between"}, 3, `"message_id"`},
		{"/messages/remove", map[string]any{"messages": newest[8:9]}, 2, `"parent"`},
		{"/tidy", map[string]any{"how": "compact"}, 2, `{"changed":2`},
	} {
		before := entries(t, n)
		status, answer := n.HTTP("POST", conv+c.path, c.in)
		if status >= 300 || !strings.Contains(string(answer), c.want) {
			t.Errorf("%v: %d %s", c.in, status, answer)
		}
		if wrote := entries(t, n) - before; wrote < 1 || wrote > c.most {
			t.Errorf("%v wrote %d entries", c.in, wrote)
		}
	}
	var list struct {
		Branches []struct {
			ID            string
			Messages, Own int
		}
	}
	n.Get(conv+"/branches", &list)
	if len(list.Branches) != 3 || list.Branches[0].Messages != messages || list.Branches[1].Messages != messages+1 || list.Branches[1].Own != 1 || list.Branches[2].Messages != messages {
		t.Errorf("%+v", list.Branches)
	}
}

// The first search after an import answers before everything is indexed, and
// says so. A little later it is complete.
func TestTheFirstSearchAfterAnImportDoesNotWait(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{})
	longChat(t, n, 8000)
	type answer struct {
		Hits   []struct{ Text string }
		Behind int
	}
	var page answer
	n.Get("/api/v1/search?q=question", &page)
	if page.Behind == 0 {
		t.Error("the first search has read all")
	}
	n.Until("the index is complete", func() bool {
		page = answer{}
		n.Get("/api/v1/search?q=%22question+7996%22", &page)
		return page.Behind == 0
	})
	if len(page.Hits) != 1 {
		t.Errorf("%d hits", len(page.Hits))
	}
}

// No message disappears because its successor is hidden, too.
func TestAHiddenMessageCannotSupersedeAnother(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{})
	conv := longChat(t, n, 8)
	newest := newestOf(n, conv)
	a, b, c := newest[0], newest[3], newest[4] // an answer, a question and the answer before it
	mark := func(state, by string, msgs ...string) string {
		in := map[string]any{"messages": msgs, "state": state}
		if by != "" {
			in["by"] = by
		}
		status, answer := n.HTTP("POST", conv+"/messages/mark", in)
		var e struct{ Error struct{ Code string } }
		if status >= 300 && json.Unmarshal(answer, &e) != nil {
			t.Errorf("%d %s", status, answer)
		}
		return e.Error.Code
	}
	for _, s := range []struct{ state, by, of, want string }{
		{"superseded", a, a, "supersedes_itself"},
		{"superseded", a, b, ""},
		{"superseded", b, a, "supersedes_itself"}, // a cycle
		{"deleted", "", c, ""},
		{"superseded", c, a, "superseded_by_hidden"},
	} {
		if code := mark(s.state, s.by, s.of); code != s.want {
			t.Errorf("%+v: %q", s, code)
		}
	}
}
