package runtime_test

import (
	"iter"
	"testing"

	"steward/internal/runtime"
)

// BenchmarkTurn measures a turn with one tool call and a model that answers at
// once: the cost of Steward itself, including its store.
func BenchmarkTurn(b *testing.B) {
	w := newWorld(b)
	acc, err := w.Send(b.Context(), "anna", runtime.Turn{Content: text("say begin")})
	if err != nil {
		b.Fatal(err)
	}
	next, stop := iter.Pull2(w.Watch(b.Context(), "anna", acc.Conversation, runtime.Cursor{Seq: acc.Seq}))
	defer stop()
	answered := func() {
		for {
			f, err, ok := next()
			if err != nil || !ok {
				b.Fatal(err, ok)
			}
			if f.Kind == runtime.FrameComplete {
				return
			}
		}
	}
	answered()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Send(b.Context(), "anna", runtime.Turn{Conversation: acc.Conversation,
			Content: text(`call math.multiply {"a":6,"b":7}`)}); err != nil {
			b.Fatal(err)
		}
		answered()
	}
}
