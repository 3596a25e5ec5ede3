package ollama

import (
	"cmp"
	"net/http"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
)

// What the wire form preserves of a history. Whatever is not listed here comes back unchanged.
//
//	reasoning                 its text, of this provider's models; else ""
//	metadata of a call        members beside the modelled ones, of the call and of
//	                          its function, without white space between them
//	metadata of other blocks  of reasoning that is imported: that it is Ollama's
//	metadata of a message     nothing
//	images                    inline ones of the user's, of results and the model's;
//	                          a data URL comes back as data; other ones as words,
//	                          the model's as nothing
//	files                     texts of the user's, the system's and of results;
//	                          others as words; the model's: nothing
//	arguments                 all; none and white space are {}
//	another provider's        nothing of its metadata, and of its reasoning ""
//	metadata
//	unknown members of the    nothing
//	stored form

// thinkingMeta marks reasoning that was read from a history, which does not say whose it is. It is sent
// back.
const thinkingMeta = `{"field":"thinking"}`

// Codec returns the codec of this API's form of a history, for a model that accepts images. It also reads
// what other programs write: results without name or id, arguments as a string, pictures as data URLs.
// Members that Steward does not model are kept as metadata.
func (p *Provider) Codec(string) wire.Codec {
	return wire.Codec{Provider: provider, Prefix: mintedPrefix, Read: read, Encoder: func() llm.GroupEncoder {
		return encoder{}.group
	}}
}

func read(h *wire.History, doc wire.Value) {
	d := decoder{h}
	for _, v := range doc.Within("messages").Items() {
		d.message(v)
	}
}

type decoder struct{ *wire.History }

// wireMessage is a message on the wire.
type wireMessage struct {
	role, content, thinking, id, tool, name string
	images                                  []message.Block
	calls                                   wire.Value
	extra                                   []byte // members that are not modelled
}

func (d decoder) message(v wire.Value) {
	m := wireMessage{role: v.Get("role").Text()}
	for key, x := range v.Members() {
		switch {
		case key == "role":
		case key == "content":
			m.content = x.Text()
		case key == "images":
			m.images = images(x)
		case key == "thinking" && m.role == "assistant":
			m.thinking = x.Text()
		case key == "tool_calls" && m.role == "assistant":
			m.calls = x
		case key == "tool_name" && m.role == "tool":
			m.tool = x.Text()
		case key == "name" && m.role == "tool":
			m.name = x.Text()
		case key == "tool_call_id" && m.role == "tool":
			m.id = x.Text()
		default:
			m.extra = wire.AppendMember(m.extra, key, x.Raw())
		}
	}
	switch m.role {
	case "user":
		d.AddText(v, message.User, d.Meta(m.extra), m.textAndImages()...)
	case "system":
		d.AddText(v, message.System, d.Meta(m.extra), m.textAndImages()...)
	case "assistant":
		d.assistant(v, m)
	case "tool":
		r := &message.ToolResult{Common: message.Common{Meta: d.Meta(m.extra)}, Content: m.textAndImages()}
		wire.Words(r, false, false)
		d.Result(v, m.id, cmp.Or(m.tool, m.name), r)
	default:
		d.AddUnknownRole(v, m.role, d.Meta(m.extra), m.textAndImages()...)
	}
}

// textAndImages returns the text, if there is one, and the pictures.
func (m wireMessage) textAndImages() []message.Block {
	if m.content == "" {
		return m.images
	}
	return append([]message.Block{&message.Text{Text: m.content}}, m.images...)
}

func images(v wire.Value) (out []message.Block) {
	for _, x := range v.Items() {
		if mime, data, ok := wire.InlineURL(x.Text()); ok {
			out = append(out, &message.Image{MIME: mime, Data: data})
			continue
		}
		data := x.Base64()
		out = append(out, &message.Image{MIME: http.DetectContentType(data), Data: data})
	}
	return out
}

func (d decoder) assistant(v wire.Value, m wireMessage) {
	var blocks []message.Block
	if m.thinking != "" {
		meta := message.Meta{Provider: d.Provider, Fields: []byte(thinkingMeta)}
		blocks = append(blocks, &message.Reasoning{Common: message.Common{Meta: meta}, Text: m.thinking})
	}
	blocks = append(blocks, m.textAndImages()...)
	for _, x := range m.calls.Items() {
		blocks = append(blocks, readCall(x))
	}
	d.Assistant(v, d.Meta(m.extra), blocks...)
}

// readCall reads a call of a history or a stream. Its metadata has the members that are not modelled:
// those of the call and those of its function.
func readCall(v wire.Value) *message.ToolCall {
	c := &message.ToolCall{}
	var ofCall, ofFunction []byte
	for key, x := range v.Members() {
		switch key {
		case "id":
			c.CallID = x.Text()
		case "type": // always "function", where it stands
		case "function":
			for key, x := range x.Members() {
				switch key {
				case "name":
					c.Name = x.Text()
				case "arguments":
					c.Args = arguments(x)
				default:
					ofFunction = wire.AppendMember(ofFunction, key, x.Raw())
				}
			}
		default:
			ofCall = wire.AppendMember(ofCall, key, x.Raw())
		}
	}
	c.Meta = wire.MetaOf(provider, wire.AppendNested(wire.AppendNested(nil, "call", ofCall), "function", ofFunction))
	return c
}

// arguments reads an object. Some programs write it as a string.
func arguments(v wire.Value) []byte {
	if v.Is('"') {
		if s := v.Text(); s != "" {
			return []byte(s)
		}
		return nil
	}
	return wire.Args(v.Object(), wrapper)
}
