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
	for text, want := range map[string]string{"Will it rain in Graz?": "weather", "Is drizzle expected?": "weather", "Send a mail to Bob": "mail", "Tell me a joke": "", "Who was Cleopatra?": "", "": ""} {
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

// An agent with two of the built-in sentences is for their kind.
func TestAgentTakesTheKind(t *testing.T) {
	t.Parallel()
	about := Agent{Name: "fun", Description: "jokes and games", Examples: []string{"Tell me a joke", "Give me a compliment"}}
	weather := Agent{Name: "weather", Description: "tells the weather", Examples: []string{"Will it rain tomorrow?", "How cold is it in Graz?"}}
	one := New([]Agent{about, weather})
	about.Examples = about.Examples[:1]
	two := New([]Agent{about, weather})
	if one.kinds != two.kinds-1 {
		t.Errorf("%d kinds, and %d", one.kinds, two.kinds)
	}
	if agent, p := one.Decide("Tell me a funny joke"); agent != "fun" {
		t.Errorf("%q with %v", agent, p)
	}
}
