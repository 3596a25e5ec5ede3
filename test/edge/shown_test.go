package edge_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"steward/test/edge"
)

// sent is a request as the bytes of its tools and messages.
type sent struct{ Tools, Messages []json.RawMessage }

func (s sent) names() (out []string) {
	for _, raw := range s.Tools {
		var x struct{ Function struct{ Name string } }
		if json.Unmarshal(raw, &x) == nil {
			out = append(out, x.Function.Name)
		}
	}
	return out
}

func same(a, b []json.RawMessage) bool {
	return slices.EqualFunc(a, b, func(a, b json.RawMessage) bool { return string(a) == string(b) })
}

// TestPromptsKeepTheirPrefix: in a conversation about many things, each request begins with the bytes of the one before,
// the tools too: a core that does not depend on what is said, and behind it what was found.
func TestPromptsKeepTheirPrefix(t *testing.T) {
	t.Parallel()
	var all []sent
	n := edge.New(t, edge.Options{Settings: "routing: off\n", Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		var s sent
		if err := json.Unmarshal(in.Body, &s); err != nil {
			t.Error(err)
		}
		all = append(all, s)
		switch u := in.User(); {
		case strings.Contains(u, "Delete") && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "tools.find", Args: object{"query": "delete a file"}}}}
		case strings.Contains(u, "timer") && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "timer.cancel", Args: object{"name": "tea"}}}}
		}
		return edge.Reply{Text: "ok"}
	})})
	n.Serve()
	c := n.Dial()
	defer c.Close()
	conv := ""
	for _, text := range []string{"hello there", "What's the weather in Graz?", "Remind me to call Mum at six", "Read notes.txt", "Delete notes.txt", "Who won in 1998?",
		"What's on my calendar?", "Move the dentist to Friday", "Cancel the timer", "Write me a poem", "How much is 17 * 23?", "Search the web for huts",
		"What is the time in Tokyo?", "Add milk to the list", "What did we talk about?", "Run ls", "Hash this file", "Convert nine o'clock to UTC", "Thanks", "Bye"} {
		m := object{"content": text}
		if conv != "" {
			m["conversation_id"] = conv
		}
		conv = c.Turn(m, nil).Conversation
	}
	if len(all) != 22 {
		t.Fatalf("%d requests", len(all))
	}
	first := all[0].names()
	for _, want := range []string{"files__read", "files__write", "files__edit", "files__search", "files__list", "web__search", "web__fetch", "reminder__set", "reminder__list",
		"timer__set", "todo__add", "todo__list", "todo__complete", "calendar__list", "calendar__add", "weather__forecast", "math__evaluate", "time__now", "shell__run", "tools__find"} {
		if !slices.Contains(first, want) {
			t.Errorf("%s is not shown: %q", want, first)
		}
	}
	for _, junk := range []string{"browser__click", "files__delete", "reminder__cancel", "math__divide"} {
		if slices.Contains(first, junk) {
			t.Errorf("%s is shown for a greeting", junk)
		}
	}
	for i, s := range all[1:] {
		before := all[i]
		if len(s.Tools) < len(before.Tools) || !same(s.Tools[:len(before.Tools)], before.Tools) {
			t.Errorf("request %d shows %q after %q", i+1, s.names(), before.names())
		}
		if len(s.Messages) < len(before.Messages) || !same(s.Messages[:len(before.Messages)], before.Messages) {
			t.Errorf("request %d does not begin with the messages of the one before", i+1)
		}
	}
	if last := all[21].names(); !slices.Contains(last, "files__delete") || !slices.Contains(last, "timer__cancel") {
		t.Errorf("what was found and called is not shown: %q", last)
	}
	// What was found stays, also after a restart.
	n.Stop()
	n.Serve()
	d := n.Dial()
	defer d.Close()
	d.Turn(object{"content": "And now?", "conversation_id": conv}, nil)
	if !same(all[22].Tools, all[21].Tools) || !same(all[22].Messages[:len(all[21].Messages)], all[21].Messages) {
		t.Errorf("after a restart: %q, want %q", all[22].names(), all[21].names())
	}
}
