package page_test

import (
	"strings"
	"testing"
)

// In a cluster, the page says whose settings it shows. Elsewhere there is nothing to say.
func TestTheSettingsOfANodeSayWhichNodeItIs(t *testing.T) {
	const note = "This is the node kitchen-1"
	for name, want := range map[string]bool{"kitchen-1": true, "": false} {
		h := newHouseOf(t, furnishing{model: scripted{}, cluster: name})
		if text := h.get("ana+admin", "/settings/policy", 200); strings.Contains(text, note) != want {
			t.Errorf("node %q: %s", name, text)
		}
		if text := h.get("ana+admin", "/settings/people", 200); strings.Contains(text, note) {
			t.Errorf("people belong to all nodes: %s", text)
		}
	}
}
