package terminal

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// View implements tea.Model.
func (m *liveScreen) View() tea.View {
	v := tea.NewView(m.screen())
	v.WindowTitle = "steward"
	if m.named != "" {
		v.WindowTitle = "steward: " + oneLine(m.named, 60)
	}
	if c := m.input.Cursor(); c != nil && !m.leaving && m.picking == nil {
		c.Y += strings.Count(m.above(), "\n")
		v.Cursor = c
	}
	return v
}

func (m *liveScreen) screen() string {
	if m.leaving {
		return ""
	}
	if m.picking != nil {
		return m.above() + strings.Join(m.pickerLines(), "\n") + "\n" + m.turn.dim.Render(cut("type to filter · ↑ ↓ · Enter chooses · Esc cancels", m.width-1))
	}
	m.input.Placeholder = placeholder
	if a, _ := m.turn.pending(); m.reply.stage == givingReason {
		m.input.Placeholder = "The reason, which the model will see"
	} else if a != nil || m.asking() {
		m.input.Placeholder = "Press a key to answer"
	}
	return m.above() + m.input.View() + "\n" + m.below()
}

// placeholder stands in the empty input.
const placeholder = "Ask something, or /help"

// above returns the live part above the input, with a line feed at its end.
func (m *liveScreen) above() string {
	asks := m.asks()
	most := max(1, m.height-m.part()-m.inputHeight()-4-len(asks)-min(len(m.outbox), 3)) // a call's question, an empty line, the line below
	lines := append(m.turn.live(most, m.spinner()), asks...)
	if m.sending != "" {
		lines = append(lines, m.turn.dim.Render(cut(m.spinner()+" sending: "+oneLine(plainText(m.sending), 400), m.width-1)))
	}
	for _, text := range m.outbox[:min(len(m.outbox), 3)] {
		lines = append(lines, m.turn.dim.Render(cut("then: "+oneLine(plainText(text), 400), m.width-1)))
	}
	if a, n := m.turn.pending(); a != nil {
		line, _ := m.replyLines(a, n)
		lines = append(lines, m.turn.warn.Render(cut(line, m.width-1)))
	}
	return strings.Join(append(lines, ""), "\n") + "\n"
}

// below returns the line below the input.
func (m *liveScreen) below() string {
	text, words := "", m.completions(m.input.Value())
	switch a, _ := m.turn.pending(); {
	case m.now().Sub(m.ctrlC) < doubleInterrupt && !m.ctrlC.IsZero():
		text = "Ctrl-C again leaves"
	case len(words) > 0:
		for i, w := range words { // of a path, its last part
			if at := strings.LastIndex(w, "@"); at >= 0 && !strings.HasPrefix(w, "/") {
				words[i] = path.Base(strings.Trim(w[at+1:], `"`)) + w[len(strings.TrimSuffix(w, "/")):]
			}
		}
		text = "Tab: " + safe(strings.Join(words, "  "))
	case a != nil:
		_, text = m.replyLines(a, 1)
	case m.asking():
		text = m.answersLine()
	case m.editing != nil:
		text = "replaces your last message · Esc keeps it"
	case m.turn.running:
		text = fmt.Sprintf("%s %s · Esc stops", m.spinner(), clock(m.now().Sub(m.turn.began)-m.turn.waited))
	case m.size() > Long:
		text = Weight(m.size(), m.opt.Cost, cmp.Or(m.model, m.turn.model)) + " · Enter sends it"
	case m.labels(m.input.Value()) > 0:
		text = "Enter sends the pasted text · Ctrl-O shows it"
	default:
		var parts []string
		for _, p := range []string{m.agent, m.model, m.named} {
			if p != "" {
				parts = append(parts, oneLine(p, 60))
			}
		}
		if len(parts) > 0 { // the placeholder of the empty input mentions /help
			text = strings.Join(append(parts, "/help"), " · ")
		}
	}
	return m.turn.dim.Render(cut(text, m.width-1))
}

// inputHeight returns the lines of the input, or of the picker in its place.
func (m *liveScreen) inputHeight() int {
	if m.picking != nil {
		return len(m.pickerLines())
	}
	return m.input.Height()
}

func (m *liveScreen) spinner() string {
	dots := []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}
	return dots[m.spin%len(dots)]
}
