package openai

import (
	"bytes"
	"cmp"
	"net/url"
	"strings"

	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// maxCallID is the length of the longest call id that OpenAI accepts.
const maxCallID = 40

func takesID(s string) bool { return s != "" && len(s) <= maxCallID && wire.Printable(s) }

// encoder writes messages in the form of the API. See llm.Transcript.Encoded.
type encoder struct {
	provider  string
	official  bool
	responses bool // writes items of the responses API
	notices   []string
}

// group encodes one group. After an assistant's message the API requires the results first, in
// their order, even if the user spoke in between. In chat completions only users may show pictures, so
// those of the results follow in a user's message.
func (e *encoder) group(dst []byte, msgs []*message.Message) ([]byte, error) {
	var media []message.Block
	for _, m := range msgs {
		r := m.Result()
		if r == nil {
			continue
		}
		if e.responses {
			dst = e.output(dst, r)
			continue
		}
		dst = wire.Append(wire.Comma(dst), `{"role":"tool","tool_call_id":$,"content":$}`,
			wire.CallID(r.CallID, r.Call, "call_", takesID), wire.ResultText(r))
		if own := wire.Media(r.Content); len(own) > 0 {
			media = append(append(media, &message.Text{Text: "From the result of " + tool.WireName(r.Name) + ":"}), own...)
		}
	}
	if len(media) > 0 {
		dst = e.appendMessage(dst, message.User, media)
	}
	for _, m := range msgs {
		switch {
		case m.Role == message.Tool:
		case m.Role != message.Assistant:
			dst = e.appendMessage(dst, m.Role, m.Blocks)
		case e.responses:
			dst = e.turn(dst, m)
		default:
			dst = e.assistant(dst, m)
		}
	}
	return dst, nil
}

// assistant appends a message of the model, or nothing if it has no text and no calls: reasoning
// alone is not sent back.
func (e *encoder) assistant(dst []byte, m *message.Message) []byte {
	text, refusal, reasoning, field := e.textParts(m)
	calls := m.Calls()
	if text == "" && refusal == "" && len(calls) == 0 {
		return dst
	}
	dst = append(wire.Comma(dst), `{"role":"assistant"`...)
	if text != "" {
		dst = wire.Append(dst, `,"content":$`, text)
	}
	if refusal != "" {
		dst = wire.Append(dst, `,"refusal":$`, refusal)
	}
	if len(calls) > 0 && reasoning != "" { // DeepSeek and Kimi require it back during tool calls
		dst = wire.Append(dst, `,$:$`, field, reasoning)
	}
	if len(calls) > 0 {
		dst = append(dst, `,"tool_calls":[`...)
		for _, c := range calls {
			dst = wire.Append(wire.Comma(dst), `{"id":$,"type":"function","function":{"name":$,"arguments":$}`,
				wire.CallID(c.CallID, c.Ref, "call_", takesID), wire.ToolName(tool.WireName(c.Name)), cmp.Or(string(c.Args), "{}"))
			dst = append(e.own(dst, c.Meta, "function"), '}')
		}
		dst = append(dst, ']')
	}
	return append(e.own(dst, m.Meta, "role"), '}')
}

// textParts returns a message's text, refusal and reasoning, and the member in which the reasoning came.
func (e *encoder) textParts(m *message.Message) (text, refusal, reasoning, field string) {
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

// own appends the members of this provider's metadata, byte for byte. OpenAI itself accepts none of
// them back. Compatible servers accept all except those that only report, and except the member
// that the modelled part of a block is written with.
func (e *encoder) own(dst []byte, m message.Meta, except string) []byte {
	if m.Provider != e.provider || e.official {
		return dst
	}
	d := wire.Decode(m.Fields)
	d.Object(func(key []byte) {
		switch string(key) {
		case "annotations", "audio", "images", "citations", itemMember, except:
		default:
			dst = wire.AppendMember(dst, key, d.Raw())
		}
	})
	return dst
}

// textStart begins a text part.
func (e *encoder) textStart() string {
	if e.responses {
		return `{"type":"input_text","text":`
	}
	return `{"type":"text","text":`
}

// appendMessage appends a message of a user or the system. Its content is a string if it is one text, also if a
// note of Steward follows it, since some servers take nothing else; otherwise it is a list of parts. Only
// users may show pictures and files.
func (e *encoder) appendMessage(dst []byte, role message.Role, blocks []message.Block) []byte {
	dst = wire.Append(wire.Comma(dst), `{"role":$,"content":`, string(role))
	if text, ok := noted(blocks); ok && !e.responses {
		return append(wire.AppendString(dst, text), '}')
	}
	start, parts := len(dst), 0
	dst = append(dst, '[')
	for _, b := range blocks {
		before := len(dst)
		if dst = e.part(dst, b, role == message.User); len(dst) > before {
			parts++
		}
	}
	one := dst[start+1:]
	switch {
	case parts == 0:
		dst = wire.AppendString(dst[:start], wire.NoContent)
	case parts == 1 && bytes.HasPrefix(one, []byte(e.textStart())):
		dst = append(dst[:start], one[len(e.textStart()):len(one)-1]...)
	default:
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// noted returns a text with the note of Steward that follows it, if the blocks are these.
func noted(blocks []message.Block) (string, bool) {
	if len(blocks) != 2 {
		return "", false
	}
	text, is := blocks[0].(*message.Text)
	note, too := blocks[1].(*message.Text)
	if !is || !too || text.Text == "" || note.Text == "" || note.Origin != "system" || text.Origin == "system" {
		return "", false
	}
	return text.Text + "\n\n" + note.Text, true
}

// part appends one part, or nothing. The model is told in words of what the API does not accept.
func (e *encoder) part(dst []byte, b message.Block, shows bool) []byte {
	words := ""
	if t, ok := b.(*message.Text); ok {
		words = t.Text
	} else if shows && e.accepts(b) {
		return e.show(wire.Comma(dst), b)
	} else {
		words = e.describeMedia(b)
	}
	if words == "" {
		return dst
	}
	return wire.Append(wire.Comma(dst), e.textStart()+`$}`, words)
}

// show appends a picture or a file.
func (e *encoder) show(dst []byte, b message.Block) []byte {
	switch b := b.(type) {
	case *message.Image:
		form := `{"type":"image_url","image_url":{"url":$}}`
		if e.responses {
			form = `{"type":"input_image","detail":"auto","image_url":$}`
		}
		return wire.Append(dst, form, cmp.Or(b.URL, wire.InlineData(b.MIME, b.Data)))
	case *message.File:
		form := `{"type":"file","file":{"filename":$,"file_data":$}}`
		switch {
		case b.URL != "":
			return wire.Append(dst, `{"type":"input_file","file_url":$}`, b.URL)
		case e.responses:
			form = `{"type":"input_file","filename":$,"file_data":$}`
		}
		return wire.Append(dst, form, cmp.Or(b.Name, "file.pdf"), wire.InlineData(b.MIME, b.Data))
	}
	return dst
}

// describeMedia returns what the model is told of a picture or a file that is not shown.
func (e *encoder) describeMedia(b message.Block) (words string) {
	switch b := b.(type) {
	case *message.Image:
		words = "[an image that cannot be shown here: " + wire.Short(cmp.Or(b.URL, b.MIME)) + "]"
		e.notices = append(e.notices, e.provider+" does not take every picture; the model is told only of "+words+".")
	case *message.File:
		var whole bool
		if words, whole = wire.FileText(b); !whole {
			e.notices = append(e.notices, e.provider+" does not take the file "+words+"; the model is told its name only.")
		}
	}
	return words
}

// accepts reports whether the API accepts a picture or a file: PDFs inline and, in the responses API,
// files from the web.
func (e *encoder) accepts(b message.Block) bool {
	switch b := b.(type) {
	case *message.Image:
		return accepts(b)
	case *message.File:
		if b.URL != "" {
			return e.responses && strings.HasPrefix(b.URL, "https://")
		}
		return len(b.Data) > 0 && strings.HasPrefix(b.MIME, "application/pdf") && wire.Printable(b.MIME)
	}
	return false
}

// accepts reports whether the API accepts a picture: from the web, or inline.
func accepts(b *message.Image) bool {
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
