package offline_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/offline"
	"steward/internal/tool"
)

// object returns the schema of an object with members of text; * is required.
func object(names ...string) []byte {
	args, required := map[string]any{}, []string{}
	for _, name := range names {
		name, needed := strings.CutSuffix(name, "*")
		if args[name] = map[string]string{"type": "string"}; needed {
			required = append(required, name)
		}
	}
	out, err := json.Marshal(map[string]any{"type": "object", "properties": args, "required": required})
	if err != nil {
		panic(err)
	}
	return out
}

// planOf returns what the planner calls plan.start with on a day, or what it says instead.
func planOf(t *testing.T, day time.Time, text string) string {
	t.Helper()
	p := offline.New(offline.Options{Now: func() time.Time { return day }})
	r := ask(t, p.Model(""), &llm.Request{Transcript: llm.NewTranscript(user(text)), Tools: llm.NewToolset(tool.Spec{Name: "plan.start", Input: []byte(`{"type":"object"}`)}),
		Plannable: llm.NewToolset(
			tool.Spec{Name: "calendar.add", Effect: tool.Action, Input: object("title*", "start*", "all_day"), Description: "Adds an event to the calendar: puts in or schedules a meeting."},
			tool.Spec{Name: "weather.forecast", Input: object("place", "days"), Description: "Tells the weather in a place now and on the coming days."},
			tool.Spec{Name: "web.search", Input: object("query*"), Description: "Searches the web. Returns titles, addresses and excerpts."},
			tool.Spec{Name: "todo.add", Effect: tool.Action, Input: object("title*"), Sentences: []string{"put {title:text} on my list"}}),
	})
	said := (&message.Message{Blocks: r.Blocks}).Text()
	for _, b := range r.Blocks {
		if c, ok := b.(*message.ToolCall); ok {
			said += string(c.Args)
		}
	}
	return said
}

// TestListsArePlanned: "it" is what the list is about, on its day, and comes after the other steps. A weekend is
// the Saturday that comes next, whichever day it is. What is somebody's own is not searched for on the web.
func TestListsArePlanned(t *testing.T) {
	monday := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for ahead := range 7 {
		want := "2026-11-28"
		if ahead >= 5 {
			want = "2026-12-05"
		}
		got := planOf(t, monday.AddDate(0, 0, ahead), "Please plan a weekend trip: check the weather, find a hut, and then add it to the calendar.")
		if !strings.Contains(got, want) {
			t.Errorf("%d days later: %s", ahead, got)
		}
	}
	got := planOf(t, monday, "Plan a trip to Graz on Friday: check the weather in Graz, find a hut, add it to the calendar")
	for _, part := range []string{`check the weather in Graz`, `hut trip to Graz on Friday`, `on 2026-11-27 to the calendar`, `after`} {
		if !strings.Contains(got, part) {
			t.Errorf("lacks %q: %s", part, got)
		}
	}
	if got := planOf(t, monday, "Check the weather in Graz, then put milk on my list"); !strings.Contains(got, `"selected_tools":["weather.forecast","todo.add"]`) {
		t.Errorf("a step that has the form of a tool's sentence: %s", got)
	}
	for _, text := range []string{"Plan a trip: find my keys, check the weather", "Find it and check the weather", "Plan a trip: ,,; and"} {
		if got := planOf(t, monday, text); strings.Contains(got, "selected_tools") {
			t.Errorf("%q is planned: %s", text, got)
		}
	}
}
