package cluster

import (
	"context"
	"fmt"
	"io"
	"testing"

	"steward/internal/resource"
	"steward/internal/store"
)

func BenchmarkReachCold(b *testing.B) {
	w := newWorld(b)
	c, _ := w.node("a", func(o *Options) { o.Most = 1 << 20 })
	for i := range b.N {
		w.reach(c, of(fmt.Sprint("user", i)))
	}
}

func BenchmarkReachHere(b *testing.B) {
	w := newWorld(b)
	c, _ := w.node("a")
	w.reach(c, ada)
	b.ReportAllocs()
	for b.Loop() {
		w.reach(c, ada)
	}
}

func BenchmarkCommit(b *testing.B) {
	w := newWorld(b)
	c, _ := w.node("a")
	w.reach(c, ada)
	for name, st := range map[string]store.Store{"plain": w.st, "fenced": c.Store()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				_, err := st.Commit(context.Background(), store.ForUser("ada"), store.Batch{Changes: []store.Change{{URI: resource.Root("test.Thing", fmt.Sprint(name, b.N, i)), Body: []byte("{}")}}})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTunnel(b *testing.B) {
	w := newWorld(b)
	a, _, l := w.pair()
	near, far := w.connect(a, l)
	go func() { _, _ = io.Copy(io.Discard, far) }()
	text := make([]byte, 64<<10)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := near.Write(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTunnelRoundTrip(b *testing.B) {
	w := newWorld(b)
	a, _, l := w.pair()
	near, far := w.connect(a, l)
	go func() { _, _ = io.Copy(far, far) }()
	text := make([]byte, 100)
	for b.Loop() {
		if _, err := near.Write(text); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(near, text); err != nil {
			b.Fatal(err)
		}
	}
}
