package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/message"
)

func (t *turn) result(f *client.Frame) {
	took := ""
	if a := t.find(f.ID); a != nil {
		t.answered(a)
		took = elapsed(t.now().Sub(a.began) - a.waited)
		if len(f.Args) == 0 {
			f.Args = a.Args
		}
		f.Summary = a.Summary
		t.calls = slices.DeleteFunc(t.calls, func(x *activity) bool { return x == a })
	}
	if f.ID == t.plan.call {
		t.flush()
		t.folded(took)
		return
	}
	r := resultOf(f)
	mark, said := t.mark(r), outcome(r)
	room := t.paint.width - 3
	what, name := t.callTitle(f, room)
	head := what + t.dim.Render(name)
	tail := said + resultLine(r, 400)
	if r.Status == message.Accepted {
		tail = "continues in the background"
	}
	if took != "" && took != "0s" {
		tail += " · " + took
	}
	line := mark + " " + head
	switch used := lipgloss.Width(head); {
	case tail == "":
	case room-used >= min(lipgloss.Width(tail), 12)+3:
		line += t.dim.Render(" → " + cut(tail, room-used-3))
	default:
		line += "\n" + t.dim.Render("  → "+cut(tail, room-3))
	}
	t.flush()
	t.print(kindCall, line)
}

// callTitle returns what a call does and, to be dimmed, its tool, in a number of cells. Unfolded, or
// without a summary, a call is its tool and its arguments.
func (t *turn) callTitle(f *client.Frame, room int) (what, name string) {
	name = cut(Visible(f.Name), room)
	used := lipgloss.Width(name)
	if f.Summary != "" && !t.unfolded {
		if room-used < 16 {
			return cut(Visible(f.Summary), room), ""
		}
		return cut(Visible(f.Summary), min(room-used-3, max(room*2/3, 20))), " · " + name
	}
	if args := short(f.Arguments()); args != "" && room-used > 8 {
		name += " " + cut(args, min(room-used-1, max(room/2, 20)))
	}
	return name, ""
}

// resultOf returns the result in a frame.
func resultOf(f *client.Frame) *message.ToolResult {
	return &message.ToolResult{Name: f.Name, Status: message.Status(f.Status), Denied: f.Denied,
		Content: []message.Block{&message.Text{Text: f.Result}}}
}

// mark returns the mark of a result.
func (t *turn) mark(r *message.ToolResult) string {
	switch r.Status {
	case message.Queued, message.Accepted:
		return t.warn.Render("…")
	case message.Interrupted:
		return t.warn.Render("■")
	case message.UnknownEnd:
		return t.warn.Render("?")
	case message.OK:
		if len(r.Denied) > 0 || exitCode(r) != "" {
			return t.warn.Render("!")
		}
		return t.good.Render("✓")
	}
	return t.bad.Render("✗")
}

// outcome says how a call ended that was not simply done.
func outcome(r *message.ToolResult) string {
	said := map[message.Status]string{message.Failed: "failed", message.DeniedCall: "denied", message.Unavailable: "cannot be reached",
		message.UnknownEnd: "outcome unknown", message.Interrupted: "stopped", message.Queued: "queued"}[r.Status]
	if said == "" && exitCode(r) != "" {
		said = "exit code " + exitCode(r)
	}
	if r.Status == message.DeniedCall && strings.HasPrefix(r.Plain(), "Denied") {
		said = "" // the text says it already
	}
	if said != "" {
		said += ": "
	}
	return said
}

// exitCode returns the exit code of a command that ran to its end without success.
func exitCode(r *message.ToolResult) string {
	text := r.Plain()
	i := strings.LastIndex(text, "[exit code ")
	if i < 0 || r.Name != "shell.run" && r.Name != "code.run" {
		return ""
	}
	code, ok := strings.CutSuffix(text[i+len("[exit code "):], "]")
	if !ok || code == "0" {
		return ""
	}
	return code
}

// resultLine returns the text of a result on one line. It begins with the tools that were
// denied to agents below the call, because their answer may claim otherwise.
func resultLine(r *message.ToolResult, most int) string {
	text := oneLine(effect.WithoutRemark(r.Plain()), most)
	if len(r.Denied) > 0 {
		text = "denied to agents: " + Visible(strings.Join(r.Denied, ", ")) + "; " + text
	}
	return text
}

func (t *turn) complete(f *client.Frame) {
	t.startMessage(f.MessageID)
	if !t.told && t.text == "" {
		t.text = f.Content.Text() // the beginning of the message was not watched
	}
	t.flush()
	if lines := sources(f.Citations); len(lines) > 0 {
		t.print(kindNote, t.paint.wrap(strings.Join(lines, "\n")))
	}
	t.model, t.offline = f.Model, strings.HasPrefix(f.Model, "offline/")
	foot := t.foot(f)
	t.stop()
	t.print(kindNote, t.dim.Render(t.paint.wrap(foot)))
}

// maxSources is the most sources of an answer that are shown.
const maxSources = 50

// sources numbers the sources of an answer. Their text is untrusted.
func sources(list []client.Citation) (lines []string) {
	for i, c := range list {
		if i == maxSources {
			return append(lines, fmt.Sprintf("… and %d more; steward conversations show last has all", len(list)-i))
		}
		lines = append(lines, fmt.Sprintf("[%d] %s", i+1, oneLine(message.Citation(c).String(), 400)))
	}
	return lines
}

// foot returns the line below an answer: its model, time, tokens and cost, and how full the model's
// context window is.
func (t *turn) foot(f *client.Frame) string {
	by, stopped := safe(f.Model), ""
	if t.offline {
		by = "offline provider: rules, not a language model"
	}
	if f.Stop == string(message.StopCancelled) {
		stopped = "stopped"
	}
	parts := []string{stopped, by}
	if f.DurationMS > 0 {
		parts = append(parts, elapsed(max(0, time.Duration(f.DurationMS)*time.Millisecond-t.waited)))
	}
	if u := f.Usage; u.Input+u.Output > 0 {
		parts = append(parts, thousands(u.Input+u.Output)+" tokens")
		if t.cost != nil && t.cost(f.Model, u) > 0 {
			parts = append(parts, fmt.Sprintf("$%.4f", t.cost(f.Model, u)))
		}
		if t.window != nil && f.Context > 0 && t.window(f.Model) > 0 {
			parts = append(parts, fmt.Sprintf("context %s of %s", thousands(f.Context), thousands(int64(t.window(f.Model)))))
		}
	}
	if t.thought != "" && !t.unfolded {
		parts = append(parts, "Ctrl-O: reasoning")
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

// thousands writes a number of tokens: 950, 7.8k, 400k.
func thousands(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 10_000:
		return fmt.Sprintf("%.1fk", float64(n)/1000)
	}
	return fmt.Sprintf("%dk", n/1000)
}

func (t *turn) reset(msg string) {
	if msg != t.streaming && msg != "" {
		return
	}
	told := t.told
	t.text, t.thinking, t.told, t.streaming = "", "", false, ""
	t.calls = slices.DeleteFunc(t.calls, func(a *activity) bool { return a.Status == client.CallWriting })
	if told {
		t.note("the partial answer was discarded; answer restarted")
	}
}

func (t *turn) note(text string) {
	t.print(kindNote, t.dim.Render(t.paint.wrap(safe(text))))
}

// fault shows an error with its remedy, and its code at the end.
func (t *turn) fault(err error) string {
	e := fault.Of(err)
	if e == nil {
		return t.bad.Render("✗ failed without an error message")
	}
	said := *e
	said.Remedy = ""
	text := hangingIndent(t.bad, t.bad.Render("✗ "), "  ", safe(said.Error()), t.paint.width)
	if e.Remedy != "" {
		text += "\n" + hangingIndent(lipgloss.NewStyle(), "  ", "  ", safe(e.Remedy), t.paint.width)
	}
	code := t.dim.Render("[" + e.Code + "]")
	if last := text[strings.LastIndexByte(text, '\n')+1:]; lipgloss.Width(last)+lipgloss.Width(code)+1 < t.paint.width {
		return text + " " + code
	}
	return text + "\n  " + code
}

// tool returns the tool that a question is about: that of the call itself, or
// that of a call by an agent below it.
func (a *activity) tool() string {
	if a.Approval.Agent != "" {
		return a.Approval.Tool
	}
	return a.Name
}

// asked returns what a question is about, and its arguments.
func asked(f *client.Frame) (what, args string) {
	if a := f.Approval; a != nil && a.Agent != "" {
		return a.Agent + " wants " + a.Tool, a.Arguments()
	}
	return f.Name, f.Arguments()
}

// members puts each member of a JSON object on a line of its own without changing
// its bytes. It returns anything else whole.
func members(args string) []string {
	dec := json.NewDecoder(strings.NewReader(args))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return []string{args}
	}
	lines := []string{"{"}
	for dec.More() {
		from := dec.InputOffset()
		var raw json.RawMessage
		if _, err := dec.Token(); err != nil {
			return []string{args}
		}
		if err := dec.Decode(&raw); err != nil {
			return []string{args}
		}
		lines = append(lines, "  "+strings.TrimLeft(args[from:dec.InputOffset()], ", \n\t"))
	}
	if _, err := dec.Token(); err != nil || strings.TrimSpace(args[dec.InputOffset():]) != "" {
		return []string{args}
	}
	for i := 1; i < len(lines)-1; i++ {
		lines[i] += ","
	}
	return append(lines, "}")
}

// short formats a call's arguments for a line of activity.
func short(args string) string {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(args)); err == nil {
		args = b.String()
	}
	if args == "{}" {
		return ""
	}
	return Visible(strings.Join(strings.Fields(args), " "))
}
