package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/record"
)

// Plain is the chat without a terminal. Each line of in is a message. Answers are
// written to out, and tool calls and notices to notes. It returns at the end of in.
// Nobody can be asked, so everything that needs approval is denied.
func Plain(ctx context.Context, o Options, in io.Reader, out, notes io.Writer) error {
	conv := o.Conversation
	lines := bufio.NewReader(in)
	for {
		text, end := lines.ReadString('\n')
		if t := strings.TrimSpace(text); t != "" {
			acc, err := plainTurn(ctx, o, conv, t, out, notes)
			if err != nil {
				return err
			}
			conv = acc.Conversation
		}
		if errors.Is(end, io.EOF) {
			return nil
		}
		if end != nil {
			return fmt.Errorf("reading the next message: %w", end)
		}
	}
}

func plainTurn(ctx context.Context, o Options, conv, text string, out, notes io.Writer) (client.Accepted, error) {
	m := client.Message{Conversation: conv, Model: o.Model, Agent: o.Agent, Content: Words(text), Unattended: true}
	w := &Writer{Out: out, Notes: notes}
	acc, err := Follow(ctx, o.Client, m, w.Frame)
	err = errors.Join(err, w.Close())
	if s := HiddenNote(acc.Hidden); s != "" {
		fmt.Fprintln(notes, s)
	}
	return acc, err
}

// HiddenNote returns the note that secrets were removed from a message, or "".
func HiddenNote(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "Your message contained a secret (" + strings.Join(names, ", ") + "). It was replaced before anything was stored or sent."
}

// acceptTimeout is how long an interrupted Follow waits for its message to be accepted.
const acceptTimeout = 2 * time.Second

// Follow sends a message and calls each with the frames of its turn until the turn
// is over. It returns the turn's error, if there is one.
func Follow(ctx context.Context, c *client.Client, m client.Message, each func(client.Frame) error) (client.Accepted, error) {
	// The model may start before the message is accepted. After an interrupt in between,
	// Follow still needs the answer, which names the turn to stop.
	asked, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(acceptTimeout, end) })()
	acc, err := c.Say(asked, m)
	if err != nil {
		return acc, err
	}
	mine := false
	for f, err := range c.Watch(ctx, acc.Conversation, acc.Cursor) {
		if err != nil {
			return acc, err
		}
		if mine = mine || f.Interaction == acc.Interaction; !mine {
			continue
		}
		if err := refuse(ctx, c, m, &f); err != nil {
			return acc, err
		}
		if err := each(f); err != nil {
			return acc, err
		}
		switch f.Type {
		case client.FrameComplete:
			return acc, nil
		case client.FrameError:
			return acc, f.Err
		}
	}
	if err := ctx.Err(); err != nil {
		return acc, err
	}
	return acc, fault.New(fault.Unavailable, "watch_ended", "the answer was interrupted").
		WithHint("Steward continues it; see steward conversations show %s", acc.Conversation)
}

// refuse denies what policy asks about, because nobody is present.
func refuse(ctx context.Context, c *client.Client, m client.Message, f *client.Frame) error {
	if !m.Unattended || f.Type != client.FrameCall || f.Approval == nil || f.Status != client.CallAwaiting {
		return nil
	}
	err := c.AnswerApproval(ctx, f.Approval.ID, client.Answer{Hash: f.Approval.Hash, Reason: "there is no terminal to ask at"})
	if fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) {
		return nil // it was answered elsewhere
	}
	return err
}

// Writer writes a turn's frames as plain text: the answer to Out as it arrives,
// tool calls and notices to Notes.
type Writer struct {
	Out, Notes io.Writer
	// Whole means that Out is read by a program, which cannot take back what it has read: each message is
	// written once it is certain that it is not withdrawn.
	Whole bool
	// Width is that of the terminal that Out and Notes are, in columns: lines of the answer are broken between
	// words, and notes begin on lines of their own. Zero: Out is not a terminal.
	Width     int
	wrap      wordWrap
	draft     string // the message that is being written, if Whole
	wrote     bool   // a part of the answer was written
	newline   bool   // it ends with a line feed
	noticed   bool   // a notice was written; the offline provider introduces itself by one
	called    string // the call that was noted last
	streaming string
	tasks     map[string]string // the last note about each
	Offline   bool              // the answer came from the offline provider
	Stop      message.Stop
}

// Frame writes one frame.
func (w *Writer) Frame(f client.Frame) error {
	var err error
	switch f.Type {
	case client.FrameCall, client.FrameResult, client.FrameOpened, client.FrameComplete, client.FrameError:
		if f.Type != client.FrameCall || f.Status == client.CallRunning {
			if err = w.flushHeld(); err != nil {
				return err
			}
		}
	}
	switch f.Type {
	case client.FrameToken:
		if w.Whole {
			if f.MessageID != w.streaming {
				err = w.flushHeld()
			}
			w.streaming = f.MessageID
			w.draft += f.Text
			return err
		}
		if f.MessageID != w.streaming && w.wrote && !w.newline {
			err = w.answer("\n")
		}
		w.streaming = f.MessageID
		return errors.Join(err, w.answer(f.Text))
	case client.FrameCall:
		if f.Status == client.CallRunning && f.ID != w.called {
			w.called = f.ID
			if f.Summary != "" {
				return w.note("→ %s: %s", Visible(f.Name), Visible(f.Summary))
			}
			return w.note("→ %s %s", Visible(f.Name), cut(short(f.Arguments()), 200))
		}
		if f.Approval != nil { // whoever asks the person writes on
			return w.endLine()
		}
	case client.FrameResult:
		return w.note("← %s %s: %s", Visible(f.Name), f.Status, resultLine(resultOf(&f), 200))
	case client.FrameTask:
		return w.task(&f)
	case client.FrameOpened:
		return w.note("« %s", oneLine(firstOf(f.Content.Text()), 200))
	case client.FrameReset:
		if w.Whole && f.MessageID == w.streaming {
			w.draft = ""
			return nil
		}
		if w.wrote && f.MessageID == w.streaming {
			return w.note("the partial answer was discarded; answer restarted")
		}
	case client.FrameNotice:
		w.noticed = true
		return w.note("%s", safe(f.Text))
	case client.FrameMemory:
		return w.note("%s", safe(f.Text))
	case client.FrameComplete:
		w.Offline, w.Stop = strings.HasPrefix(f.Model, "offline/"), message.Stop(f.Stop)
		if !w.wrote {
			err = w.answer(f.Content.Text())
		}
		for _, line := range sources(f.Citations) {
			err = errors.Join(err, w.note("%s", line))
		}
		if w.Offline && !w.noticed {
			err = errors.Join(err, w.note("answered by the offline provider: rules, not a language model"))
		}
	}
	return err
}

// task notes the progress of a background call when its text changes.
func (w *Writer) task(f *client.Frame) error {
	if w.tasks == nil {
		w.tasks = map[string]string{}
	}
	line := Visible(f.Tool) + " in the background: " + strings.ReplaceAll(f.Status, "_", " ")
	if f.Message != "" && f.Status == record.TaskRunning {
		line += ", " + oneLine(f.Message, 200)
	}
	if w.tasks[f.ID] == line || f.Status == record.TaskAcknowledged {
		return nil
	}
	w.tasks[f.ID] = line
	return w.note("∙ %s", line)
}

func (w *Writer) answer(text string) error {
	if text == "" {
		return nil
	}
	w.wrote, w.newline = true, strings.HasSuffix(text, "\n")
	if w.Width > 0 {
		text = w.wrap.next(text, w.Width)
	}
	_, err := io.WriteString(w.Out, text)
	return err
}

func (w *Writer) note(format string, args ...any) error {
	if err := w.endLine(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w.Notes, format+"\n", args...)
	return err
}

// endLine ends the answer's line before something else is written to the same terminal.
func (w *Writer) endLine() error {
	if w.Width == 0 || !w.wrote || w.newline {
		return nil
	}
	return w.answer("\n")
}

// flushHeld writes the message that was held back.
func (w *Writer) flushHeld() error {
	text := w.draft
	w.draft = ""
	if text != "" && w.wrote && !w.newline {
		text = "\n" + text
	}
	return w.answer(text)
}

// Close writes what was held back, and ends the answer's last line.
func (w *Writer) Close() error {
	if err := w.flushHeld(); err != nil {
		return err
	}
	if w.wrote && !w.newline {
		return w.answer("\n")
	}
	return nil
}

// wordWrap breaks the lines of a text that arrives in pieces between words.
type wordWrap struct {
	gap, word string // not given out yet: blanks, and the word behind them, which may continue
	column    int
}

// maxHeld is how long a word is held that does not end, in bytes.
const maxHeld = 1000

// next returns what can be given out once text has arrived. The last word is held until it ends.
func (p *wordWrap) next(text string, width int) string {
	var out strings.Builder
	for _, r := range text {
		if r != ' ' && r != '\n' && r != '\t' {
			p.word += string(r)
			if r >= 0x1100 && lipgloss.Width(string(r)) > 1 || len(p.word) > maxHeld { // Chinese has no blanks
				p.flush(&out, width)
			}
			continue
		}
		p.flush(&out, width)
		if r == '\n' {
			out.WriteByte('\n')
			p.gap, p.column = "", 0
			continue
		}
		p.gap += string(r)
	}
	return out.String()
}

func (p *wordWrap) flush(out *strings.Builder, width int) {
	if p.word == "" {
		return
	}
	const tab = "        "
	gap, word := lipgloss.Width(strings.ReplaceAll(p.gap, "\t", tab)), lipgloss.Width(p.word)
	if p.column > 0 && p.column+gap+word > width {
		out.WriteByte('\n')
		p.gap, gap, p.column = "", 0, 0
	}
	out.WriteString(p.gap + p.word)
	if p.column += gap + word; p.column > width { // the terminal breaks a long word
		p.column = (p.column-1)%width + 1
	}
	p.gap, p.word = "", ""
}
