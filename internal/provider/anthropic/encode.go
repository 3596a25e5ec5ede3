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

// blank reports whether a text is only white space, which the API refuses.
func blank(s string) bool { return strings.TrimSpace(s) == "" }

func toolName(name string) string { return wire.ToolName(tool.WireName(name)) }

// takesID reports whether an id is one of the API's own. Ids must be unique in the whole
// conversation, and others may not be.
func takesID(s string) bool {
	return (strings.HasPrefix(s, "toolu_") || strings.HasPrefix(s, "srvtoolu_")) && wire.IsID(s, 128)
}

// callID returns the id of a call. In a request only the API's own ids are safe, because others may be used
// again later. A file is complete: there each id is kept that the API accepts and that no other call has.
func (e *encoder) callID(given string, ref message.Ref) string {
	if e.ids == nil {
		return wire.CallID(given, ref, "toolu_", takesID)
	}
	if id, ok := e.ids[ref]; ok {
		return id
	}
	id := wire.CallID(given, ref, "toolu_", func(s string) bool { return wire.IsID(s, 128) && !e.used[s] })
	e.ids[ref], e.used[id] = id, true
	return id
}

// encoder writes messages in the form of the API, each group as one turn. See
// llm.Transcript.Encoded.
type encoder struct {
	ids      map[message.Ref]string // of calls, in a file: those of the history, unless the API refuses them; nil: see takesID
	used     map[string]bool        // the values of ids
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

// text appends a text, unless it is blank.
func (e *encoder) text(dst []byte, s string) []byte {
	if blank(s) {
		return dst
	}
	return wire.Append(wire.Comma(dst), `{"type":"text","text":$}`, s)
}

// user appends one turn: first all results, then the messages in order.
func (e *encoder) user(dst []byte, msgs []*message.Message) []byte {
	dst = append(dst, userTurn+`"content":[`...)
	start := len(dst)
	for _, m := range msgs {
		if r := m.Result(); r != nil {
			dst = e.result(dst, r)
		}
	}
	for _, m := range msgs {
		switch m.Role {
		case message.Tool:
		case message.System:
			if s := m.Text(); !blank(s) {
				dst = e.text(dst, wire.SystemNote(s))
			}
		default:
			for _, b := range m.Blocks {
				dst = e.block(dst, b)
			}
		}
	}
	if len(dst) == start {
		dst = e.text(dst, wire.NoContent)
	}
	return append(dst, "]}"...)
}

func (e *encoder) result(dst []byte, r *message.ToolResult) []byte {
	dst = wire.Append(wire.Comma(dst), `{"type":"tool_result","tool_use_id":$`, e.callID(r.CallID, r.Call))
	if wire.Failed(r.Status) {
		dst = append(dst, `,"is_error":true`...)
	}
	text := e.words(r)
	if !slices.ContainsFunc(r.Content, shown) {
		return wire.Append(dst, `,"content":$}`, text)
	}
	dst = e.text(append(dst, `,"content":[`...), text)
	for _, b := range r.Content {
		if shown(b) {
			dst = e.block(dst, b)
		}
	}
	return append(dst, "]}"...)
}

// words returns the text of a result: its texts and, on lines of their own, descriptions of the
// content that cannot be shown.
func (e *encoder) words(r *message.ToolResult) string {
	var own []byte
	described := false // the last piece was a description
	for _, b := range r.Content {
		t, text := b.(*message.Text)
		words := ""
		switch {
		case text:
			words = t.Text
		case !shown(b):
			words = e.describeMedia(b)
		}
		if words == "" {
			continue
		}
		if len(own) > 0 && (described || !text) {
			own = append(own, '\n')
		}
		own, described = append(own, words...), !text
	}
	if blank(string(own)) {
		own = nil
	}
	return wire.StatusText(r.Status, string(own), len(wire.Media(r.Content)) > 0)
}

// block appends what a user or a tool shows: a text, an image, or a PDF as a document.
func (e *encoder) block(dst []byte, b message.Block) []byte {
	if t, ok := b.(*message.Text); ok {
		return e.text(dst, t.Text)
	}
	if !shown(b) {
		return e.text(dst, e.describeMedia(b))
	}
	typ, name, mime, url := "image", "", "", ""
	var data []byte
	switch b := b.(type) {
	case *message.Image:
		mime, data, url = inline(b)
	case *message.File:
		typ, name, mime, data, url = "document", b.Name, "application/pdf", b.Data, b.URL
	}
	dst = wire.Append(wire.Comma(dst), `{"type":$,"source":`, typ)
	if url != "" {
		dst = wire.Append(dst, `{"type":"url","url":$}`, url)
	} else {
		dst = wire.Append(dst, `{"type":"base64","media_type":$,"data":$}`, mime, base64.StdEncoding.EncodeToString(data))
	}
	if name != "" {
		dst = wire.Append(dst, `,"title":$`, name)
	}
	return append(dst, '}')
}

// shown reports whether the API accepts an image or a file: by HTTPS, or inline if it has one of its
// types.
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

// inline returns an image's data, which may be that of a data URL, or its address.
func inline(b *message.Image) (mime string, data []byte, url string) {
	if mime, data, ok := wire.DataURL(b.URL); ok {
		return mime, data, ""
	}
	return b.MIME, b.Data, b.URL
}

// describeMedia returns a description of an image or a file that the API does not accept: the whole content
// if it is text. In other cases the user is notified.
func (e *encoder) describeMedia(b message.Block) (words string) {
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
	e.notices = append(e.notices, e.provider+" does not accept everything: the model is only told of "+words+".")
	return words
}

// isEmpty reports whether an assistant's message has neither text nor calls. Such a message is not
// sent.
func isEmpty(m *message.Message) bool {
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

// assistant appends one turn of the model, which may consist of several messages if an answer was
// continued. The API accepts no thinking at the end of a turn.
func (e *encoder) assistant(dst []byte, msgs []*message.Message) []byte {
	before := len(dst)
	dst = append(dst, modelTurn+`"content":[`...)
	start := len(dst)
	last, over, kept := e.lastOutput(msgs), false, e.pairs(msgs)
	for _, m := range msgs {
		if isEmpty(m) {
			continue
		}
		for i, b := range m.Blocks {
			switch b := b.(type) {
			case *message.Text:
				cites := e.citations(b)
				if dst = e.text(dst, b.Text); len(cites) > 0 && !blank(b.Text) {
					dst = wire.Append(dst[:len(dst)-1], `,"citations":$}`, cites)
				}
			case *message.Vendor:
				if kept[b] {
					dst = append(wire.Comma(dst), b.Meta.Fields...)
				}
			case *message.Reasoning:
				if !over && e.isOwnReasoning(m, b) {
					dst = e.thinking(wire.Comma(dst), b)
				}
			case *message.ToolCall:
				dst = e.call(wire.Comma(dst), b, message.Ref{Message: m.ID, Block: i})
			}
			over = over || b == last
		}
	}
	if len(dst) == start {
		return dst[:before]
	}
	return append(dst, "]}"...)
}

// citations returns the citations of a text that are sent back unchanged: all of them or none. Only
// citations of the web are, because others refer to documents by their position in a request.
func (e *encoder) citations(b *message.Text) (list []byte) {
	if b.Meta.Provider != e.provider || len(b.Citations) == 0 {
		return nil
	}
	list = wire.Member(b.Meta.Fields, "citations")
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

// pairs returns the blocks of the provider's own tools that are sent back: calls with results in the
// same turn, and these results.
func (e *encoder) pairs(msgs []*message.Message) map[*message.Vendor]bool {
	kept, calls := map[*message.Vendor]bool{}, map[string]*message.Vendor{}
	for _, m := range msgs {
		for _, b := range m.Blocks {
			v, ok := b.(*message.Vendor)
			if !ok || v.Meta.Provider != e.provider || !wire.IsObject(v.Meta.Fields) {
				continue
			}
			id := wire.Decode(wire.Member(v.Meta.Fields, "id")).String()
			of := wire.Decode(wire.Member(v.Meta.Fields, "tool_use_id")).String()
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

// lastOutput returns the last text or call of a turn.
func (e *encoder) lastOutput(msgs []*message.Message) message.Block {
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

// isOwnReasoning reports whether reasoning is this model's own, with its signature. The API accepts no other.
func (e *encoder) isOwnReasoning(m *message.Message, b *message.Reasoning) bool {
	return e.model != "" && b.Meta.Provider == e.provider && hasSignature(b.Meta.Fields) &&
		(m.Model == e.model || m.Model == "" || e.model == anyModel)
}

// hasSignature reports whether the metadata of thinking has a signature or encrypted data.
func hasSignature(fields []byte) (ok bool) {
	d := wire.Decode(fields)
	d.Object(func(key []byte) { ok = ok || string(key) == "signature" || string(key) == "data" })
	return ok
}

// signed reports whether a message begins with thinking that can be sent back.
func (e *encoder) signed(m *message.Message) bool {
	if len(m.Blocks) == 0 {
		return false
	}
	r, ok := m.Blocks[0].(*message.Reasoning)
	return ok && e.isOwnReasoning(m, r)
}

// thinking appends a block unchanged: its metadata holds the members beside the text, signature or
// data, byte for byte.
func (e *encoder) thinking(dst []byte, b *message.Reasoning) []byte {
	if bytes.HasPrefix(b.Meta.Fields, []byte(`{"data":`)) {
		dst = append(dst, `{"type":"redacted_thinking"`...)
	} else {
		dst = wire.Append(dst, `{"type":"thinking","thinking":$`, b.Text)
	}
	return append(wire.AppendInside(dst, b.Meta.Fields), '}')
}

// wrapper is the name of the member that holds arguments that are not an object.
const wrapper = "malformed_arguments"

// call appends a call. The API accepts only an object as arguments, so others are wrapped in one.
func (e *encoder) call(dst []byte, c *message.ToolCall, ref message.Ref) []byte {
	dst = wire.Append(dst, `{"type":"tool_use","id":$,"name":$,"input":$`, e.callID(c.CallID, ref),
		toolName(c.Name), wire.AppendArgs(nil, c.Args, wrapper))
	if c.Meta.Provider == e.provider {
		dst = wire.AppendInside(dst, c.Meta.Fields)
	}
	return append(dst, '}')
}
