package terminal

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"steward/client"
)

// Long is the size in bytes above which a person is told what a text means for a model. The chat
// tells it below the input, before the text is sent.
const Long = 50_000

// Weight describes the size of a text for a model, and its least cost if cost is
// not nil and knows the model's price.
func Weight(size int, cost func(model string, u client.Usage) float64, model string) string {
	tokens := int64(size / 4)
	say := fmt.Sprintf("That is %s of text, about %d thousand tokens", SizeOf(size), max(1, tokens/1000))
	if cost != nil {
		if usd := cost(model, client.Usage{Input: tokens}); usd > 0 {
			say += fmt.Sprintf(", about %.2f USD for each call of the model", usd)
		}
	}
	return say
}

// doubleInterrupt is the time within which a second Ctrl-C leaves the chat.
const doubleInterrupt = 2 * time.Second

// key handles a key press.
func (m *liveScreen) key(k tea.KeyPressMsg) tea.Cmd {
	now, before := m.now(), m.typed
	m.typed = now
	name := k.String()
	if m.picking != nil {
		return m.pickKey(k)
	}
	if cmd, ok := m.replyKey(k, now, before); ok {
		return cmd
	}
	if cmd, ok := m.handleQuestionKey(name, now, before); ok {
		return cmd
	}
	if name != "ctrl+c" {
		m.ctrlC = time.Time{}
	}
	switch name {
	case "ctrl+c":
		return m.interrupt(now)
	case "esc":
		if m.turn.running {
			return m.stopTurn("")
		}
		if m.editing != nil {
			m.editing = nil
			m.input.Reset()
		}
		return nil
	case "ctrl+d":
		if m.input.Value() == "" {
			return m.leave("")
		}
	case "enter":
		return m.enter()
	case "tab":
		m.tab()
		return nil
	case "ctrl+o":
		if !m.showPastes() {
			m.turn.unfold()
		}
		return nil
	case "ctrl+r":
		return m.searchHistory()
	case "ctrl+z":
		return m.undoMemory()
	case "up", "down":
		if m.recall(name) {
			return nil
		}
	}
	return m.typeKey(k)
}

// interrupt handles Ctrl-C. It stops the turn or else clears the input; the second
// one leaves the chat.
func (m *liveScreen) interrupt(now time.Time) tea.Cmd {
	again := !m.ctrlC.IsZero() && now.Sub(m.ctrlC) < doubleInterrupt
	m.ctrlC = now
	switch {
	case again:
		return m.leave("")
	case m.turn.running:
		return m.stopTurn("")
	case m.input.Value() != "":
		m.past.keep(m.written())
		m.input.Reset()
		m.editing = nil
	}
	return m.tick(doubleInterrupt, func(time.Time) tea.Msg { return ticked{} })
}

// enter sends the input, runs it as a command, or starts a new line.
func (m *liveScreen) enter() tea.Cmd {
	text := m.input.Value()
	if strings.HasSuffix(text, `\`) && m.input.Line() == m.input.LineCount()-1 {
		m.setInput(strings.TrimSuffix(m.written(), `\`) + "\n")
		return nil
	}
	text = m.withPastes(strings.TrimSpace(text), pasteStart, pasteEnd) // as it was pasted, with its blanks
	if text == "" {
		return nil
	}
	m.input.Reset()
	m.pastes = nil
	if err := m.past.add(text); err != nil {
		m.fail(err)
	}
	if strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//") {
		m.editing = nil
		return m.runCommand(plainText(text))
	}
	return m.send(strings.TrimPrefix(text, "/"))
}

// tab completes the input as far as it is certain. If nothing more is, it lists the
// completions, with what commands do, so that they can be searched.
func (m *liveScreen) tab() {
	text := m.input.Value()
	words := m.completions(text)
	if len(words) == 0 {
		return
	}
	if next := common(words); len(words) == 1 || len(next) > len(text) {
		m.complete(next, len(words) == 1)
		return
	}
	does := map[string]string{}
	for _, c := range commands() {
		does["/"+c.name] = "  " + c.does
	}
	head := "" // of a message, what stands before the path
	if i := strings.LastIndex(text, "@"); text[0] != '/' {
		head = text[:i]
	}
	var items []string
	for _, w := range words {
		items = append(items, w[len(head):]+does[w])
	}
	m.pick("which:", "", items, func(item string) tea.Cmd {
		if text[0] == '/' {
			item, _, _ = strings.Cut(item, "  ")
		}
		m.complete(head+item, true)
		return nil
	})
}

// complete puts a completion into the input. The end of a whole one, which is not a folder, is followed by a blank.
func (m *liveScreen) complete(text string, whole bool) {
	if whole && !strings.HasSuffix(text, "/") {
		text += " "
	}
	m.setInput(text)
}

// recall goes through the earlier input, from the first and the last line of the
// input.
func (m *liveScreen) recall(name string) bool {
	by := -1
	if name == "down" {
		by = 1
	}
	info := m.input.LineInfo()
	if by < 0 && (m.input.Line() > 0 || info.RowOffset > 0) {
		return false
	}
	if by > 0 && (m.input.Line() < m.input.LineCount()-1 || info.RowOffset < info.Height-1) {
		return false
	}
	text, ok := m.past.move(by, m.written())
	if ok {
		m.setInput(text)
	}
	return ok
}
