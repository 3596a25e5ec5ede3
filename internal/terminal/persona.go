package terminal

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// personas are the ways of speaking that the person can choose.
type personas struct {
	Personas map[string]struct{ Name, Tone, Language, Voice string }
	Chosen   map[string]string // by the path of an agent; * stands for all others
}

// persona chooses how the agent speaks, or offers what there is.
func (m *liveScreen) persona(name string) tea.Cmd {
	agent := cmp.Or(m.agent, m.continues, ownAgent)
	choose := func(name string) tea.Cmd {
		return elsewhere(m, func(string) (string, error) {
			err := m.opt.Client.Call(m.ctx, "PUT /persona", nil, map[string]string{"agent": agent, "persona": name}, nil)
			if name == "off" {
				return "from your next message on, " + agent + " speaks as usual", err
			}
			return "from your next message on, " + agent + " has the persona " + name, err
		}, m.noteCmd)
	}
	if name != "" {
		return choose(name)
	}
	return elsewhere(m, func(string) (all personas, err error) {
		return all, m.opt.Client.Call(m.ctx, "GET /personas", nil, nil, &all)
	}, func(all personas) tea.Cmd {
		chosen, ok := all.Chosen[agent]
		if !ok {
			chosen = cmp.Or(all.Chosen["*"], "off")
		}
		items := []string{"off"}
		for _, name := range slices.Sorted(maps.Keys(all.Personas)) {
			x := all.Personas[name]
			parts := slices.DeleteFunc([]string{x.Name, x.Tone, x.Language, x.Voice}, func(s string) bool { return s == "" })
			items = append(items, name+"  "+strings.Join(parts, " · "))
		}
		return m.pick("persona of "+agent+" (now "+chosen+"):", "", items, func(item string) tea.Cmd {
			name, _, _ := strings.Cut(item, "  ")
			return choose(name)
		})
	})
}
