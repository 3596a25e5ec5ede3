package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"steward/client"
	"steward/internal/record"
)

// look has the styles, in the terminal's own sixteen colours. The zero value has
// none.
type look struct {
	you, dim, good, bad, warn, strong lipgloss.Style
}

func newLook() look {
	plain := lipgloss.NewStyle()
	return look{
		you:    plain.Foreground(lipgloss.Cyan).Bold(true),
		dim:    plain.Faint(true),
		good:   plain.Foreground(lipgloss.Green),
		bad:    plain.Foreground(lipgloss.Red),
		warn:   plain.Foreground(lipgloss.Yellow),
		strong: plain.Bold(true),
	}
}

// turn shows a conversation: frames go in, and text for the scrollback comes
// out when it is finished. live returns what may still change.
type turn struct {
	look
	paint painter
	now   func() time.Time

	running  bool
	began    time.Time
	flying   string      // the message being written
	text     string      // of that message: the Markdown that may still change
	told     bool        // a part of it is in the scrollback already
	thinking string      // of it: the reasoning in progress
	thought  string      // the last reasoning
	unfolded bool        // reasoning is shown whole
	calls    []*activity // in progress
	tasks    []*activity // in the background
	last     string      // the kind of what was printed last
	offline  bool        // the last answer came from the offline provider
	model    string      // the model of the last answer
}

// activity is a tool call on the screen, with its newest frame.
type activity struct {
	client.Frame
	began time.Time
	asked bool // its question has been printed
	cut   bool // and only a part of it is shown
	asks  time.Time
}

// The kinds of printed text. A blank line separates different ones.
const (
	kindUser  = "user"
	kindText  = "text"
	kindCall  = "call"
	kindNote  = "note"
	kindSaid  = "said"
	kindError = "error"
	kindShown = "shown" // of what is to be approved
)

// piece returns text after the blank line that its kind needs.
func (t *turn) piece(kind, text string) string {
	gap := t.last != "" && (kind != t.last || kind == kindText || kind == kindUser || kind == kindSaid || kind == kindShown)
	t.last = kind
	if gap {
		return "\n" + text
	}
	return text
}

// frame takes a frame and returns the text that it finishes.
func (t *turn) frame(f client.Frame) []string {
	return append(t.take(&f), t.ask()...)
}

func (t *turn) take(f *client.Frame) []string {
	switch f.Type {
	case client.FrameUser:
		t.start()
		t.thought = ""
		return []string{t.user(f.Content)}
	case client.FrameToken:
		t.start()
		out := append(t.fly(f.MessageID), t.conclude()...)
		t.text += f.Text
		done, rest := split(t.text)
		t.text = rest
		return append(out, t.prose(done)...)
	case client.FrameReasoning:
		t.start()
		out := t.fly(f.MessageID)
		t.thinking += f.Text
		return out
	case client.FrameCall:
		t.start()
		return t.call(f)
	case client.FrameResult:
		return t.result(f)
	case client.FrameComplete:
		return t.complete(f)
	case client.FrameError:
		out := t.flush()
		t.stop()
		return append(out, t.piece(kindError, t.fault(f.Err)))
	case client.FrameReset:
		return t.reset(f.MessageID)
	case client.FrameNotice:
		return []string{t.note(f.Text)}
	case client.FrameTask:
		t.task(f)
	case client.FrameOpened:
		t.start()
		return append(t.flush(), t.opening(f.Content))
	}
	return nil
}

func (t *turn) start() {
	if !t.running {
		t.running, t.began = true, t.now()
	}
}

func (t *turn) stop() {
	t.running, t.thinking, t.text, t.flying, t.told = false, "", "", "", false
	t.calls = nil
}

// fly begins another message, and finishes the one before.
func (t *turn) fly(msg string) []string {
	if msg == t.flying {
		return nil
	}
	out := t.flush()
	t.flying, t.told = msg, false
	return out
}

// flush finishes the text that is still changing.
func (t *turn) flush() []string {
	text := t.text
	t.text = ""
	return append(t.conclude(), t.prose(text)...)
}

// conclude ends the reasoning in progress.
func (t *turn) conclude() []string {
	if t.thinking == "" {
		return nil
	}
	t.thought, t.thinking = t.thinking, ""
	if !t.unfolded {
		return nil
	}
	return []string{t.reasoning()}
}

func (t *turn) reasoning() string {
	return t.piece(kindSaid, t.dim.Render(t.paint.wrap("thinking: "+safe(strings.TrimSpace(t.thought)))))
}

// unfold switches between showing reasoning, including the last one, and folding
// it.
func (t *turn) unfold() []string {
	t.unfolded = !t.unfolded
	switch {
	case !t.unfolded:
		return []string{t.note("reasoning is folded again")}
	case t.thinking != "":
		return nil // it is live
	case t.thought == "":
		return []string{t.note("reasoning is shown whole from now on; there was none yet")}
	}
	return []string{t.reasoning()}
}

func (t *turn) prose(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	t.told = true
	return []string{t.piece(kindText, t.paint.markdown(text))}
}

func (t *turn) user(said client.Content) string {
	text := safe(said.Text())
	for _, b := range said {
		if b.Type == "image" || b.Type == "file" {
			text += " [" + b.Type + "]"
		}
	}
	lines := strings.Split(lipgloss.Wrap(text, max(t.paint.width-3, 1), ""), "\n")
	for i, l := range lines {
		mark := "  "
		if i == 0 {
			mark = "› "
		}
		lines[i] = t.you.Render(mark) + l
	}
	return t.piece(kindUser, strings.Join(lines, "\n"))
}

func (t *turn) call(f *client.Frame) []string {
	a := t.find(f.ID)
	if a == nil {
		a = &activity{began: t.now()}
		t.calls = append(t.calls, a)
	}
	if f.Status != client.CallAwaiting || !sameQuestion(a.Approval, f.Approval) {
		a.asked = false
	}
	a.Frame = *f
	return t.flush()
}

// sameQuestion reports whether two approvals ask the same. A call can ask several
// questions on behalf of agents, one after the other.
func sameQuestion(a, b *client.Approval) bool {
	return a != nil && b != nil && a.ID == b.ID && a.Hash == b.Hash && a.Expires.Equal(b.Expires)
}

// task takes the progress of a background call, whose questions are asked like
// those of other calls.
func (t *turn) task(f *client.Frame) {
	of := func(a *activity) bool { return a.ID == f.ID }
	over := f.Status == record.TaskCompleted || f.Status == record.TaskError
	t.calls = slices.DeleteFunc(t.calls, of)
	if over {
		t.tasks = slices.DeleteFunc(t.tasks, of)
		return
	}
	i := slices.IndexFunc(t.tasks, of)
	if i < 0 {
		i = len(t.tasks)
		t.tasks = append(t.tasks, &activity{began: t.now()})
	}
	t.tasks[i].Frame = *f
	t.tasks[i].Name = f.Tool
	if f.Approval != nil {
		a := *t.tasks[i]
		t.calls = append(t.calls, &a)
	}
}

// opening shows that a tool or an agent has started a turn.
func (t *turn) opening(said client.Content) string {
	return t.piece(kindUser, t.warn.Render("« ")+cut(oneLine(firstOf(said.Text()), 400), max(t.paint.width-3, 1)))
}

// ask prints the next question. An answer is to the last thing on the screen, so
// there is one question at a time.
func (t *turn) ask() []string {
	a, _ := t.pending()
	if a == nil || a.asked {
		return nil
	}
	a.asked, a.asks = true, t.now()
	text, cut := t.question(&a.Frame, false)
	a.cut = cut
	return []string{t.piece(kindNote, text)}
}

func (t *turn) find(call string) *activity {
	for _, a := range t.calls {
		if a.ID == call {
			return a
		}
	}
	return nil
}

// pending returns the call that the person is asked about now or next, and the
// number of calls that wait.
func (t *turn) pending() (next *activity, n int) {
	for _, a := range t.calls {
		if a.Approval != nil && a.Status == client.CallAwaiting {
			if n++; next == nil || a.asked {
				next = a
			}
		}
	}
	return next, n
}

// live returns the lines that may still change, at most most of them.
func (t *turn) live(most int, spin string) []string {
	var out []string
	if strings.TrimSpace(t.text) != "" {
		out = strings.Split(t.paint.markdown(t.text), "\n")
		if t.last != "" {
			out = append([]string{""}, out...)
		}
	}
	if t.thinking != "" {
		said := []string{cut("thinking: "+lastLine(t.thinking), t.paint.width-1)}
		if t.unfolded {
			said = strings.Split(t.paint.wrap("thinking: "+safe(strings.TrimSpace(t.thinking))), "\n")
		}
		for _, line := range said {
			out = append(out, t.dim.Render(line))
		}
	}
	for _, a := range t.calls {
		if a.Status == client.CallAwaiting {
			continue
		}
		line := spin + " " + Visible(a.Name) + " " + short(a.Arguments())
		if a.Message != "" {
			line = spin + " " + Visible(a.Name) + ": " + oneLine(a.Message, 400)
		}
		out = append(out, t.dim.Render(cut(line, t.paint.width-8))+t.dim.Render(" "+clock(t.now().Sub(a.began))))
	}
	for _, a := range t.tasks {
		line := "∙ " + Visible(a.Name) + " in the background"
		if a.Progress > 0 {
			line += fmt.Sprintf(" %d%%", int(a.Progress*100))
		}
		if a.Message != "" {
			line += ": " + oneLine(a.Message, 400)
		}
		out = append(out, t.dim.Render(cut(line, t.paint.width-8))+t.dim.Render(" "+clock(t.now().Sub(a.began))))
	}
	if n := len(out) - most; n > 0 {
		out = out[n:]
	}
	return out
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		s = s[i+1:]
	}
	return oneLine(s, 400)
}

func clock(d time.Duration) string { return fmt.Sprintf("%ds", int(d.Seconds())) }
