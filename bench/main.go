// Command bench compares the built steward binary with its default settings,
// driven over its WebSocket, with a bare loop that serves a WebSocket over the
// same SQLite with the same syncs (package bare), and sends the model the same
// system prompt and tools. One driver serves both, in alternating windows of one
// run. The model server, the driver and the two servers are separate processes;
// only the CPU time of the servers counts.
package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"steward/bench/fakemodel"
	"steward/bench/process"
	"steward/test/built"
)

// shape is a pattern of using a chat server.
type shape struct {
	turns   int // turns of each conversation
	window  int // conversations in a window
	windows int
}

// atOnce is how many conversations run concurrently, each over its own
// connection, which closes with it.
const atOnce = 32

var (
	shapes      = []shape{{turns: 1, window: 500, windows: 5}, {turns: 10, window: 200, windows: 5}, {turns: 60, window: 64, windows: 3}}
	storeShapes = []shape{{turns: 30, window: 1, windows: 5}, {turns: 1, window: 100, windows: 5}, {turns: 10, window: 32, windows: 5}}
	shortShapes = []shape{{turns: 1, window: 32, windows: 1}, {turns: 3, window: 32, windows: 1}}
)

func main() {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "child-") {
		if err := child(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", os.Args[1], err)
			os.Exit(1)
		}
		return
	}
	short := flag.Bool("short", false, "a check that it runs, not a measurement")
	only := flag.String("only", "", "one part of it: turns, aged, start, or stores, which is measured only if it is named")
	binary := flag.String("binary", "", "measure this steward `FILE` instead of building one")
	flag.Parse()
	if err := run(*short, *only, *binary); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// child runs one of the child processes until its standard input ends.
func child(kind string, args []string) error {
	var handler http.Handler
	switch kind {
	case "child-model":
		handler = fakemodel.Handler("math__multiply")
	case "child-bare":
		var err error
		var end func()
		if handler, end, err = bareServer(args[0], args[1], args[2]); err != nil {
			return err
		}
		defer end()
	default:
		return fmt.Errorf("there is no such child")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + ln.Addr().String())
	go http.Serve(ln, handler) //nolint:errcheck // it ends with the process
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func run(short bool, only, binary string) error {
	dir, err := os.MkdirTemp("", "steward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, binary: binary, shapes: shapes, stored: storeShapes, aged: 1000, sample: 40, starts: 20}
	if short {
		b.shapes, b.stored, b.aged, b.sample, b.starts = shortShapes, shortShapes, 20, 5, 2
	}
	if b.binary == "" {
		b.binary = filepath.Join(dir, "steward")
		if err := built.Build("steward/cmd/steward", b.binary); err != nil {
			return err
		}
	}
	about, err := machine()
	if err != nil {
		return err
	}
	fmt.Println(about)
	model, url, err := process.Start("child-model")
	if err != nil {
		return err
	}
	defer model.Stop()
	b.model = url
	if err := b.learnHead(); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		run  func() error
	}{{"turns", b.turns}, {"aged", b.agedTurns}, {"start", b.start}, {"stores", b.stores}} {
		if only != part.name && (only != "" || part.name == "stores") {
			continue
		}
		if err := part.run(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// bench is one run.
type bench struct {
	dir, binary, model string
	head               string // the file with how each request of the bare loop begins
	shapes, stored     []shape
	aged, sample       int
	starts             int
	made               int // number of folders created
}

// both starts a bare server and a Steward in fresh folders.
func (b *bench) both() ([2]*server, error) {
	return b.open([2]func(string) (*server, error){b.openBare, func(folder string) (*server, error) { return b.openSteward(folder) }})
}

// open starts two servers in fresh folders.
func (b *bench) open(both [2]func(folder string) (*server, error)) (servers [2]*server, err error) {
	for i, open := range both {
		b.made++
		folder := fmt.Sprintf("%s/%d", b.dir, b.made)
		if err = os.Mkdir(folder, 0o700); err == nil {
			servers[i], err = open(folder)
		}
		if err != nil {
			return servers, err
		}
	}
	return servers, nil
}

// turns measures each shape.
func (b *bench) turns() error {
	fmt.Printf("\nA turn is a user's message, a tool call, its result and an answer: two model calls, four messages durably\n"+
		"committed. %d conversations run at once, each over a connection of its own that ends with it. Each figure is\n"+
		"the median of alternating windows, the ratio the median of the windows' ratios; memory and disk at the end.\n\n", atOnce)
	fmt.Println("| turns a conversation | conversations | CPU s per 1,000 turns: bare | Steward | ratio | p50 ms: bare | Steward | ratio | memory MB: bare | Steward | disk KB a turn: bare | Steward |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, s := range b.shapes {
		if err := b.turnsOf(s); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) turnsOf(s shape) error {
	servers, err := b.both()
	if err != nil {
		return err
	}
	got, err := alternate(servers, s)
	if err != nil {
		return err
	}
	var memory, disk [2]float64
	for i, srv := range servers {
		memory[i] = process.RSS(srv.pid)
		if err := srv.stop(); err != nil {
			return err
		}
		bytes, err := size(srv.folder)
		if err != nil {
			return err
		}
		disk[i] = bytes / 1024 / float64(s.window*s.windows*s.turns)
	}
	cpu := func(f figures) float64 { return f.cpu }
	p50 := func(f figures) float64 { return f.p50 }
	fmt.Printf("| %d | %d | %.2f | %.2f | **%.2f** | %.1f | %.1f | **%.2f** | %.0f | %.0f | %.1f | %.1f |\n", s.turns, s.window*s.windows,
		of(got[0], cpu), of(got[1], cpu), ratio(got, cpu), of(got[0], p50), of(got[1], p50), ratio(got, p50),
		memory[0], memory[1], disk[0], disk[1])
	return nil
}

// alternate measures the windows of a shape with one server and the other in turn.
func alternate(servers [2]*server, s shape) (got [2][]figures, err error) {
	for range s.windows {
		for i, srv := range servers {
			f, err := srv.run(s.window, s.turns)
			if err != nil {
				return got, fmt.Errorf("%s: %w", srv.name, err)
			}
			got[i] = append(got[i], f)
		}
	}
	return got, nil
}

// agedTurns measures what a turn costs early and late in long conversations.
// Both measurements include the same number of turns, so that work that a
// server defers and batches falls into both.
func (b *bench) agedTurns() error {
	const chats, rounds = 8, 5
	fmt.Printf("\n%d conversations at once, each over one connection: CPU ms of a turn after 10 turns and after %d, the mean of %d turns.\n\n",
		chats, b.aged, chats*rounds*b.sample)
	fmt.Println("| server | after 10 | after many | ratio |")
	fmt.Println("|---|---|---|---|")
	servers, err := b.both()
	if err != nil {
		return err
	}
	for _, srv := range servers {
		var early float64
		for range rounds {
			cost, err := srv.after(chats, 10, b.sample)
			if err != nil {
				return fmt.Errorf("%s: %w", srv.name, err)
			}
			early += cost / rounds
		}
		late, err := srv.after(chats, b.aged, rounds*b.sample)
		if err != nil {
			return fmt.Errorf("%s: %w", srv.name, err)
		}
		fmt.Printf("| %s | %.2f | %.2f | **%.2f** |\n", srv.name, early, late, late/early)
		if err := srv.stop(); err != nil {
			return err
		}
	}
	return nil
}

func of(list []figures, f func(figures) float64) float64 {
	v := make([]float64, len(list))
	for i := range list {
		v[i] = f(list[i])
	}
	return median(v)
}

func ratio(got [2][]figures, f func(figures) float64) float64 {
	v := make([]float64, len(got[0]))
	for i := range v {
		v[i] = f(got[1][i]) / f(got[0][i])
	}
	return median(v)
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
