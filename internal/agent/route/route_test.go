package route

import (
	"testing"
)

func TestRouter(t *testing.T) {
	t.Parallel()
	agents := []Agent{
		{Name: "weather", Description: "Tells the weather.", Capabilities: []string{"forecast"}, Examples: []string{"Will it rain tomorrow?", "How cold is it in Graz?"}},
		{Name: "mail", Description: "Reads and sends mail.", Examples: []string{"Send a mail to Ana", "Any new mail?"}},
	}
	r := New(agents)
	for text, want := range map[string]string{"Will it rain in Graz?": "weather", "Send a mail to Bob": "mail", "Tell me a joke": "", "Who was Cleopatra?": "", "": ""} {
		agent, p := r.Decide(text)
		if agent != want || p <= 0 || p > 1 {
			t.Errorf("%q: %q with %.3f, want %q", text, agent, p, want)
		}
		again, q := New(agents).Decide(text)
		if again != agent || q != p {
			t.Errorf("%q: %q with %v, then %q with %v", text, agent, p, again, q)
		}
	}
	if agent, p := New(nil).Decide("Will it rain?"); agent != "" || p != 1 {
		t.Errorf("without agents: %q with %v", agent, p)
	}
}
