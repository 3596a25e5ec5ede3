package anthropic

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"

	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// blank reports whether the API would find a text empty: it refuses blocks of
// white space alone.
func blank(s string) bool { return strings.TrimSpace(s) == "" }

func toolName(name string) string { return wire.ToolName(tool.WireName(name)) }

// takesID: ids must be unique over the whole conversation, which only the
// API's own are sure to be.
func takesID(s string) bool {
	return (strings.HasPrefix(s, "toolu_") || strings.HasPrefix(s, "srvtoolu_")) && wire.IsID(s, 128)
}

// encoder writes messages as the API wants them, each group as one turn: see
// llm.Transcript.Encoded.
type encoder struct {
	provider string
	model    string // "provider/model": whose thinking goes back; empty: nobody's
	notices  []string
}

func (e *encoder) group(dst []byte, msgs []*message.Message) ([]byte, error) {
	if msgs[0].Role == message.Assistant {
		return e.assistant(dst, msgs), nil
	}
	return e.user(dst, msgs), nil
}

// list writes the blocks of one message.
type list struct {
	dst   []byte
	start int
}

func (l *list) next() {
	if len(l.dst) > l.start {
		l.dst = append(l.dst, ',')
	}
}

func (l *list) text(s string) {
	if !blank(s) {
		l.next()
		l.dst = append(wire.AppendString(append(l.dst, `{"type":"text","text":`...), s), '}')
	}
}

// user writes one turn: all results first, then what was said, in order.
func (e *encoder) user(dst []byte, msgs []*message.Message) []byte {
	dst = append(dst, `{"role":"user","content":[`...)
	l := &list{dst, len(dst)}
	for _, m := range msgs {
		if r := m.Result(); r != nil {
			l.next()
			e.result(l, r)
		}
	}
	for _, m := range msgs {
		switch m.Role {
		case message.Tool:
		case message.System:
			if s := m.Text(); !blank(s) {
				l.text("<system>\n" + s + "\n</system>")
			}
		default:
			for _, b := range m.Blocks {
				e.block(l, b)
			}
		}
	}
	if len(l.dst) == l.start {
		l.text(wire.NoContent)
	}
	return append(l.dst, "]}"...)
}

func (e *encoder) result(l *list, r *message.ToolResult) {
	id := wire.CallID(r.CallID, r.Call, "toolu_", takesID)
	l.dst = wire.AppendString(append(l.dst, `{"type":"tool_result","tool_use_id":`...), id)
	switch r.Status {
	case message.OK, message.Queued, "":
	default:
		l.dst = append(l.dst, `,"is_error":true`...)
	}
	l.dst = append(l.dst, `,"content":`...)
	text := wire.ResultText(r)
	if blank(text) {
		text = "(no output)"
	}
	if !slices.ContainsFunc(r.Content, notText) {
		l.dst = append(wire.AppendString(l.dst, text), '}')
		return
	}
	l.dst = append(l.dst, '[')
	in := &list{l.dst, len(l.dst)}
	in.text(text)
	for _, b := range r.Content {
		if notText(b) {
			e.block(in, b)
		}
	}
	l.dst = append(in.dst, "]}"...)
}

func notText(b message.Block) bool {
	_, ok := b.(*message.Text)
	return !ok
}

// block writes what a user or a tool shows.
func (e *encoder) block(l *list, b message.Block) {
	switch b := b.(type) {
	case *message.Text:
		l.text(b.Text)
	case *message.Image:
		e.image(l, b)
	case *message.File:
		e.file(l, b)
	}
}

func (e *encoder) image(l *list, b *message.Image) {
	mime, data := b.MIME, b.Data
	if m, d, ok := wire.DataURL(b.URL); ok {
		mime, data = m, d
	}
	switch {
	case data == nil && strings.HasPrefix(b.URL, "https://"):
		l.next()
		l.dst = wire.AppendString(append(l.dst, `{"type":"image","source":{"type":"url","url":`...), b.URL)
		l.dst = append(l.dst, "}}"...)
	case len(data) > 0 && (mime == "image/jpeg" || mime == "image/png" || mime == "image/gif" || mime == "image/webp"):
		l.next()
		l.dst = source(append(l.dst, `{"type":"image",`...), mime, data)
		l.dst = append(l.dst, '}')
	default:
		e.lost(l, "[an image that cannot be shown: "+mime+" "+shortURL(b.URL)+"]")
	}
}

func shortURL(u string) string { return u[:min(len(u), 200)] }

// lost tells model and user of something that the API does not take.
func (e *encoder) lost(l *list, what string) {
	e.notices = append(e.notices, e.provider+" does not take everything: the model is only told of "+what+".")
	l.text(what)
}

func source(dst []byte, mime string, data []byte) []byte {
	dst = wire.AppendString(append(dst, `"source":{"type":"base64","media_type":`...), mime)
	dst = base64.StdEncoding.AppendEncode(append(dst, `,"data":"`...), data)
	return append(dst, `"}`...)
}

// file: PDFs go as documents; texts as text; of others the model is told the name.
func (e *encoder) file(l *list, f *message.File) {
	pdf := strings.HasPrefix(f.MIME, "application/pdf")
	switch {
	case pdf && f.URL == "" && len(f.Data) > 0:
		l.next()
		l.dst = source(append(l.dst, `{"type":"document",`...), "application/pdf", f.Data)
	case pdf && strings.HasPrefix(f.URL, "https://"):
		l.next()
		l.dst = wire.AppendString(append(l.dst, `{"type":"document","source":{"type":"url","url":`...), f.URL)
		l.dst = append(l.dst, '}')
	default:
		if s, whole := wire.FileText(f); whole {
			l.text(s)
		} else {
			e.lost(l, s)
		}
		return
	}
	if f.Name != "" {
		l.dst = wire.AppendString(append(l.dst, `,"title":`...), f.Name)
	}
	l.dst = append(l.dst, '}')
}

// silent reports whether an assistant's message has neither text nor calls:
// then it is not sent.
func silent(m *message.Message) bool {
	for _, b := range m.Blocks {
		switch b := b.(type) {
		case *message.Text:
			if !blank(b.Text) {
				return false
			}
		case *message.ToolCall:
			return false
		}
	}
	return true
}

// assistant writes one turn of the model's, which may be of several messages:
// an answer that was continued.
func (e *encoder) assistant(dst []byte, msgs []*message.Message) []byte {
	before := len(dst)
	dst = append(dst, `{"role":"assistant","content":[`...)
	l := &list{dst, len(dst)}
	for _, m := range msgs {
		if silent(m) {
			continue
		}
		for i, b := range m.Blocks {
			switch b := b.(type) {
			case *message.Text:
				l.text(b.Text)
			case *message.Reasoning:
				if e.own(m, b) {
					l.next()
					l.dst = thinking(l.dst, b)
				}
			case *message.ToolCall:
				l.next()
				l.dst = e.call(l.dst, b, message.Ref{Message: m.ID, Block: i})
			}
		}
	}
	if len(l.dst) == l.start {
		return l.dst[:before]
	}
	return append(l.dst, "]}"...)
}

// own reports whether reasoning is this model's own, with its signature. The
// API takes no other.
func (e *encoder) own(m *message.Message, b *message.Reasoning) bool {
	return e.model != "" && b.Meta.Provider == e.provider && len(b.Meta.Fields) > len(`{}`) &&
		(m.Model == e.model || m.Model == "")
}

// signed reports whether a message begins with thinking that can go back.
func (e *encoder) signed(m *message.Message) bool {
	if len(m.Blocks) == 0 {
		return false
	}
	r, ok := m.Blocks[0].(*message.Reasoning)
	return ok && e.own(m, r)
}

// thinking writes a block as it came: its metadata holds the members beside
// the text, signature or data, byte for byte.
func thinking(dst []byte, b *message.Reasoning) []byte {
	if bytes.HasPrefix(b.Meta.Fields, []byte(`{"data":`)) {
		dst = append(dst, `{"type":"redacted_thinking",`...)
	} else {
		dst = wire.AppendString(append(dst, `{"type":"thinking","thinking":`...), b.Text)
		dst = append(dst, ',')
	}
	return append(dst, b.Meta.Fields[1:]...)
}

// call writes a call. The API takes an object only, so arguments that are none
// are wrapped.
func (e *encoder) call(dst []byte, c *message.ToolCall, ref message.Ref) []byte {
	dst = wire.AppendString(append(dst, `{"type":"tool_use","id":`...), wire.CallID(c.CallID, ref, "toolu_", takesID))
	dst = wire.AppendString(append(dst, `,"name":`...), toolName(c.Name))
	dst = append(dst, `,"input":`...)
	switch {
	case wire.IsObject(c.Args):
		dst = append(dst, c.Args...)
	case len(bytes.TrimSpace(c.Args)) == 0:
		dst = append(dst, "{}"...)
	default:
		dst = append(wire.AppendString(append(dst, `{"malformed_arguments":`...), c.Args), '}')
	}
	if c.Meta.Provider == e.provider && len(c.Meta.Fields) > len(`{}`) {
		dst = append(dst, ',')
		return append(dst, c.Meta.Fields[1:]...)
	}
	return append(dst, '}')
}
