package ollama

import (
	"cmp"
	"encoding/base64"
	"strings"

	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// wrapper is the name of the member that holds arguments that are not an object.
const wrapper = "_malformed_arguments"

// mintedPrefix begins the call ids that Steward assigns if Ollama gives none. They are never sent to
// Ollama.
const mintedPrefix = "ollama-call-"

// encoder writes the wire form of messages. The form depends only on its field, which codec names.
type encoder struct {
	blind bool // the model accepts no images: each becomes a line of text
}

// codec is the name under which a transcript keeps this encoder's output.
func (e encoder) codec() string {
	if e.blind {
		return "ollama/blind"
	}
	return provider
}

// group is an llm.GroupEncoder: results in call order, then the messages. A tool's message carries
// only text, so its media follow in a user's message.
func (e encoder) group(dst []byte, group []*message.Message) ([]byte, error) {
	start := len(dst)
	results := wire.ResultsInCallOrder(group)
	for _, r := range results {
		dst = e.result(dst, r)
	}
	for _, r := range results {
		if media := wire.Media(r.Content); len(media) > 0 {
			dst = e.appendMessage(dst, "user", append([]message.Block{&message.Text{Text: "Returned by the tool " + wireName(r.Name) + ":"}}, media...))
		}
	}
	for _, m := range group {
		switch m.Role {
		case message.Assistant:
			dst = e.assistant(dst, m)
		case message.User, message.System:
			dst = e.appendMessage(dst, string(m.Role), m.Blocks)
		}
	}
	if len(dst) == start && group[0].Role != message.Assistant { // the model must have something to answer
		dst = e.appendMessage(dst, "user", []message.Block{&message.Text{Text: wire.NoContent}})
	}
	return dst, nil
}

// assistant appends a message of the model, with its thoughts if one of this provider's models had
// them.
func (e encoder) assistant(dst []byte, m *message.Message) []byte {
	own := strings.HasPrefix(m.Model, provider+"/")
	var thinking string
	var images [][]byte
	for _, b := range m.Blocks {
		switch b := b.(type) {
		case *message.Reasoning:
			if own || b.Meta.Provider == provider {
				thinking += b.Text
			}
		case *message.Image:
			if !e.blind && len(b.Data) > 0 {
				images = append(images, b.Data)
			}
		}
	}
	text, calls := m.Text(), m.Calls()
	if text == "" && thinking == "" && len(calls) == 0 && len(images) == 0 {
		return dst
	}
	dst = wire.Append(wire.Comma(dst), `{"role":"assistant","content":$`, text)
	if thinking != "" {
		dst = wire.Append(dst, `,"thinking":$`, thinking)
	}
	dst = appendImages(dst, images)
	if len(calls) > 0 {
		dst = append(dst, `,"tool_calls":[`...)
		for _, c := range calls {
			dst = e.call(dst, c.ToolCall)
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// call appends a tool call. Its metadata has the members of the call and of its function that Steward
// does not model, under those names.
func (e encoder) call(dst []byte, c *message.ToolCall) []byte {
	var ofCall, ofFunction []byte
	if c.Meta.Provider == provider {
		ofCall, ofFunction = wire.Member(c.Meta.Fields, "call"), wire.Member(c.Meta.Fields, "function")
	}
	dst = append(wire.Comma(dst), '{')
	if known(c.CallID) {
		dst = wire.Append(dst, `"id":$,`, c.CallID)
	}
	dst = wire.Append(dst, `"function":{"name":$,"arguments":$`, wireName(c.Name), wire.AppendArgs(nil, c.Args, wrapper))
	dst = append(wire.AppendInside(dst, ofFunction), '}')
	return append(wire.AppendInside(dst, ofCall), '}')
}

// known reports whether Ollama knows the id of a call.
func known(id string) bool { return id != "" && !strings.HasPrefix(id, mintedPrefix) }

// result appends a tool's message. Ollama has no field for a failure, so the text says it.
func (e encoder) result(dst []byte, r *message.ToolResult) []byte {
	dst = wire.Append(wire.Comma(dst), `{"role":"tool","content":$,"tool_name":$`, wire.ResultText(r), wireName(r.Name))
	if known(r.CallID) {
		dst = wire.Append(dst, `,"tool_call_id":$`, r.CallID)
	}
	return append(dst, '}')
}

// appendMessage appends a message of text, files as text, and images.
func (e encoder) appendMessage(dst []byte, role string, blocks []message.Block) []byte {
	var text []byte
	var images [][]byte
	for _, b := range blocks {
		switch b := b.(type) {
		case *message.Text:
			text = append(text, b.Text...)
			continue
		case *message.Image:
			if data := imageData(b); data != nil && !e.blind && role == "user" {
				images = append(images, data)
				continue
			}
		}
		if len(text) > 0 {
			text = append(text, '\n')
		}
		text = append(append(text, e.describeBlock(b)...), '\n')
	}
	if len(text) == 0 && len(images) == 0 {
		return dst
	}
	dst = wire.Append(wire.Comma(dst), `{"role":$,"content":$`, role, string(text))
	return append(appendImages(dst, images), '}')
}

// describeBlock returns the text that replaces a block that cannot be shown.
func (e encoder) describeBlock(b message.Block) string {
	switch b := b.(type) {
	case *message.Image:
		if e.blind && imageData(b) != nil {
			return "[an image that this model cannot see]"
		}
		return "[an image that cannot be shown here: " + cmp.Or(b.URL, b.MIME) + "]"
	case *message.File:
		words, _ := wire.FileText(b)
		return words
	}
	return ""
}

// imageData returns an image's bytes, or nil if they are elsewhere, because Ollama fetches nothing.
func imageData(b *message.Image) []byte {
	if _, data, ok := wire.DataURL(b.URL); ok && len(data) > 0 {
		return data
	}
	return b.Data
}

func appendImages(dst []byte, images [][]byte) []byte {
	if len(images) == 0 {
		return dst
	}
	dst = append(dst, `,"images":[`...)
	for _, data := range images {
		dst = wire.AppendString(wire.Comma(dst), base64.StdEncoding.EncodeToString(data))
	}
	return append(dst, ']')
}

// wireName returns a tool's name on the wire.
func wireName(name string) string { return wire.ToolName(tool.WireName(name)) }
