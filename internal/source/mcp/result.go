package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"path"
	"slices"
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
	text, whole := false, false // some part has words; and they are all that is structured
	for _, c := range in.Content {
		b := block(word, c)
		if t, ok := c.(*sdk.TextContent); ok && t.Text != "" {
			text, whole = true, whole || isJSONOf(t.Text, in.StructuredContent)
		}
		if b != nil {
			out.Content = append(out.Content, b)
		}
	}
	// The protocol wants the structured content in words too. The words of a failure are often about it only.
	if in.StructuredContent != nil && (!text || in.IsError && !whole) {
		b, err := json.Marshal(in.StructuredContent)
		if err != nil {
			return tool.Result{}, fault.New(fault.Unavailable, "mcp_answer_invalid", "cannot encode the answer of the server %s: %w", word, err)
		}
		out.Content = append(out.Content, &message.Text{Text: string(b)})
	}
	return out, nil
}

// isJSONOf reports whether a text is the JSON of a value.
func isJSONOf(text string, v any) bool {
	got, err := tool.Canonical([]byte(text))
	if err != nil {
		return false
	}
	b, err := json.Marshal(v)
	if err != nil {
		return false
	}
	want, err := tool.Canonical(b)
	return err == nil && bytes.Equal(got, want)
}

func needsInput(word string) error {
	return fault.New(fault.Unsupported, "mcp_input_needed", "the MCP server %s asked a question back, which Steward does not support yet", word).
		WithHint("pass all that it needs in the arguments")
}

// block converts a content into a block; it returns nil for none.
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
	kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", c), "*mcp."), "Content")
	return &message.Text{Text: fmt.Sprintf("[Content of the unknown kind %q was left out]", kind)}
}

// imageTypes are the types of images that models are shown. A model's server refuses a request whose
// image is not of the declared type, and with it every later message.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// media makes an image or a file block from bytes. A text takes the place of what is neither.
func media(kind, name string, data []byte) message.Block {
	base, _, err := mime.ParseMediaType(kind)
	if err != nil || !strings.Contains(base, "/") {
		base = "application/octet-stream"
	}
	if len(data) == 0 {
		return &message.Text{Text: fmt.Sprintf("[The %s (%s) has no data]", name, base)}
	}
	if is := http.DetectContentType(data); strings.HasPrefix(base, "image/") && slices.Contains(imageTypes, is) {
		base = is
	} else if slices.Contains(imageTypes, base) {
		return &message.Text{Text: fmt.Sprintf("[The %s (%s) could not be read: its %d bytes are not such an image]", name, base, len(data))}
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
