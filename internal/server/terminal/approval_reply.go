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
	notReplying  replying = iota
	showingTerms          // the terms of a standing approval are shown
	editingTerms          // the terms are in the input
	editingArgs           // the arguments of the call are in the input
	givingReason          // the reason of a denial is in the input
	checking              // Steward is asked what edited terms would cover
)

// reply is an answer in progress.
type reply struct {
	stage    replying
	id, hash string         // of the question
	standing string         // how long a standing approval lasts
	terms    intent.Pattern // the terms that are shown
	shown    string         // the hash over the question with these terms
	draft    string         // the input before the reply
	since    time.Time      // when the terms were shown
}

// replyKey handles a key if it belongs to the answer to a call's question, and
// reports whether it does.
func (m *chat) replyKey(k tea.KeyPressMsg, now, before time.Time) (tea.Cmd, bool) {
	r := &m.reply
	name := k.String()
	a, _ := m.turn.pending()
	if r.stage != notReplying && (a == nil || a.Approval.ID != r.id || a.Approval.Hash != r.hash) {
		m.leaveReply()
		m.say("that was answered elsewhere")
		return nil, true
	}
	switch {
	case r.stage == notReplying:
		return m.decide(name, now, before)
	case name == "ctrl+c", name == "ctrl+d" && m.input.Value() == "":
		m.leaveReply()
		return nil, name == "ctrl+d" // Ctrl-C also stops the turn
	case name == "esc":
		m.leaveReply()
		return nil, true
	case r.stage == checking:
		return nil, true
	case r.stage == showingTerms:
		return m.termsKey(name, now, before)
	case name == "enter":
		return m.submitReply(a), true
	}
	return m.typeKey(k), true
}

// termsKey handles a key while the terms of a standing approval are shown.
func (m *chat) termsKey(name string, now, before time.Time) (tea.Cmd, bool) {
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
		return m.give(v, word), true
	case "e":
		m.write(editingTerms, strings.Join(plainLines(r.terms), "\n"))
	case "n":
		m.leaveReply()
	}
	return nil, true
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
func (m *chat) decide(name string, now, before time.Time) (tea.Cmd, bool) {
	a, _ := m.turn.pending()
	if a == nil || len(name) != 1 || !strings.Contains(m.replies(a), name) ||
		name != "y" && name != "n" && m.input.Value() != "" || now.Sub(before) < quiet || now.Sub(a.asks) < quiet {
		return nil, false
	}
	q := a.Approval
	m.reply = reply{id: q.ID, hash: q.Hash, draft: m.written()}
	switch name {
	case "y":
		return m.give(client.Answer{Hash: q.Hash, Approve: true}, "allowed"), true
	case "n":
		return m.give(client.Answer{Hash: q.Hash}, "denied"), true
	case "c", "p":
		m.reply.standing = string(effect.Always)
		if name == "c" {
			m.reply.standing = string(effect.InConversation)
		}
		var p intent.Pattern
		if err := json.Unmarshal(q.Pattern, &p); err != nil {
			m.fail(err)
			m.leaveReply()
			return nil, true
		}
		m.showTerms(p, q.Hash)
	case "e":
		_, args := asked(&a.Frame)
		m.write(editingArgs, EscapedJSON(indented(args)))
	case "r":
		m.write(givingReason, "")
	case "v":
		m.reply = reply{}
		whole, _ := m.turn.question(&a.Frame, true)
		m.turn.print(kindNote, whole)
		a.asked = false // so that it is printed again, below the full text
		m.turn.ask()
	}
	return nil, true
}

// replies returns the keys that answer a question.
func (m *chat) replies(a *activity) string {
	keys := "ycpner"
	switch {
	case a.Approval.Foreign:
		keys = ""
	case len(a.Approval.Pattern) == 0 || a.Approval.NoGrant != "":
		keys = "yner"
	}
	if a.cut {
		keys += "v"
	}
	return keys
}

// give sends the answer. Steward may refuse it.
func (m *chat) give(answer client.Answer, word string) tea.Cmd {
	a, _ := m.turn.pending()
	a.Status = client.CallRunning
	what := a.Name
	if a.Approval.Agent != "" {
		what = a.Approval.Tool + " of " + a.Approval.Agent
	}
	m.leaveReply()
	m.turn.note(word + ": " + what)
	m.turn.ask()
	which := a.Approval.ID
	return func() tea.Msg {
		if err := m.opt.Client.AnswerApproval(m.ctx, which, answer); err != nil {
			return then(func() tea.Cmd {
				m.refused(which, err)
				return nil
			})
		}
		return nil
	}
}

// refused shows why an answer was refused, and asks again.
func (m *chat) refused(which string, err error) {
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
func (m *chat) write(stage replying, text string) {
	m.reply.stage = stage
	m.setInput(text)
}

// leaveReply ends the reply and restores the input.
func (m *chat) leaveReply() {
	if m.reply.stage != notReplying {
		m.setInput(m.reply.draft)
	}
	m.reply = reply{}
}

// submitReply takes the input as the reply.
func (m *chat) submitReply(a *activity) tea.Cmd {
	r, text := &m.reply, m.unlabelled()
	switch r.stage {
	case givingReason:
		return m.give(client.Answer{Hash: r.hash, Reason: strings.TrimSpace(text)}, "denied")
	case editingArgs:
		if err := checkArgs(text); err != nil {
			m.fail(err)
			return nil
		}
		return m.give(client.Answer{Hash: r.hash, Approve: true, Args: json.RawMessage(text)}, "allowed, changed by you")
	}
	p, err := intent.ParsePattern(text, nil)
	if err != nil {
		m.fail(err)
		return nil
	}
	r.stage = checking
	id := a.Approval.ID
	return func() tea.Msg {
		text, err := json.Marshal(p)
		var q effect.Question
		if err == nil {
			err = m.opt.Client.Call(m.ctx, "GET /approvals/{id}", client.Params{"id": id, "pattern": string(text)}, nil, &q)
		}
		return then(func() tea.Cmd {
			switch r := &m.reply; {
			case r.stage != checking || r.id != id:
			case err != nil:
				m.fail(err)
				r.stage = editingTerms // the input still has them
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
func (m *chat) showTerms(p intent.Pattern, hash string) {
	r := &m.reply
	r.stage, r.terms, r.shown, r.since = showingTerms, p, hash, m.now()
	m.setInput(r.draft)
	a, _ := m.turn.pending()
	head := "Always allow " + a.tool() + " where"
	if r.standing == string(effect.InConversation) {
		head = "In this conversation, allow " + a.tool() + " where"
	}
	if len(p) == 0 {
		head = strings.TrimSuffix(head, "where") + "without arguments"
	}
	text := m.turn.warn.Render(m.turn.paint.wrap(Visible(head)))
	for _, l := range TermLines(p) {
		text += "\n" + m.turn.hang(lipgloss.NewStyle(), l)
	}
	if while := Ceiling(a.Approval.Labels); while != "" {
		text += "\n" + m.turn.hang(m.turn.dim, while)
	}
	m.turn.print(kindNote, text)
}

// replyLines returns the line above the input, which asks, and the line below
// it, which explains the keys. n is the number of questions that wait.
func (m *chat) replyLines(a *activity, n int) (above, below string) {
	what := Visible(a.tool())
	switch m.reply.stage {
	case showingTerms:
		return "Give this standing approval? y/n · e edit", "y gives it · e edits it · n or Esc goes back"
	case editingTerms:
		return "NAME is VALUE, NAME like GLOB or NAME any:", "Enter shows what it covers · Esc goes back"
	case editingArgs:
		return "The arguments as you want them:", "Enter allows it so, once · Esc goes back"
	case givingReason:
		return "No to " + what + ", because:", "Enter says no · Esc goes back"
	case checking:
		return m.spinner() + " looking at it", "Esc goes back"
	}
	which := ""
	if n > 1 {
		which = fmt.Sprintf(" (1 of %d)", n)
	}
	above = "Allow " + what + "? y/n" + which
	if a.Approval.Foreign {
		above = what + which + ": the group " + Visible(a.Approval.Approvers) + " answers"
	}
	words := []string{"v view all", "y once", "c in this conversation", "p always like this", "e edit", "n no", "r no, because"}
	switch {
	case m.width < 80:
		words = []string{"v view all", "c conversation", "p always", "e edit", "r reason"}
	case m.width < 100:
		words = []string{"v view all", "y once", "c this conversation", "p always", "e edit", "n no", "r reason"}
	}
	keys := m.replies(a)
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
