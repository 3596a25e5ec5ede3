package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/record"
)

// turnVersions is the last turn of a conversation, with its other versions.
type turnVersions struct {
	asked    *message.Message // the user's message; nil: there is none
	before   *message.Message // the message before it; nil: it is the first
	first    *message.Message // the first message that answers it
	final    *message.Message // the newest one
	wordings []client.Sibling
	answers  []client.Sibling
}

// stand reads the last turn and its other versions.
func (m *liveScreen) stand(conv string) (turnVersions, error) {
	s, err := m.lastTurn(conv, 1)
	if err != nil || s.asked == nil {
		return s, err
	}
	if s.wordings, err = m.opt.Client.Siblings(m.ctx, conv, s.asked.ID.String()); err == nil && s.first != nil {
		s.answers, err = m.opt.Client.Siblings(m.ctx, conv, s.first.ID.String())
	}
	return s, err
}

// lastTurn finds the n-th last message of the user and what follows it.
func (m *liveScreen) lastTurn(conv string, n int) (s turnVersions, err error) {
	for x, err := range m.newest(conv, 50) {
		switch {
		case err != nil:
			return s, err
		case s.asked != nil:
			s.before = x
			return s, nil
		case x.Role == message.User && len(x.Blocks) > 0 && x.Blocks[0].Base().Origin == record.OriginUser:
			if n--; n == 0 {
				s.asked = x
			} else {
				s.first, s.final = nil, nil
			}
		default:
			s.first = x
			if s.final == nil {
				s.final = x
			}
		}
	}
	return s, nil
}

// asked returns the last turn, or an error if there is none.
func (m *liveScreen) asked(conv string) (turnVersions, error) {
	s, err := m.lastTurn(conv, 1)
	if err == nil && s.asked == nil {
		err = fault.New(fault.NotFound, "nothing_asked", "you have not sent a message here yet")
	}
	return s, err
}

// describe describes which of several versions is shown; "" if there is only one.
func (s *turnVersions) describe() string {
	var parts []string
	for _, v := range []struct {
		what string
		list []client.Sibling
	}{{"your message", s.wordings}, {"this answer", s.answers}} {
		if i := current(v.list); len(v.list) > 1 && i >= 0 {
			parts = append(parts, fmt.Sprintf("%s (%d of %d)", v.what, i+1, len(v.list)))
		}
	}
	if parts == nil {
		return ""
	}
	return strings.Join(parts, ", ") + " · /prev and /next show the others"
}

func current(list []client.Sibling) int {
	return slices.IndexFunc(list, func(s client.Sibling) bool { return s.Preferred })
}

// count shows whether there are other versions of the last turn.
func (m *liveScreen) count() tea.Cmd {
	if m.conv == "" {
		return nil
	}
	conv := m.conv
	return elsewhere(m, m.stand, func(s turnVersions) tea.Cmd {
		if text := s.describe(); text != "" && conv == m.conv {
			m.turn.note(text)
		}
		return nil
	})
}

// edit replaces the last message by a text. If the text is empty, the person edits the
// message in the input.
func (m *liveScreen) edit(text string) tea.Cmd {
	return elsewhere(m, m.asked, func(s turnVersions) tea.Cmd {
		m.editing = s.asked
		if text != "" {
			return m.replace(text)
		}
		m.setInput(s.asked.Text())
		return nil
	})
}

// replace sends a text in place of the message that is being edited, with that
// message's other blocks.
func (m *liveScreen) replace(text string) tea.Cmd {
	old := m.editing
	m.editing = nil
	t := m.next(text)
	for _, b := range contentOf(old) {
		if b.Type != "text" {
			t.Content = append(t.Content, b)
		}
	}
	t.Replace = old.ID.String()
	return m.dispatch(t, text, old)
}

func (m *liveScreen) again(string) tea.Cmd {
	conv, t := m.conv, client.Message{Conversation: m.conv, Model: m.model, Agent: m.agent}
	m.sending = "another answer, please"
	m.printNote("another answer:")
	return func() tea.Msg {
		s, err := m.asked(conv)
		if err != nil {
			return sent{err: err}
		}
		t.Regenerate = s.asked.ID.String()
		if s.final != nil {
			t.Regenerate = s.final.ID.String()
		}
		acc, err := m.opt.Client.Say(m.ctx, t)
		return sent{Accepted: acc, err: err}
	}
}

func (m *liveScreen) branches(string) tea.Cmd {
	return elsewhere(m, m.branchItems, m.showBranches)
}

func (m *liveScreen) branchItems(conv string) ([]TreeItem[client.Branch], error) {
	list, err := m.opt.Client.Branches(m.ctx, conv, false)
	return Tree(list, func(b client.Branch) string { return b.ID }, func(b client.Branch) string { return b.Stem }), err
}

func (m *liveScreen) showBranches(list []TreeItem[client.Branch]) tea.Cmd {
	counts, wide := make([]string, len(list)), 0
	for i, l := range list {
		counts[i] = counted(l.Item.Messages, "message")
		wide = max(wide, len(counts[i]))
	}
	var b strings.Builder
	for i, l := range list {
		mark := " "
		if l.Item.Preferred {
			mark = "*"
		}
		line := fmt.Sprintf("%s%2d  %-*s  %s", mark, i+1, wide, counts[i], l.Head)
		b.WriteString(strings.TrimRight(line+cut(nameOf(l.Item), max(m.width-1-lipgloss.Width(line), 10)), " ") + "\n")
	}
	b.WriteString("/switch NUMBER continues with one")
	return m.noteCmd(b.String())
}

// nameOf returns the name of a branch.
func nameOf(b client.Branch) string {
	var parts []string
	for _, s := range []string{b.Title, b.Begins} {
		if s != "" {
			parts = append(parts, oneLine(s, 200))
		}
	}
	return strings.Join(parts, ": ")
}

func (m *liveScreen) switchTo(which string) tea.Cmd {
	n, err := strconv.Atoi(which)
	if err != nil {
		return m.noteCmd("/switch needs a number from /branches")
	}
	conv := m.conv
	return m.opening(conv, func() (opened, error) {
		list, err := m.branchItems(conv)
		if err == nil && (n < 1 || n > len(list)) {
			err = fault.New(fault.NotFound, "branch_not_found", "there is no branch %d", n).WithHint("/branches lists them")
		}
		if err != nil {
			return opened{}, err
		}
		return m.move(conv, list[n-1].Item.ID)
	})
}

// step switches to another version of the last answer or, if there is none, of the
// question.
func (m *liveScreen) step(by int) tea.Cmd {
	conv := m.conv
	return elsewhere(m, m.stand, func(s turnVersions) tea.Cmd {
		for _, list := range [][]client.Sibling{s.answers, s.wordings} {
			if at := current(list); at >= 0 && at+by >= 0 && at+by < len(list) {
				return m.opening(conv, func() (opened, error) { return m.move(conv, list[at+by].Branch) })
			}
		}
		where := "after"
		if by < 0 {
			where = "before"
		}
		return m.noteCmd("there is no other version " + where + " this one")
	})
}

// move continues the conversation with a branch.
func (m *liveScreen) move(conv, branch string) (opened, error) {
	err := m.opt.Client.ChangeBranch(m.ctx, conv, branch, map[string]any{"preferred": true})
	return opened{say: "the conversation continues from here:"}, err
}

func (m *liveScreen) rewind(args string) tea.Cmd {
	n, withdraw := 1, false
	for _, word := range strings.Fields(args) {
		if i, err := strconv.Atoi(word); err == nil && i > 0 {
			n = i
		} else if word == "withdraw" {
			withdraw = true
		} else {
			return m.noteCmd("/rewind takes the number of your messages to go back, and withdraw to cancel actions that are not done yet")
		}
	}
	conv := m.conv
	return m.opening(conv, func() (opened, error) {
		s, err := m.lastTurn(conv, n)
		if err == nil && s.asked == nil {
			err = fault.New(fault.NotFound, "nothing_asked", "you have not sent that many messages here").WithHint("/rewind 1 goes back one")
		}
		if err != nil {
			return opened{}, err
		}
		var done struct{ Withdrawn int }
		if s.before == nil {
			in := map[string]any{"message": s.asked.ID, "before": true, "title": "rewound"}
			err = m.opt.Client.Call(m.ctx, "POST /conversations/{id}/branches", client.Params{"id": conv}, in, nil)
		} else {
			in := map[string]any{"message": s.before.ID, "withdraw": withdraw}
			err = m.opt.Client.Call(m.ctx, "POST /conversations/{id}/rewind", client.Params{"id": conv}, in, &done)
		}
		say := "back before: " + oneLine(s.asked.Text(), 200)
		if done.Withdrawn > 0 {
			say += fmt.Sprintf("\nActions cancelled before they were done: %d", done.Withdrawn)
		}
		return opened{say: say + "\nThe later messages are kept: /branches", draft: s.asked.Text()}, err
	})
}

// pin keeps the last turn in the model's context, or no longer.
func (m *liveScreen) pin(pinned bool) tea.Cmd {
	return elsewhere(m, func(conv string) (string, error) {
		s, err := m.lastTurn(conv, 1)
		var msgs []string
		for _, x := range []*message.Message{s.asked, s.final} {
			if x != nil {
				msgs = append(msgs, x.ID.String())
			}
		}
		if err == nil && msgs == nil {
			err = fault.New(fault.NotFound, "nothing_asked", "there are no messages yet")
		}
		if err != nil {
			return "", err
		}
		done := "pinned: your last message and its answer stay in the context"
		if !pinned {
			done = "unpinned: your last message and its answer"
		}
		return done, m.opt.Client.Pin(m.ctx, conv, pinned, msgs...)
	}, m.noteCmd)
}

func (m *liveScreen) compact(arg string) tea.Cmd {
	how, done := "compact", "older messages are summarised for the model; /compact undo takes it back"
	switch arg {
	case "":
	case "undo":
		how, done = "whole", "the model sees the earlier messages again"
	default:
		return m.noteCmd("/compact takes no argument except undo")
	}
	m.printNote("one moment…")
	return elsewhere(m, func(conv string) (string, error) {
		if _, err := m.opt.Client.Tidy(m.ctx, conv, how); err != nil || how == "whole" {
			return done, err
		}
		list, err := m.opt.Client.Branches(m.ctx, conv, false)
		if err == nil && !slices.ContainsFunc(list, func(b client.Branch) bool { return b.Preferred && b.Cut }) {
			done = "nothing to summarise: the conversation is short enough"
		}
		return done, err
	}, m.noteCmd)
}

func (m *liveScreen) log(string) tea.Cmd {
	width := m.width
	return elsewhere(m, func(conv string) (string, error) {
		text, err := m.opt.Log(m.ctx, conv, width-1)
		return cmp.Or(strings.TrimRight(text, "\n"), "no tools have been called yet"), err
	}, m.noteCmd)
}

// TreeItem is an item of a tree with the lines that are drawn before it.
type TreeItem[T any] struct {
	Head string
	Item T
}

// Tree orders items so that each is below its parent, and draws the lines between
// them. Items without a parent in the list are at the root.
func Tree[T any](list []T, idOf, parentOf func(T) string) []TreeItem[T] {
	there := map[string]bool{}
	for _, x := range list {
		there[idOf(x)] = true
	}
	children := map[string][]T{}
	for _, x := range list {
		parent := parentOf(x)
		if !there[parent] {
			parent = ""
		}
		children[parent] = append(children[parent], x)
	}
	var out []TreeItem[T]
	var draw func(x T, head, tail string)
	draw = func(x T, head, tail string) {
		out = append(out, TreeItem[T]{head, x})
		below := children[idOf(x)]
		for i, c := range below {
			if i < len(below)-1 {
				draw(c, tail+"├─ ", tail+"│  ")
			} else {
				draw(c, tail+"└─ ", tail+"   ")
			}
		}
	}
	for _, x := range children[""] {
		draw(x, "", "")
	}
	return out
}
