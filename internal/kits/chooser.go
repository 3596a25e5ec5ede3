package kits

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"steward/internal/llm"
	"steward/internal/tool"
)

// chooser chooses among an agent's tools. It is safe for concurrent use.
type chooser struct {
	finder *tool.Finder
	tools  *llm.Toolset // the agent's, and then tools.find
	core   []int        // in their order
	others []int        // those that are chosen by what the user says

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

// find returns the index of tools.find.
func (c *chooser) find() int { return len(c.tools.Specs()) - 1 }

// maxChosenSets bounds how many sets are kept.
const maxChosenSets = 64

// similar returns at most so many of the tools that are chosen by what the user says, the most
// similar first.
func (c *chooser) similar(text string, most int) []int {
	if text == "" || len(c.others) == 0 {
		return nil
	}
	all := c.finder.Scores(text)
	scores := make([]float64, len(all))
	for _, i := range c.others {
		scores[i] = all[i]
	}
	return tool.TopScores(scores, most)
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
