package terminal

import (
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

// standing is the last turn of a conversation, and what else stands in its
// place.
type standing struct {
	asked    *message.Message // the user's own message; nil: there is none
	before   *message.Message // the message before it; nil: it is the first
	first    *message.Message // the first message that answers it
	final    *message.Message // the newest one
	wordings []client.Sibling
	answers  []client.Sibling
}

// stand reads the last turn, and what else stands in its place.
func (m *chat) stand(conv string) (standing, error) {
	s, err := m.lastTurn(conv, 1)
	if err != nil || s.asked == nil {
		return s, err
	}
	if s.wordings, err = m.opt.Client.Siblings(m.ctx, conv, s.asked.ID.String()); err == nil && s.first != nil {
		s.answers, err = m.opt.Client.Siblings(m.ctx, conv, s.first.ID.String())
	}
	return s, err
}

// lastTurn finds the n-th last message of the user's own and what follows it.
func (m *chat) lastTurn(conv string, n int) (s standing, err error) {
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

// nothingAsked is the error where a conversation has no message of the user's.
func nothingAsked() error {
	return fault.New(fault.NotFound, "nothing_asked", "there is no message of yours here")
}

// say tells which of several versions is seen; empty where there is one only.
func (s *standing) say() string {
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

// atRest says why something cannot be done now; it reports whether it can.
func (m *chat) atRest() bool {
	switch {
	case m.conv == "":
		m.say("there is no conversation yet; write something first")
	case m.busy():
		m.say("wait for the answer, or stop it with Esc, first")
	default:
		return true
	}
	return false
}

// stood tells of a turn that has ended, or was opened.
type stood struct {
	conv     string
	standing standing
	err      error
}

// count looks for other versions of the last turn.
func (m *chat) count() tea.Cmd {
	if m.conv == "" {
		return nil
	}
	conv := m.conv
	return func() tea.Msg {
		s, err := m.stand(conv)
		return stood{conv, s, err}
	}
}

func (m *chat) showStood(s stood) {
	switch text := s.standing.say(); {
	case s.conv != m.conv:
	case s.err != nil:
		m.fail(s.err)
	case text != "":
		m.print(m.turn.note(text))
	}
}

// edited is a message that is to be written anew, with its new text or none.
type edited struct {
	message *message.Message
	text    string
	err     error
}

func (m *chat) edit(text string) tea.Cmd {
	if !m.atRest() {
		return nil
	}
	conv := m.conv
	return func() tea.Msg {
		s, err := m.lastTurn(conv, 1)
		if err == nil && s.asked == nil {
			err = nothingAsked()
		}
		return edited{s.asked, text, err}
	}
}

func (m *chat) showEdited(e edited) tea.Cmd {
	if e.err != nil {
		m.fail(e.err)
		return nil
	}
	m.editing = e.message
	if e.text != "" {
		return m.replace(e.text)
	}
	m.input.SetValue(e.message.Text())
	m.input.MoveToEnd()
	return nil
}

// replace sends a text in place of the message that is being edited. What
// else that message holds, it keeps.
func (m *chat) replace(text string) tea.Cmd {
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

func (m *chat) again(string) tea.Cmd {
	if !m.atRest() {
		return nil
	}
	conv, t := m.conv, client.Message{Conversation: m.conv, Model: m.model, Agent: m.agent}
	m.sending = "another answer, please"
	m.say("another answer:")
	return func() tea.Msg {
		s, err := m.lastTurn(conv, 1)
		switch {
		case err != nil:
		case s.asked == nil:
			err = nothingAsked()
		case s.final != nil:
			t.Regenerate = s.final.ID.String()
		default:
			t.Regenerate = s.asked.ID.String()
		}
		if err != nil {
			return sent{err: err}
		}
		acc, err := m.opt.Client.Say(m.ctx, t)
		return sent{Accepted: acc, err: err}
	}
}

// pathed is the answer to /branches.
type pathed struct {
	paths []Limb[client.Branch]
	err   error
}

func (m *chat) branches(string) tea.Cmd {
	if !m.atRest() {
		return nil
	}
	conv := m.conv
	return func() tea.Msg {
		limbs, err := m.limbs(conv)
		return pathed{limbs, err}
	}
}

func (m *chat) limbs(conv string) ([]Limb[client.Branch], error) {
	list, err := m.opt.Client.Branches(m.ctx, conv, false)
	return Tree(list, func(b client.Branch) string { return b.ID }, func(b client.Branch) string { return b.Stem }), err
}

func (m *chat) showPaths(p pathed) {
	if p.err != nil {
		m.fail(p.err)
		return
	}
	counts, wide := make([]string, len(p.paths)), 0
	for i, l := range p.paths {
		counts[i] = counted(l.Item.Messages, "message")
		wide = max(wide, len(counts[i]))
	}
	var b strings.Builder
	for i, l := range p.paths {
		mark := " "
		if l.Item.Preferred {
			mark = "*"
		}
		line := fmt.Sprintf("%s%2d  %-*s  %s", mark, i+1, wide, counts[i], l.Head)
		b.WriteString(strings.TrimRight(line+cut(nameOf(l.Item), max(m.width-1-lipgloss.Width(line), 10)), " ") + "\n")
	}
	b.WriteString("/switch NUMBER goes on with one")
	m.say(b.String())
}

// nameOf is what a branch is called.
func nameOf(b client.Branch) string {
	var parts []string
	for _, s := range []string{b.Title, b.Begins} {
		if s != "" {
			parts = append(parts, oneLine(s, 200))
		}
	}
	return strings.Join(parts, ": ")
}

func (m *chat) switchTo(which string) tea.Cmd {
	if !m.atRest() {
		return nil
	}
	n, err := strconv.Atoi(which)
	if err != nil {
		m.say("/switch wants a number from /branches")
		return nil
	}
	conv := m.conv
	return func() tea.Msg {
		limbs, err := m.limbs(conv)
		if err == nil && (n < 1 || n > len(limbs)) {
			err = fault.New(fault.NotFound, "branch_not_found", "there is no branch %d", n).WithHint("/branches lists them")
		}
		if err != nil {
			return opened{err: err}
		}
		return m.move(conv, limbs[n-1].Item.ID)
	}
}

func (m *chat) prev(string) tea.Cmd  { return m.step(-1) }
func (m *chat) after(string) tea.Cmd { return m.step(1) }

// step goes to another version of the last answer, or where there is none of
// the question.
func (m *chat) step(by int) tea.Cmd {
	if !m.atRest() {
		return nil
	}
	conv := m.conv
	return func() tea.Msg {
		s, err := m.stand(conv)
		if err != nil {
			return opened{err: err}
		}
		for _, list := range [][]client.Sibling{s.answers, s.wordings} {
			if at := current(list); at >= 0 && at+by >= 0 && at+by < len(list) {
				return m.move(conv, list[at+by].Branch)
			}
		}
		where := "after"
		if by < 0 {
			where = "before"
		}
		return told{text: "there is no other version " + where + " this one"}
	}
}

// move goes on with a branch and reads how it ends.
func (m *chat) move(conv, branch string) tea.Msg {
	if err := m.opt.Client.ChangeBranch(m.ctx, conv, branch, map[string]any{"preferred": true}); err != nil {
		return opened{err: err}
	}
	return m.reread(conv, "the conversation goes on from here:")
}

// reread reads a conversation and its last messages.
func (m *chat) reread(conv, say string) tea.Msg {
	c, err := m.opt.Client.Conversation(m.ctx, conv)
	if err != nil {
		return opened{err: err}
	}
	recent, err := m.lastMessages(conv, 8)
	return opened{conversation: c, recent: recent, say: say, err: err}
}

func (m *chat) rewind(args string) tea.Cmd {
	if !m.atRest() {
		return nil
	}
	n, withdraw := 1, false
	for _, word := range strings.Fields(args) {
		if i, err := strconv.Atoi(word); err == nil && i > 0 {
			n = i
		} else if word == "withdraw" {
			withdraw = true
		} else {
			m.say("/rewind takes how many of your messages to go back, and withdraw to call off what they led to and is not done yet")
			return nil
		}
	}
	conv := m.conv
	return func() tea.Msg {
		s, err := m.lastTurn(conv, n)
		if err == nil && s.asked == nil {
			err = fault.New(fault.NotFound, "nothing_asked", "there are not so many messages of yours here").WithHint("/rewind 1 goes back one")
		}
		if err != nil {
			return opened{err: err}
		}
		var done struct{ Withdrawn int }
		if s.before == nil {
			in := map[string]any{"message": s.asked.ID, "before": true, "title": "rewound"}
			err = m.opt.Client.Call(m.ctx, "POST /conversations/{id}/branches", client.Params{"id": conv}, in, nil)
		} else {
			in := map[string]any{"message": s.before.ID, "withdraw": withdraw}
			err = m.opt.Client.Call(m.ctx, "POST /conversations/{id}/rewind", client.Params{"id": conv}, in, &done)
		}
		if err != nil {
			return opened{err: err}
		}
		say := "back before: " + oneLine(s.asked.Text(), 200)
		if done.Withdrawn > 0 {
			say += fmt.Sprintf("\n%d withdrawn that had not been done yet", done.Withdrawn)
		}
		o := m.reread(conv, say+"\nWhat was said since is kept: /branches").(opened)
		o.draft = s.asked.Text()
		return o
	}
}

func (m *chat) pin(string) tea.Cmd {
	return m.pinned(true, "pinned: your last message and its answer stay in view")
}
func (m *chat) unpin(string) tea.Cmd {
	return m.pinned(false, "not pinned any more: your last message and its answer")
}

func (m *chat) pinned(pin bool, done string) tea.Cmd {
	if !m.atRest() {
		return nil
	}
	conv := m.conv
	return func() tea.Msg {
		s, err := m.lastTurn(conv, 1)
		var msgs []string
		for _, x := range []*message.Message{s.asked, s.final} {
			if x != nil {
				msgs = append(msgs, x.ID.String())
			}
		}
		if err == nil && msgs == nil {
			err = fault.New(fault.NotFound, "nothing_asked", "there is no message here yet")
		}
		if err == nil {
			err = m.opt.Client.Pin(m.ctx, conv, pin, msgs...)
		}
		return told{done, err}
	}
}

func (m *chat) compact(arg string) tea.Cmd {
	how, done := "compact", "older messages are summarised for the model; /compact undo takes it back"
	switch arg {
	case "":
	case "undo":
		how, done = "whole", "the model is shown again what it was shown before"
	default:
		m.say("/compact takes undo, or nothing")
		return nil
	}
	if !m.atRest() {
		return nil
	}
	conv := m.conv
	m.say("one moment…")
	return func() tea.Msg {
		_, err := m.opt.Client.Tidy(m.ctx, conv, how)
		if err == nil && arg == "" && !m.cut(conv) {
			done = "there is nothing to summarise: all of it is short enough"
		}
		return told{done, err}
	}
}

// cut reports whether a model is shown less than the whole of a conversation.
func (m *chat) cut(conv string) bool {
	list, err := m.opt.Client.Branches(m.ctx, conv, false)
	return err != nil || slices.ContainsFunc(list, func(b client.Branch) bool { return b.Preferred && b.Cut })
}

func (m *chat) log(string) tea.Cmd {
	switch {
	case m.opt.Log == nil:
		m.say("this cannot be done here")
		return nil
	case m.conv == "":
		m.say("there is no conversation yet; write something first")
		return nil
	}
	conv, width := m.conv, m.width
	return func() tea.Msg {
		text, err := m.opt.Log(m.ctx, conv, width-1)
		if err == nil && text == "" {
			text = "no tool was called yet"
		}
		return told{strings.TrimRight(text, "\n"), err}
	}
}
