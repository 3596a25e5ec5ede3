package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/store/sqlite"
)

// addresses returns free addresses. Another process may take one before it is used.
func addresses(t *testing.T, n int) (out []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		out = append(out, l.Addr().String())
	}
	return out
}

// embedded opens nodes whose servers form a cluster. Where an address was taken by another process, it takes others.
func embedded(t *testing.T, st Store, n int) []*Cluster {
	t.Helper()
	dir := t.TempDir()
	for try := 0; ; try++ {
		list := addresses(t, n)
		out, errs := make([]*Cluster, n), make([]error, n)
		var all sync.WaitGroup
		for i := range n {
			e := &Embed{Dir: filepath.Join(dir, fmt.Sprint(try, i)), Listen: list[i], Peers: slices.Delete(slices.Clone(list), i, i+1)}
			all.Go(func() {
				out[i], errs[i] = Open(t.Context(), Options{Store: st, Name: fmt.Sprint("node", i), Works: true, Silence: 10 * time.Second, IdleFor: long, Secret: "a secret of the cluster", Embed: e})
			})
		}
		all.Wait()
		taken := false
		for i, err := range errs {
			taken = taken || fault.HasCode(err, "cluster_refused")
			if err != nil && (!taken || try > 5) {
				t.Fatal(i, err)
			}
		}
		if !taken {
			return out
		}
		for _, c := range out {
			if c != nil {
				_ = c.Close(t.Context())
			}
		}
	}
}

func TestThreeServersInTheNodes(t *testing.T) {
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	w := &world{TB: t, st: st}
	nodes := embedded(t, st, 3)
	var workers []*worker
	for _, c := range nodes {
		wk := &worker{name: c.opt.Name, pieces: map[Piece]*state{}}
		workers = append(workers, wk)
		c.Start(wk)
	}
	s, err := nodes[0].js.Stream(t.Context(), stream)
	if err != nil || s.CachedInfo().Config.Replicas != 3 {
		t.Errorf("%+v %v", s, err)
	}
	var first string
	w.until("all nodes reach the same one", func() bool { // on a slow machine it may change
		first, _ = w.reach(nodes[0], ada)
		return !slices.ContainsFunc(nodes, func(c *Cluster) bool {
			node, here := w.reach(c, ada)
			return node != first || here != (c.opt.Name == first)
		})
	})
	l := nodes[1].Listen()
	near, err := nodes[0].Dial(t.Context(), "node1")
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = near.Write([]byte("hello")); _ = near.Close() }()
	if b, err := io.ReadAll(far); err != nil || string(b) != "hello" {
		t.Errorf("%q %v", b, err)
	}
	_ = far.Close()
	holder := slices.IndexFunc(nodes, func(c *Cluster) bool { return c.opt.Name == first })
	if err := nodes[holder].Close(t.Context()); err != nil { // with its server
		t.Error(err)
	}
	for i, c := range nodes {
		if i != holder {
			w.until("another node holds it", func() bool { node, _, err := c.Reach(t.Context(), ada); return err == nil && node != first })
		}
	}
	for i, c := range nodes {
		if i != holder {
			// Two servers are left and then one, which has no majority any more. So nothing can be handed on by the last.
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	for _, wk := range workers {
		if len(wk.faults) > 0 {
			t.Error(wk.faults)
		}
	}
}

func TestAStrangerIsRefused(t *testing.T) {
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	w := &world{TB: t, st: st}
	var at string
	w.until("the server runs", func() bool {
		at = addresses(t, 1)[0]
		c, err := Open(t.Context(), Options{Store: st, Name: "a", Works: true, Secret: "right", Embed: &Embed{Dir: t.TempDir(), Clients: at}})
		if err == nil {
			t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
			c.Start(&worker{name: "a", pieces: map[Piece]*state{}})
		}
		return err == nil
	})
	for _, secret := range []string{"", "wrong"} {
		if _, err := Open(t.Context(), Options{Store: st, Name: "b", Secret: secret, Servers: at}); !fault.HasCode(err, "cluster_refused") {
			t.Errorf("%q: %v", secret, err)
		}
	}
	b, err := Open(t.Context(), Options{Store: st, Name: "b", Secret: "right", Servers: at})
	if err != nil {
		t.Fatal(err)
	}
	if node, here := w.reach(b, ada); node != "a" || here {
		t.Error(node, here)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
