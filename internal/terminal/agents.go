package terminal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"steward/internal/catalog"
)

// showAgents lists the agents and sources.
func (m *liveScreen) showAgents(string) tea.Cmd {
	return m.withAgents(func(all []catalog.Listing) tea.Cmd { return m.noteCmd(m.agentList(all)) })
}

// switchAgent continues the conversation with the named agent, or offers those that may be used.
func (m *liveScreen) switchAgent(name string) tea.Cmd {
	return m.withAgents(func(all []catalog.Listing) tea.Cmd {
		use := func(name string) tea.Cmd {
			m.agent = name
			return m.noteCmd("from your next message on: " + name)
		}
		switch {
		case name == "":
			return m.pick("agent:", "", m.agents, use)
		case slices.Contains(m.agents, name):
			return use(name)
		default:
			m.printUnknown("agent ", name, ", or you may not use it; /agents lists them", "/agent ", m.agents)
		}
		return nil
	})
}

// withAgents calls do with all agents and sources, and remembers the agents that may be used.
func (m *liveScreen) withAgents(do func([]catalog.Listing) tea.Cmd) tea.Cmd {
	return elsewhere(m, func(string) ([]catalog.Listing, error) {
		ctx, cancel := context.WithTimeout(m.ctx, listTimeout)
		defer cancel()
		var out struct{ Agents []catalog.Listing }
		err := m.opt.Client.Call(ctx, "GET /agents", nil, nil, &out)
		return out.Agents, err
	}, func(all []catalog.Listing) tea.Cmd {
		m.agents = []string{ownAgent}
		for _, l := range all {
			if l.Usable && l.Kind == catalog.KindAgent {
				m.agents = append(m.agents, l.Path)
			}
		}
		return do(all)
	})
}

// ownAgent is Steward's own agent, which needs no approval.
const ownAgent = "assistant"

// agentList lists the agents and sources with their status.
func (m *liveScreen) agentList(all []catalog.Listing) string {
	rows := [][3]string{{ownAgent, "", "answers unless you choose another agent"}}
	waits := false
	for _, l := range all {
		text := l.Description
		switch {
		case len(l.Problems) > 0:
			text = l.Problems[0].Message
		case l.Kind == catalog.KindSource:
			text = "from " + l.Dir
		}
		rows = append(rows, [3]string{l.Path, StatusWords(l), text})
		waits = waits || l.NeedsDecision()
	}
	var wide, states int
	for _, r := range rows {
		wide, states = max(wide, len(r[0])), max(states, len(r[1]))
	}
	if states > 0 {
		states += 2
	}
	var b strings.Builder
	for _, r := range rows {
		mark := " "
		if r[0] == m.agent {
			mark = "*"
		}
		line := fmt.Sprintf("%s %-*s  %-*s%s", mark, wide, r[0], states, r[1], oneLine(firstOf(r[2]), 400))
		b.WriteString(strings.TrimRight(cut(Visible(line), max(m.width-1, 10)), " ") + "\n")
	}
	b.WriteString("/agent NAME switches to an agent")
	if waits {
		b.WriteString("; /approve NAME approves one")
	}
	return b.String()
}
