package terminal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"steward/internal/catalog"
	"steward/internal/settings"
)

// agentsMsg is the answer to /agents, and to /agent with a name.
type agentsMsg struct {
	agents []AgentLine // that may be used
	all    []catalog.Listing
	chosen string // that is to go on; empty: they are only listed
	err    error
}

func (m *chat) listAgents(string) tea.Cmd { return m.askAgents("") }

// hand has another agent go on with the conversation.
func (m *chat) hand(name string) tea.Cmd {
	if name != "" && m.opt.Agents == nil {
		m.use(name)
		return nil
	}
	return m.askAgents(name)
}

func (m *chat) askAgents(chosen string) tea.Cmd {
	if m.opt.Agents == nil {
		m.say("the agents cannot be listed here")
		return nil
	}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, 10*time.Second)
		defer cancel()
		a := agentsMsg{chosen: chosen}
		if a.agents, a.err = m.opt.Agents(ctx); a.err == nil && chosen == "" && m.opt.Approvals != nil {
			a.all, a.err = m.opt.Approvals.List(ctx)
		}
		return a
	}
}

func (m *chat) use(name string) {
	m.agent = name
	m.say("from your next message on: " + name)
}

func (m *chat) showAgents(a agentsMsg) {
	if a.err != nil {
		m.fail(a.err)
		return
	}
	m.agents = m.agents[:0]
	for _, l := range a.agents {
		m.agents = append(m.agents, l.Path)
	}
	switch {
	case a.chosen == "":
		m.say(m.agentList(agentLines(a.agents, a.all)))
	case slices.Contains(m.agents, a.chosen):
		m.use(a.chosen)
	default:
		say := fmt.Sprintf("there is no agent %s, or it may not be used; /agents lists them", oneLine(a.chosen, 80))
		if w := settings.Likely(a.chosen, m.agents); w != "" {
			say = fmt.Sprintf("there is no agent %s; did you mean /agent %s?", oneLine(a.chosen, 80), w)
		}
		m.say(say)
	}
}

// agentLines puts Steward's own agents before those that a person allows.
func agentLines(agents []AgentLine, all []catalog.Listing) []agentLine {
	var out []agentLine
	for _, l := range agents {
		if !slices.ContainsFunc(all, func(x catalog.Listing) bool { return x.Path == l.Path }) {
			out = append(out, agentLine{AgentLine: l})
		}
	}
	for _, l := range all {
		text := l.Description
		switch {
		case len(l.Problems) > 0:
			text = l.Problems[0].Message
		case l.Kind == catalog.KindSource:
			text = "from " + l.Dir
		}
		out = append(out, agentLine{AgentLine{l.Path, text}, StatusWords(l), l.Waits()})
	}
	return out
}

func (m *chat) agentList(agents []agentLine) string {
	var wide, states int
	for _, l := range agents {
		wide, states = max(wide, len(l.Path)), max(states, len(l.status))
	}
	if states > 0 {
		states += 2
	}
	var b strings.Builder
	waits := false
	for _, l := range agents {
		waits = waits || l.waits
		mark := " "
		if l.Path == m.agent {
			mark = "*"
		}
		line := fmt.Sprintf("%s %-*s  %-*s%s", mark, wide, l.Path, states, l.status, oneLine(firstOf(l.Description), 400))
		b.WriteString(strings.TrimRight(cut(bare(line), max(m.width-1, 10)), " ") + "\n")
	}
	b.WriteString("/agent NAME has one go on with the conversation")
	if waits {
		b.WriteString("; /approve NAME allows one")
	}
	return b.String()
}
