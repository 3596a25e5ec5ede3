package terminal

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// picker is a list to choose from, in place of the input. What is typed filters it.
type picker struct {
	title  string
	items  []string
	filter string
	at     int // of the items that the filter leaves
	choose func(item string) tea.Cmd
}

// pick opens a picker.
func (m *liveScreen) pick(title, filter string, items []string, choose func(string) tea.Cmd) tea.Cmd {
	m.picking = &picker{title: title, items: items, filter: filter, choose: choose}
	return nil
}

// left returns the items that have every word of the filter, in any case.
func (p *picker) left() (out []string) {
	words := strings.Fields(strings.ToLower(p.filter))
	for _, item := range p.items {
		low := strings.ToLower(item)
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(low, w) }) {
			out = append(out, item)
		}
	}
	return out
}

// pickKey handles a key while a picker is open.
func (m *liveScreen) pickKey(k tea.KeyPressMsg) tea.Cmd {
	p := m.picking
	left := p.left()
	switch name := k.String(); name {
	case "esc", "ctrl+c", "ctrl+d":
		m.picking = nil
	case "enter":
		if len(left) > 0 {
			m.picking = nil
			return p.choose(left[p.at])
		}
	case "up", "ctrl+p", "shift+tab":
		p.at = max(p.at-1, 0)
	case "down", "ctrl+n", "ctrl+r", "tab":
		p.at = max(min(p.at+1, len(left)-1), 0)
	case "backspace":
		if r := []rune(p.filter); len(r) > 0 {
			p.filter, p.at = string(r[:len(r)-1]), 0
		}
	case "ctrl+u":
		p.filter, p.at = "", 0
	default:
		if k.Text != "" && len(p.filter) < 200 {
			p.filter, p.at = p.filter+k.Text, 0
		}
	}
	return nil
}

// pickerRows is how many items a picker shows at once.
const pickerRows = 8

// pickerLines draws the picker: the filter, and the items around the chosen one.
func (m *liveScreen) pickerLines() []string {
	p := m.picking
	left := p.left()
	lines := []string{m.turn.you.Render(p.title+" ") + cut(safe(p.filter), m.width/2) + "▏"}
	rows := min(pickerRows, max(m.height/2, 1))
	from := max(0, min(p.at-rows/2, len(left)-rows))
	for i := from; i < min(from+rows, len(left)); i++ {
		text := cut(oneLine(safe(left[i]), 400), m.width-4)
		if i == p.at {
			lines = append(lines, m.turn.you.Render("› "+text))
		} else {
			lines = append(lines, "  "+text)
		}
	}
	if len(left) == 0 {
		lines = append(lines, m.turn.dim.Render("  no matches"))
	}
	return lines
}

// searchHistory looks for something that was typed before.
func (m *liveScreen) searchHistory() tea.Cmd {
	var items []string
	seen, whole := map[string]bool{}, map[string]string{}
	for _, line := range slices.Backward(m.past.lines) {
		if !seen[line] {
			seen[line] = true
			items = append(items, plainText(line))
			whole[plainText(line)] = line
		}
	}
	if len(items) == 0 {
		return m.noteCmd("no earlier input")
	}
	return m.pick("earlier input:", m.input.Value(), items, func(text string) tea.Cmd {
		m.setInput(whole[text])
		return nil
	})
}
