// Package routing finds the agent that a request is for.
//
// An Engine routes messages that name no agent: by their words where these are clear, and
// otherwise with the fast model (decide.go). It learns from people, who name another agent
// (learn.go). A Router does the first part, without asking a model.
//
// A Router learns from what agents say of themselves: descriptions, capabilities and
// examples. Against them stand sentences that are for no agent in particular, by kind:
// small talk, general knowledge, advice and so on (background.txt). An agent with
// two of these among its examples takes the place of their kind.
//
// A linear model (linear) weighs stems, pairs, parts of words, and what a text means as
// a whole. Each word of a request counts also as those words of the samples that are used
// most like it. Two constants make probabilities of its scores; they were fitted on
// requests whose agents are known.
//
// More examples are worth more than anything else. docs/concepts/routing.md says how
// good a router is with 8 and with 120.
package routing

import (
	"cmp"
	_ "embed"
	"math"
	"slices"
	"strings"

	"steward/internal/search/words"
)

// Agent is what a router learns from. Only the name is required.
type Agent struct {
	Name         string // not empty
	Description  string
	Capabilities []string
	Examples     []string // requests that are for it
}

// Router decides which agent a request is for. It is immutable and safe for concurrent
// use. Make a new one when the agents change.
type Router struct {
	names []string // of the candidates: "" for none, and the agents
	kinds int      // of requests for none: they are the first classes
	bias  []float64
	model *linear
}

// Ranked is a candidate with the probability that a request is for it.
type Ranked struct {
	Agent string  `json:"agent"` // "": none
	P     float64 `json:"p"`
}

// What makes probabilities of scores. It was fitted for catalogs with 3 to 120
// examples an agent, and for some with both, and then made less certain by a
// tenth, since real requests are less like the examples.
const (
	learnedWeight = 1.36
	noneBias      = 1.3 // of no agent
)

// noneWorth is how much all sentences that are for no agent count in training,
// compared with an agent's.
const noneWorth = 4

// maxRead bounds how many bytes of a text are read.
const maxRead = 2000

//go:embed background.txt
var background string

// New returns a router for agents; none are more requests that are for no agent.
func New(agents []Agent, none ...string) *Router {
	r := &Router{names: []string{""}}
	var samples []sample
	count := make([]float64, len(agents)+1)
	add := func(text string, class, candidate int) {
		text = text[:min(len(text), maxRead)]
		samples = append(samples, sample{text, class})
		count[candidate]++
	}
	claimed := map[string]bool{}
	for _, a := range agents {
		for _, text := range a.Examples {
			claimed[text] = true
		}
	}
	for kind := range strings.SplitSeq(background, "\n\n") {
		list := strings.Split(strings.TrimSpace(kind), "\n")[1:] // below the name of the kind
		free := slices.DeleteFunc(slices.Clone(list), func(text string) bool { return claimed[text] })
		if len(list)-len(free) > 1 {
			continue // an agent is for this kind
		}
		for _, text := range free {
			add(text, r.kinds, 0)
		}
		r.kinds++
	}
	for _, text := range none {
		add(text, r.kinds, 0)
	}
	if len(none) > 0 || r.kinds == 0 {
		r.kinds++
	}
	worth := slices.Repeat([]float64{noneWorth / float64(r.kinds)}, r.kinds)
	for i, a := range agents {
		r.names, worth = append(r.names, a.Name), append(worth, 1)
		about := a.Name + ". " + a.Description + " " + strings.Join(a.Capabilities, ", ")
		for _, text := range append(append([]string{about}, a.Capabilities...), a.Examples...) {
			add(text, r.kinds+i, i+1)
		}
	}
	for _, n := range count { // what was learned prefers candidates with many samples
		r.bias = append(r.bias, -math.Log(max(n, 1)))
	}
	r.bias[0] += noneBias
	r.model = train(samples, worth)
	return r
}

// Rank returns all candidates, the likeliest first.
func (r *Router) Rank(text string) []Ranked {
	out := make([]Ranked, len(r.names))
	p := make([]float64, len(r.names))
	if strings.TrimSpace(text) == "" {
		p[0] = 1
	} else {
		text = text[:min(len(text), maxRead)]
		learned := r.model.scores(text)
		softmax(learned)
		for _, p := range learned[:r.kinds-1] {
			learned[r.kinds-1] += p
		}
		for i := range p {
			p[i] = learnedWeight*math.Log(learned[r.kinds-1+i]+1e-9) + r.bias[i]
		}
		softmax(p)
	}
	for i := range p {
		out[i] = Ranked{r.names[i], p[i]}
	}
	slices.SortStableFunc(out, func(a, b Ranked) int { return cmp.Compare(b.P, a.P) })
	return out
}

// softmax makes probabilities of scores.
func softmax(x []float64) {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = math.Max(top, v)
	}
	for i, v := range x {
		x[i] = math.Exp(v - top)
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}

// maxShort is how many words a follow-up has at most.
const maxShort = 6

// when are words of time, which name no subject. They follow up on what was said
// before, as in "and tomorrow?".
const when = " today tomorrow tonight yesterday later week weekend month year morning afternoon evening night monday tuesday wednesday thursday friday saturday sunday next last other same instead "

// FollowsUp reports whether a text is short and names no subject of its own, so that
// it continues what was said before.
func FollowsUp(text string) bool {
	list := words.Split(text)
	return len(list) <= maxShort && !slices.ContainsFunc(list, func(w string) bool {
		return !words.Common(w) && !strings.Contains(when, " "+w+" ")
	})
}
