package routing

import (
	"strings"

	"steward/internal/catalog"
	"steward/internal/kits"
	"steward/internal/taint"
)

// plannerAgent describes to routing what the planner is for.
var plannerAgent = Agent{Name: kits.PlannerAgent,
	Description: "plans and carries out requests that need several different steps by several agents or tools",
	Examples: []string{"Plan a weekend trip: check the weather, find lodging and add it to my calendar", "Compare three phones, write me a report and mail it to Ana",
		"Organise my move: find movers, make a list and set reminders", "Look through my mail for invoices, put them in a table and remind me of those that are due",
		"Prepare Monday's meeting: collect the notes, draft an agenda and invite the team", "Research heat pumps, work out the costs and put a summary in a file",
		"Organise the whole wedding for us", "Book a flight, block the days and write to my boss",
		"Check the weather in Seattle and then set a timer for 10 minutes", "Find a time for dinner with Paul, book a table and tell him"}}

// Bounds of what a router learns from.
const (
	maxRouted   = 100 // agents of the catalog
	maxExamples = 120 // of an agent
)

// catalogAgents returns what a router learns of agents of the catalog: of those of the first
// level, or of all of them.
func catalogAgents(tree *catalog.Tree, nested bool) (agents []Agent) {
	var add func(list []*catalog.Agent)
	add = func(list []*catalog.Agent) {
		for _, a := range list {
			if len(agents) == maxRouted {
				return
			}
			c := Agent{Name: a.Path, Description: a.Description}
			more := a.Metadata
			if strings.Contains(c.Description, more.Purpose) {
				more.Purpose = ""
			}
			c.Description = strings.TrimSpace(c.Description + "\n" + more.Description())
			for _, e := range a.Examples[:min(len(a.Examples), maxExamples)] {
				c.Examples = append(c.Examples, e.Say)
			}
			agents = append(agents, c)
		}
		for _, a := range list {
			if nested {
				add(a.Children)
			}
		}
	}
	add(tree.Root.Children)
	return agents
}

// Candidates returns the agents that a message may be routed to, without the
// assistant, and what the assistant's own tools do.
func (e *Engine) Candidates() (agents []Agent, own []string) { return e.candidates(false) }

// candidates returns them, with agents below those of the first level if nested is true.
func (e *Engine) candidates(nested bool) (agents []Agent, own []string) {
	if e.opt.Catalog != nil {
		agents = catalogAgents(e.opt.Catalog.Tree(), nested)
	}
	taken := map[string]bool{}
	for _, a := range e.opt.Kits.SmallAgents() {
		agents = append(agents, Agent{Name: a.Path, Description: a.About, Examples: a.Examples})
		for _, name := range a.Kit.Names {
			taken[name] = true
		}
	}
	for _, s := range e.opt.Kits.Fixed[kits.DefaultAgent].All.Specs() {
		if !taken[s.Name] && !taint.Plans(s.Name) {
			first, _, _ := strings.Cut(s.Description, ".")
			own = append(own, s.Name+" "+first)
		}
	}
	return append(agents, plannerAgent), own
}
