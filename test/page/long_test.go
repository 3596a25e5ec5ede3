//go:build long

package page_test

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestChat is everything that the chat can do.
func TestChat(t *testing.T) { play(t, "chat") }

// TestManners shows keys, focus, approvals in detail, notifications, a lost connection and several tabs.
func TestManners(t *testing.T) { play(t, "manners") }

// TestLooks shows the chat on a phone and a desk, light and dark.
func TestLooks(t *testing.T) { play(t, "looks") }

// TestSafe shows a hostile answer, two people, and actions that are denied.
func TestSafe(t *testing.T) { play(t, "safe") }

// TestLongConversation opens a conversation with thousands of messages.
func TestLongConversation(t *testing.T) {
	play(t, "scroll", func(w *world) map[string]any {
		const turns = 5000
		w.Write(chatGPTExport(t, turns), "long.json")
		w.Must("import", "long.json")
		return map[string]any{"turns": turns}
	})
}

// chatGPTExport is a conversation as ChatGPT exports it.
func chatGPTExport(t *testing.T, turns int) string {
	type object = map[string]any
	nodes := object{"root": object{"id": "root", "children": []string{"u0"}}}
	add := func(id, parent, child, role, text string, at int) {
		n := object{"id": id, "parent": parent, "children": []string{}, "message": object{"id": id, "author": object{"role": role}, "create_time": 1700000000 + at*60,
			"content": object{"content_type": "text", "parts": []string{text}}}}
		if child != "" {
			n["children"] = []string{child}
		}
		nodes[id] = n
	}
	parent := "root"
	for i := range turns {
		u, a, next := fmt.Sprintf("u%d", i), fmt.Sprintf("a%d", i), fmt.Sprintf("u%d", i+1)
		if i == turns-1 {
			next = ""
		}
		add(u, parent, a, "user", fmt.Sprintf("Question %d", i), 2*i)
		add(a, u, next, "assistant", fmt.Sprintf("Answer %d with **some** words\n\n- one\n- two", i), 2*i+1)
		parent = a
	}
	b, err := json.Marshal([]object{{"title": "A long conversation", "create_time": 1700000000, "update_time": 1700600000, "mapping": nodes, "current_node": parent}})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
