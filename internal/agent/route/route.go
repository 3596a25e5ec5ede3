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
	"math"
	"strings"
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

// What makes probabilities of the model's scores.
const (
	sharpness = 1.2
	noneBias  = -0.57 // of no agent, for which there are many sentences
)

// mostRead bounds how many bytes of a text are read.
const mostRead = 2000

// New returns a router for agents. It takes about a second for 2,000 examples.
func New(agents []Agent) *Router {
	r := &Router{names: []string{""}}
	var samples []sample
	for line := range strings.Lines(background) {
		samples = append(samples, sample{strings.TrimSpace(line), 0})
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
	if strings.TrimSpace(text) == "" {
		return "", 1
	}
	scores := r.model.scores(text[:min(len(text), mostRead)])
	for i := range scores {
		scores[i] *= sharpness
	}
	scores[0] += noneBias
	softmax(scores)
	best := 0
	for i, p := range scores {
		if p > scores[best] {
			best = i
		}
	}
	return r.names[best], scores[best]
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
