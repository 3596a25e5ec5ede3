package intent

import (
	"os"
	"strings"
	"testing"
)

// The diagram in the docs is the machine: each arrow is legal, and each legal
// step is an arrow.
func TestTheDiagramIsTheMachine(t *testing.T) {
	text, err := os.ReadFile("../../docs/guides/actions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, diagram, ok := strings.Cut(string(text), "```mermaid\n")
	diagram, _, closed := strings.Cut(diagram, "```")
	if !ok || !closed {
		t.Fatal("there is no diagram")
	}
	drawn := map[[2]State]bool{}
	final, first := map[State]bool{}, State("")
	for line := range strings.Lines(diagram) {
		from, to, ok := strings.Cut(strings.TrimSpace(line), " --> ")
		switch {
		case !ok:
		case from == "[*]":
			first = State(to)
		case to == "[*]":
			final[State(from)] = true
		default:
			drawn[[2]State{State(from), State(to)}] = true
		}
	}
	if first != Proposed {
		t.Errorf("it begins as %q", first)
	}
	for _, from := range States() {
		ends := true
		for _, to := range States() {
			legal := Advance(from, to) == nil
			ends = ends && !legal
			if drawn[[2]State{from, to}] != legal {
				t.Errorf("%s to %s: drawn %v, legal %v", from, to, drawn[[2]State{from, to}], legal)
			}
			delete(drawn, [2]State{from, to})
		}
		if final[from] != ends {
			t.Errorf("%s: drawn as the end %v, is %v", from, final[from], ends)
		}
		if !strings.Contains(string(text), "| `"+string(from)+"` |") {
			t.Errorf("%s is not explained", from)
		}
	}
	if len(drawn) > 0 {
		t.Errorf("drawn, and no states: %v", drawn)
	}
}
