//go:build linux

// Command cluster measures what it costs to run Steward on several nodes that share one PostgreSQL: how many turns a
// second one, two and four workers do and what limits them, how long a turn takes at the node that holds the user's
// space, at another node, and on one node without a cluster, and what 10,000 open WebSockets cost three nodes.
//
// All of it is on one machine: the nodes, PostgreSQL, which syncs, and three NATS servers in one process, which sync
// too. The model answers at once (package fakemodel); it and the clients are in this process. So the workers share
// the processors with everything else, and the figures are to be compared with each other, not with those of
// machines of their own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"steward/bench/fakemodel"
	"steward/bench/process"
	"steward/test/built"
	"steward/test/cluster"
)

// bench is one run.
type bench struct {
	dir, binary string
	model       *model
	made        int // number of folders created

	talks, turns, rounds   int // of the part workers
	sample                 int // turns of a window of the part latency
	sockets, people, among int // open WebSockets, their users, and the nodes
	tokens                 int // of the answer that streams
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "child-nats" {
		if err := serveNATS(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	short := flag.Bool("short", false, "a check that it runs, not a measurement")
	only := flag.String("only", "", "one part of it: workers, latency or sockets")
	binary := flag.String("binary", "", "measure this steward `FILE` instead of building one")
	flag.Parse()
	b := &bench{binary: *binary, talks: 48, turns: 20, rounds: 3, sample: 60, sockets: 10_000, people: 500, among: 3, tokens: 1000}
	if *short {
		b.talks, b.turns, b.rounds, b.sample, b.sockets, b.people, b.tokens = 4, 3, 1, 5, 30, 5, 50
	}
	if err := b.run(*only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run(only string) (err error) {
	if b.dir, err = os.MkdirTemp("", "steward-bench-cluster-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.binary == "" {
		b.binary = filepath.Join(b.dir, "steward")
		if err := built.Build("steward/cmd/steward", b.binary); err != nil {
			return err
		}
	}
	b.model = &model{turns: fakemodel.Handler("math__multiply"), tokens: b.tokens}
	ctx := context.Background()
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{{"latency", b.latency}, {"workers", b.workers}, {"sockets", b.openSockets}} {
		if only != "" && only != part.name {
			continue
		}
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// model is the model of all nodes. It remembers which node asked last.
type model struct {
	turns  http.Handler
	tokens int
	last   atomic.Value // the name of a node
	stream stream
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	node, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if r.Method == http.MethodPost {
		m.last.Store(node)
		if m.stream.answer(w, r) {
			return
		}
	}
	m.turns.ServeHTTP(w, r)
}

// world is a rig with NATS servers in a process of their own.
type world struct {
	*cluster.Rig
	nats *process.Child // nil: none
}

// open starts nodes. Without a cluster, there is one.
func (b *bench) open(ctx context.Context, o cluster.Options) (w *world, err error) {
	b.made++
	o.Dir, o.Binary, o.Direct, o.Model = filepath.Join(b.dir, fmt.Sprint(b.made)), b.binary, true, b.model
	if err := os.Mkdir(o.Dir, 0o700); err != nil {
		return nil, err
	}
	w = &world{}
	if !o.Alone && !o.SQLite {
		if o.Servers, err = w.startNATS(o.Dir); err != nil {
			return nil, err
		}
	}
	if w.Rig, err = cluster.New(o); err == nil {
		err = w.StartAll(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *world) close() (err error) {
	if w.Rig != nil {
		for _, n := range w.Nodes {
			err = errors.Join(err, n.Stop())
		}
		w.Rig.Close()
	}
	if w.nats != nil {
		err = errors.Join(err, w.nats.Stop())
	}
	return err
}

// startNATS runs this program as the NATS servers.
func (w *world) startNATS(dir string) (addresses []string, err error) {
	c, line, err := process.Start("child-nats", dir)
	if err != nil {
		return nil, err
	}
	w.nats = c
	return strings.Fields(line), nil
}

// serveNATS serves until its standard input ends.
func serveNATS(dir string) error {
	s, err := cluster.StartNATS(dir, 3)
	if err != nil {
		return err
	}
	fmt.Println(s.Address(0), s.Address(1), s.Address(2))
	_, err = io.Copy(io.Discard, os.Stdin)
	s.Close()
	return err
}
