package kits

import (
	"cmp"
	"slices"
	"strings"

	"steward/internal/agent"
	"steward/internal/catalog"
	"steward/internal/llm"
	"steward/internal/routing"
	"steward/internal/taint"
)

// A small built-in agent has a few of the assistant's tools and the fast model. It
// is there if its first tools are. An agent of the catalog with its name takes its
// place.
type smallAgent struct {
	path, about, prompt string
	tools               []string
	examples            []string
}

// SmallTalk is the small agent that messages go to by their words only if there are agents in the catalog.
const SmallTalk = "conversation"

// ModelOf returns the model of an agent: a small one has the default model if there is no fast one.
func (k *Engine) ModelOf(kit *Kit) string {
	if kit.Small {
		if _, err := k.opt.Models.Resolve(kit.Model); err != nil {
			return llm.DefaultAlias
		}
	}
	return kit.Model
}

// smallIterations bounds the model calls of a small agent.
const smallIterations = 5

var smallAgents = []smallAgent{
	{path: "weather", tools: []string{"weather.*", "time.*"},
		about:  "tells the weather and forecasts: rain, snow, wind, temperature, sun",
		prompt: "You tell the weather.",
		examples: []string{"What's the weather like in Lisbon right now?", "Do I need an umbrella tomorrow?", "Will it rain tonight?", "How cold does it get in Oslo this week?",
			"Give me the forecast for the weekend", "Is it windy at the coast this afternoon?", "When does the sun set today?", "Weather in Graz"}},
	{path: "calendar", tools: []string{"calendar.*", "time.*"},
		about:  "keeps the calendar: shows, adds, moves and cancels appointments, and finds free time",
		prompt: "You keep the user's calendar.",
		examples: []string{"What's on my calendar tomorrow?", "Put lunch with Ana in for Tuesday at one", "Am I free on Thursday afternoon?", "Move my dentist appointment to next week",
			"When do I meet Mr Okafor?", "Cancel the standup on Friday", "What do I have next week?", "Find a free hour on Monday"}},
	{path: "timer", tools: []string{"timer.*", "reminder.*", "time.*"},
		about:  "sets, lists and cancels timers and reminders",
		prompt: "You set timers and reminders.",
		examples: []string{"Set a timer for ten minutes", "Remind me to call Mum at six", "How long is left on the pasta?", "Cancel the timer", "Wake me at seven tomorrow",
			"Remind me every Monday to put the bins out", "What timers are running?", "Tell me when twenty minutes are up"}},
	{path: SmallTalk, tools: []string{"conversation.search", "time.now"},
		about:  "small talk, and what was said in earlier conversations",
		prompt: "You chat with the user. conversation.search finds what was said earlier: use it when the user asks about that.",
		examples: []string{"How are you today?", "Thanks, that was helpful", "Good morning", "Hello there", "You are great", "I feel a bit down today", "Tell me a joke", "I'm bored",
			"I had a lovely day", "Give me a compliment", "What did I tell you about my sister?", "What did we talk about last week?"}},
}

// plannerAbout tells routing what the planner is for.
var plannerAbout = routing.Agent{Name: PlannerAgent,
	Description: "plans and carries out requests that need several different steps by several agents or tools",
	Examples: []string{"Plan a weekend trip: check the weather, find lodging and add it to my calendar", "Compare three phones, write me a report and mail it to Ana",
		"Organise my move: find movers, make a list and set reminders", "Look through my mail for invoices, put them in a table and remind me of those that are due",
		"Prepare Monday's meeting: collect the notes, draft an agenda and invite the team", "Research heat pumps, work out the costs and put a summary in a file",
		"Organise the whole wedding for us", "Book a flight, block the days and write to my boss",
		"Check the weather in Seattle and then set a timer for 10 minutes", "Find a time for dinner with Paul, book a table and tell him"}}

// addSmallAgents builds the kits of the small agents.
func (k *Engine) addSmallAgents() error {
	if !k.opt.Small {
		return nil
	}
	for _, a := range smallAgents {
		d := agent.Definition{Name: a.path, Version: "1", Model: llm.FastAlias, Limits: k.opt.Limits, Prompt: a.prompt + " " + manners +
			" If you have no tool for what is asked, say so, and that the user can give it to the assistant."}
		d.Limits.Iterations = min(cmp.Or(d.Limits.Iterations, smallIterations), smallIterations)
		for _, pattern := range a.tools {
			if specs, err := k.opt.Tools.Select(pattern); err == nil {
				for _, s := range specs {
					d.Tools = append(d.Tools, s.Name)
				}
			}
		}
		own, _, _ := strings.Cut(a.tools[0], "*")
		if !slices.ContainsFunc(d.Tools, func(name string) bool { return strings.HasPrefix(name, own) }) {
			continue
		}
		kit, err := k.kit(d)
		if err == nil {
			err = (taint.Needs{}).AddTools(kit.Registry, k.opt.Tools, nil)
		}
		if err != nil {
			return err
		}
		kit.Small = true
		kit.Seal()
		k.Small[a.path] = kit
	}
	return nil
}

// smallAgent returns a small agent by its path, or nil if there is none.
func (k *Engine) smallAgent(path string) *Kit {
	if k.opt.Catalog != nil && k.opt.Catalog.Tree().ByPath[path] != nil {
		return nil
	}
	return k.Small[path]
}

// Bounds of what a router learns from.
const (
	maxRouted   = 100 // agents of the catalog
	maxExamples = 120 // of an agent
)

// learned returns what a router learns of the agents of the catalog.
func learned(tree *catalog.Tree) (agents []routing.Agent) {
	for _, a := range tree.Root.Children[:min(len(tree.Root.Children), maxRouted)] {
		c := routing.Agent{Name: a.Path, Description: a.Description}
		for _, e := range a.Examples[:min(len(a.Examples), maxExamples)] {
			c.Examples = append(c.Examples, e.Say)
		}
		agents = append(agents, c)
	}
	return agents
}

// Candidates returns the agents that a message may be routed to, without the
// assistant, and what the assistant's own tools do.
func (k *Engine) Candidates() (agents []routing.Agent, own []string) {
	if k.opt.Catalog != nil {
		agents = learned(k.opt.Catalog.Tree())
	}
	taken := map[string]bool{}
	for _, a := range smallAgents {
		if kit := k.smallAgent(a.path); kit != nil {
			agents = append(agents, routing.Agent{Name: a.path, Description: a.about, Examples: a.examples})
			for _, name := range kit.Names {
				taken[name] = true
			}
		}
	}
	for _, s := range k.Fixed[DefaultAgent].All.Specs() {
		if !taken[s.Name] && !taint.Plans(s.Name) {
			first, _, _ := strings.Cut(s.Description, ".")
			own = append(own, s.Name+" "+first)
		}
	}
	return append(agents, plannerAbout), own
}
