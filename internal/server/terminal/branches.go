package terminal

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/store"
)

// Paths are the ways in which conversations go on. Safe for concurrent use.
type Paths interface {
	Branches(ctx context.Context, conv id.ID) ([]runtime.Path, error)
	Siblings(ctx context.Context, conv, msg id.ID) ([]conversation.Sibling, error)
	Switch(ctx context.Context, conv id.ID, branch string) error
	Fork(ctx context.Context, conv id.ID, f conversation.Fork) error
	Rewind(ctx context.Context, conv, msg id.ID, withdraw bool) (withdrawn int, err error)
}

// Views change what a model is shown of conversations. Safe for concurrent use.
type Views interface {
	Pin(ctx context.Context, conv id.ID, pinned bool, msgs ...id.ID) error
	Tidy(ctx context.Context, conv id.ID, how runtime.Tidying) error
}

// standing is the last turn of a conversation, and what else stands in its
// place.
type standing struct {
	asked    *conversation.Entry // the user's own message; nil: there is none
	before   id.ID               // the message before it; zero: it is the first
	first    *conversation.Entry // the first message that answers it
	final    *conversation.Entry // the newest one
	wordings []conversation.Sibling
	answers  []conversation.Sibling
}

// stand reads the last turn, or the n-th last one.
func (m *chat) stand(conv id.ID, n int) (standing, error) {
	s, err := lastTurn(m.ctx, m.opt.Shelf, conv, n)
	if err != nil || s.asked == nil || m.opt.Paths == nil {
		return s, err
	}
	if s.wordings, err = m.opt.Paths.Siblings(m.ctx, conv, s.asked.ID); err == nil && s.first != nil {
		s.answers, err = m.opt.Paths.Siblings(m.ctx, conv, s.first.ID)
	}
	return s, err
}

// lastTurn finds the n-th last message of the user's own and what follows it.
func lastTurn(ctx context.Context, shelf Shelf, conv id.ID, n int) (standing, error) {
	var s standing
	for after := store.Cursor(""); ; {
		page, next, err := shelf.Newest(ctx, conv, after, 50)
		if err != nil {
			return s, err
		}
		for i := range page {
			e := &page[i]
			switch {
			case s.asked != nil:
				s.before = e.ID
				return s, nil
			case e.Role == message.User && len(e.Blocks) > 0 && e.Blocks[0].Base().Origin == record.OriginUser:
				if n--; n == 0 {
					s.asked = e
				} else {
					s.first, s.final = nil, nil
				}
			default:
				if s.final == nil {
					s.final = e
				}
				s.first = e
			}
		}
		if after = next; after == "" {
			return s, nil
		}
	}
}

// say tells which of several versions is seen; empty where there is one only.
func (s *standing) say() string {
	var parts []string
	for _, v := range []struct {
		what string
		list []conversation.Sibling
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

func current(list []conversation.Sibling) int {
	return slices.IndexFunc(list, func(s conversation.Sibling) bool { return s.Current })
}

// atRest says why something cannot be done now; it reports whether it can.
func (m *chat) atRest(offered bool) bool {
	switch {
	case !offered:
		m.say("this cannot be done here")
	case m.conv.Zero():
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
	conv     id.ID
	standing standing
	err      error
}

// count looks for other versions of the last turn.
func (m *chat) count() tea.Cmd {
	if m.opt.Paths == nil || m.conv.Zero() {
		return nil
	}
	conv := m.conv
	return func() tea.Msg {
		s, err := m.stand(conv, 1)
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
	entry *conversation.Entry
	text  string
	err   error
}

func (m *chat) edit(text string) tea.Cmd {
	if !m.atRest(true) {
		return nil
	}
	conv := m.conv
	return func() tea.Msg {
		s, err := lastTurn(m.ctx, m.opt.Shelf, conv, 1)
		if err == nil && s.asked == nil {
			err = fault.New(fault.NotFound, "nothing_asked", "there is no message of yours here")
		}
		return edited{s.asked, text, err}
	}
}

func (m *chat) showEdited(e edited) tea.Cmd {
	if e.err != nil {
		m.fail(e.err)
		return nil
	}
	m.editing = e.entry
	if e.text != "" {
		return m.replace(e.text)
	}
	m.input.SetValue(e.entry.Text())
	m.input.MoveToEnd()
	return nil
}

// replace sends a text in place of the message that is being edited. What
// else that message holds, it keeps.
func (m *chat) replace(text string) tea.Cmd {
	old := m.editing
	m.editing = nil
	t := m.next(text)
	for _, b := range old.Blocks {
		if _, ok := b.(*message.Text); !ok {
			t.Content = append(t.Content, b)
		}
	}
	t.Replace = old.ID
	return m.dispatch(t, text, old)
}

func (m *chat) again(string) tea.Cmd {
	if !m.atRest(true) {
		return nil
	}
	conv, t := m.conv, runtime.Turn{Conversation: m.conv, Model: m.model, Agent: m.agent, Attended: true}
	m.sending = "another answer, please"
	m.say("another answer:")
	return func() tea.Msg {
		s, err := lastTurn(m.ctx, m.opt.Shelf, conv, 1)
		switch {
		case err != nil:
		case s.asked == nil:
			err = fault.New(fault.NotFound, "nothing_asked", "there is no message of yours here")
		case s.final != nil:
			t.Regenerate = s.final.ID
		default:
			t.Regenerate = s.asked.ID
		}
		if err != nil {
			return sent{err: err}
		}
		acc, err := m.opt.Node.Send(m.ctx, t)
		return sent{Accepted: acc, err: err}
	}
}

// pathed is the answer to /branches.
type pathed struct {
	paths []Limb[runtime.Path]
	err   error
}

func (m *chat) branches(string) tea.Cmd {
	if !m.atRest(m.opt.Paths != nil) {
		return nil
	}
	conv := m.conv
	return func() tea.Msg {
		limbs, err := m.limbs(conv)
		return pathed{limbs, err}
	}
}

func (m *chat) limbs(conv id.ID) ([]Limb[runtime.Path], error) {
	list, err := m.opt.Paths.Branches(m.ctx, conv)
	return Tree(list, func(p runtime.Path) string { return p.ID }, func(p runtime.Path) string { return p.Stem }), err
}

func (m *chat) showPaths(p pathed) {
	if p.err != nil {
		m.fail(p.err)
		return
	}
	counts, wide := make([]string, len(p.paths)), 0
	for i, l := range p.paths {
		if counts[i] = fmt.Sprintf("%d messages", l.Item.Messages); l.Item.Messages == 1 {
			counts[i] = "1 message"
		}
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
func nameOf(p runtime.Path) string {
	var parts []string
	for _, s := range []string{p.Title, p.Begins} {
		if s != "" {
			parts = append(parts, oneLine(s, 200))
		}
	}
	return strings.Join(parts, ": ")
}

func (m *chat) switchTo(which string) tea.Cmd {
	if !m.atRest(m.opt.Paths != nil) {
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
	if !m.atRest(m.opt.Paths != nil) {
		return nil
	}
	conv := m.conv
	return func() tea.Msg {
		s, err := m.stand(conv, 1)
		if err != nil {
			return opened{err: err}
		}
		for _, list := range [][]conversation.Sibling{s.answers, s.wordings} {
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
func (m *chat) move(conv id.ID, branch string) tea.Msg {
	if err := m.opt.Paths.Switch(m.ctx, conv, branch); err != nil {
		return opened{err: err}
	}
	return m.reread(conv, "the conversation goes on from here:")
}

// reread reads a conversation and its last messages.
func (m *chat) reread(conv id.ID, say string) tea.Msg {
	c, err := m.opt.Shelf.Conversation(m.ctx, conv)
	if err != nil {
		return opened{err: err}
	}
	recent, err := lastMessages(m.ctx, m.opt.Shelf, conv, 8)
	return opened{conversation: c, recent: recent, say: say, err: err}
}

func (m *chat) rewind(args string) tea.Cmd {
	if !m.atRest(m.opt.Paths != nil) {
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
		s, err := lastTurn(m.ctx, m.opt.Shelf, conv, n)
		if err == nil && s.asked == nil {
			err = fault.New(fault.NotFound, "nothing_asked", "there are not so many messages of yours here").WithHint("/rewind 1 goes back one")
		}
		if err != nil {
			return opened{err: err}
		}
		withdrawn := 0
		if s.before.Zero() {
			err = m.opt.Paths.Fork(m.ctx, conv, conversation.Fork{Message: s.asked.ID, Before: true, Title: "rewound"})
		} else {
			withdrawn, err = m.opt.Paths.Rewind(m.ctx, conv, s.before, withdraw)
		}
		if err != nil {
			return opened{err: err}
		}
		say := "back before: " + oneLine(s.asked.Text(), 200)
		if withdrawn > 0 {
			say += fmt.Sprintf("\n%d withdrawn that had not been done yet", withdrawn)
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
	if !m.atRest(m.opt.Views != nil) {
		return nil
	}
	conv := m.conv
	return func() tea.Msg {
		s, err := lastTurn(m.ctx, m.opt.Shelf, conv, 1)
		var msgs []id.ID
		for _, e := range []*conversation.Entry{s.asked, s.final} {
			if e != nil {
				msgs = append(msgs, e.ID)
			}
		}
		if err == nil && msgs == nil {
			err = fault.New(fault.NotFound, "nothing_asked", "there is no message here yet")
		}
		if err == nil {
			err = m.opt.Views.Pin(m.ctx, conv, pin, msgs...)
		}
		return told{done, err}
	}
}

func (m *chat) compact(arg string) tea.Cmd {
	how, done := runtime.TidyCompact, "older messages are summarised for the model; /compact undo takes it back"
	switch arg {
	case "":
	case "undo":
		how, done = runtime.TidyWhole, "the model is shown again what it was shown before"
	default:
		m.say("/compact takes undo, or nothing")
		return nil
	}
	if !m.atRest(m.opt.Views != nil) {
		return nil
	}
	conv := m.conv
	m.say("one moment…")
	return func() tea.Msg {
		err := m.opt.Views.Tidy(m.ctx, conv, how)
		if err == nil && how == runtime.TidyCompact && !m.cut(conv) {
			done = "there is nothing to summarise: all of it is short enough"
		}
		return told{done, err}
	}
}

// cut reports whether a model is shown less than the whole of a conversation,
// where that can be known.
func (m *chat) cut(conv id.ID) bool {
	if m.opt.Paths == nil {
		return true
	}
	list, err := m.opt.Paths.Branches(m.ctx, conv)
	return err != nil || slices.ContainsFunc(list, func(p runtime.Path) bool { return p.Preferred && p.View.Start.Pos != 0 })
}

func (m *chat) log(string) tea.Cmd {
	if m.opt.Log == nil || m.conv.Zero() {
		m.atRest(m.opt.Log != nil)
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
