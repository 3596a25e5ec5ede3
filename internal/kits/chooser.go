package kits

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"steward/internal/llm"
	"steward/internal/search/similar"
	"steward/internal/search/words"
	"steward/internal/tool"
)

// chooser chooses among an agent's tools. It is safe for concurrent use.
type chooser struct {
	finder *tool.Finder
	tools  *llm.Toolset // the agent's, and then tools.find
	core   []int        // in their order
	others []int        // those that are chosen by what the user says
	about  []string     // what each says of itself

	mu   sync.Mutex
	sets map[string]*llm.Toolset // sets that were chosen, since a provider encodes each set once
}

// newChooser returns a chooser of tools. Those that come with Steward are found by tools.find only,
// unless all of them were selected for the agent.
func newChooser(tools *llm.Toolset, selected bool) *chooser {
	specs := tools.Specs()
	c := &chooser{finder: tool.NewFinder(specs)}
	for _, name := range core {
		if i := slices.IndexFunc(specs, func(s tool.Spec) bool { return s.Name == name }); i >= 0 {
			c.core = append(c.core, i)
		}
	}
	var hidden []string
	for i, s := range specs {
		c.about = append(c.about, s.Compiled())
		switch {
		case slices.Contains(c.core, i):
		case selected || !isBuiltIn(s.Origin):
			c.others = append(c.others, i)
		default:
			hidden = append(hidden, s.Name)
		}
	}
	find := findTools{}.Spec()
	if list := llm.Cut(strings.Join(hidden, ", "), maxHidden); list != "" {
		find.Description += " You have " + list + ", and perhaps others."
	}
	c.tools = llm.NewToolset(append(slices.Clip(specs), find)...)
	return c
}

// maxHidden bounds the names of hidden tools in the description of tools.find, in bytes.
const maxHidden = 800

// isBuiltIn reports whether tools of an origin come with Steward.
func isBuiltIn(origin string) bool {
	return !strings.Contains(origin, ":") || strings.HasPrefix(origin, "domain:")
}

// findTool returns the index of tools.find.
func (c *chooser) findTool() int { return len(c.tools.Specs()) - 1 }

// maxChosenSets bounds how many sets are kept.
const maxChosenSets = 64

// Near returns how similar each of some descriptions is to a request, or nil if only its words count: see
// similar.Finder.Scores. A nil Near is the same.
type Near func(descriptions []string) []float64

// leastWords is how many words with a meaning of their own a message needs to be compared by an embedding
// model, which finds something similar to everything, also to "thanks".
const leastWords = 3

// similar returns at most so many of the tools that are chosen by what the user says, the most
// similar first.
func (c *chooser) similar(text string, most int, near Near) []int {
	if len(slices.DeleteFunc(words.Split(text), words.Common)) < leastWords {
		near = nil
	}
	return c.find(text, c.others, most, near)
}

// find returns at most so many of some tools that are similar to a text, the most similar first.
func (c *chooser) find(text string, among []int, most int, near Near) []int {
	if text == "" || len(among) == 0 {
		return nil
	}
	all := c.finder.Scores(text)
	scores, about := make([]float64, len(among)), make([]string, len(among))
	for at, i := range among {
		scores[at], about[at] = all[i], c.about[i]
	}
	order := tool.TopScores(scores, len(scores))
	if near != nil {
		order = similar.Merge(order, near(about))
	}
	out := make([]int, 0, most)
	for _, at := range order[:min(len(order), most)] {
		out = append(out, among[at])
	}
	return out
}

// set returns the set of the tools with these indexes.
func (c *chooser) set(tools []int) *llm.Toolset {
	key := make([]byte, 0, 2*len(tools))
	for _, i := range tools {
		key = binary.AppendUvarint(key, uint64(i))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	set := c.sets[string(key)]
	if set == nil {
		if c.sets == nil || len(c.sets) == maxChosenSets {
			c.sets = map[string]*llm.Toolset{}
		}
		specs := make([]tool.Spec, len(tools))
		for at, i := range tools {
			specs[at] = c.tools.Specs()[i]
		}
		set = llm.NewToolset(specs...)
		c.sets[string(key)] = set
	}
	return set
}
