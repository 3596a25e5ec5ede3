package runtime_test

import (
	"iter"
	"testing"

	"steward/internal/runtime"
)

// BenchmarkTurn is a turn with one tool call, its model a function call away:
// what Steward itself costs, its store included.
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
