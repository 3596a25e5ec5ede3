package ollama

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"

	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// wrapper is the name under which arguments go that are no object.
const wrapper = "_malformed_arguments"

// mintedPrefix begins the call ids that Steward gives where Ollama gave none.
// They stay here: Ollama never gets one back.
const mintedPrefix = "ollama-call-"

// encoder writes the wire form of messages. Its fields are all that the form
// depends on; codec names them.
type encoder struct {
	provider string // whose Meta goes back
	blind    bool   // the model takes no images: a line of text stands for each
}

// codec is the name under which a transcript keeps this encoder's output.
func (e encoder) codec() string {
	if e.blind {
		return "ollama/blind/" + e.provider
	}
	return "ollama/" + e.provider
}

// group is an llm.GroupEncoder: results in call order, then what was said.
func (e encoder) group(dst []byte, group []*message.Message) ([]byte, error) {
	w := listWriter{dst: dst, start: len(dst)}
	if group[0].Role == message.Assistant {
		for _, m := range group {
			w.add(e.assistant(nil, m))
		}
		return w.dst, nil
	}
	results := wire.ResultsInCallOrder(group)
	for _, r := range results {
		w.add(e.result(nil, r))
	}
	for _, r := range results { // a tool message carries text only
		if wire.HasMedia(r.Content) {
			w.add(e.said(nil, "user", append([]message.Block{
				&message.Text{Text: "Returned by the tool " + wireName(r.Name) + ":"}}, media(r.Content)...)))
		}
	}
	for _, m := range group {
		switch m.Role {
		case message.User:
			w.add(e.said(nil, "user", m.Blocks))
		case message.System: // has its role in Ollama's messages, wherever it stands
			w.add(e.said(nil, "system", m.Blocks))
		}
	}
	if len(w.dst) == w.start { // what a model answers to is never nothing
		w.add(e.said(nil, "user", []message.Block{&message.Text{Text: wire.NoContent}}))
	}
	return w.dst, nil
}

// listWriter appends values, separated by commas; empty ones are left out.
type listWriter struct {
	dst   []byte
	start int
}

func (w *listWriter) add(value []byte) {
	if len(value) == 0 {
		return
	}
	if len(w.dst) > w.start {
		w.dst = append(w.dst, ',')
	}
	w.dst = append(w.dst, value...)
}

func media(blocks []message.Block) []message.Block {
	return slices.DeleteFunc(slices.Clone(blocks), func(b message.Block) bool { _, ok := b.(*message.Text); return ok })
}

// assistant appends a message of the model's, with its thoughts if it is one
// of this provider's models that had them.
func (e encoder) assistant(dst []byte, m *message.Message) []byte {
	own := strings.HasPrefix(m.Model, e.provider+"/")
	var thinking string
	var calls []*message.ToolCall
	var images [][]byte
	for _, b := range m.Blocks {
		switch b := b.(type) {
		case *message.Reasoning:
			if own || b.Meta.Provider == e.provider {
				thinking += b.Text
			}
		case *message.ToolCall:
			calls = append(calls, b)
		case *message.Image:
			if !e.blind && len(b.Data) > 0 {
				images = append(images, b.Data)
			}
		}
	}
	text := m.Text()
	if text == "" && thinking == "" && len(calls) == 0 && len(images) == 0 {
		return dst
	}
	dst = append(dst, `{"role":"assistant","content":`...)
	dst = wire.AppendString(dst, text)
	if thinking != "" {
		dst = append(dst, `,"thinking":`...)
		dst = wire.AppendString(dst, thinking)
	}
	dst = appendImages(dst, images)
	for i, c := range calls {
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = e.call(dst, c)
	}
	if len(calls) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// call appends a tool call. Its Meta has the members of the call and of its
// function that Steward does not model, under those names.
func (e encoder) call(dst []byte, c *message.ToolCall) []byte {
	var ofCall, ofFunction []byte
	if c.Meta.Provider == e.provider {
		d := wire.Decode(c.Meta.Fields)
		d.Object(func(key []byte) {
			switch string(key) {
			case "call":
				ofCall = d.Raw()
			case "function":
				ofFunction = d.Raw()
			}
		})
	}
	dst = append(dst, '{')
	if c.CallID != "" && !strings.HasPrefix(c.CallID, mintedPrefix) {
		dst = append(dst, `"id":`...)
		dst = wire.AppendString(dst, c.CallID)
		dst = append(dst, ',')
	}
	dst = append(dst, `"function":{"name":`...)
	dst = wire.AppendString(dst, wireName(c.Name))
	dst = append(dst, `,"arguments":`...)
	dst = wire.AppendArgs(dst, c.Args, wrapper)
	dst = wire.AppendInside(dst, ofFunction)
	dst = append(dst, '}')
	dst = wire.AppendInside(dst, ofCall)
	return append(dst, '}')
}

// result appends a tool message. Ollama has no field for a failure: the text
// says it.
func (e encoder) result(dst []byte, r *message.ToolResult) []byte {
	dst = append(dst, `{"role":"tool","content":`...)
	dst = wire.AppendString(dst, wire.ResultText(r))
	dst = append(dst, `,"tool_name":`...)
	dst = wire.AppendString(dst, wireName(r.Name))
	if r.CallID != "" && !strings.HasPrefix(r.CallID, mintedPrefix) {
		dst = append(dst, `,"tool_call_id":`...)
		dst = wire.AppendString(dst, r.CallID)
	}
	return append(dst, '}')
}

// said appends a message of text, files as text, and images.
func (e encoder) said(dst []byte, role string, blocks []message.Block) []byte {
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
		text = append(append(text, e.told(b)...), '\n')
	}
	if len(text) == 0 && len(images) == 0 {
		return dst
	}
	dst = append(dst, `{"role":"`...)
	dst = append(dst, role...)
	dst = append(dst, `","content":`...)
	dst = wire.AppendString(dst, text)
	dst = appendImages(dst, images)
	return append(dst, '}')
}

// told returns the line that stands for what cannot be shown.
func (e encoder) told(b message.Block) string {
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

// imageData returns an image's bytes, or nil where it is elsewhere: Ollama
// fetches nothing.
func imageData(b *message.Image) []byte {
	if head, body, ok := strings.Cut(b.URL, ";base64,"); ok && strings.HasPrefix(head, "data:") {
		if raw, err := base64.StdEncoding.DecodeString(body); err == nil && len(raw) > 0 {
			return raw
		}
	}
	return b.Data
}

func appendImages(dst []byte, images [][]byte) []byte {
	for i, data := range images {
		if i == 0 {
			dst = append(dst, `,"images":["`...)
		} else {
			dst = append(dst, `,"`...)
		}
		dst = base64.StdEncoding.AppendEncode(dst, data)
		dst = append(dst, '"')
	}
	if len(images) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// wireName is the name under which Ollama knows a tool.
func wireName(name string) string { return wire.ToolName(tool.WireName(name)) }
