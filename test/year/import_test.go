package year

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/client"
)

// export returns the year as an export of ChatGPT (conversations.json), as if the person had lived it there. The
// pages are results of a tool.
func (l *life) export(t testing.TB) string {
	var chats []any
	for n, c := range l.talks {
		type node struct {
			ID       string   `json:"id"`
			Parent   *string  `json:"parent"`
			Children []string `json:"children"`
			Message  any      `json:"message"`
		}
		nodes, last, at := map[string]*node{}, "", c.at
		add := func(role, text string) {
			name := fmt.Sprintf("n-%d-%d", n, len(nodes))
			x := &node{ID: name, Children: []string{}, Message: map[string]any{"id": name, "author": map[string]any{"role": role, "name": nil}, "create_time": at.Unix(),
				"content": map[string]any{"content_type": "text", "parts": []string{text}}, "recipient": "all"}}
			if last != "" {
				parent := last
				x.Parent = &parent
				nodes[last].Children = append(nodes[last].Children, name)
			}
			nodes[name], last, at = x, name, at.Add(5*time.Second)
		}
		for _, text := range c.says {
			add("user", text)
			if page := pageAsked.FindStringSubmatch(text); page != nil {
				add("tool", poisons[page[2][0]-'0'].text)
			}
			add("assistant", "All right.")
		}
		chats = append(chats, map[string]any{"title": fmt.Sprintf("Talk %d", n), "create_time": c.at.Unix(), "update_time": at.Unix(), "mapping": nodes, "current_node": last,
			"conversation_id": fmt.Sprintf("talk-%d", n)})
	}
	b, err := json.Marshal(chats)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// imported measures a life that arrives by one import at its end.
func imported(t *testing.T, seed uint64, conversations, about int) (all result) {
	synctest.Test(t, func(t *testing.T) {
		l := live(t, seed, conversations, about)
		w := newWorld(t, l, true)
		w.until(l.talks[len(l.talks)-1].at.Add(time.Hour))
		w.open()
		var report struct {
			Imported []struct{ ID, Title string }
			Refused  []any
		}
		w.check(w.local.Own.Call(t.Context(), "POST /import", client.Params{"name": "conversations.json", "mine": "true"}, strings.NewReader(l.export(t)), &report))
		if len(report.Imported) != len(l.talks) || len(report.Refused) > 0 {
			t.Fatalf("%d imported, %d refused", len(report.Imported), len(report.Refused))
		}
		time.Sleep(time.Duration(conversations/500+1)*24*time.Hour + time.Hour)
		synctest.Wait()
		w.check(w.local.Own.ForgetFact(t.Context(), "locker code", false))
		for _, c := range report.Imported {
			if c.Title == fmt.Sprintf("Talk %d", len(l.talks)/3) {
				w.check(w.local.Own.DeleteConversation(t.Context(), c.ID, true))
			}
		}
		all = w.measure(l, fmt.Sprintf("seed %d, imported", seed))
	})
	return all
}

func TestAnImportedMonth(t *testing.T) {
	if got := imported(t, 1, 40, 5); got[right]+got[dated] < 7 || got[outdated]+got[poisoned]+got[forgotten] > 0 {
		t.Errorf("%s", got)
	}
}
