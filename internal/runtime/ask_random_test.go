//go:build long

package runtime_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/catalog"
	_ "steward/test/seed"
)

// branch is an agent of a random tree with what it does when it is asked.
type branch struct {
	path  string
	below []*branch
	acts  int
	looks int
}

func (b *branch) words() string {
	var lines []string
	for _, c := range b.below {
		lines = append(lines, ask(c.path[strings.LastIndexByte(c.path, '/')+1:], c.words()))
	}
	for i := range b.acts {
		lines = append(lines, fmt.Sprintf(`call %s.act {"what":"%s %d"}`, flat(b.path), b.path, i))
	}
	for range b.looks {
		lines = append(lines, fmt.Sprintf(`call %s.look {}`, flat(b.path)))
	}
	if len(lines) == 0 {
		return "say " + b.path
	}
	return strings.Join(lines, "\n")
}

// answer is the final answer of the agent.
func (b *branch) answer() string {
	var parts []string
	for _, c := range b.below {
		parts = append(parts, "ok: "+c.answer())
	}
	for i := range b.acts {
		parts = append(parts, fmt.Sprintf("ok: done %s %d", b.path, i))
	}
	for range b.looks {
		parts = append(parts, "ok: seen")
	}
	if len(parts) == 0 {
		return b.path
	}
	return strings.Join(parts, "; ")
}

func (b *branch) each(do func(*branch)) {
	do(b)
	for _, c := range b.below {
		c.each(do)
	}
}

func flat(path string) string { return "t" + strings.ReplaceAll(path, "/", "_") }

func drawBranch(t *rapid.T, path string, depth int) *branch {
	b := &branch{path: path, acts: rapid.IntRange(0, 2).Draw(t, "acts"), looks: rapid.IntRange(0, 1).Draw(t, "looks")}
	if depth < 3 {
		for i := range rapid.IntRange(0, 2).Draw(t, "below") {
			b.below = append(b.below, drawBranch(t, strings.TrimPrefix(fmt.Sprintf("%s/a%d", path, i), "/"), depth+1))
		}
	}
	return b
}

// Random trees of agents that ask each other and act, killed at random times,
// end with every request answered and closed, and with no effect done twice.
func TestRandomTreesKilledAtRandom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		root := &branch{path: "", below: []*branch{drawBranch(rt, "a0", 1)}}
		if rapid.Bool().Draw(rt, "two") {
			root.below = append(root.below, drawBranch(rt, "a1", 1))
		}
		w := &world{t: t, dir: fmt.Sprintf("%s/%d", dir, run), model: &scripted{gate: make(chan struct{})}, ledger: &ledger{}}
		if err := os.Mkdir(w.dir, 0o700); err != nil {
			rt.Fatal(err)
		}
		g := &grove{}
		var agents []*catalog.Agent
		want, asked := map[string]bool{}, 0
		root.each(func(b *branch) {
			if b.path == "" {
				return
			}
			asked++
			agents = append(agents, agentOf(b.path, w.action(flat(b.path)+".act"), query(flat(b.path)+".look", "seen", 0)))
			for i := range b.acts {
				want[fmt.Sprintf("%s %d", b.path, i)] = true
			}
		})
		g.plant(agents...)
		w.opt.Catalog = g
		for range rapid.IntRange(0, 3).Draw(rt, "crashes") {
			fail, crashed := after(rapid.IntRange(1, 40).Draw(rt, "commits"))
			w.fail = fail
			if !w.opened(crashed) {
				continue
			}
			w.through(root.words(), crashed)
			w.kill()
		}
		w.fail = nil
		w.open()
		conv, answer := w.through(root.words(), nil)
		if answer != root.answer() {
			rt.Errorf("the answer is\n%s\nwant\n%s", answer, root.answer())
		}
		w.ledger.mu.Lock()
		done := map[string]int{}
		for _, e := range w.ledger.entries {
			done[e]++
		}
		w.ledger.mu.Unlock()
		for e, n := range done {
			if n != 1 || !want[e] {
				rt.Errorf("%s was done %d times, wanted is %v", e, n, want[e])
			}
		}
		if len(done) != len(want) {
			rt.Errorf("done is %v, want %v", done, want)
		}
		w.closed(conv, asked+1)
		w.close()
	})
}
