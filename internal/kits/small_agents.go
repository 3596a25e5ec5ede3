package kits

import (
	"cmp"
	"slices"
	"strings"

	"steward/internal/agent"
	"steward/internal/llm"
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
		kit, err := k.fixedKit(d)
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

// Small is a small agent as routing sees it.
type Small struct {
	Path, About string
	Examples    []string
	Kit         *Kit
}

// SmallAgents returns the small agents that are there.
func (k *Engine) SmallAgents() []Small {
	var out []Small
	for _, a := range smallAgents {
		if kit := k.smallAgent(a.path); kit != nil {
			out = append(out, Small{a.path, a.about, a.examples, kit})
		}
	}
	return out
}
