//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"steward/test/cluster"
)

// workers measures the same load on one node without a cluster, and on clusters of one, two and four.
func (b *bench) workers(ctx context.Context) error {
	fmt.Printf("\n%d conversations of as many users at once, %d turns each after two to begin with; a turn has one tool call and two model calls.\n"+
		"Each client is connected to any of the nodes. Medians of %d rounds, each of which starts from scratch. %d processors.\n\n", b.talks, b.turns, b.rounds, runtime.NumCPU())
	kinds := []struct {
		name string
		o    cluster.Options
	}{
		{"SQLite", cluster.Options{Nodes: 1, SQLite: true}},
		{"PostgreSQL, no cluster", cluster.Options{Nodes: 1, Alone: true}},
		{"1 worker", cluster.Options{Nodes: 1}},
		{"2 workers", cluster.Options{Nodes: 2}},
		{"4 workers", cluster.Options{Nodes: 4}},
	}
	rows := make([]row, len(kinds))
	for range b.rounds {
		for i, k := range kinds {
			if err := b.window(ctx, k.o, &rows[i]); err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
		}
	}
	fmt.Println("| | turns/s | to PostgreSQL alone | p50 ms | p99 ms | CPU ms a turn: nodes | PostgreSQL | NATS | model and clients | processors idle | commits/s | a turn |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|")
	base := median(rows[1].rate)
	for i, k := range kinds {
		r := &rows[i]
		fmt.Printf("| %s | %.1f | **%.2f** | %.0f | %.0f | %.1f | %.1f | %.1f | %.1f | %.0f %% | %.0f | %.1f |\n", k.name, median(r.rate), median(r.rate)/base, median(r.p50), median(r.p99),
			median(r.nodes), median(r.postgres), median(r.nats), median(r.driver), median(r.idle), median(r.commits), median(r.each))
	}
	return nil
}

// row are the figures of a kind, one of each round.
type row struct{ rate, p50, p99, nodes, postgres, nats, driver, idle, commits, each []float64 }

func (b *bench) window(ctx context.Context, o cluster.Options, r *row) (err error) {
	w, err := b.open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	keys, err := w.keys(ctx, b.talks)
	if err != nil {
		return err
	}
	var talks []*talk
	for i, key := range keys {
		t, err := dial(ctx, w.Nodes[(i+i/len(w.Nodes))%len(w.Nodes)], key)
		if err != nil {
			return err
		}
		defer t.close()
		talks = append(talks, t)
	}
	if _, err := together(ctx, talks, 2); err != nil {
		return err
	}
	before, err := w.used(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	times, err := together(ctx, talks, b.turns)
	took := time.Since(began).Seconds()
	if err != nil {
		return err
	}
	after, err := w.used(ctx)
	if err != nil {
		return err
	}
	u, n := after.minus(before), float64(len(times))
	add := func(list *[]float64, v float64) { *list = append(*list, v) }
	add(&r.rate, n/took)
	add(&r.p50, at(times, 0.5))
	add(&r.p99, at(times, 0.99))
	add(&r.nodes, 1000*u.nodes/n)
	add(&r.postgres, 1000*u.postgres/n)
	add(&r.nats, 1000*u.nats/n)
	add(&r.driver, 1000*u.driver/n)
	add(&r.idle, 100*u.idle/took/float64(runtime.NumCPU()))
	add(&r.commits, float64(u.commits)/took)
	add(&r.each, float64(u.commits)/n)
	return nil
}

// latency measures one conversation whose turns follow each other, in alternating windows.
func (b *bench) latency(ctx context.Context) (err error) {
	open := func(o cluster.Options) (*world, string) {
		if err != nil {
			return nil, ""
		}
		w, e := b.open(ctx, o)
		if err = e; err != nil {
			return nil, ""
		}
		keys, e := w.keys(ctx, 1)
		if err = e; err != nil {
			return w, ""
		}
		return w, keys[0]
	}
	lite, liteKey := open(cluster.Options{Nodes: 1, SQLite: true})
	alone, aloneKey := open(cluster.Options{Nodes: 1, Alone: true})
	many, manyKey := open(cluster.Options{Nodes: 2})
	defer func() {
		for _, w := range []*world{lite, alone, many} {
			if w != nil {
				err = errors.Join(err, w.close())
			}
		}
	}()
	if err != nil {
		return err
	}
	first, err := dial(ctx, many.Nodes[0], manyKey)
	if err != nil {
		return err
	}
	defer first.close()
	if _, err := first.turn(ctx); err != nil {
		return err
	}
	holder, other := many.Nodes[0], many.Nodes[1]
	if b.model.last.Load() == other.Name {
		holder, other = other, holder
	}
	places := []struct {
		name string
		node *cluster.Node
		key  string
		talk *talk
		p50  []float64
		p95  []float64
	}{{name: "SQLite", node: lite.Nodes[0], key: liteKey}, {name: "PostgreSQL, no cluster", node: alone.Nodes[0], key: aloneKey},
		{name: "cluster, at the holder", node: holder, key: manyKey}, {name: "cluster, at another node", node: other, key: manyKey}}
	for i := range places {
		p := &places[i]
		if p.talk, err = dial(ctx, p.node, p.key); err != nil {
			return err
		}
		defer p.talk.close()
	}
	for range 5 {
		for i := range places {
			p := &places[i]
			times, err := together(ctx, []*talk{p.talk}, b.sample)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			p.p50, p.p95 = append(p.p50, at(times, 0.5)), append(p.p95, at(times, 0.95))
		}
	}
	fmt.Printf("\nOne conversation whose turns follow each other; medians of 5 alternating windows of %d turns.\n\n", b.sample)
	fmt.Println("| | p50 ms | to SQLite | to PostgreSQL alone | p95 ms |")
	fmt.Println("|---|---|---|---|---|")
	for _, p := range places {
		fmt.Printf("| %s | %.1f | %.2f | %.2f | %.1f |\n", p.name, median(p.p50), median(p.p50)/median(places[0].p50), median(p.p50)/median(places[1].p50), median(p.p95))
	}
	return nil
}
