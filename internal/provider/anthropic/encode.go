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
	model    string // "provider/model": whose thinking goes back; empty: nobody's; anyModel: all of this provider's
	notices  []string
}

const anyModel = "*"

func (e *encoder) group(dst []byte, msgs []*message.Message) ([]byte, error) {
	if msgs[0].Role == message.Assistant {
		return e.assistant(dst, msgs), nil
	}
	return e.user(dst, msgs), nil
}

// The beginnings of turns.
const (
	userTurn  = `{"role":"user",`
	modelTurn = `{"role":"assistant",`
)

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

// text writes a text, unless it is blank.
func (l *list) text(s string) { l.cited(s, nil) }

// cited writes a text with its citations, a raw list.
func (l *list) cited(s string, citations []byte) {
	if blank(s) {
		return
	}
	l.next()
	l.dst = wire.AppendString(append(l.dst, `{"type":"text","text":`...), s)
	if citations != nil {
		l.dst = append(append(l.dst, `,"citations":`...), citations...)
	}
	l.dst = append(l.dst, '}')
}

// The marks of what Steward says midway.
const (
	systemOpen  = "<system>\n"
	systemClose = "\n</system>"
)

// user writes one turn: all results first, then what was said, in order.
func (e *encoder) user(dst []byte, msgs []*message.Message) []byte {
	dst = append(append(dst, userTurn...), `"content":[`...)
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
				l.text(systemOpen + s + systemClose)
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
	case message.OK, message.Queued, message.Accepted, "":
	default:
		l.dst = append(l.dst, `,"is_error":true`...)
	}
	l.dst = append(l.dst, `,"content":`...)
	text := e.words(r)
	if !slices.ContainsFunc(r.Content, shown) {
		l.dst = append(wire.AppendString(l.dst, text), '}')
		return
	}
	l.dst = append(l.dst, '[')
	in := &list{l.dst, len(l.dst)}
	in.text(text)
	for _, b := range r.Content {
		if shown(b) {
			e.block(in, b)
		}
	}
	l.dst = append(in.dst, "]}"...)
}

// words returns what a result says: its texts, and of what cannot be shown what
// the model is told, on lines of their own.
func (e *encoder) words(r *message.ToolResult) string {
	var own []byte
	told := false // the words before were not the result's own
	for _, b := range r.Content {
		if shown(b) {
			continue
		}
		words := ""
		t, text := b.(*message.Text)
		if text {
			words = t.Text
		} else {
			words = e.told(b)
		}
		if words == "" {
			continue
		}
		if len(own) > 0 && (told || !text) {
			own = append(own, '\n')
		}
		own, told = append(own, words...), !text
	}
	if blank(string(own)) {
		own = nil
	}
	return wire.StatusText(r.Status, string(own), wire.HasMedia(r.Content))
}

// block writes what a user or a tool shows.
func (e *encoder) block(l *list, b message.Block) {
	switch b := b.(type) {
	case *message.Text:
		l.text(b.Text)
	default:
		if !shown(b) {
			l.text(e.told(b))
			return
		}
		l.next()
		l.dst = e.media(l.dst, b)
	}
}

// shown reports whether the API takes an image or a file: by HTTPS, or inline
// if it is of one of its types.
func shown(b message.Block) bool {
	switch b := b.(type) {
	case *message.Image:
		mime, data, url := inline(b)
		if data == nil {
			return strings.HasPrefix(url, "https://")
		}
		return len(data) > 0 && (mime == "image/jpeg" || mime == "image/png" || mime == "image/gif" || mime == "image/webp")
	case *message.File:
		if !strings.HasPrefix(b.MIME, "application/pdf") {
			return false
		}
		return b.URL == "" && len(b.Data) > 0 || strings.HasPrefix(b.URL, "https://")
	}
	return false
}

// inline returns an image's data, that of a data URL too, or its address.
func inline(b *message.Image) (mime string, data []byte, url string) {
	if mime, data, ok := wire.DataURL(b.URL); ok {
		return mime, data, ""
	}
	return b.MIME, b.Data, b.URL
}

// told returns what the model is told of an image or a file that the API does
// not take: all of it if it is text. Of others the user is told, too.
func (e *encoder) told(b message.Block) (words string) {
	switch b := b.(type) {
	case *message.Image:
		mime, _, _ := inline(b)
		words = "[an image that cannot be shown: " + mime + " " + wire.Short(b.URL) + "]"
	case *message.File:
		whole := false
		if words, whole = wire.FileText(b); whole {
			return words
		}
	}
	e.notices = append(e.notices, e.provider+" does not take everything: the model is only told of "+words+".")
	return words
}

// media writes an image, or a PDF as a document.
func (e *encoder) media(dst []byte, b message.Block) []byte {
	typ, name, mime, url := "image", "", "", ""
	var data []byte
	switch b := b.(type) {
	case *message.Image:
		mime, data, url = inline(b)
	case *message.File:
		typ, name, mime, data, url = "document", b.Name, "application/pdf", b.Data, b.URL
	}
	dst = append(append(append(dst, `{"type":"`...), typ...), `","source":{"type":"`...)
	if url != "" {
		dst = append(wire.AppendString(append(dst, `url","url":`...), url), '}')
	} else {
		dst = wire.AppendString(append(dst, `base64","media_type":`...), mime)
		dst = append(base64.StdEncoding.AppendEncode(append(dst, `,"data":"`...), data), `"}`...)
	}
	if name != "" {
		dst = wire.AppendString(append(dst, `,"title":`...), name)
	}
	return append(dst, '}')
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
	dst = append(append(dst, modelTurn...), `"content":[`...)
	l := &list{dst, len(dst)}
	last, over, kept := e.lastSaid(msgs), false, e.pairs(msgs)
	for _, m := range msgs {
		if silent(m) {
			continue
		}
		for i, b := range m.Blocks {
			switch b := b.(type) {
			case *message.Text:
				l.cited(b.Text, e.citations(b))
			case *message.Vendor:
				if kept[b] {
					l.next()
					l.dst = append(l.dst, b.Meta.Fields...)
				}
			case *message.Reasoning:
				if !over && e.own(m, b) { // the API takes no thinking at the end of a turn
					l.next()
					l.dst = e.thinking(l.dst, b)
				}
			case *message.ToolCall:
				l.next()
				l.dst = e.call(l.dst, b, message.Ref{Message: m.ID, Block: i})
			}
			over = over || b == last
		}
	}
	if len(l.dst) == l.start {
		return l.dst[:before]
	}
	return append(l.dst, "]}"...)
}

// citations returns those of a text that go back, as they came: all or none, and
// only those of the web, which hold by themselves. Others name documents by
// their places in a request.
func (e *encoder) citations(b *message.Text) (list []byte) {
	if b.Meta.Provider != e.provider || len(b.Citations) == 0 {
		return nil
	}
	d := wire.Decode(b.Meta.Fields)
	d.Object(func(key []byte) {
		if string(key) == "citations" {
			list = d.Raw()
		}
	})
	in := wire.Decode(list)
	in.Array(func(int) {
		in.Object(func(key []byte) {
			if string(key) == "type" && in.String() != "web_search_result_location" {
				list = nil
			}
		})
	})
	return list
}

// pairs returns what goes back of the provider's own tools: calls that have
// their results in the turn, and those.
func (e *encoder) pairs(msgs []*message.Message) map[*message.Vendor]bool {
	kept, calls := map[*message.Vendor]bool{}, map[string]*message.Vendor{}
	for _, m := range msgs {
		for _, b := range m.Blocks {
			v, ok := b.(*message.Vendor)
			if !ok || v.Meta.Provider != e.provider || !wire.IsObject(v.Meta.Fields) {
				continue
			}
			var id, of string
			d := wire.Decode(v.Meta.Fields)
			d.Object(func(key []byte) {
				switch string(key) {
				case "id":
					id = d.String()
				case "tool_use_id":
					of = d.String()
				}
			})
			switch call := calls[of]; {
			case of == "" && id != "":
				calls[id] = v
			case of == "" || call != nil:
				kept[v] = true
				if call != nil {
					kept[call] = true
				}
			}
		}
	}
	return kept
}

// lastSaid returns the last text or call of a turn.
func (e *encoder) lastSaid(msgs []*message.Message) message.Block {
	for _, m := range slices.Backward(msgs) {
		for _, b := range slices.Backward(m.Blocks) {
			switch b := b.(type) {
			case *message.Text:
				if !blank(b.Text) {
					return b
				}
			case *message.ToolCall:
				return b
			case *message.Vendor:
				if b.Meta.Provider == e.provider {
					return b
				}
			}
		}
	}
	return nil
}

// own reports whether reasoning is this model's own, with its signature. The
// API takes no other.
func (e *encoder) own(m *message.Message, b *message.Reasoning) bool {
	return e.model != "" && b.Meta.Provider == e.provider && proven(b.Meta.Fields) &&
		(m.Model == e.model || m.Model == "" || e.model == anyModel)
}

// proven reports whether the metadata of thinking has its signature, or all of
// it as encrypted data.
func proven(fields []byte) (ok bool) {
	d := wire.Decode(fields)
	d.Object(func(key []byte) { ok = ok || string(key) == "signature" || string(key) == "data" })
	return ok
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
func (e *encoder) thinking(dst []byte, b *message.Reasoning) []byte {
	if bytes.HasPrefix(b.Meta.Fields, []byte(`{"data":`)) {
		dst = append(dst, `{"type":"redacted_thinking",`...)
	} else {
		dst = wire.AppendString(append(dst, `{"type":"thinking","thinking":`...), b.Text)
		dst = append(dst, ',')
	}
	return append(dst, b.Meta.Fields[1:]...)
}

// wrapper is the name under which arguments go that are no object.
const wrapper = "malformed_arguments"

// call writes a call. The API takes an object only, so arguments that are none
// are wrapped.
func (e *encoder) call(dst []byte, c *message.ToolCall, ref message.Ref) []byte {
	dst = wire.AppendString(append(dst, `{"type":"tool_use","id":`...), wire.CallID(c.CallID, ref, "toolu_", takesID))
	dst = wire.AppendString(append(dst, `,"name":`...), toolName(c.Name))
	dst = wire.AppendArgs(append(dst, `,"input":`...), c.Args, wrapper)
	if c.Meta.Provider == e.provider && len(c.Meta.Fields) > len(`{}`) {
		dst = append(dst, ',')
		return append(dst, c.Meta.Fields[1:]...)
	}
	return append(dst, '}')
}
