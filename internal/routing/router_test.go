package routing

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
		best := r.Rank(text)[0]
		if best.Agent != want || best.P <= 0 || best.P > 1 {
			t.Errorf("%q: %+v, want %q", text, best, want)
		}
		if again := New(agents).Rank(text)[0]; again != best {
			t.Errorf("%q: %+v, then %+v", text, best, again)
		}
	}
	if best := New(nil).Rank("Will it rain?")[0]; best != (Ranked{"", 1}) {
		t.Errorf("without agents: %+v", best)
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
	if best := one.Rank("Tell me a funny joke")[0]; best.Agent != "fun" {
		t.Errorf("%+v", best)
	}
}
