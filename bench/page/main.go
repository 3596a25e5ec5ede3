// Command page measures what open pages cost the built steward binary with its default settings: memory and CPU
// time of 1,000 idle pages on mixed screens of 50 people, and, while one conversation streams, CPU time and how
// long a token takes from the provider to the pages that show the conversation.
//
// A page is what a browser opens: the HTML of a screen, and its event stream. Beside it runs a bare loop, a plain
// Go server that reads the same model and sends the same number of bytes, equally often, to the same number of
// connections. The model and the pages are in this process, the two servers in processes of their own; only their
// CPU time counts.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"steward/test/built"
)

// bench is one run.
type bench struct {
	dir, binary string
	model       *model
	people      int           // who have idle pages
	idle        int           // idle pages
	watchers    []int         // pages of the conversation that streams, without and with the idle ones
	all         int           // pages of that conversation in the last round
	tokens      int           // of an answer
	rest        time.Duration // how long idle pages are measured
	sizes       []int         // of the events that a page got in the last round: the bare loop sends the same
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == "child-bare" {
		if err := bare(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	short := flag.Bool("short", false, "a check that it runs, not a measurement")
	binary := flag.String("binary", "", "measure this steward `FILE` instead of building one")
	tokens := flag.Int("tokens", 2000, "the length of an answer")
	flag.Parse()
	b := &bench{binary: *binary, people: 50, idle: 900, watchers: []int{1, 100}, all: 1000, tokens: *tokens, rest: 30 * time.Second}
	if *short {
		b.people, b.idle, b.watchers, b.all, b.tokens, b.rest = 3, 18, []int{1, 5}, 10, 100, time.Second
	}
	if err := b.run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run() (err error) {
	if b.dir, err = os.MkdirTemp("", "steward-bench-page-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.binary == "" {
		b.binary = filepath.Join(b.dir, "steward")
		if err := built.Build("steward/cmd/steward", b.binary); err != nil {
			return err
		}
	}
	b.model = &model{tokens: b.tokens}
	served := httptest.NewServer(b.model)
	defer served.Close()
	s, err := b.startSteward(served.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	plain, err := startBare(served.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plain.stop()) }()
	return b.measure(s, plain)
}

func (b *bench) measure(s *steward, plain *server) error {
	own, err := s.signIn("")
	if err != nil {
		return err
	}
	chat, err := own.converse()
	if err != nil {
		return err
	}
	fmt.Printf("An answer has %d tokens, %d a second. %d idle pages belong to %d people: the start, a conversation, /plans, /jobs, /home and /approvals, equally many of each.\n\n",
		b.tokens, int(time.Second/tokenEvery), b.idle, b.people)
	var others []*page
	var lines []string
	row := func(watching, idle int) error {
		line, err := b.stream(s, plain, own, chat, watching, idle)
		lines = append(lines, line)
		return err
	}
	if err := row(b.watchers[0], 0); err != nil {
		return err
	}
	before := s.settledMemory()
	if others, err = b.openIdle(s); err != nil {
		return err
	}
	time.Sleep(b.rest) // what the conversations of these people led to has ended, such as indexing
	if err := row(b.watchers[0], b.idle); err != nil {
		return err
	}
	watching, err := open(own, chat, b.watchers[1])
	if err != nil {
		return err
	}
	after := s.settledMemory()
	spent, err := s.spend(func() error { time.Sleep(b.rest); return nil })
	if err != nil {
		return err
	}
	n := len(others) + len(watching)
	fmt.Printf("- %d open pages: %.0f MB of memory (RSS) before, %.0f MB with them, %.1f KB for each.\n", n, before, after, (after-before)*1024/float64(n))
	fmt.Printf("- CPU while all of them are idle: %.2f %% of a core.\n\n", 100*spent.Seconds()/b.rest.Seconds())
	closeAll(watching)
	if err := row(b.watchers[1], b.idle); err != nil {
		return err
	}
	closeAll(others)
	if err := row(b.all, 0); err != nil {
		return err
	}
	fmt.Println("| pages of the conversation | other pages | CPU s a second of the answer: bare | Steward | ratio | ms from a token to the page, p50: bare | Steward | p99: bare | Steward | ratio | KB a page |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|")
	for _, line := range lines {
		fmt.Println(line)
	}
	return nil
}

// stream has the model answer while pages show the conversation, in Steward and then in the bare loop.
func (b *bench) stream(s *steward, plain *server, own *person, chat string, watching, idle int) (string, error) {
	pages, err := open(own, chat, watching)
	if err != nil {
		return "", err
	}
	time.Sleep(2 * time.Second) // opening them has ended
	took, spent, err := b.answer(&s.server, pages, func() error { return own.say(chat, "stream") })
	if err != nil {
		return "", err
	}
	closeAll(pages)
	got := b.times(pages)
	bytes := 0
	b.sizes = pages[0].sizes
	for _, n := range b.sizes {
		bytes += n
	}
	if pages, err = openBare(plain, watching); err != nil {
		return "", err
	}
	bareTook, bareSpent, err := b.answer(plain, pages, func() error { return plain.begin(b.sizes) })
	if err != nil {
		return "", err
	}
	closeAll(pages)
	bareGot := b.times(pages)
	cpu, bareCPU := spent.Seconds()/took.Seconds(), bareSpent.Seconds()/bareTook.Seconds()
	return fmt.Sprintf("| %d | %d | %.3f | %.3f | **%.2f** | %.0f | %.0f | %.0f | %.0f | **%.2f** | %.0f |", watching, idle, bareCPU, cpu, cpu/bareCPU,
		bareGot.at(0.5), got.at(0.5), bareGot.at(0.99), got.at(0.99), got.at(0.99)/bareGot.at(0.99), float64(bytes)/1024), nil
}

// answer waits until all pages have the last token.
func (b *bench) answer(s *server, pages []*page, begin func() error) (took, spent time.Duration, err error) {
	b.model.reset()
	for _, p := range pages {
		p.begin(b.model)
	}
	began := time.Now()
	spent, err = s.spend(func() error {
		if err := begin(); err != nil {
			return err
		}
		late := time.After(time.Duration(b.tokens)*tokenEvery + 2*time.Minute)
		for _, p := range pages {
			select {
			case <-p.done:
			case <-late:
				return fmt.Errorf("a page has %d of %d marks", p.last, b.model.marks())
			}
		}
		return nil
	})
	for _, p := range pages {
		if p.err != nil {
			err = errors.Join(err, p.err)
			break
		}
	}
	return time.Since(began), spent, err
}

func (b *bench) times(pages []*page) *times {
	all := &times{}
	for _, p := range pages {
		all.add(&p.times)
	}
	return all
}
