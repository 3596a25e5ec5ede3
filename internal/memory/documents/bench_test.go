package documents

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"steward/internal/extract"
	"steward/internal/record"
)

// BenchmarkSearch searches 1,000 documents of 20 passages.
func BenchmarkSearch(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func() string { return fmt.Sprintf("w%d", int(r.ExpFloat64()*800)) }
	w := newWorld(b)
	w.open(extract.Reader{})
	for i := range 1000 {
		var text strings.Builder
		for range 20 {
			for range 150 {
				text.WriteString(word() + " ")
			}
			text.WriteString("\n\n" + strings.Repeat("filler ", 60) + "\n\n")
		}
		if d := w.add("ann", fmt.Sprintf("/d/%d.md", i), text.String()); d.Status != record.DocumentReady {
			b.Fatal(d.Reason)
		}
	}
	w.cites("ann", "w1") // makes the index
	for b.Loop() {
		w.cites("ann", word()+" "+word()+" "+word()+" the of")
	}
}
