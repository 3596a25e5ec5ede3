package openai

import (
	"cmp"
	"slices"
	"strings"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
)

// What the wire form preserves of a history. Whatever is not listed here comes back unchanged.
//
//	reasoning                 its text, while the message has calls, under one of
//	                          the names that compatible servers know; else ""
//	metadata of a message     the model's, to compatible servers, without members
//	                          that only report (annotations, audio, images,
//	                          citations) and without white space between members
//	metadata of a call        likewise
//	metadata of other blocks  only that a text is a refusal, and of reasoning its name
//	text                      as Unicode; of a block that is not empty
//	images                    the user's and of results, on the web or inline;
//	                          a canonical data URL comes back as data, one that the
//	                          API does not take as words; the model's: nothing
//	files                     PDFs and texts, inline, of the user's and of results;
//	                          others as words; the model's: nothing
//	arguments                 all; none and white space are {}
//	another provider's        nothing of its metadata, and of its reasoning ""
//	metadata
//	unknown members of the    nothing
//	stored form

// Codec returns the codec of this API's form of a history. It also reads what other programs write: text
// or lists of parts, the roles developer and function, function_call, results and calls without ids.
// Members that Steward does not model are kept as metadata.
func (p *Provider) Codec(string) wire.Codec {
	read := readMessages
	if p.responses {
		read = readItems
	}
	return wire.Codec{Provider: p.name, Prefix: "call_", Read: read, Encoder: func() llm.GroupEncoder {
		return (&encoder{provider: p.name, official: p.official, responses: p.responses}).group
	}}
}

func readMessages(h *wire.History, doc wire.Value) {
	d := decoder{History: h}
	for _, v := range doc.Within("messages").Items() {
		d.message(v)
	}
}

type decoder struct {
	*wire.History
	items bool // reads items of the responses API
}

// wireMessage is a message on the wire.
type wireMessage struct {
	role, id, name, refusal, reasoning, other string
	content, calls, call                      wire.Value
	extra                                     []byte // members that are not modelled
}

func (d decoder) message(v wire.Value) {
	m := wireMessage{role: role(v)}
	answers := m.role == "tool" || m.role == "function"
	for key, x := range v.Members() {
		switch {
		case key == "role", key == "type" && x.Text() == "message":
		case key == "content":
			m.content = x
		case key == "tool_call_id" && answers:
			m.id = x.Text()
		case key == "name" && answers:
			m.name = x.Text()
		case m.role == "assistant" && d.own(&m, key, x):
		default:
			m.extra = wire.AppendMember(m.extra, key, x.Raw())
		}
	}
	switch m.role {
	case "user":
		d.AddText(v, message.User, d.Meta(m.extra), d.content(v, m.content)...)
	case "developer":
		m.extra = wire.AppendMember(m.extra, "role", []byte(`"developer"`))
		fallthrough
	case "system":
		d.AddText(v, message.System, d.Meta(m.extra), d.content(v, m.content)...)
	case "assistant":
		d.assistant(v, m)
	case "tool", "function":
		r := &message.ToolResult{Common: message.Common{Meta: d.Meta(m.extra)}}
		if m.content.Is('{') { // some programs do not quote the tool's JSON
			r.Content = []message.Block{&message.Text{Text: string(m.content.Raw())}}
		} else {
			r.Content = d.content(v, m.content)
		}
		r.Content = slices.DeleteFunc(r.Content, silentText)
		wire.Words(r, false, false)
		d.Result(v, m.id, m.name, r)
	default:
		d.AddUnknownRole(v, m.role, d.Meta(m.extra), d.content(v, m.content)...)
	}
}

// role returns the role of a message. Exports of other programs have other names for the roles.
func role(v wire.Value) string {
	s := v.Get("role").Text()
	if !v.Lenient() {
		return s
	}
	switch s = strings.ToLower(s); s {
	case "human":
		return "user"
	case "model", "ai":
		return "assistant"
	}
	return s
}

// own reads the members that only messages of the model have.
func (d decoder) own(m *wireMessage, key string, x wire.Value) bool {
	switch {
	case key == "refusal":
		m.refusal = x.Text()
	case key == "reasoning_content" && x.Is('"'):
		m.reasoning = x.Text()
	case key == "reasoning" && x.Is('"'):
		m.other = x.Text()
	case key == "tool_calls":
		m.calls = x
	case key == "function_call":
		m.call = x
	default:
		return false
	}
	return true
}

func (d decoder) assistant(v wire.Value, m wireMessage) {
	var blocks []message.Block
	if m.reasoning != "" {
		blocks = append(blocks, &message.Reasoning{Common: d.mark(reasoningContentMeta), Text: m.reasoning})
	}
	if m.other != "" && m.other != m.reasoning {
		blocks = append(blocks, &message.Reasoning{Common: d.mark(reasoningMeta), Text: m.other})
	}
	blocks = append(blocks, slices.DeleteFunc(d.content(v, m.content), silentText)...)
	if m.refusal != "" {
		blocks = append(blocks, &message.Text{Common: d.mark(refusalMeta), Text: m.refusal})
	}
	for _, x := range m.calls.Items() {
		blocks = append(blocks, d.call(x))
	}
	if !m.call.Zero() {
		c := &message.ToolCall{}
		c.Meta = d.Meta(d.function(c, m.call, nil))
		blocks = append(blocks, c)
	}
	if said := d.Assistant(v, d.Meta(m.extra), blocks...); said != nil && m.refusal != "" {
		said.Stop = message.StopRefused
	}
}

func silentText(b message.Block) bool {
	t, ok := b.(*message.Text)
	return ok && t.Text == ""
}

func (d decoder) mark(fields string) message.Common {
	return message.Common{Meta: message.Meta{Provider: d.Provider, Fields: []byte(fields)}}
}

func (d decoder) call(v wire.Value) message.Block {
	c := &message.ToolCall{}
	var extra []byte
	called := false
	for key, x := range v.Members() {
		switch {
		case key == "id":
			c.CallID = x.Text()
		case key == "type":
			if kind := x.Text(); kind != "function" && kind != "" && !v.Lenient() {
				x.Fault(wire.CodePart, "a call of the type %.40q is not known", kind)
			}
		case key == "function", key == "custom" && v.Lenient():
			called = true
			extra = d.function(c, x, extra)
		default:
			extra = wire.AppendMember(extra, key, x.Raw())
		}
	}
	if !called && v.Lenient() {
		return wire.Quote(v, "[call]\n", "a call of something other than a function is kept as text")
	}
	c.Meta = d.Meta(extra)
	return c
}

// function reads the name and the arguments of a call. Its other members are added to extra as one member.
func (d decoder) function(c *message.ToolCall, v wire.Value, extra []byte) []byte {
	var more []byte
	for key, x := range v.Members() {
		if !named(c, key, x) {
			more = wire.AppendMember(more, key, x.Raw())
		}
	}
	return wire.AppendNested(extra, "function", more)
}

// named reads the name or the arguments of a call, if a member is one of them.
func named(c *message.ToolCall, key string, x wire.Value) bool {
	switch {
	case key == "name":
		c.Name = x.Text()
	case key == "arguments" && x.Is('{'): // not quoted
		c.Args = x.Raw()
	case key == "arguments", key == "input" && x.Lenient():
		if s := x.Text(); s != "" {
			c.Args = []byte(s)
		}
	default:
		return false
	}
	return true
}

// content reads text or a list of parts.
func (d decoder) content(at, v wire.Value) []message.Block {
	if v.Zero() || v.Is('"') {
		return []message.Block{&message.Text{Text: v.Text()}}
	}
	if !v.Is('[') && v.Lenient() {
		return []message.Block{wire.Quote(v, "", "content that is neither text nor a list is kept as text")}
	}
	var blocks []message.Block
	for _, x := range v.Named(at.At() + ".content").Items() {
		if x.Is('"') {
			blocks = append(blocks, &message.Text{Text: x.Text()})
		} else {
			blocks = append(blocks, d.part(x))
		}
	}
	return blocks
}

// part reads one part of a content.
func (d decoder) part(v wire.Value) message.Block {
	kind := v.Get("type").Text()
	var b message.Block
	var extra []byte
	for key, x := range v.Members() {
		switch {
		case key == "type":
		case key == "text" && strings.HasSuffix(kind, "text"): // text, input_text, output_text
			b = &message.Text{Text: x.Text()}
		case key == "refusal" && kind == "refusal":
			b = &message.Text{Text: x.Text()}
		case key == "thinking" && kind == "thinking": // Mistral
			b = d.thinking(x)
		case key == "image_url" && (kind == "image_url" || kind == "input_image"):
			b, extra = image(x, extra)
		case key == "file" && kind == "file":
			b, extra = d.file(x, extra)
		case kind == "input_file" && (d.items || v.Lenient()):
			if b == nil {
				b, extra = d.file(v, extra)
			}
		case key == "input_audio" && kind == "input_audio":
			b = &message.File{MIME: "audio/" + cmp.Or(x.Get("format").Text(), "wav"), Data: x.Get("data").Base64()}
		default:
			extra = wire.AppendMember(extra, key, x.Raw())
		}
	}
	if b == nil {
		return d.UnknownContent(v, kind, "a part of the type %.40q, or without what belongs to it, cannot be read", kind)
	}
	if kind == "refusal" {
		extra = append([]byte(refusalMember), wire.After([]byte(refusalMember), extra)...)
	}
	b.Base().Meta = d.Meta(extra)
	return b
}

func (d decoder) thinking(v wire.Value) message.Block {
	if v.Is('"') {
		return &message.Reasoning{Text: v.Text()}
	}
	r := &message.Reasoning{}
	for _, x := range v.Items() {
		r.Text += x.Get("text").Text()
	}
	return r
}

// image reads a URL, alone or in an object.
func image(v wire.Value, extra []byte) (message.Block, []byte) {
	if v.Is('"') {
		return wire.ImageAt(v.Text()), extra
	}
	var url string
	var more []byte
	for key, x := range v.Members() {
		if key == "url" {
			url = x.Text()
		} else {
			more = wire.AppendMember(more, key, x.Raw())
		}
	}
	if url == "" && v.Lenient() {
		return nil, extra
	}
	if url == "" {
		v.Fault(wire.CodeHistory, "an image has no url")
	}
	return wire.ImageAt(url), wire.AppendNested(extra, "image_url", more)
}

// file reads a file: its data, as a data URL or bare, or its id.
func (d decoder) file(v wire.Value, extra []byte) (message.Block, []byte) {
	var name, url, address string
	var data wire.Value
	var more []byte
	for key, x := range v.Members() {
		switch key {
		case "type": // of a part that is the file itself
		case "filename":
			name = x.Text()
		case "file_url":
			address = x.Text()
		case "file_data":
			data, url = x, x.Text()
		default: // file_id among them
			more = wire.AppendMember(more, key, x.Raw())
		}
	}
	extra = wire.AppendNested(extra, "file", more)
	switch {
	case url == "" && address != "":
		f := wire.FileAt(address, name)
		if f.URL != "" {
			f.MIME = message.MediaType(address, "application/pdf")
		}
		return f, extra
	case url == "":
		return &message.File{Name: name, MIME: message.MediaType(name, "application/octet-stream")}, extra
	case strings.HasPrefix(url, "data:"):
		return wire.FileAt(url, name), extra
	}
	return &message.File{Name: name, MIME: message.MediaType(name, "application/octet-stream"), Data: data.Base64()}, extra
}
