package terminal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"steward/client"
	"steward/internal/catalog"
	"steward/internal/settings"
)

// agentsMsg is the answer to /agents, and to /agent with a name.
type agentsMsg struct {
	all    []catalog.Listing
	chosen string // that is to go on; empty: they are only listed
	err    error
}

func (m *chat) listAgents(string) tea.Cmd { return m.askAgents("") }

// hand has another agent go on with the conversation.
func (m *chat) hand(name string) tea.Cmd {
	return m.askAgents(name)
}

func (m *chat) askAgents(chosen string) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, 10*time.Second)
		defer cancel()
		all, err := listAll(ctx, m.opt.Client)
		return agentsMsg{all, chosen, err}
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
	m.agents = []string{ownAgent}
	for _, l := range a.all {
		if l.Usable && l.Kind == catalog.KindAgent {
			m.agents = append(m.agents, l.Path)
		}
	}
	switch {
	case a.chosen == "":
		m.say(m.agentList(a.all))
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

// ownAgent is Steward's own agent, which nobody has to allow.
const ownAgent = "assistant"

// listAll returns the agents and sources that there are.
func listAll(ctx context.Context, c *client.Client) ([]catalog.Listing, error) {
	var out struct{ Agents []catalog.Listing }
	err := c.Call(ctx, "GET /agents", nil, nil, &out)
	return out.Agents, err
}

// agentList tells of the agents and sources, and how far each is allowed.
func (m *chat) agentList(all []catalog.Listing) string {
	rows := [][3]string{{ownAgent, "", "answers when no other agent is named"}}
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
		waits = waits || l.Waits()
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
		b.WriteString(strings.TrimRight(cut(bare(line), max(m.width-1, 10)), " ") + "\n")
	}
	b.WriteString("/agent NAME has one go on with the conversation")
	if waits {
		b.WriteString("; /approve NAME allows one")
	}
	return b.String()
}
