package memory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/test/storetest"
)

// A page is edited as text: a changed line changes a fact, a removed line erases one, a new line adds one.
func TestProfile(t *testing.T) {
	w := newWorld(t)
	w.save("I live in Graz")
	w.save("My bike is green")
	w.saveAs("The garage code is 4711", message.Untrusted)
	p, err := w.Profile(t.Context(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	same, err := w.SetProfile(t.Context(), "ann", p, w.by(0))
	if err != nil || same.Changes != 0 || same.Text != p.Text {
		t.Fatalf("%+v %v", same, err)
	}
	var lines []string
	for line := range strings.Lines(p.Text) {
		if !strings.Contains(line, "bike") {
			lines = append(lines, strings.Replace(line, "Graz", "Linz", 1))
		}
		if strings.HasPrefix(line, "# Preferences") {
			lines = append(lines, "- I like tea\n")
		}
	}
	edited := client.MemoryProfile{Text: strings.Join(lines, ""), Version: p.Version}
	after, err := w.SetProfile(t.Context(), "ann", edited, w.by(0))
	if err != nil || after.Changes != 3 {
		t.Fatalf("%+v %v", after, err)
	}
	got := w.texts(true)
	slices.Sort(got)
	if want := []string{"I like tea", "I live in Linz", "The garage code is 4711"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if _, err := w.SetProfile(t.Context(), "ann", edited, w.by(0)); !fault.HasCode(err, "profile_changed") {
		t.Error(err)
	}
	moved := strings.Replace(after.Text, "The garage code", "My garage code", 1)
	if _, err := w.SetProfile(t.Context(), "ann", client.MemoryProfile{Text: moved}, w.by(0)); !fault.HasCode(err, "profile_invalid") {
		t.Errorf("a quotation was edited: %v", err)
	}
}

func BenchmarkRecall(b *testing.B) {
	e := New(Options{Store: storetest.NewModel()})
	for i := range 1000 {
		text := fmt.Sprintf("Person%d likes dish%d and street%d", i, i%37, i%91)
		if _, _, err := e.place(b.Context(), "ann", nil, client.FactInput{Text: &text}, record.FactAuthor{Call: id.Derive("b", text)}); err != nil {
			b.Fatal(err)
		}
		_, changes, _ := e.place(b.Context(), "ann", nil, client.FactInput{Text: &text}, record.FactAuthor{Call: id.Derive("b", text)})
		if err := e.commit(b.Context(), "ann", changes); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := e.Recall(b.Context(), "ann", "what does person7 like to eat in the street", func(id.ID, int) bool { return false }, RecallTokens); err != nil {
			b.Fatal(err)
		}
	}
}
