package edge_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"steward/test/edge"
)

// A timer is told in its conversation and by a notification, without a call of the model, and
// once, however often Steward is killed.
func TestATimerIsToldOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var notified []string
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n struct{ Title, Text, User string }
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		notified = append(notified, n.Title+": "+n.Text+" "+n.User)
	}))
	t.Cleanup(hook.Close)
	asked := 0
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		mu.Lock()
		asked++
		mu.Unlock()
		if in.Rounds() == 0 {
			return edge.Reply{Calls: []edge.Call{{Name: "timer.set", Args: map[string]any{"seconds": 1, "name": in.User()}}}}
		}
		return edge.Reply{Text: "It is set."}
	})})
	n.Write("notify: {webhook: {url: \""+hook.URL+"\"}}\n", ".config", "steward", "steward.yaml")
	n.Serve()
	a := n.Ask("tea", nil)
	if statuses(a) != "timer.set ok" || len(a.Asked) > 0 {
		t.Fatalf("%+v", a)
	}
	told := func(conversation, text string) int {
		return strings.Count(n.Must("conversations", "show", conversation), text)
	}
	n.Until("the timer is told", func() bool { return told(a.Conversation, `The timer "tea" is over.`) > 0 })
	n.Until("the user is notified", func() bool { mu.Lock(); defer mu.Unlock(); return len(notified) > 0 })
	mu.Lock()
	if asked != 2 || strings.Join(notified, "|") != `Timer: The timer "tea" is over. local` {
		t.Errorf("the model was asked %d times; notified %q", asked, notified)
	}
	mu.Unlock()
	shown := n.Must("conversations", "show", a.Conversation)
	if !strings.Contains(shown, "## ⏰ Reminder, ") || strings.Count(shown, `The timer "tea" is over.`) != 1 || strings.Contains(shown, "steward/repeat") {
		t.Errorf("it is not shown as a reminder:\n%s", shown)
	}

	b := n.Ask("eggs", nil)
	n.Kill()
	for range 3 {
		n.Serve()
		n.Until("the timer is told", func() bool { return told(b.Conversation, `The timer "eggs" is over.`) > 0 })
		n.Kill()
	}
	n.Serve()
	again := n.Ask("flour", nil) // whatever would be told again has had its time
	n.Until("the timer is told", func() bool { return told(again.Conversation, `The timer "flour" is over.`) > 0 })
	if got := n.Must("conversations", "show", a.Conversation); got != shown {
		t.Errorf("it was told again:\n%s\nbefore:\n%s", got, shown)
	}
	var out struct{ Messages []json.RawMessage }
	n.Get("/api/v1/conversations/"+b.Conversation+"/messages", &out)
	if len(out.Messages) != 6 { // the wish, the call, its result, the answer; the alarm, and its telling
		t.Errorf("%d messages: %s", len(out.Messages), n.Must("conversations", "show", b.Conversation))
	}
}

// A timer that goes off while a question is open is told before the question is answered, and its
// turn follows with the same message.
func TestATimerIsToldWhileAQuestionIsOpen(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		switch in.Rounds() {
		case 0:
			return edge.Reply{Calls: []edge.Call{{Name: "timer.set", Args: map[string]any{"seconds": 1, "name": "tea"}}}}
		case 1:
			return edge.Reply{Calls: []edge.Call{{Name: "files.write", Args: map[string]any{"path": "a.txt", "content": "x"}}}}
		}
		return edge.Reply{Text: "It is set."}
	})})
	n.Serve()
	news := n.Dial()
	news.Send(map[string]any{"type": "reminders"})
	next := func(c *edge.Conn, typ string) map[string]any {
		for {
			if f := c.Read(); f.Type == typ {
				var all map[string]any
				if err := json.Unmarshal(f.Raw, &all); err != nil {
					t.Fatal(err)
				}
				return all
			}
		}
	}
	var told map[string]any
	c := n.Dial()
	a := c.Turn(map[string]any{"content": "set it, and write"}, func(edge.Approval) string {
		told = next(news, "reminder")
		return "deny"
	})
	if len(a.Asked) != 1 || told["text"] != `The timer "tea" is over.` || told["conversation_id"] != a.Conversation {
		t.Fatalf("%+v, told %v", a, told)
	}
	opened := next(c, "opened")
	if opened["message_id"] != told["message_id"] || opened["at"] != told["at"] || !strings.HasPrefix(opened["origin"].(string), "alarm:") {
		t.Errorf("opened %v, told %v", opened, told)
	}
}
