package websocket_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"steward/internal/server/websocket"
)

// The examples of docs/reference/websocket.md are run unchanged: each block on its own
// connection, all of them with one node.
func TestDocumentedExamples(t *testing.T) {
	d := newDouble(documented)
	d.changes = documentedChanges(t)
	_, url := serve(t, websocket.Options{Node: d, Events: documentedEvents(t)})
	blocks := strings.Split(documentation(t), "```text\n")[1:]
	types := map[string]bool{}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if strings.Contains(block, `"agents_waiting"`) {
			continue // see TestDocumentedAgents
		}
		c := dial(t, url, "")
		var early []frame // frames that arrived before the ok that the document shows first
		for line := range strings.Lines(block) {
			line = strings.TrimSuffix(line, "\n")
			dir, body, ok := strings.Cut(line, " ")
			switch {
			case ok && dir == ">":
				c.send(body)
			case ok && dir == "<":
				var want frame
				if err := json.Unmarshal([]byte(body), &want); err != nil {
					t.Fatalf("%s: %v", body, err)
				}
				types[want["type"].(string)] = true
				read := func() frame {
					if len(early) > 0 && want["type"] != "ok" {
						f := early[0]
						early = early[1:]
						return f
					}
					f, err := c.read()
					if err != nil {
						t.Fatalf("waiting for %s: %v", body, err)
					}
					return f
				}
				got := read()
				for want["type"] == "ok" && got["type"] != "ok" {
					early = append(early, got)
					got = read()
				}
				// Pieces of a text may be joined or separate.
				for want["type"] == "token" && got["type"] == "token" && got["text"] != want["text"] {
					more := read()
					if more["type"] != "token" {
						break
					}
					got["text"], got["cursor"] = got["text"].(string)+more["text"].(string), more["cursor"]
				}
				if !reflect.DeepEqual(got, want) {
					b, _ := json.Marshal(got)
					t.Fatalf("documented %s\ngot        %s", body, b)
				}
			default:
				t.Fatalf("neither > nor <: %s", line)
			}
		}
		c.CloseNow()
	}
	for _, typ := range []string{"accepted", "token", "reasoning", "tool_call", "tool_result", "complete", "error", "reset", "notice", "pong", "ok", "user", "changes", "task", "plan_task", "opened", "reminder", "requests", "events"} {
		if !types[typ] {
			t.Errorf("no example of %s", typ)
		}
	}
}

func documentation(t *testing.T) string {
	text, err := os.ReadFile("../../../docs/reference/websocket.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
