package openai

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"net/url"
	"slices"
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
	var media []message.Block // pictures that results bring: only users may
	for _, m := range msgs {
		if r := m.Result(); r != nil {
			next()
			dst, media = e.result(dst, r, media)
		}
	}
	if len(media) > 0 {
		next()
		dst = e.content(append(dst, `{"role":"user","content":`...), media, true)
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
			dst = append(e.content(dst, m.Blocks, m.Role == message.User), '}')
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

func (e *encoder) result(dst []byte, r *message.ToolResult, media []message.Block) ([]byte, []message.Block) {
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
			media = append(media, &message.Text{Text: "From the result of " + tool.WireName(r.Name) + ":"})
		}
		media = append(media, b)
	}
	return dst, media
}

func (e *encoder) assistant(dst []byte, m *message.Message) []byte {
	dst = append(dst, `{"role":"assistant"`...)
	text, refusal, reasoning, field := e.prose(m)
	calls := slices.ContainsFunc(m.Blocks, isCall)
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
	return append(e.own(dst, m.Meta, "role"), '}')
}

func isCall(b message.Block) bool { _, ok := b.(*message.ToolCall); return ok }

// prose gathers a message's text, refusal and reasoning, and the member in
// which the reasoning came.
func (e *encoder) prose(m *message.Message) (text, refusal, reasoning, field string) {
	for _, b := range m.Blocks {
		own := b.Base().Meta.Provider == e.provider
		switch b := b.(type) {
		case *message.Text:
			if own && bytes.HasPrefix(b.Meta.Fields, []byte("{"+refusalMember)) {
				refusal += b.Text
			} else {
				text += b.Text
			}
		case *message.Reasoning:
			switch fields := string(b.Meta.Fields); {
			case own && fields == reasoningContentMeta:
				reasoning, field = reasoning+b.Text, "reasoning_content"
			case own && fields == reasoningMeta:
				reasoning, field = reasoning+b.Text, "reasoning"
			}
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
		dst = append(e.own(append(dst, '}'), c.Meta, "function"), '}')
	}
	return append(dst, ']')
}

// own appends the members of this provider's metadata, byte for byte. OpenAI
// itself takes none back; compatible servers all but what only reports, and
// the members that a block's modelled part is written with.
func (e *encoder) own(dst []byte, m message.Meta, but string) []byte {
	if m.Provider != e.provider || e.official {
		return dst
	}
	d := wire.Decode(m.Fields)
	d.Object(func(key []byte) {
		switch string(key) {
		case "annotations", "audio", "images", "citations":
			return
		case but:
			return
		}
		dst = wire.AppendString(append(dst, ','), key)
		dst = append(append(dst, ':'), d.Raw()...)
	})
	return dst
}

// textStart begins a text part.
const textStart = `{"type":"text","text":`

// content appends a user's or system's blocks: a string if there is one text
// and nothing else, else a list of parts. Only users may show something.
func (e *encoder) content(dst []byte, blocks []message.Block, shows bool) []byte {
	start, parts := len(dst), 0
	dst = append(dst, '[')
	for _, b := range blocks {
		before := len(dst)
		if before > start+1 {
			dst = append(dst, ',')
		}
		at := len(dst)
		dst = e.part(dst, b, shows)
		if len(dst) == at {
			dst = dst[:before]
		} else {
			parts++
		}
	}
	one := dst[start+1:]
	switch {
	case parts == 0:
		return wire.AppendString(dst[:start], wire.NoContent)
	case parts == 1 && bytes.HasPrefix(one, []byte(textStart)):
		return append(dst[:start], one[len(textStart):len(one)-1]...)
	}
	return append(dst, ']')
}

// part appends one part, or nothing.
func (e *encoder) part(dst []byte, b message.Block, shows bool) []byte {
	switch b := b.(type) {
	case *message.Text:
		if b.Text != "" {
			return textPart(dst, b.Text)
		}
	case *message.Image:
		return e.image(dst, b, shows)
	case *message.File:
		return e.file(dst, b, shows)
	}
	return dst
}

func textPart(dst []byte, s string) []byte {
	return append(wire.AppendString(append(dst, textStart...), s), '}')
}

// image: data, or an address that the API can fetch; of others the model is
// told the address.
func (e *encoder) image(dst []byte, b *message.Image, shows bool) []byte {
	if shows && shown(b) {
		dst = append(dst, `{"type":"image_url","image_url":{"url":`...)
		return append(dataURL(dst, b.URL, b.MIME, b.Data), "}}"...)
	}
	s := "[an image that cannot be shown here: " + wire.Short(cmp.Or(b.URL, b.MIME)) + "]"
	e.notices = append(e.notices, e.provider+" does not take every picture; the model is told only of "+s+".")
	return textPart(dst, s)
}

// shown reports whether the API takes a picture: from the web, or inline.
func shown(b *message.Image) bool {
	if b.URL == "" {
		return strings.HasPrefix(b.MIME, "image/") && wire.Printable(b.MIME)
	}
	if inline, ok := strings.CutPrefix(b.URL, "data:"); ok {
		mime, data, ok := strings.Cut(inline, ";base64,")
		return ok && strings.HasPrefix(mime, "image/") && wire.Printable(mime) && data != ""
	}
	u, err := url.Parse(b.URL)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http")
}

// file: PDFs go as files; texts as text; of others the model is told the name.
func (e *encoder) file(dst []byte, f *message.File, shows bool) []byte {
	if shows && f.URL == "" && len(f.Data) > 0 && strings.HasPrefix(f.MIME, "application/pdf") && wire.Printable(f.MIME) {
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
