package conversation

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"steward/internal/message"
	"steward/internal/record"
)

// markdown writes the preferred branch for reading.
func (x *exporter) markdown(out io.Writer) error {
	w := bufio.NewWriter(out)
	title := strings.TrimSpace(x.c.Title)
	if title == "" {
		title = "Conversation"
	}
	fmt.Fprintf(w, "# %s\n", title)
	if n := len(x.branches); n > 1 {
		fmt.Fprintf(w, "\n*This is the preferred one of %d branches.*\n", n)
	}
	obsolete, behind := 0, false // behind: the model is not shown the last message any more
	for e, err := range x.preferred() {
		if err != nil {
			return err
		}
		if behind && e.Shown {
			fmt.Fprint(w, "\n---\n\n*The model is no longer shown the messages above, or only a summary of them.*\n")
		}
		if behind = !e.Shown; behind && !e.Change.By.Zero() {
			e.Change = record.Change{State: record.Active} // only the summary replaces it
		}
		if e.Change.State != record.Active {
			obsolete++
		}
		x.paragraph(w, &e)
	}
	if obsolete > 0 {
		fmt.Fprintf(w, "\n---\n\n*Obsolete messages, which the model is no longer shown: %d. They are listed because nothing is ever lost.*\n", obsolete)
	}
	return w.Flush()
}

// paragraph writes one message.
func (x *exporter) paragraph(w *bufio.Writer, e *Entry) {
	m := x.masked(e.Message)
	switch m.Role {
	case message.System:
		fmt.Fprintf(w, "\n## Instructions\n")
	case message.User:
		who := "You"
		if len(m.Blocks) > 0 {
			switch from := m.Blocks[0].Base().Origin; {
			case strings.HasPrefix(from, record.OriginAlarm):
				who = "⏰ Reminder"
			case strings.HasPrefix(from, record.OriginJob):
				who = "⏰ Job"
			case from != record.OriginUser:
				who = "Told to the model"
			}
		}
		fmt.Fprintf(w, "\n## %s, %s\n", who, m.At.Format("2006-01-02 15:04 UTC"))
	case message.Assistant:
		if m.Model == record.RepeatModel {
			return // the reminder stands above
		}
		if m.Text() != "" {
			fmt.Fprintf(w, "\n## %s\n", writer(m))
		}
	}
	if c := e.Change; c.State != record.Active {
		fmt.Fprintf(w, "\n*%s*\n", x.verdict(e))
	}
	for _, b := range m.Blocks {
		block(w, b)
	}
	for i, c := range m.Citations() {
		if i == 0 {
			fmt.Fprint(w, "\nSources (third parties):\n\n")
		}
		fmt.Fprintf(w, "%d. %s\n", i+1, c)
	}
}

// writer names the writer of an answer: Steward and its model, or only the model
// if the answer was imported.
func writer(m *message.Message) string {
	imported := strings.HasPrefix(m.Blocks[0].Base().Origin, "import:")
	switch {
	case imported && m.Model != "":
		return m.Model
	case imported:
		return "Assistant"
	case m.Model != "":
		return "Steward (" + m.Model + ")"
	}
	return "Steward"
}

// verdict describes the state of a message that is not active.
func (x *exporter) verdict(e *Entry) string {
	c := e.Change
	words := map[record.Validity]string{record.Invalidated: "Obsolete", record.Superseded: "Replaced", record.Archived: "Archived"}[c.State]
	if c.Tool != "" {
		words += " since a call of " + c.Tool
	}
	if reason := x.reason(e.ID, c); reason != "" {
		words += ": " + strings.Join(strings.Fields(reason), " ")
	}
	return words + "."
}

func block(w *bufio.Writer, b message.Block) {
	switch b := b.(type) {
	case *message.Text:
		fmt.Fprintf(w, "\n%s\n", b.Text)
	case *message.ToolCall:
		fmt.Fprintf(w, "\n- tool `%s` `%s`\n", b.Name, compact(b.Args))
	case *message.ToolResult:
		fmt.Fprintf(w, "\n  %s:\n\n%s\n", b.Status, indent(b.Text()))
		for _, c := range b.Content {
			if _, ok := c.(*message.Text); !ok {
				block(w, c)
			}
		}
	case *message.Vendor:
		fmt.Fprintf(w, "\n- by the provider: `%s`\n", b.Kind)
	case *message.Image:
		fmt.Fprintf(w, "\n[image, %s]\n", b.MIME)
	case *message.File:
		fmt.Fprintf(w, "\n[file %s, %s]\n", b.Name, b.MIME)
	}
}

// compact returns arguments on one line.
func compact(args []byte) string {
	var v any
	if json.Unmarshal(args, &v) != nil {
		return string(args)
	}
	return string(record.Encode(v))
}

// indent makes a code block of a tool's text, so that nothing in it becomes markup.
func indent(s string) string {
	return "      " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n      ")
}
