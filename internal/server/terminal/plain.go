package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
)

// Plain is the chat without a terminal: each line of in is a message, each
// answer is written to out, and what is done on the way to notes. It ends
// with in. Nobody can be asked, so nothing that needs approval happens.
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

func plainTurn(ctx context.Context, o Options, conv id.ID, text string, out, notes io.Writer) (runtime.Accepted, error) {
	t := runtime.Turn{Conversation: conv, Model: o.Model, Agent: o.Agent, Content: []message.Block{&message.Text{Text: text}}}
	w := &Writer{Out: out, Notes: notes}
	acc, err := Follow(ctx, o.Node, t, w.Frame)
	err = errors.Join(err, w.Close())
	if s := HiddenNote(acc.Hidden); s != "" {
		fmt.Fprintln(notes, s)
	}
	return acc, err
}

// HiddenNote tells that a message held secrets; empty: it held none.
func HiddenNote(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "What you wrote held a secret (" + strings.Join(names, ", ") + "). It was replaced before anything was kept or sent."
}

// Follow sends a turn and hands its frames to each until the turn is over. It
// returns the turn's error, if it ended with one.
func Follow(ctx context.Context, node Node, t runtime.Turn, each func(runtime.Frame) error) (runtime.Accepted, error) {
	var from runtime.Cursor
	var err error
	if !t.Conversation.Zero() {
		if from, err = node.Position(ctx, t.Conversation); err != nil {
			return runtime.Accepted{}, err
		}
	}
	acc, err := node.Send(ctx, t)
	if err != nil {
		return acc, err
	}
	mine := false
	for f, err := range node.Watch(ctx, acc.Conversation, from) {
		if err != nil {
			return acc, err
		}
		mine = mine || f.Interaction == acc.Interaction || f.Kind == runtime.FrameUser && f.Message == acc.Message
		if !mine {
			continue
		}
		if err := refuse(ctx, node, t, acc, f); err != nil {
			return acc, err
		}
		if err := each(f); err != nil {
			return acc, err
		}
		switch f.Kind {
		case runtime.FrameComplete:
			return acc, nil
		case runtime.FrameError:
			return acc, f.Err
		}
	}
	if err := ctx.Err(); err != nil {
		return acc, err
	}
	return acc, fault.New(fault.Unavailable, "watch_ended", "the answer broke off").
		WithHint("it goes on by itself; steward conversations show %s tells", acc.Conversation)
}

// refuse answers a question where nobody is there to be asked.
func refuse(ctx context.Context, node Node, t runtime.Turn, acc runtime.Accepted, f runtime.Frame) error {
	if t.Attended || f.Kind != runtime.FrameCall || f.Call.Approval == nil || f.Call.Status != string(runtime.CallAwaiting) {
		return nil
	}
	err := node.Decide(ctx, acc.Conversation, runtime.Verdict{ID: f.Call.Approval.ID, Hash: f.Call.Approval.Hash,
		Reason: "nobody is there who could be asked"})
	if fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) {
		return nil // somebody else has answered
	}
	return err
}

// Writer writes a turn's frames as plain text: the answer to Out as it comes,
// what is done on the way to Notes.
type Writer struct {
	Out, Notes io.Writer
	wrote      bool   // something of the answer is out
	newline    bool   // it ends with a line feed
	noticed    bool   // a notice was written: the offline provider says itself what it is
	called     string // the call that was told last
	flying     id.ID
	tasks      map[id.ID]string // what was said of each last
	Offline    bool             // the answer came from the offline provider
	Stop       message.Stop
}

// Frame writes one frame.
func (w *Writer) Frame(f runtime.Frame) error {
	var err error
	switch f.Kind {
	case runtime.FrameToken:
		if f.Message != w.flying && w.wrote && !w.newline {
			err = w.answer("\n")
		}
		w.flying = f.Message
		return errors.Join(err, w.answer(f.Text))
	case runtime.FrameCall:
		if f.Call.Status == string(runtime.CallRunning) && f.Call.ID != w.called {
			w.called = f.Call.ID
			return w.note("→ %s %s", bare(f.Call.Name), cut(short(f.Call.Args), 200))
		}
	case runtime.FrameResult:
		text := ""
		if f.Call.Result != nil {
			text = denied(f.Call.Result) + oneLine(f.Call.Result.Plain(), 200)
		}
		return w.note("← %s %s: %s", bare(f.Call.Name), f.Call.Status, text)
	case runtime.FrameTask:
		return w.task(f.Task)
	case runtime.FrameOpened:
		said, _, _ := strings.Cut(f.Stored.Text(), "\n")
		return w.note("« %s", oneLine(said, 200))
	case runtime.FrameReset:
		if w.wrote && f.Message == w.flying {
			return w.note("what was written of this answer is void; it begins anew")
		}
	case runtime.FrameNotice:
		w.noticed = true
		return w.note("%s", safe(f.Text))
	case runtime.FrameComplete:
		w.Offline, w.Stop = strings.HasPrefix(f.Stored.Model, "offline/"), f.Stored.Stop
		if !w.wrote {
			err = w.answer(f.Stored.Text())
		}
		for _, line := range sources(f.Stored) {
			err = errors.Join(err, w.note("%s", line))
		}
		if w.Offline && !w.noticed {
			err = errors.Join(err, w.note("answered by the offline provider: rules, not a language model"))
		}
	}
	return err
}

// task notes how far a task is, whenever that is said in other words.
func (w *Writer) task(v *runtime.TaskView) error {
	if w.tasks == nil {
		w.tasks = map[id.ID]string{}
	}
	line := bare(v.Tool) + " in the background: " + strings.ReplaceAll(v.Status, "_", " ")
	if v.Message != "" && v.Status == record.TaskRunning {
		line += ", " + oneLine(v.Message, 200)
	}
	if w.tasks[v.ID] == line || v.Status == record.TaskAcknowledged {
		return nil
	}
	w.tasks[v.ID] = line
	return w.note("∙ %s", line)
}

func (w *Writer) answer(text string) error {
	if text == "" {
		return nil
	}
	w.wrote, w.newline = true, strings.HasSuffix(text, "\n")
	_, err := io.WriteString(w.Out, text)
	return err
}

func (w *Writer) note(format string, args ...any) error {
	_, err := fmt.Fprintf(w.Notes, format+"\n", args...)
	return err
}

// Close ends the answer's last line.
func (w *Writer) Close() error {
	if w.wrote && !w.newline {
		return w.answer("\n")
	}
	return nil
}
