//go:build long

// Package routing measures, on labelled requests, how well Steward finds tools and
// agents. Words, weights and limits were chosen on the development halves; the
// figures that are held here are those of the test halves. The tests print all.
package routing

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"steward/internal/routing"
	"steward/internal/search/words"
	"steward/internal/tool"
)

func read(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// p95 returns the time within which 95 % of calls were done.
func p95(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)*95/100]
}

func TestToolsAreFoundAmongThousand(t *testing.T) {
	var tools []struct {
		Name, Description string
		Parameters        map[string]string
	}
	read(t, "tools.json", &tools)
	var specs []tool.Spec
	for _, x := range tools {
		props := map[string]any{}
		for name, about := range x.Parameters {
			props[name] = map[string]any{"type": "string", "description": about}
		}
		input, err := json.Marshal(map[string]any{"type": "object", "properties": props})
		if err != nil {
			t.Fatal(err)
		}
		specs = append(specs, tool.Spec{Name: x.Name, Description: x.Description, Input: input})
	}
	if len(specs) < 1000 {
		t.Fatalf("only %d tools", len(specs))
	}
	f := tool.NewFinder(specs)
	var questions []struct{ Say, Tool, Set string }
	read(t, "questions.json", &questions)
	among15, asked := map[string]int{}, map[string]int{} // by set, and by whether a word is shared
	var times []time.Duration
	for _, q := range questions {
		began := time.Now()
		found := f.Find(q.Say, 15)
		times = append(times, time.Since(began))
		i := slices.IndexFunc(specs, func(s tool.Spec) bool { return s.Name == q.Tool })
		set := q.Set + " that shares a word"
		if !shares(q.Say, specs[i].Name+" "+specs[i].Description) {
			set = q.Set + " that shares none"
		}
		asked[q.Set]++
		asked[set]++
		if slices.Contains(found, i) {
			among15[q.Set]++
			among15[set]++
		}
	}
	share := func(set string) float64 { return float64(among15[set]) / float64(asked[set]) }
	t.Logf("the right tool among 15 of %d: %.1f %% of dev, %.1f %% of test (aim 97.5 %%); P95 %s (aim 3 ms)",
		len(specs), 100*share("dev"), 100*share("test"), p95(times))
	for _, half := range []string{" that shares a word", " that shares none"} {
		t.Logf("of the half%s with the tool's name or description: %.1f %% of dev, %.1f %% of test", half, 100*share("dev"+half), 100*share("test"+half))
	}
	if asked["test"] < 500 || share("test") < toolsHeld {
		t.Errorf("%.3f of %d questions, and %.3f is held", share("test"), asked["test"], toolsHeld)
	}
}

// shares reports whether two texts share a word, endings and common words aside.
func shares(a, b string) bool {
	stems := map[string]bool{}
	for _, w := range words.Split(a) {
		if !words.Common(w) {
			stems[words.Stem(w)] = true
		}
	}
	return slices.ContainsFunc(words.Split(b), func(w string) bool { return stems[words.Stem(w)] })
}

// figures are what is measured of a router.
type figures struct {
	accuracy    float64 // of all decisions
	coverage    float64 // of the requests for agents: those that are decided rightly where 95 % of decisions for agents are right
	calibration float64 // expected error of the probability, in ten bins
	stolen      float64 // of the requests for no agent: those that go to one
	decided     float64 // of all requests: those that the router decides alone, as the runtime uses it
	precision   float64 // of those: those that are decided rightly
}

type request struct{ Say, Agent string }

type decided struct {
	p          float64
	agent      string
	right, own bool // own: the request is for an agent
}

func measure(r *routing.Router, requests []request) (figures, time.Duration) {
	var all []decided
	var times []time.Duration
	for _, q := range requests {
		began := time.Now()
		best := r.Rank(q.Say)[0]
		times = append(times, time.Since(began))
		all = append(all, decided{best.P, best.Agent, best.Agent == q.Agent, q.Agent != ""})
	}
	var f figures
	n, own, none := float64(len(all)), 0.0, 0.0
	var bins [10]float64 // sums of probability less right
	for _, d := range all {
		b := &bins[min(int(d.p*10), 9)]
		*b += d.p
		if d.right {
			f.accuracy += 1 / n
			*b--
		}
		if d.own {
			own++
		} else if none++; d.agent != "" {
			f.stolen++
		}
	}
	for _, b := range bins {
		f.calibration += math.Abs(b) / n
	}
	f.stolen /= max(none, 1)
	for _, d := range all {
		if d.p >= 0.95 {
			f.decided++
			if d.right {
				f.precision++
			}
		}
	}
	f.decided, f.precision = f.decided/n, f.precision/max(f.decided, 1)
	slices.SortStableFunc(all, func(a, b decided) int {
		if a.p > b.p {
			return -1
		} else if a.p < b.p {
			return 1
		}
		return 0
	})
	right, taken := 0.0, 0.0
	for _, d := range all {
		if d.agent == "" {
			continue
		}
		if taken++; d.right {
			right++
		}
		if right >= 0.95*taken {
			f.coverage = right / max(own, 1)
		}
	}
	return f, p95(times)
}

// given returns the share of the requests for agents that their agent gets if an agent gets what it is likely enough
// to be for, as tasks of plans are given, and how many of all that agents get are right.
func given(r *routing.Router, requests []request) (share, right float64) {
	own, all, good := 0.0, 0.0, 0.0
	for _, q := range requests {
		if q.Agent != "" {
			own++
		}
		ranked := r.Rank(q.Say)
		best := ranked[slices.IndexFunc(ranked, func(x routing.Ranked) bool { return x.Agent != "" })]
		if best.P < routing.DefaultTaskThreshold {
			continue
		}
		if all++; best.Agent == q.Agent {
			good++
		}
	}
	return good / own, good / all
}

func TestRouterIsMeasured(t *testing.T) {
	var agents []routing.Agent
	var more map[string][]string
	read(t, "agents.json", &agents)
	read(t, "more.json", &more)
	sets := map[string][]request{}
	for _, name := range []string{"dev", "test"} {
		var list []request
		read(t, name+".json", &list)
		sets[name] = list
	}
	for _, c := range []struct {
		examples int
		aim      float64
		held     figures
		share    float64 // as tasks
	}{{8, 0.60, heldWith8, 0.17}, {120, 0.80, heldWith120, 0.41}} {
		if c.examples > 8 {
			for i, a := range agents {
				agents[i].Examples = append(slices.Clip(a.Examples), more[a.Name]...)
			}
		}
		began := time.Now()
		r := routing.New(agents)
		t.Logf("%d examples an agent, learned in %s", c.examples, time.Since(began))
		for _, set := range []string{"dev", "test"} {
			f, p := measure(r, sets[set])
			share, right := given(r, sets[set])
			t.Logf("%4s: as tasks, %.1f %% are given to their agent, and %.1f %% of what is given is right", set, 100*share, 100*right)
			if share < c.share || right < 0.88 {
				t.Errorf("as tasks, %.3f and %.3f; %.2f and 0.88 are held", share, right, c.share)
			}
			t.Logf("%4s: coverage at 95 %% precision %.1f %% (aim %.0f %%), accuracy %.1f %% (aim 87 %%), calibration error %.3f (aim 0.05), for none but sent to an agent %.1f %%, decided alone %.1f %% of which right %.1f %%, P95 %s (aim 1 ms)",
				set, 100*f.coverage, 100*c.aim, 100*f.accuracy, f.calibration, 100*f.stolen, 100*f.decided, 100*f.precision, p)
			if set == "test" && (f.coverage < c.held.coverage || f.accuracy < c.held.accuracy || f.calibration > c.held.calibration || f.stolen > c.held.stolen || f.precision < c.held.precision) {
				t.Errorf("%+v, and %+v is held", f, c.held)
			}
		}
	}
}

// What is held: a little below what was measured, which is far below most aims.
const toolsHeld = 0.61

var (
	heldWith8   = figures{accuracy: 0.56, coverage: 0.10, calibration: 0.05, stolen: 0.26, precision: 0.94}
	heldWith120 = figures{accuracy: 0.72, coverage: 0.35, calibration: 0.04, stolen: 0.22, precision: 0.95}
)
