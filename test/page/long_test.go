//go:build long

package page_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/server/page"
	"steward/test/homeassistant"
)

// TestChat is everything that the chat can do.
func TestChat(t *testing.T) { play(t, "chat") }

// TestManners shows keys, focus, approvals in detail, notifications, a lost connection and several tabs.
func TestManners(t *testing.T) { play(t, "manners") }

// TestFirstRun begins with an empty data folder and no model, and ends with an answer.
func TestFirstRun(t *testing.T) {
	play(t, "first", func(w *world) map[string]any {
		var base string
		w.Env = slices.DeleteFunc(w.Env, func(s string) bool {
			if b, ok := strings.CutPrefix(s, "OPENAI_BASE_URL="); ok {
				base = b
			}
			return strings.HasPrefix(s, "OPENAI_")
		})
		return map[string]any{"models": base}
	})
}

// TestApprovals is all that a person can decide about.
func TestApprovals(t *testing.T) { play(t, "approvals") }

// TestPlans follows plans and intervenes.
func TestPlans(t *testing.T) { play(t, "plans") }

// TestMemory is about facts, documents, the graph and the context window.
func TestMemory(t *testing.T) {
	play(t, "memory", func(w *world) map[string]any {
		w.settings += "memory: {rest: 1s}\n" // how long a conversation rests before it is read for facts
		return nil
	})
}

// TestJobs is about jobs and the heartbeat.
func TestJobs(t *testing.T) { play(t, "jobs") }

// TestGoals is about goals and projects.
func TestGoals(t *testing.T) { play(t, "goals") }

// TestSettings is about people, keys, sessions, policies, models and servers of tools.
func TestSettings(t *testing.T) { play(t, "settings", withServer) }

// TestActivity asks what happened and why.
func TestActivity(t *testing.T) { play(t, "activity") }

// TestHome switches devices.
func TestHome(t *testing.T) { play(t, "home", withHome) }

// TestLooks shows each screen with something on it, on a phone and a desk, light and dark, and in German.
func TestLooks(t *testing.T) {
	play(t, "looks", withServer, withHome, func(w *world) map[string]any {
		w.Write("---\nname: letters\ndescription: Writes letters in the manner of the house.\n---\n# Letters\n\nBegin with the date.\n", "letters", "SKILL.md")
		return map[string]any{"screens": page.Screens()}
	})
}

// TestPicturesForTheDocs makes the pictures that the README and the guide to the page show: with PAGE_PICTURES, in
// that folder.
func TestPicturesForTheDocs(t *testing.T) { play(t, "docs") }

// withHome connects a double of Home Assistant.
func withHome(w *world) map[string]any {
	house := homeassistant.Start(w.T, []homeassistant.Area{{ID: "hall", Name: "Hall"}, {ID: "kitchen", Name: "Kitchen"}},
		homeassistant.Entity{ID: "light.hall", Name: "Hall light", Area: "hall", State: "off", Attributes: map[string]any{"brightness": nil, "supported_color_modes": []string{"brightness"}}},
		homeassistant.Entity{ID: "lock.front", Name: "Front door", Area: "hall", State: "locked"},
		homeassistant.Entity{ID: "switch.kettle", Name: "Kettle", Area: "kitchen", State: "on"},
		homeassistant.Entity{ID: "sensor.temperature", Name: "Temperature", Area: "kitchen", State: "21.5", Attributes: map[string]any{"unit_of_measurement": "°C", "device_class": "temperature"}})
	w.settings += fmt.Sprintf("home: {url: %q, token: %q}\n", house.URL, homeassistant.Token)
	control := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		house.Set(r.URL.Query().Get("id"), r.URL.Query().Get("state")) // as a switch on the wall does
	}))
	w.T.Cleanup(control.Close)
	return map[string]any{"house": control.URL}
}

// withServer starts a server of tools.
func withServer(w *world) map[string]any {
	s := sdk.NewServer(&sdk.Implementation{Name: "office", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"room":{"type":"string"}},"required":["room"]}`)
	s.AddTool(&sdk.Tool{Name: "book", Description: "Books a room.", InputSchema: schema}, nil)
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	w.T.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	return map[string]any{"office": h.URL}
}

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
