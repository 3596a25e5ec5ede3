package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/intent"
)

// replying is the stage of an answer that is more than yes or no.
type replying int

const (
	notReplying   replying = iota
	choosingWidth          // the widths of a standing approval are shown
	showingTerms           // the terms of a standing approval are shown
	editingTerms           // the terms are in the input
	editingArgs            // the arguments of the call are in the input
	givingReason           // the reason of a denial is in the input
	checking               // Steward is asked what edited terms would cover
)

// reply is an answer in progress.
type reply struct {
	stage    replying
	id, hash string         // of the question
	standing string         // how long a standing approval lasts
	terms    intent.Pattern // the terms that are shown
	shown    string         // the hash over the question with these terms
	draft    string         // the input before the reply
	name     string         // of the width that was chosen; empty: the terms were edited
	since    time.Time      // when the terms or the widths were shown
}

// replyKey handles a key if it belongs to the answer to a call's question, and
// reports whether it does.
func (m *liveScreen) replyKey(k tea.KeyPressMsg, now, before time.Time) (tea.Cmd, bool) {
	r := &m.reply
	name := k.String()
	a, _ := m.turn.pending()
	if r.stage != notReplying && (a == nil || a.Approval.ID != r.id || a.Approval.Hash != r.hash) {
		m.leaveReply()
		m.printNote("that was already answered elsewhere")
		return nil, true
	}
	switch {
	case r.stage == notReplying:
		return m.decide(name, now, before)
	case name == "ctrl+c", name == "ctrl+d" && m.input.Value() == "":
		m.leaveReply()
		return nil, name == "ctrl+d" // Ctrl-C also stops the turn
	case name == "esc":
		m.goBack(a)
		return nil, true
	case r.stage == checking:
		return nil, true
	case r.stage == choosingWidth:
		return m.widthKey(a, name, now, before), true
	case r.stage == showingTerms:
		return m.termsKey(a, name, now, before)
	case name == "enter":
		return m.submitReply(a), true
	}
	return m.typeKey(k), true
}

// termsKey handles a key while the terms of a standing approval are shown.
func (m *liveScreen) termsKey(a *activity, name string, now, before time.Time) (tea.Cmd, bool) {
	r := &m.reply
	if now.Sub(before) < quiet || now.Sub(r.since) < quiet {
		return nil, true
	}
	switch name {
	case "y":
		v := client.Answer{Hash: r.shown, Approve: true, Standing: r.standing, Pattern: r.terms}
		word := "always allowed"
		if r.standing == string(effect.InConversation) {
			word = "allowed in this conversation"
		}
		return m.sendAnswer(v, word), true
	case "e":
		r.name = ""
		m.write(editingTerms, strings.Join(plainLines(r.terms), "\n"))
	case "n":
		m.goBack(a)
	}
	return nil, true
}

// goBack leaves the reply and asks the question again, if something else was printed below it.
func (m *liveScreen) goBack(a *activity) {
	printed := m.reply.stage == choosingWidth || m.reply.stage == showingTerms || m.reply.stage == checking || m.reply.stage == editingTerms
	m.leaveReply()
	if printed {
		a.asked = false
		m.turn.ask()
	}
}

// plainLines returns the lines of a pattern for editing, with invisible characters
// of JSON values escaped.
func plainLines(p intent.Pattern) []string {
	lines := p.Lines()
	for i, l := range lines {
		if strings.Contains(l, " is ") {
			lines[i] = EscapedJSON(l)
		}
	}
	return lines
}

// decide handles a key that answers the question that is shown.
func (m *liveScreen) decide(name string, now, before time.Time) (tea.Cmd, bool) {
	a, _ := m.turn.pending()
	if a == nil || len(name) != 1 || !strings.Contains(m.replies(a), name) ||
		name != "y" && name != "n" && m.input.Value() != "" || now.Sub(before) < quiet || now.Sub(a.asks) < quiet {
		return nil, false
	}
	q := a.Approval
	m.reply = reply{id: q.ID, hash: q.Hash, draft: m.written()}
	switch name {
	case "y":
		return m.sendAnswer(client.Answer{Hash: q.Hash, Approve: true}, "allowed"), true
	case "n":
		return m.sendAnswer(client.Answer{Hash: q.Hash}, "denied"), true
	case "c", "p":
		m.reply.standing = string(effect.Always)
		if name == "c" {
			m.reply.standing = string(effect.InConversation)
		}
		if len(q.Widths) > 1 {
			m.showWidths(q)
			return nil, true
		}
		m.reply.name = exactly
		m.showExactly(q)
	case "e":
		_, args := asked(&a.Frame)
		m.write(editingArgs, EscapedJSON(indented(args)))
	case "r":
		m.write(givingReason, "")
	case "d":
		m.reply = reply{}
		if a.detailed {
			break
		}
		m.turn.print(kindShown, m.turn.details(&a.Frame))
		a.detailed, a.asked = true, false // so that it is printed again, below the details
		m.turn.ask()
	}
	return nil, true
}

// exactly names the width that covers only the call itself.
const exactly = "exactly this"

// showExactly shows the terms that cover just the call.
func (m *liveScreen) showExactly(q *client.Approval) {
	var p intent.Pattern
	if err := json.Unmarshal(q.Pattern, &p); err != nil {
		m.fail(err)
		m.leaveReply()
		return
	}
	m.showTerms(p, q.Hash)
}

// showWidths lists the widths that a standing approval is offered for.
func (m *liveScreen) showWidths(q *client.Approval) {
	m.reply.stage, m.reply.since = choosingWidth, m.now()
	head := "From now on, without asking:"
	if m.reply.standing == string(effect.InConversation) {
		head = "From now on in this conversation, without asking:"
	}
	text := m.turn.warn.Render(m.turn.paint.wrap(head))
	for i, w := range q.Widths[:min(len(q.Widths), maxWidths)] {
		text += "\n" + m.turn.hangIndent(lipgloss.NewStyle(), fmt.Sprintf("%d %s", i+1, Visible(w.Name)))
	}
	m.turn.print(kindNote, text)
}

// maxWidths is how many widths one key can choose among.
const maxWidths = 9

// widthKey handles a key while the widths are shown. A width is shown in full before it can be given.
func (m *liveScreen) widthKey(a *activity, name string, now, before time.Time) tea.Cmd {
	widths := a.Approval.Widths[:min(len(a.Approval.Widths), maxWidths)]
	if now.Sub(before) < quiet || now.Sub(m.reply.since) < quiet || len(name) != 1 || name[0] < '1' || int(name[0]-'0') > len(widths) {
		return nil
	}
	w := widths[name[0]-'1']
	m.reply.name = w.Name
	if w.Name == exactly {
		m.showExactly(a.Approval)
		return nil
	}
	var p intent.Pattern
	if err := json.Unmarshal(w.Pattern, &p); err != nil {
		m.fail(err)
		m.leaveReply()
		return nil
	}
	return m.check(a, p, choosingWidth)
}

// detailsKey says what shows the rest of a question in the chat.
const detailsKey = "d shows"

// replies returns the keys that answer a question, in the order in which they are shown.
func (m *liveScreen) replies(a *activity) string {
	switch {
	case a.Approval.Foreign:
		return "d"
	case len(a.Approval.Pattern) == 0 || a.Approval.NoGrant != "":
		return "ynerd"
	}
	return "yncperd"
}

// sendAnswer sends the answer. Steward may refuse it.
func (m *liveScreen) sendAnswer(answer client.Answer, word string) tea.Cmd {
	a, _ := m.turn.pending()
	m.turn.answered(a)
	a.Status = client.CallRunning
	what := a.tool()
	if a.Approval.Summary != "" {
		what = Visible(a.Approval.Summary)
	}
	m.leaveReply()
	m.turn.note(word + ": " + what)
	m.turn.ask()
	which := a.Approval.ID
	return func() tea.Msg {
		if err := m.opt.Client.AnswerApproval(m.ctx, which, answer); err != nil {
			return continuation(func() tea.Cmd {
				m.refused(which, err)
				return nil
			})
		}
		return nil
	}
}

// refused shows why an answer was refused, and asks again.
func (m *liveScreen) refused(which string, err error) {
	m.fail(err)
	switch fault.Of(err).Code {
	case "approval_decided", "approval_expired", "approval_not_found", "approval_changed":
		return // a frame shows the outcome
	}
	for _, a := range m.turn.calls {
		if a.Approval != nil && a.Approval.ID == which && a.Status == client.CallRunning {
			a.Status, a.asked = client.CallAwaiting, false
		}
	}
	m.turn.ask()
}

// write puts a text into the input for the person to edit.
func (m *liveScreen) write(stage replying, text string) {
	m.reply.stage = stage
	m.setInput(text)
}

// leaveReply ends the reply and restores the input.
func (m *liveScreen) leaveReply() {
	if m.reply.stage != notReplying {
		m.setInput(m.reply.draft)
	}
	m.reply = reply{}
}

// submitReply takes the input as the reply.
func (m *liveScreen) submitReply(a *activity) tea.Cmd {
	r, text := &m.reply, m.unlabelled()
	switch r.stage {
	case givingReason:
		return m.sendAnswer(client.Answer{Hash: r.hash, Reason: strings.TrimSpace(text)}, "denied")
	case editingArgs:
		if err := checkArgs(text); err != nil {
			m.fail(err)
			return nil
		}
		return m.sendAnswer(client.Answer{Hash: r.hash, Approve: true, Args: json.RawMessage(text)}, "allowed, changed by you")
	}
	p, err := intent.ParsePattern(text, nil)
	if err != nil {
		m.fail(err)
		return nil
	}
	return m.check(a, p, editingTerms)
}

// check asks Steward what a standing approval with a pattern would cover, and shows it. If Steward refuses
// the pattern, the reply goes back to the stage before.
func (m *liveScreen) check(a *activity, p intent.Pattern, before replying) tea.Cmd {
	m.reply.stage = checking
	id := a.Approval.ID
	return func() tea.Msg {
		text, err := json.Marshal(p)
		var q effect.Question
		if err == nil {
			err = m.opt.Client.Call(m.ctx, "GET /approvals/{id}", client.Params{"id": id, "pattern": string(text)}, nil, &q)
		}
		return continuation(func() tea.Cmd {
			switch r := &m.reply; {
			case r.stage != checking || r.id != id:
			case err != nil:
				m.fail(err)
				r.stage = before // the input still has the terms that were edited
			default:
				m.showTerms(q.Pattern, q.Hash)
			}
			return nil
		})
	}
}

// checkArgs refuses arguments that are not a JSON object, and says where they are wrong.
func checkArgs(text string) error {
	var object map[string]json.RawMessage
	err := json.Unmarshal([]byte(text), &object)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		before := text[:max(min(int(syntax.Offset)-1, len(text)), 0)]
		line, column := strings.Count(before, "\n")+1, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])+1
		err = fault.New(fault.Invalid, "args_invalid", "the arguments are not valid JSON: line %d, column %d: %w", line, column, err)
	case err != nil || object == nil:
		err = fault.New(fault.Invalid, "args_invalid", "the arguments must be a JSON object, such as {\"name\": \"value\"}")
	default:
		return nil
	}
	return fault.Of(err).WithHint("correct them and press Enter, or Esc to go back")
}

// showTerms shows what a standing approval would cover.
func (m *liveScreen) showTerms(p intent.Pattern, hash string) {
	r := &m.reply
	r.stage, r.terms, r.shown, r.since = showingTerms, p, hash, m.now()
	m.setInput(r.draft)
	a, _ := m.turn.pending()
	head := "From now on, always: "
	if r.standing == string(effect.InConversation) {
		head = "From now on in this conversation: "
	}
	if r.name != "" {
		head += r.name + ". That is "
	}
	if head += a.tool() + " where"; len(p) == 0 {
		head = strings.TrimSuffix(head, "where") + "without arguments"
	}
	text := m.turn.warn.Render(m.turn.paint.wrap(Visible(head)))
	for _, l := range TermLines(p) {
		text += "\n" + m.turn.hangIndent(lipgloss.NewStyle(), l)
	}
	if while := Ceiling(a.Approval.Labels); while != "" {
		text += "\n" + m.turn.hangIndent(m.turn.dim, while)
	}
	m.turn.print(kindNote, text)
}

// replyLines returns the line above the input, which asks, and the line below
// it, which explains the keys. n is the number of questions that wait.
func (m *liveScreen) replyLines(a *activity, n int) (above, below string) {
	switch m.reply.stage {
	case choosingWidth:
		n := min(len(a.Approval.Widths), maxWidths)
		return fmt.Sprintf("Which of them? 1-%d", n), fmt.Sprintf("1-%d shows what it covers · Esc goes back", n)
	case showingTerms:
		return "Give this standing approval? y/n/e", "y gives it · n goes back · e edits it · Esc goes back"
	case editingTerms:
		return "NAME is VALUE, NAME like GLOB or NAME any:", "Enter shows what it covers · Esc goes back"
	case editingArgs:
		return "The arguments as you want them:", "Enter allows this once · Esc goes back"
	case givingReason:
		return "Deny, because:", "Enter denies it · Esc goes back"
	case checking:
		return m.spinner() + " checking", "Esc goes back"
	}
	which := ""
	if n > 1 {
		which = fmt.Sprintf(" (1 of %d)", n)
	}
	keys := m.replies(a)
	above = "Allow it? " + strings.Join(strings.Split(keys, ""), "/") + which
	if a.Approval.Foreign {
		above = "The group " + Visible(a.Approval.Approvers) + " answers" + which + " · d details"
	}
	words := []string{"y once", "n no", "c in this conversation", "p always", "e edit", "r no, because", "d details"}
	switch {
	case m.width < 80:
		words = []string{"y", "n", "c chat", "p always", "e", "r", "d more"}
	case m.width < 100:
		words = []string{"y once", "n no", "c this chat", "p always", "e edit", "r reason", "d more"}
	}
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.Contains(keys, w[:1]) })
	return above, strings.Join(append(words, "Esc stops"), " · ")
}

// indented writes JSON over several lines.
func indented(args string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(args), "", "  ") != nil {
		return args
	}
	return b.String()
}

// EscapedJSON escapes the invisible characters of a JSON text.
func EscapedJSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || Visible(string(r)) == string(r):
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
