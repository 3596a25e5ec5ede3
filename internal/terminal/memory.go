package terminal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"steward/client"
)

// What was recalled or remembered is told in one dim line, which names as many facts as fit. Ctrl-O shows each on a
// line of its own, and so does /memory. Ctrl-Z undoes what was remembered last: it takes back that very change,
// and nothing if the fact has changed since.

// memories is what a chat has told about memory.
type memories struct {
	saved []client.FactNews // what Ctrl-Z can undo, the newest last
	last  client.Frame      // what was told last, for Ctrl-O
}

// maxUndo is how many changes Ctrl-Z can undo.
const maxUndo = 50

// memory tells what was recalled or remembered. What was undone or forgotten can no longer be undone here.
func (t *turn) memory(f *client.Frame) {
	switch f.Did {
	case client.MemoryRecalled, client.MemorySaved:
		if f.Did == client.MemorySaved {
			t.remembered(f.Facts)
		}
		t.memories.last = *f
		t.flush()
		t.print(kindNote, t.memoryLines(f.Did, f.Facts, ""))
	case client.MemoryUndone, client.MemoryForgotten:
		gone := func(v client.FactNews) bool {
			return slices.ContainsFunc(f.Facts, func(x client.FactNews) bool { return x.ID == v.ID })
		}
		t.memories.saved = slices.DeleteFunc(t.memories.saved, gone)
	}
}

// remembered notes what Ctrl-Z can undo.
func (t *turn) remembered(list []client.FactNews) {
	m := &t.memories
	m.saved = append(m.saved, list...)
	m.saved = m.saved[max(0, len(m.saved)-maxUndo):]
}

// memoryLines returns facts in one line, or unfolded in one line each. when is said after the first words.
func (t *turn) memoryLines(did string, list []client.FactNews, when string) string {
	head, tail := "recalled", ""
	if did == client.MemorySaved {
		head, tail = "remembered", " · Ctrl-Z undoes it"
		if len(list) > 1 {
			tail = " · Ctrl-Z undoes the last"
		}
	}
	head += when + ": "
	room := t.paint.width - 1
	if t.unfolded {
		var lines []string
		for i := range list {
			first := head
			if i > 0 {
				first = strings.Repeat(" ", len(head))
			}
			lines = append(lines, hangingIndent(t.dim, t.dim.Render(first), strings.Repeat(" ", len(head)), t.factLine(&list[i])+howSaved(&list[i]), t.paint.width))
		}
		return strings.Join(lines, "\n")
	}
	text := head
	for i := range list {
		part := t.factLine(&list[i])
		more := ""
		if n := len(list) - i - 1; n > 0 {
			more = fmt.Sprintf(" +%d more", n)
		}
		if i > 0 {
			part = "; " + part
		}
		if i > 0 && lipgloss.Width(text+part+more+tail) > room {
			text += fmt.Sprintf(" +%d more", len(list)-i)
			break
		}
		text += cut(part, max(room-lipgloss.Width(text+more+tail), 20))
	}
	return t.dim.Render(cut(text+tail, room))
}

// factLine shows a fact with its date. What others wrote is a quotation.
func (t *turn) factLine(v *client.FactNews) string {
	text := oneLine(v.Text, 600)
	if v.Subject != "" && v.Subject != "user" && !strings.Contains(text, v.Subject) {
		text = oneLine(v.Subject, 80) + ": " + text
	}
	if v.Foreign {
		text = `others wrote "` + text + `"`
	}
	return text + " (" + dayOf(v.From, t.now()) + ")"
}

// howSaved says what has become of a fact that was saved, if it was not merely added.
func howSaved(v *client.FactNews) string {
	switch v.How {
	case client.FactSuperseded:
		return ", instead of what was true before"
	case client.FactMerged:
		return ", together with what was known"
	}
	return ""
}

// dayOf writes a day, with its year unless that is the current one.
func dayOf(at, now time.Time) string {
	at, now = at.Local(), now.Local()
	if at.Year() == now.Year() {
		return at.Format("2 January")
	}
	return at.Format("2 January 2006")
}

// undoMemory undoes what was remembered last.
func (m *liveScreen) undoMemory() tea.Cmd {
	list := m.turn.memories.saved
	if len(list) == 0 {
		return m.noteCmd("nothing was remembered here that could be undone; /memory lists what is remembered")
	}
	v := list[len(list)-1]
	m.turn.memories.saved = list[:len(list)-1]
	return elsewhere(m, func(string) (client.UndoneFact, error) {
		return m.opt.Client.UndoFact(m.ctx, v.ID, v.Change)
	}, func(u client.UndoneFact) tea.Cmd {
		said := "undone; it is again: " + oneLine(u.Fact.Text, 600)
		if u.Gone {
			said = "undone; no longer remembered: " + oneLine(v.Text, 600)
		}
		return m.noteCmd(said)
	})
}

// maxNews is how many facts are told that were remembered while nobody was there.
const maxNews = 20

// followMemory tells what was remembered from conversations that rested while the person was away.
func (m *liveScreen) followMemory() tea.Cmd {
	since := m.past.used
	if since.IsZero() {
		return nil
	}
	return func() tea.Msg {
		list, err := m.opt.Client.Facts(m.ctx, client.FactQuery{Since: since, Limit: maxNews})
		if err != nil { // the chat goes on without it
			return nil
		}
		return continuation(func() tea.Cmd {
			var news []client.FactNews
			for _, f := range slices.Backward(list) {
				if n := len(f.History); n > 0 && f.History[n-1].Actor == "extraction" && f.History[n-1].At.After(since) {
					news = append(news, client.FactNews{ID: f.ID, Text: f.Text, Subject: f.Subject, From: f.From, Foreign: f.Foreign, How: f.History[n-1].What, Change: f.History[n-1].ID})
				}
			}
			if len(news) > 0 {
				m.turn.remembered(news)
				m.turn.memories.last = client.Frame{Did: client.MemorySaved, Facts: news}
				m.turn.print(kindNote, m.turn.memoryLines(client.MemorySaved, news, " since you were here"))
			}
			return nil
		})
	}
}

// memoryCommand lists what the conversation has recalled and what was saved from it, or erases a fact of that list.
func (m *liveScreen) memoryCommand(args string) tea.Cmd {
	what, which, _ := strings.Cut(args, " ")
	switch what {
	case "":
		return m.listMemory()
	case "undo":
		return m.undoMemory()
	case "forget":
		n, err := strconv.Atoi(strings.TrimSpace(which))
		if err != nil || n < 1 || n > len(m.facts) {
			return m.noteCmd("/memory forget needs a number from /memory")
		}
		return m.forgetMemory(m.facts[n-1])
	}
	return m.noteCmd("/memory takes nothing, undo, or forget NUMBER")
}

func (m *liveScreen) listMemory() tea.Cmd {
	return elsewhere(m, func(conv string) (out client.ConversationMemory, err error) {
		if conv != "" {
			return m.opt.Client.ConversationMemory(m.ctx, conv)
		}
		list, err := m.opt.Client.Facts(m.ctx, client.FactQuery{Limit: maxNews})
		for _, f := range list {
			out.Saved = append(out.Saved, client.FactNews{ID: f.ID, Text: f.Text, Subject: f.Subject, From: f.From, Foreign: f.Foreign, Source: f.Source})
		}
		return out, err
	}, func(v client.ConversationMemory) tea.Cmd {
		m.facts = append(slices.Clone(v.Recalled), v.Saved...)
		if len(m.facts) == 0 {
			return m.noteCmd("this conversation has recalled nothing, and nothing was saved from it; steward memory list shows all facts")
		}
		var lines []string
		n := 0
		section := func(title string, list []client.FactNews) {
			if len(list) > 0 {
				lines = append(lines, m.turn.dim.Render(title))
			}
			for i := range list {
				n++
				head := fmt.Sprintf("%3d  ", n)
				lines = append(lines, hangingIndent(m.turn.dim, m.turn.dim.Render(head), "     ", m.turn.factLine(&list[i])+howSaved(&list[i]), m.width))
			}
		}
		saved := "saved from this conversation:"
		if m.conv == "" {
			saved = "remembered, the newest first:"
		}
		section("recalled in this conversation:", v.Recalled)
		section(saved, v.Saved)
		lines = append(lines, hangingIndent(m.turn.dim, "", "", "/memory forget NUMBER erases one; Ctrl-Z undoes what was remembered last", m.width))
		m.turn.print(kindSaid, strings.Join(lines, "\n"))
		return nil
	})
}

// forgetMemory erases a fact once the person has confirmed it.
func (m *liveScreen) forgetMemory(v client.FactNews) tea.Cmd {
	const no, fact, said = "no, keep it", "yes, erase the fact", "yes, and also erase the turn in which it was said"
	items := []string{no, fact}
	if v.Source != "" {
		items = append(items, said)
	}
	return m.pick("forget "+oneLine(v.Text, max(m.width-20, 20))+"?", "", items, func(item string) tea.Cmd {
		if item == no {
			return nil
		}
		return elsewhere(m, func(string) (string, error) {
			return "forgotten", m.opt.Client.ForgetFact(m.ctx, v.ID, item == said)
		}, m.noteCmd)
	})
}
