package conversation

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

// Export writes a conversation as "json" (everything, one object, a message
// per line) or "markdown" (for reading). What is labelled secret is masked.
func (e *Engine) Export(ctx context.Context, sc store.Scope, conv id.ID, format string, w io.Writer) error {
	c, err := e.Get(ctx, sc, conv)
	if err != nil {
		return err
	}
	var write func(*bufio.Writer, Entry) error
	out := bufio.NewWriter(w)
	switch format {
	case "", "json":
		fmt.Fprintf(out, `{"steward_export":1,"id":%q,"conversation":%s,"messages":[`, conv, record.Encode(c))
		first := true
		write = func(out *bufio.Writer, m Entry) error {
			if !first {
				out.WriteByte(',')
			}
			first = false
			_, err := fmt.Fprintf(out, "\n{\"interaction\":%q,\"message\":%s}", m.Interaction, message.Append(nil, masked(m.Message)))
			return err
		}
	case "markdown", "md":
		fmt.Fprintf(out, "# %s\n", strings.TrimSpace(c.Title))
		write = func(out *bufio.Writer, m Entry) error { return markdown(out, masked(m.Message)) }
	default:
		return fault.New(fault.Invalid, "format_unknown", "there is no export format %q", format).With("use json or markdown")
	}
	var after store.Cursor
	for {
		page, next, err := e.Messages(ctx, sc, conv, after, 0, false)
		if err != nil {
			return err
		}
		for _, m := range page {
			if err := write(out, m); err != nil {
				return err
			}
		}
		if next == "" {
			break
		}
		after = next
	}
	if format != "markdown" && format != "md" {
		out.WriteString("\n]}\n")
	}
	return out.Flush()
}

// masked returns the message with the text of secret blocks taken out.
func masked(m *message.Message) *message.Message {
	if message.LabelsOf(m.Blocks)&message.Secret == 0 {
		return m
	}
	c := *m
	c.Blocks = maskedBlocks(m.Blocks)
	return &c
}

func maskedBlocks(blocks []message.Block) []message.Block {
	out := make([]message.Block, len(blocks))
	for i, b := range blocks {
		if r, ok := b.(*message.ToolResult); ok {
			c := *r
			c.Content = maskedBlocks(r.Content)
			out[i] = &c
			continue
		}
		if b.Base().Labels&message.Secret == 0 {
			out[i] = b
			continue
		}
		if call, ok := b.(*message.ToolCall); ok {
			c := *call
			c.Args = []byte(`{"masked":true}`)
			out[i] = &c
			continue
		}
		out[i] = &message.Text{Common: message.Common{Origin: b.Base().Origin, Labels: b.Base().Labels}, Text: "[secret]"}
	}
	return out
}

func markdown(w *bufio.Writer, m *message.Message) error {
	switch m.Role {
	case message.User:
		if len(m.Blocks) > 0 && m.Blocks[0].Base().Origin != record.OriginUser {
			return nil
		}
		fmt.Fprintf(w, "\n## You, %s\n", m.At.Format("2006-01-02 15:04 UTC"))
	case message.Assistant:
		if m.Text() != "" {
			fmt.Fprintf(w, "\n## Steward (%s)\n", m.Model)
		}
	}
	for _, b := range m.Blocks {
		switch b := b.(type) {
		case *message.Text:
			fmt.Fprintf(w, "\n%s\n", b.Text)
		case *message.ToolCall:
			fmt.Fprintf(w, "\n- tool `%s` `%s`\n", b.Name, compact(b.Args))
		case *message.ToolResult:
			fmt.Fprintf(w, "\n  %s:\n\n%s\n", b.Status, indent(b.Text()))
		case *message.Image:
			fmt.Fprintf(w, "\n[image, %s]\n", b.MIME)
		case *message.File:
			fmt.Fprintf(w, "\n[file %s, %s]\n", b.Name, b.MIME)
		}
	}
	return w.Flush()
}

// compact shows arguments on one line.
func compact(args []byte) string {
	var v any
	if json.Unmarshal(args, &v) != nil {
		return string(args)
	}
	return string(record.Encode(v))
}

// indent makes a block of code, so that no text of a tool becomes markup.
func indent(s string) string {
	return "      " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n      ")
}
