package mcp

import (
	"encoding/json"
	"fmt"
	"mime"
	"path"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
)

// result converts a server's result into a tool's result.
func result(word string, in *sdk.CallToolResult) (tool.Result, error) {
	if in.NeedsInput() {
		return tool.Result{}, needsInput(word)
	}
	out := tool.Result{Failed: in.IsError}
	text := false
	for _, c := range in.Content {
		b := block(word, c)
		if t, ok := c.(*sdk.TextContent); ok && t.Text != "" {
			text = true
		}
		if b != nil {
			out.Content = append(out.Content, b)
		}
	}
	if in.StructuredContent != nil && !text {
		b, err := json.Marshal(in.StructuredContent)
		if err != nil {
			return tool.Result{}, fault.New(fault.Unavailable, "mcp_answer_invalid", "what the server %s answered cannot be written: %w", word, err)
		}
		out.Content = append(out.Content, &message.Text{Text: string(b)})
	}
	return out, nil
}

func needsInput(word string) error {
	return fault.New(fault.Unsupported, "mcp_input_needed", "the MCP server %s asks a question back, which Steward does not answer yet", word).
		WithHint("give it in the arguments all that it needs")
}

// block converts a content into a block; it returns nil for an empty one.
func block(word string, c sdk.Content) message.Block {
	switch c := c.(type) {
	case *sdk.TextContent:
		return &message.Text{Text: c.Text}
	case *sdk.ImageContent:
		return media(c.MIMEType, "image", c.Data)
	case *sdk.AudioContent:
		return media(c.MIMEType, "audio", c.Data)
	case *sdk.ResourceLink:
		return &message.Text{Text: link(word, c)}
	case *sdk.EmbeddedResource:
		return contents(c.Resource)
	}
	return &message.Text{Text: fmt.Sprintf("[content of a kind that is not known here: %T]", c)}
}

// media makes an image or a file block from bytes.
func media(kind, name string, data []byte) message.Block {
	if len(data) == 0 {
		return nil
	}
	base, _, err := mime.ParseMediaType(kind)
	if err != nil || !strings.Contains(base, "/") {
		base = "application/octet-stream"
	}
	if strings.HasPrefix(base, "image/") {
		return &message.Image{MIME: base, Data: data}
	}
	if _, kind, _ := strings.Cut(base, "/"); !strings.Contains(name, ".") && !strings.ContainsAny(kind, "-+.") {
		name += "." + kind
	}
	return &message.File{MIME: base, Name: name, Data: data}
}

// contents makes a block from a resource's contents.
func contents(r *sdk.ResourceContents) message.Block {
	switch {
	case r == nil:
		return nil
	case r.Blob != nil:
		name := path.Base(strings.TrimRight(r.URI, "/"))
		if name == "." || name == "/" || len(name) > 200 {
			name = "resource"
		}
		return media(r.MIMEType, name, r.Blob)
	}
	return &message.Text{Text: fmt.Sprintf("[%s]\n%s", r.URI, r.Text)}
}

// link describes a resource that can be read.
func link(word string, l *sdk.ResourceLink) string {
	var more []string
	for _, s := range []string{l.Title, l.Description, l.MIMEType} {
		if s != "" {
			more = append(more, s)
		}
	}
	if l.Size != nil {
		more = append(more, fmt.Sprintf("%d bytes", *l.Size))
	}
	return strings.TrimSuffix(fmt.Sprintf("[resource %s: %s, to be read with %s.read_resource; %s", l.Name, l.URI, word, strings.Join(more, "; ")), "; ") + "]"
}
