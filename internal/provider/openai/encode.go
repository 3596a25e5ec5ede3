package openai

import (
	"encoding/base64"
	"strings"

	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// maxCallID is the longest call id that OpenAI takes.
const maxCallID = 40

func takesID(s string) bool { return s != "" && len(s) <= maxCallID && wire.Printable(s) }

// encoder writes messages as the API wants them, each once: see
// llm.Transcript.Encoded.
type encoder struct {
	provider string
	official bool
	notices  []string
}

// group encodes one group. Among what follows an assistant's message, results
// come first, in their order, whoever spoke in between: the API demands it.
func (e *encoder) group(dst []byte, msgs []*message.Message) ([]byte, error) {
	start := len(dst)
	next := func() {
		if len(dst) > start {
			dst = append(dst, ',')
		}
	}
	var shown []message.Block // pictures that results bring: only users may
	for _, m := range msgs {
		if r := m.Result(); r != nil {
			next()
			dst, shown = e.result(dst, r, shown)
		}
	}
	if len(shown) > 0 {
		next()
		dst = e.content(append(dst, `{"role":"user","content":`...), shown)
		dst = append(dst, '}')
	}
	for _, m := range msgs {
		switch {
		case m.Role == message.Tool:
		case m.Role == message.Assistant && silent(m):
		case m.Role == message.Assistant:
			next()
			dst = e.assistant(dst, m)
		default:
			next()
			dst = append(dst, `{"role":"`...)
			dst = append(dst, m.Role...)
			dst = append(dst, `","content":`...)
			dst = append(e.content(dst, m.Blocks), '}')
		}
	}
	return dst, nil
}

// silent reports whether an assistant's message says nothing to this API:
// reasoning alone does not go back.
func silent(m *message.Message) bool {
	for _, b := range m.Blocks {
		switch b := b.(type) {
		case *message.Text:
			if b.Text != "" {
				return false
			}
		case *message.ToolCall:
			return false
		}
	}
	return true
}

func (e *encoder) result(dst []byte, r *message.ToolResult, shown []message.Block) ([]byte, []message.Block) {
	dst = append(dst, `{"role":"tool","tool_call_id":`...)
	dst = wire.AppendString(dst, wire.CallID(r.CallID, r.Call, "call_", takesID))
	dst = append(dst, `,"content":`...)
	dst = append(wire.AppendString(dst, wire.ResultText(r)), '}')
	told := false
	for _, b := range r.Content {
		if _, ok := b.(*message.Text); ok {
			continue
		}
		if !told {
			told = true
			shown = append(shown, &message.Text{Text: "From the result of " + tool.WireName(r.Name) + ":"})
		}
		shown = append(shown, b)
	}
	return dst, shown
}

func (e *encoder) assistant(dst []byte, m *message.Message) []byte {
	dst = append(dst, `{"role":"assistant"`...)
	text, refusal, reasoning, field := e.prose(m)
	calls := false
	for _, b := range m.Blocks {
		if _, ok := b.(*message.ToolCall); ok {
			calls = true
			break
		}
	}
	if text != "" || !calls && refusal == "" {
		dst = wire.AppendString(append(dst, `,"content":`...), text)
	}
	if refusal != "" {
		dst = wire.AppendString(append(dst, `,"refusal":`...), refusal)
	}
	if calls {
		if reasoning != "" { // DeepSeek and Kimi demand it back while tools are at work
			dst = wire.AppendString(append(dst, ','), field)
			dst = wire.AppendString(append(dst, ':'), reasoning)
		}
		dst = e.calls(append(dst, `,"tool_calls":[`...), m)
	}
	return append(e.own(dst, m.Meta), '}')
}

// prose gathers a message's text, refusal and reasoning, and the member in
// which the reasoning came.
func (e *encoder) prose(m *message.Message) (text, refusal, reasoning, field string) {
	for _, b := range m.Blocks {
		switch b := b.(type) {
		case *message.Text:
			if b.Meta.Provider == e.provider && string(b.Meta.Fields) == refusalMeta {
				refusal += b.Text
			} else {
				text += b.Text
			}
		case *message.Reasoning:
			if b.Meta.Provider != e.provider {
				continue
			}
			switch string(b.Meta.Fields) {
			case reasoningContentMeta:
				field = "reasoning_content"
			case reasoningMeta:
				field = "reasoning"
			default:
				continue
			}
			reasoning += b.Text
		}
	}
	return text, refusal, reasoning, field
}

func (e *encoder) calls(dst []byte, m *message.Message) []byte {
	first := true
	for i, b := range m.Blocks {
		c, ok := b.(*message.ToolCall)
		if !ok {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		ref := message.Ref{Message: m.ID, Block: i}
		dst = wire.AppendString(append(dst, `{"id":`...), wire.CallID(c.CallID, ref, "call_", takesID))
		dst = wire.AppendString(append(dst, `,"type":"function","function":{"name":`...), wire.ToolName(tool.WireName(c.Name)))
		dst = append(dst, `,"arguments":`...)
		if len(c.Args) == 0 {
			dst = append(dst, `"{}"`...)
		} else {
			dst = wire.AppendString(dst, c.Args)
		}
		dst = append(e.own(append(dst, '}'), c.Meta), '}')
	}
	return append(dst, ']')
}

// own appends the members of this provider's metadata, byte for byte. OpenAI
// itself takes none back; compatible servers all but what only reports.
func (e *encoder) own(dst []byte, m message.Meta) []byte {
	if m.Provider != e.provider || e.official {
		return dst
	}
	d := wire.Decode(m.Fields)
	d.Object(func(key []byte) {
		switch string(key) {
		case "annotations", "audio", "images", "citations":
			return
		}
		dst = wire.AppendString(append(dst, ','), key)
		dst = append(append(dst, ':'), d.Raw()...)
	})
	return dst
}

// content appends a user's or system's blocks: a string if there is one text
// and nothing else, else a list of parts.
func (e *encoder) content(dst []byte, blocks []message.Block) []byte {
	if len(blocks) == 1 {
		if t, ok := blocks[0].(*message.Text); ok && t.Text != "" {
			return wire.AppendString(dst, t.Text)
		}
	}
	start := len(dst)
	dst = append(dst, '[')
	for _, b := range blocks {
		before := len(dst)
		if before > start+1 {
			dst = append(dst, ',')
		}
		at := len(dst)
		dst = e.part(dst, b)
		if len(dst) == at {
			dst = dst[:before]
		}
	}
	if len(dst) == start+1 {
		return wire.AppendString(dst[:start], wire.NoContent)
	}
	return append(dst, ']')
}

// part appends one part, or nothing.
func (e *encoder) part(dst []byte, b message.Block) []byte {
	switch b := b.(type) {
	case *message.Text:
		if b.Text != "" {
			return textPart(dst, b.Text)
		}
	case *message.Image:
		dst = append(dst, `{"type":"image_url","image_url":{"url":`...)
		return append(dataURL(dst, b.URL, b.MIME, b.Data), "}}"...)
	case *message.File:
		return e.file(dst, b)
	}
	return dst
}

func textPart(dst []byte, s string) []byte {
	return append(wire.AppendString(append(dst, `{"type":"text","text":`...), s), '}')
}

// file: PDFs go as files; texts as text; of others the model is told the name.
func (e *encoder) file(dst []byte, f *message.File) []byte {
	if f.URL == "" && strings.HasPrefix(f.MIME, "application/pdf") {
		name := f.Name
		if name == "" {
			name = "file.pdf"
		}
		dst = wire.AppendString(append(dst, `{"type":"file","file":{"filename":`...), name)
		dst = append(dst, `,"file_data":`...)
		return append(dataURL(dst, "", f.MIME, f.Data), "}}"...)
	}
	s, whole := wire.FileText(f)
	if !whole {
		e.notices = append(e.notices, e.provider+" does not take the file "+s+"; the model is told its name only.")
	}
	return textPart(dst, s)
}

// dataURL appends a URL as a JSON string: the one given, or the data inline.
func dataURL(dst []byte, url, mime string, data []byte) []byte {
	if url != "" {
		return wire.AppendString(dst, url)
	}
	if mime == "" {
		mime = "application/octet-stream"
	}
	dst = wire.AppendString(dst, "data:"+mime+";base64,")
	dst = base64.StdEncoding.AppendEncode(dst[:len(dst)-1], data)
	return append(dst, '"')
}
