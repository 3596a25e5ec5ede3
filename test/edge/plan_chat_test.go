package edge

import (
	"strings"
	"testing"
)

// TestAPlanIsAskedAboutInTheChat: /plan shows the plan as a person reads it and asks about it. The keys that
// answer are those of every question.
func TestAPlanIsAskedAboutInTheChat(t *testing.T) {
	t.Parallel()
	n := New(t, Options{Model: Script(t, func(in Asked) Reply {
		return Reply{Calls: []Call{{Name: "plan.start", Args: map[string]any{"analysis": "one thing", "plan": "look at the clock", "confidence": 1, "selected_tools": []string{"time.now"}}}}}
	})})
	out, code := n.Dialog([]step{{"/help", "/plan What time is it\r"}, {"Allow plan.start? y/n", "\x04"}}, "chat")
	if code != 0 || !strings.Contains(out, "steps: look at the clock") || !strings.Contains(out, "tools: time.now") {
		t.Errorf("%d: %s", code, out)
	}
}
