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

// style has the styles, in the terminal's own sixteen colours. The zero value has
// none.
type style struct {
	you, dim, good, bad, warn, strong lipgloss.Style
}

func newStyle() style {
	plain := lipgloss.NewStyle()
	return style{
		you:    plain.Foreground(lipgloss.Cyan).Bold(true),
		dim:    plain.Faint(true),
		good:   plain.Foreground(lipgloss.Green),
		bad:    plain.Foreground(lipgloss.Red),
		warn:   plain.Foreground(lipgloss.Yellow),
		strong: plain.Bold(true),
	}
}

// turn shows a conversation: frames go in, and lines for the scrollback are added
// to out when they are finished. live returns what may still change.
type turn struct {
	style
	paint painter
	now   func() time.Time
	cost  func(model string, u client.Usage) float64 // nil: unknown

	window func(model string) int // likewise

	running   bool
	began     time.Time
	waited    time.Duration // for the person's answers, since began
	streaming string        // the message being written
	text      string        // of that message: the Markdown that may still change
	told      bool          // a part of it is in the scrollback already
	thinking  string        // of that message: the reasoning in progress
	thought   string        // the last reasoning
	unfolded  bool          // reasoning and arguments are shown
	calls     []*activity   // in progress
	tasks     []*activity   // in the background
	plan      tree          // of the plan that is carried out, or was last
	alarms    alarms        // the reminders that were shown
	memories  memories      // what was told about memory
	last      string        // the kind of what was printed last
	offline   bool          // the last answer came from the offline provider
	model     string        // the model of the last answer
	out       []string      // finished lines that have not been printed yet
}

// activity is a tool call on the screen, with its newest frame.
type activity struct {
	client.Frame
	began    time.Time
	waited   time.Duration // for the person's answers
	asked    bool          // its question has been printed
	asks     time.Time
	detailed bool // its details have been printed
}

// The kinds of printed text. A blank line separates different ones.
const (
	kindUser  = "user"
	kindText  = "text"
	kindCall  = "call"
	kindAlarm = "alarm"
	kindNote  = "note"
	kindSaid  = "said"
	kindError = "error"
	kindShown = "shown" // what an approval would cover
)

// print adds a text to out, after the blank line that its kind needs.
func (t *turn) print(kind, text string) {
	if t.last != "" && (kind != t.last || kind == kindText || kind == kindUser || kind == kindSaid || kind == kindShown) {
		text = "\n" + text
	}
	t.last = kind
	t.out = append(t.out, strings.Split(text, "\n")...)
}

// frame handles a frame and asks the next question.
func (t *turn) frame(f client.Frame) {
	t.take(&f)
	t.ask()
}

func (t *turn) take(f *client.Frame) {
	if t.alarm(f) {
		return
	}
	switch f.Type {
	case client.FrameUser:
		t.start()
		t.thought, t.plan = "", tree{}
		t.user(f.Content)
	case client.FrameToken:
		t.start()
		t.startMessage(f.MessageID)
		t.conclude()
		done, rest := split(t.text + f.Text)
		t.text = rest
		t.prose(done)
	case client.FrameReasoning:
		t.start()
		t.startMessage(f.MessageID)
		t.thinking += f.Text
	case client.FrameCall:
		t.start()
		t.call(f)
	case client.FrameResult:
		t.result(f)
	case client.FrameComplete:
		t.complete(f)
	case client.FrameError:
		t.flush()
		t.stop()
		t.print(kindError, t.fault(f.Err))
	case client.FrameReset:
		t.reset(f.MessageID)
	case client.FrameNotice:
		t.note(f.Text)
	case client.FrameMemory:
		t.memory(f)
	case client.FrameTask:
		t.task(f)
	case client.FramePlanned:
		t.start()
		t.plan.take(f)
	case client.FrameOpened:
		t.start()
		t.flush()
		t.print(kindUser, t.warn.Render("« ")+cut(oneLine(openedBy(f), 400), max(t.paint.width-3, 1)))
	}
}

func (t *turn) start() {
	if !t.running {
		t.running, t.began, t.waited = true, t.now(), 0
	}
}

func (t *turn) stop() {
	t.running, t.thinking, t.text, t.streaming, t.told = false, "", "", "", false
	t.calls = nil
}

// startMessage begins another message, and finishes the one before.
func (t *turn) startMessage(msg string) {
	if msg != t.streaming {
		t.flush()
		t.streaming, t.told = msg, false
	}
}

// flush finishes the text that is still changing.
func (t *turn) flush() {
	text := t.text
	t.text = ""
	t.conclude()
	t.prose(text)
}

// conclude ends the reasoning in progress.
func (t *turn) conclude() {
	if t.thinking == "" {
		return
	}
	t.thought, t.thinking = t.thinking, ""
	if t.unfolded {
		t.reasoning()
	}
}

func (t *turn) reasoning() {
	t.print(kindSaid, t.dim.Render(t.paint.wrap("thinking: "+safe(strings.TrimSpace(t.thought)))))
}

// unfold switches between showing reasoning, including the last one, and folding
// it.
func (t *turn) unfold() {
	t.unfolded = !t.unfolded
	switch {
	case !t.unfolded:
		t.note("reasoning and tasks are hidden")
	case len(t.plan.tasks) > 0 && !t.running:
		t.print(kindNote, strings.Join(t.tree(1000, "…")[1:], "\n"))
	case t.thinking != "" || len(t.plan.tasks) > 0: // it is live
	case len(t.memories.last.Facts) > 0:
		t.print(kindNote, t.memoryLines(t.memories.last.Did, t.memories.last.Facts, ""))
		if t.thought != "" {
			t.reasoning()
		}
	case t.thought == "":
		t.note("reasoning will be shown in full; there was none yet")
	default:
		t.reasoning()
	}
}

func (t *turn) prose(text string) {
	if strings.TrimSpace(text) != "" {
		t.told = true
		t.print(kindText, t.paint.markdown(text))
	}
}

// maxEchoed is how many lines of a person's own message are shown.
const maxEchoed = 20

func (t *turn) user(said client.Content) {
	text := untabbed(safe(said.Text()))
	for _, b := range said {
		if b.Type == "image" || b.Type == "file" {
			text += " [" + b.Type + "]"
		}
	}
	lines := strings.Split(lipgloss.Wrap(text, max(t.paint.width-3, 1), ""), "\n")
	if n := len(lines) - maxEchoed; n > 1 {
		lines = append(lines[:maxEchoed:maxEchoed], t.dim.Render(fmt.Sprintf("… %d more lines, %s in all", n, SizeOf(len(said.Text())))))
	}
	for i, l := range lines {
		mark := "  "
		if i == 0 {
			mark = "› "
		}
		lines[i] = t.you.Render(mark) + l
	}
	t.print(kindUser, strings.Join(lines, "\n"))
}

func (t *turn) call(f *client.Frame) {
	a := t.find(f.ID)
	if a == nil {
		a = &activity{began: t.now()}
		t.calls = append(t.calls, a)
	}
	if f.Status != client.CallAwaiting || !sameQuestion(a.Approval, f.Approval) {
		t.answered(a)
		a.asked, a.detailed = false, false
	}
	a.Frame = *f
	if q := a.Approval; q != nil {
		q.Agent = t.plan.asker(q.Agent)
	}
	t.flush()
}

// sameQuestion reports whether two approvals ask the same. A call can ask several
// questions on behalf of agents, one after the other.
func sameQuestion(a, b *client.Approval) bool {
	return a != nil && b != nil && a.ID == b.ID && a.Hash == b.Hash && a.Expires.Equal(b.Expires)
}

// task handles the progress of a background call. Its questions are asked like those
// of other calls.
func (t *turn) task(f *client.Frame) {
	of := func(a *activity) bool { return a.ID == f.ID }
	over := f.Status == record.TaskCompleted || f.Status == record.TaskError
	t.calls = slices.DeleteFunc(t.calls, of)
	if over {
		t.tasks = slices.DeleteFunc(t.tasks, of)
		if t.running { // the turn that tells its result waits for this one
			t.ended(f)
		}
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

// ended tells that a background call has ended.
func (t *turn) ended(f *client.Frame) {
	mark, said := t.good.Render("✓"), "has finished in the background"
	if f.Status == record.TaskError {
		mark, said = t.bad.Render("✗"), "has failed in the background"
	}
	room := t.paint.width - 3
	line := cut(Visible(f.Tool)+" "+said, room)
	if rest := room - lipgloss.Width(line) - 3; f.Message != "" && rest > 0 {
		line += t.dim.Render(" → " + cut(oneLine(f.Message, 400), rest))
	}
	t.print(kindCall, mark+" "+line)
}

// ask prints the next question. An answer belongs to the last question on the screen,
// so only one is shown at a time.
func (t *turn) ask() {
	a, _ := t.pending()
	if a == nil || a.asked {
		return
	}
	a.asked, a.asks = true, t.now()
	t.print(kindNote, t.question(&a.Frame, detailsKey))
}

// answered ends the time for which a question was open. Steward's own time does not count it.
func (t *turn) answered(a *activity) {
	if a.asked && a.Status == client.CallAwaiting {
		open := t.now().Sub(a.asks)
		a.waited += open
		t.waited += open
	}
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
	show := func(a *activity, line string) {
		out = append(out, t.dim.Render(cut(line, t.paint.width-8)+" "+clock(t.now().Sub(a.began)-a.waited)))
	}
	for _, a := range t.calls {
		if a.Status == client.CallAwaiting || a.ID == t.plan.call {
			continue
		}
		what, name := t.callTitle(&a.Frame, t.paint.width-10)
		line := spin + " " + what + name
		if a.Message != "" {
			line = spin + " " + Visible(a.Name) + ": " + oneLine(a.Message, 400)
		}
		show(a, line)
	}
	if t.running && t.find(t.plan.call) != nil {
		out = append(out, t.tree(most-len(out)-len(t.tasks), spin)...)
	}
	for _, a := range t.tasks {
		line := "∙ " + Visible(a.Name) + " in the background"
		if a.Progress > 0 {
			line += fmt.Sprintf(" %d%%", int(a.Progress*100))
		}
		if a.Message != "" {
			line += ": " + oneLine(a.Message, 400)
		}
		show(a, line)
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
