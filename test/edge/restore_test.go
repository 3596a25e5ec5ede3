package edge_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"steward/test/edge"
)

// imported imports a file with the credential in auth and reports whether its
// messages are untrusted. It fails the test if only some of them are.
func imported(n *edge.Node, text string, auth ...string) (foreign bool) {
	n.T.Helper()
	status, b := n.HTTP("POST", "/api/v1/import", []byte(text), append(auth, "Content-Type", "application/octet-stream")...)
	var rep struct{ Imported []struct{ ID string } }
	if err := json.Unmarshal(b, &rep); err != nil || len(rep.Imported) != 1 {
		n.T.Fatalf("%d %s %v", status, b, err)
	}
	status, b = n.HTTP("GET", "/api/v1/conversations/"+rep.Imported[0].ID+"/messages", nil, auth...)
	var page struct{ Messages []json.RawMessage }
	if err := json.Unmarshal(b, &page); status != 200 || err != nil || len(page.Messages) < 3 {
		n.T.Fatalf("%d %s %v", status, b, err)
	}
	marked := 0
	for _, m := range page.Messages {
		if strings.Contains(string(m), `"untrusted"`) {
			marked++
		}
	}
	if marked != 0 && marked != len(page.Messages) {
		n.T.Fatalf("%d of %d messages are untrusted", marked, len(page.Messages))
	}
	return marked > 0
}

func TestARestoredConversationHasItsRights(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{Model: talker(t)})
	c := n.Dial()
	conv := c.Turn(map[string]any{"content": "the first"}, nil).Conversation
	for _, text := range []string{"the second", "the third"} {
		c.Turn(map[string]any{"content": text, "conversation_id": conv}, nil)
	}
	text := n.Must("conversations", "export", conv)
	if st, err := os.Stat(n.Data("export.key")); err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", st, err)
	}
	n.Must("conversations", "delete", "--yes", "--erase", conv)
	if imported(n, text) {
		t.Error("what this Steward exported for the same user came back as foreign")
	}
	if !imported(n, text, "Authorization", "Bearer "+n.Key("ada")) {
		t.Error("another user's import came back as her own")
	}
	lines := strings.SplitAfter(text, "\n")
	at := len(lines) - 5 // the second-to-last message
	edits := map[string]string{
		"a word":         strings.Replace(text, "the second", "the sekond", 1),
		"the last word":  strings.Replace(text, "You said the third", "You said the thirt", 1),
		"its title":      strings.Replace(text, `"title":"the first"`, `"title":"the fisrt"`, 1),
		"a line removed": strings.Join(append(append([]string{}, lines[:at]...), lines[at+1:]...), ""),
		"a line moved":   strings.Join(append(append(append([]string{}, lines[:at-1]...), lines[at], lines[at-1]), lines[at+1:]...), ""),
		"the end cut":    strings.Join(append(append([]string{}, lines[:at]...), strings.Replace(lines[at], "},\n", "}\n", 1), strings.Join(lines[at+2:], "")), ""),
		"no signature":   text[:strings.LastIndex(text, `,`)] + "}",
	}
	for name, edited := range edits {
		if edited == text {
			t.Errorf("%s: nothing was edited", name)
		} else if !imported(n, edited) {
			t.Errorf("%s: what was edited came back as the user's own", name)
		}
	}
}
