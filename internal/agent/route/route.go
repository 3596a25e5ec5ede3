// Package route finds the agent that a request is for, without asking a model.
//
// A Router learns from what agents say of themselves: descriptions, capabilities and
// examples. A built-in list of sentences that are for no agent in particular stands
// against them (background.txt). A linear model compares stems, pairs, groups of
// words of one meaning (internal/search/words) and parts of words. Its scores become
// probabilities by two constants, which were fitted on requests whose agents are
// known (test/routing/testdata/dev.json).
//
// More examples are worth more than anything else. docs/concepts/routing.md says how
// good a router is with 8 and with 120.
package route

import (
	"cmp"
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
	model *linear
}

// Ranked is a candidate with the probability that a request is for it.
type Ranked struct {
	Agent string  `json:"agent"` // "": none
	P     float64 `json:"p"`
}

// What makes probabilities of the model's scores.
const (
	sharpness = 1.2
	noneBias  = -0.57 // of no agent, for which there are many sentences
)

// mostRead bounds how many bytes of a text are read.
const mostRead = 2000

// New returns a router for agents; none are more requests that are for no agent. It
// takes about a second for 2,000 examples.
func New(agents []Agent, none ...string) *Router {
	r := &Router{names: []string{""}}
	var samples []sample
	claimed := map[string]bool{} // examples of agents, which the background may hold too
	for _, a := range agents {
		for _, text := range a.Examples {
			claimed[text] = true
		}
	}
	for line := range strings.Lines(background) {
		if line = strings.TrimSpace(line); !claimed[line] {
			none = append(none, line)
		}
	}
	for _, text := range none {
		samples = append(samples, sample{text[:min(len(text), mostRead)], 0})
	}
	for i, a := range agents {
		r.names = append(r.names, a.Name)
		about := a.Name + ". " + a.Description + " " + strings.Join(a.Capabilities, ", ")
		for _, text := range append(append([]string{about}, a.Capabilities...), a.Examples...) {
			samples = append(samples, sample{text[:min(len(text), mostRead)], i + 1})
		}
	}
	r.model = train(samples, len(r.names))
	return r
}

// Decide returns the agent that a request is for, "" for none of them, and the
// probability that this is right.
func (r *Router) Decide(text string) (agent string, p float64) {
	best := r.Rank(text)[0]
	return best.Agent, best.P
}

// Rank returns all candidates, the likeliest first.
func (r *Router) Rank(text string) []Ranked {
	scores := make([]float64, len(r.names))
	if strings.TrimSpace(text) == "" {
		scores[0] = 1
	} else {
		scores = r.model.scores(text[:min(len(text), mostRead)])
		for i := range scores {
			scores[i] *= sharpness
		}
		scores[0] += noneBias
		softmax(scores)
	}
	out := make([]Ranked, len(scores))
	for i, p := range scores {
		out[i] = Ranked{r.names[i], p}
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

// mostShort is how many words a follow-up has at most.
const mostShort = 6

// when are words of time, which name no subject. They follow up on what was said
// before, as in "and tomorrow?".
const when = " today tomorrow tonight yesterday later week weekend month year morning afternoon evening night monday tuesday wednesday thursday friday saturday sunday next last other same instead "

// FollowsUp reports whether a text is short and names no subject of its own, so that
// it goes on with what was said before.
func FollowsUp(text string) bool {
	list := words.Split(text)
	return len(list) <= mostShort && !slices.ContainsFunc(list, func(w string) bool {
		return !words.Common(w) && !strings.Contains(when, " "+w+" ")
	})
}
