//go:build long

package injection_test

import (
	"strings"
	"testing"
)

// TestOrdinaryErrands runs each errand under each policy and counts those that
// need no question.
func TestOrdinaryErrands(t *testing.T) {
	list := errands()
	reading := 0
	for i := range list {
		if list[i].reads() {
			reading++
		}
	}
	if len(list) < 50 || reading*2 <= len(list) {
		t.Fatalf("%d errands, of which %d read before they act", len(list), reading)
	}
	share := map[string]float64{}
	for _, how := range []struct {
		name, judge string
		planned     bool
	}{{"approve: actions", "actions", true}, {"approve: unfixed", "unfixed", true}, {"the template family", "family", true}, {"the template team", "team", true}, {"approve: unfixed, a model that never plans", "unfixed", false}, {"asking whenever tainted", "tainted", true}} {
		w := newWorld(t, judgeOf(t, how.judge))
		free := 0
		for i := range list {
			asked := list[i].run(t, w, how.planned)
			if len(asked) == 0 {
				free++
			} else {
				t.Logf("%s: %s asks about %s", how.name, list[i].name, strings.Join(asked, ", "))
			}
		}
		share[how.name] = 100 * float64(free) / float64(len(list))
		t.Logf("%s: %d of %d ordinary errands need no approval (%.0f %%); %d read something of others before they act or answer", how.name, free, len(list), share[how.name], reading)
		if t.Failed() {
			return
		}
	}
	if got := share["approve: unfixed"]; got < 77 {
		t.Errorf("only %.0f %% of the ordinary errands need no approval, 77 is the aim", got)
	}
	if share["asking whenever tainted"] >= share["approve: unfixed"] {
		t.Error("what was fixed is asked about as often as what was not")
	}
}
