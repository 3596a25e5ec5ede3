package offline_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"
	"time"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/offline"
)

var (
	accuracySeed  = flag.Uint64("seed", 1, "seed of the accuracy grammar")
	accuracyCases = flag.Int("cases", 1000, "cases of the accuracy grammar")
	accuracyShow  = flag.Int("show", 0, "how many failures of the tuning domains to print")
)

func user(text string) *message.Message {
	return &message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: text}}}
}

func newProvider() *offline.Provider {
	return offline.New(offline.Options{Now: func() time.Time { return grammarNow }})
}

// ask streams one answer and returns its reply.
func ask(t testing.TB, m llm.Model, r *llm.Request) *llm.Reply {
	t.Helper()
	var reply *llm.Reply
	for e, err := range m.Stream(context.Background(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == llm.Done {
			reply = e.Reply
		}
	}
	if reply == nil {
		t.Fatal("the stream ended without a reply")
	}
	return reply
}

func callsOf(r *llm.Reply) []*message.ToolCall {
	var out []*message.ToolCall
	for _, b := range r.Blocks {
		if c, ok := b.(*message.ToolCall); ok {
			out = append(out, c)
		}
	}
	return out
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// score counts what was right.
type score struct {
	right, all map[string]int
}

func (s *score) count(what string, ok bool) {
	s.all[what]++
	if ok {
		s.right[what]++
	}
}

func (s *score) share(what string) float64 {
	if s.all[what] == 0 {
		return 1
	}
	return float64(s.right[what]) / float64(s.all[what])
}

func (s *score) String() string {
	var b strings.Builder
	keys := make([]string, 0, len(s.all))
	for k := range s.all {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		fmt.Fprintf(&b, "%-28s %5d of %5d  %5.1f %%\n", k, s.right[k], s.all[k], 100*s.share(k))
	}
	return b.String()
}

// floors fails the test where a share is below what it must reach.
func (s *score) floors(t *testing.T, floors map[string]float64) {
	for what, floor := range floors {
		if got := s.share(what); got < floor {
			t.Errorf("%s: %.3f is below %.3f", what, got, floor)
		}
	}
}

// measure runs n cases of the domains through the provider.
func measure(t testing.TB, domains []domain, seed uint64, n, show int) *score {
	g := generator{newRand(seed)}
	m := newProvider().Model("steward")
	s := &score{map[string]int{}, map[string]int{}}
	for range n {
		c := g.makeCase(domains)
		calls := callsOf(ask(t, m, &llm.Request{System: "Time zone: Etc/UTC", Transcript: llm.NewTranscript(user(c.text)), Tools: c.tools}))
		ok := s.judge(c, calls)
		if !ok && show > 0 {
			show--
			t.Logf("%s %q\n  want %s\n  got  %s", c.kind, c.text, shownWishes(c.wishes), shownCalls(calls))
		}
	}
	return s
}

func shownWishes(ws []wish) string {
	var out []string
	for _, w := range ws {
		out = append(out, w.tool+canonical(w.args))
	}
	return strings.Join(out, "  ")
}

func shownCalls(calls []*message.ToolCall) string {
	var out []string
	for _, c := range calls {
		out = append(out, c.Name+string(c.Args))
	}
	return strings.Join(out, "  ")
}

// judge compares calls with what was wanted, and reports whether all is right.
func (s *score) judge(c testCase, calls []*message.ToolCall) bool {
	if len(c.wishes) == 0 {
		s.count("no tool ("+c.kind+")", len(calls) == 0)
		s.count("no tool", len(calls) == 0)
		return len(calls) == 0
	}
	all := len(calls) == len(c.wishes)
	for i, w := range c.wishes {
		chosen := i < len(calls) && calls[i].Name == w.tool
		s.count("tool ("+c.kind+")", chosen)
		s.count("tool choice", chosen && (c.kind != "single" || len(calls) == 1))
		if !chosen {
			all = false
			continue
		}
		right := s.arguments(w, calls[i])
		s.count("all arguments of a call", right)
		all = all && right
	}
	s.count(c.kind+", everything right", all)
	return all
}

func (s *score) arguments(w wish, c *message.ToolCall) bool {
	got := decodeObject(c.Args)
	ok := canonical(got) == canonical(w.args)
	for name, v := range w.args {
		s.count("single argument", canonical(got[name]) == canonical(v))
	}
	return ok
}

func TestAccuracyOnTuningDomains(t *testing.T) {
	s := measure(t, tuningDomains, *accuracySeed, *accuracyCases, *accuracyShow)
	t.Logf("seed %d, tuning domains\n%s", *accuracySeed, s)
	s.floors(t, map[string]float64{"tool choice": 0.92, "all arguments of a call": 0.95, "no tool": 0.92, "several, everything right": 0.80})
}

func TestAccuracyOnHeldOutDomains(t *testing.T) {
	s := measure(t, heldOutDomains, *accuracySeed, *accuracyCases, 0)
	t.Logf("seed %d, held-out domains\n%s", *accuracySeed, s)
	s.floors(t, map[string]float64{"tool choice": 0.86, "all arguments of a call": 0.92, "no tool": 0.95, "several, everything right": 0.62})
}
