package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"steward/internal/fault"
)

// Each node lists what any node holds, what waits for a node with certain labels, and nothing that is over.
func TestEveryNodeListsThePieces(t *testing.T) {
	w := newWorld(t)
	bob, carol, home := of("bob"), of("carol"), Piece{Duty: Home}
	needs := func(o *Options) {
		o.Needs = func(p Piece) []string {
			if p == carol || p == home {
				return []string{"gpu", "at-home"}
			}
			return nil
		}
	}
	a, wa := w.node("a", needs)
	b, _ := w.node("b", needs, func(o *Options) { o.Labels = []string{"at-home"} })
	if a.Name() != "a" || b.Name() != "b" || len(a.Pieces()) != 0 {
		t.Errorf("%s, %s, %v", a.Name(), b.Name(), a.Pieces())
	}
	for _, p := range []Piece{home, carol} { // no node has all that they need
		if err := b.Want(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	holds := map[Piece]string{}
	for _, p := range []Piece{bob, ada} {
		holds[p], _ = w.reach(a, p)
	}
	for _, c := range []*Cluster{a, b} {
		var want []string
		for _, p := range []Piece{home, ada, bob, carol} {
			want = append(want, fmt.Sprintf("%s at %q needs %v", p, holds[p], c.needs(p)))
		}
		w.until(c.Name()+" lists what is so", func() bool {
			var got []string
			for _, h := range c.Pieces() {
				got = append(got, fmt.Sprintf("%s at %q needs %v", h.Piece, h.Node, h.Labels))
			}
			return slices.Equal(got, want)
		})
	}
	wa.setIdle(true)
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	over := 0 // of the pieces with which nothing goes on
	for _, at := range holds {
		if at == "a" {
			over++
		}
	}
	w.until("what the closed node held is over", func() bool { return len(b.Pieces()) == 4-over })
	for _, h := range b.Pieces() {
		if h.Node == "a" {
			t.Errorf("%+v", h)
		}
	}
}

// A node is not ready while it reaches no server.
func TestANodeWithoutServersIsNotReady(t *testing.T) {
	w := newWorld(t)
	a, _ := w.node("a")
	if err := a.Ready(); err != nil {
		t.Error(err)
	}
	w.nats.Shutdown()
	w.nats.WaitForShutdown()
	w.until("the node has noticed", func() bool { return a.Ready() != nil })
	if err := a.Ready(); !fault.HasCode(err, "cluster_unreachable") {
		t.Error(err)
	}
}

// A node is not ready either when its server is there, but has handed out no work for a while.
func TestANodeWhoseServersHandOutNothingIsNotReady(t *testing.T) {
	w := newWorld(t)
	a, _ := w.node("a")
	if err := w.nats.DisableJetStream(); err != nil {
		t.Fatal(err)
	}
	w.until("the node has noticed", func() bool {
		a.handed.Store(-int64(time.Hour)) // an hour ago, unless an inspection succeeds just now
		return a.Ready() != nil
	})
	if err := a.Ready(); !fault.HasCode(err, "cluster_unreachable") || !strings.Contains(err.Error(), "handed out no work") {
		t.Error(err)
	}
	for name, want := range map[string]bool{"": true, "steward": false} { // what servers answer that have lost their majority
		if err := led(&jetstream.StreamInfo{Cluster: &jetstream.ClusterInfo{Name: name}}); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := led(&jetstream.StreamInfo{Cluster: &jetstream.ClusterInfo{Name: "steward", Leader: "a"}}); err != nil {
		t.Error(err)
	}
}
