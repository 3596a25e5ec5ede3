package anthropic

import (
	"cmp"
	"net/http"
	"strings"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
)

// What the wire form preserves of a history. Whatever is not listed here comes back unchanged.
//
//	reasoning                 all, with its signature, of the model that is asked,
//	                          if a text or call of the same turn follows; its text
//	                          not where there is encrypted data; else ""
//	text                      as Unicode, if it is more than white space; else ""
//	metadata of a call        all, without white space between members
//	metadata of other blocks  that of reasoning which goes back, citations of the web,
//	                          and all of the provider's own tools, in pairs
//	metadata of a message     nothing
//	images                    the user's and of results, by HTTPS or inline, of four
//	                          types; a data URL comes back as data; others as words;
//	                          the model's and the system's: nothing
//	files                     PDFs by HTTPS or inline, and texts, of the user's and
//	                          of results; others as words; the model's and the
//	                          system's: nothing
//	arguments                 all; none and white space are {}
//	another provider's        nothing of its metadata, and of its reasoning ""
//	metadata
//	unknown members of the    nothing
//	stored form

// Codec returns the codec of this API's form of a history for the named model, without marks for the
// prompt cache. The empty name stands for a model that accepts the thinking of all others, and
// for a file, in which calls keep their ids. The codec also
// reads what other programs write: text or lists of blocks, turns in several pieces, results after other
// content, ids that are missing or used twice. Members that Steward does not model are kept as metadata,
// except for marks for the prompt cache, which belong to a request.
func (p *Provider) Codec(model string) wire.Codec {
	model = p.name + "/" + model
	if model == p.name+"/" {
		model = anyModel
	}
	return wire.Codec{Provider: p.name, Prefix: "toolu_", Unique: true, Read: read, Encoder: func() llm.GroupEncoder {
		e := &encoder{provider: p.name, model: model}
		if model == anyModel {
			e.ids, e.used = map[message.Ref]string{}, map[string]bool{}
		}
		return e.group
	}}
}

func read(h *wire.History, doc wire.Value) {
	d := decoder{h}
	if doc.Is('{') {
		if system := doc.Get("system"); !system.Zero() {
			d.AddText(system, message.System, message.Meta{}, d.content(system, nil)...)
		}
	}
	for _, v := range doc.Within("messages").Items() {
		d.message(v)
	}
}

type decoder struct{ *wire.History }

// cacheMember marks a place for the prompt cache, on blocks of any type.
const cacheMember = "cache_control"

func (d decoder) message(v wire.Value) {
	role := v.Get("role").Text()
	content, extra := v.Split("content")
	switch role {
	case "user":
		var results []wire.Value
		blocks := d.content(content, func(x wire.Value) { results = append(results, x) })
		d.Turn(v, "message", extra, results, blocks, d.result)
	case "system":
		d.AddText(v, message.System, d.Meta(extra), d.content(content, nil)...)
	case "assistant":
		d.Assistant(v, d.Meta(extra), d.content(content, nil)...)
	default:
		d.AddUnknownRole(v, role, d.Meta(extra), d.content(content, nil)...)
	}
}

// content reads text or a list of blocks. Results are passed to result, if it is not nil.
func (d decoder) content(v wire.Value, result func(wire.Value)) []message.Block {
	if v.Is('"') {
		return []message.Block{&message.Text{Text: v.Text()}}
	}
	var blocks []message.Block
	for _, x := range v.Items() {
		switch {
		case x.Is('"'):
			blocks = append(blocks, &message.Text{Text: x.Text()})
		case result != nil && x.Is('{') && x.Get("type").Text() == "tool_result":
			result(x)
		default:
			blocks = append(blocks, d.block(x))
		}
	}
	return blocks
}

// block reads one block.
func (d decoder) block(v wire.Value) message.Block {
	switch kind := v.Get("type").Text(); kind {
	case "text":
		b := &message.Text{}
		b.Meta = d.rest(v, nil, map[string]func(wire.Value){"text": func(x wire.Value) { b.Text = x.Text() }})
		if c := v.Get("citations"); c.Is('[') {
			raw := c.Raw()
			b.Citations = (&open{cites: raw[1 : len(raw)-1]}).cited()
		}
		return b
	case "thinking", "redacted_thinking":
		return d.thinking(v, kind)
	case "tool_use":
		return d.call(v)
	case "image":
		return d.image(v)
	case "document":
		return d.document(v)
	case "server_tool_use", "mcp_tool_use", "container_upload", "compaction":
		return d.vendor(v, kind)
	default:
		if strings.HasSuffix(kind, "_tool_result") {
			return d.vendor(v, kind)
		}
		return d.UnknownContent(v, kind, "a block of the type %.40q cannot be read here", kind)
	}
}

// rest reads the members of a block that are modelled, and appends the others to kept.
func (d decoder) rest(v wire.Value, kept []byte, modelled map[string]func(wire.Value)) message.Meta {
	for key, x := range v.Members() {
		if read := modelled[key]; read != nil {
			read(x)
		} else if key != "type" && key != cacheMember {
			kept = wire.AppendMember(kept, key, x.Raw())
		}
	}
	return d.Meta(kept)
}

// thinking keeps the signature or the encrypted data unchanged.
func (d decoder) thinking(v wire.Value, kind string) message.Block {
	b := &message.Reasoning{}
	proof, text := "signature", "thinking"
	if kind == "redacted_thinking" {
		proof, text = "data", ""
	}
	var kept []byte
	switch p := v.Get(proof); {
	case p.Text() != "":
		kept = wire.AppendMember(nil, proof, p.Raw())
	case proof == "data":
		v.Fault(wire.CodeHistory, "thinking that is hidden has no data")
	}
	b.Meta = d.rest(v, kept, map[string]func(wire.Value){
		text:  func(x wire.Value) { b.Text = x.Text() },
		proof: func(wire.Value) {},
	})
	return b
}

// vendor keeps a block of the provider's own tools unchanged.
func (d decoder) vendor(v wire.Value, kind string) message.Block {
	return &message.Vendor{Common: message.Common{Meta: message.Meta{Provider: d.Provider, Fields: v.Raw()}}, Kind: kind}
}

func (d decoder) call(v wire.Value) message.Block {
	c := &message.ToolCall{}
	c.Meta = d.rest(v, nil, map[string]func(wire.Value){
		"id":    func(x wire.Value) { c.CallID = x.Text() },
		"name":  func(x wire.Value) { c.Name = x.Text() },
		"input": func(x wire.Value) { c.Args = wire.Args(x.Object(), wrapper) },
	})
	return c
}

func (d decoder) result(v wire.Value, kept []byte) {
	r := &message.ToolResult{}
	var id string
	failed := false
	r.Meta = d.rest(v, kept, map[string]func(wire.Value){
		"tool_use_id": func(x wire.Value) { id = x.Text() },
		"is_error":    func(x wire.Value) { failed = x.Flag() },
		"content": func(x wire.Value) {
			for _, b := range d.content(x, nil) {
				if t, ok := b.(*message.Text); !ok || t.Text != "" {
					r.Content = append(r.Content, b)
				}
			}
		},
	})
	wire.Words(r, failed, true)
	d.Result(v, id, "", r)
}

// source reads the location of an image or document: inline, on the web, or at the vendor, which is kept
// as metadata.
func (d decoder) source(v wire.Value) (mime, url string, data []byte, more []byte) {
	kind := v.Get("type").Text()
	for key, x := range v.Members() {
		switch {
		case key == "type":
		case key == "media_type":
			mime = x.Text()
		case key == "url" && kind == "url":
			url = x.Text()
		case key == "data" && kind == "text":
			data = []byte(x.Text())
		case key == "data" && kind == "base64":
			data = x.Base64()
		default:
			more = wire.AppendMember(more, key, x.Raw())
		}
	}
	if mime == "" && len(data) > 0 {
		mime, _, _ = strings.Cut(http.DetectContentType(data), ";")
	}
	if len(data)+len(url) == 0 && len(more) == 0 && kind != "text" {
		v.Fault(wire.CodeHistory, "data or a URL is required")
	}
	return mime, url, data, more
}

func (d decoder) image(v wire.Value) message.Block {
	mime, url, data, more := d.source(v.Get("source"))
	meta := d.rest(v, wire.AppendNested(nil, "source", more), map[string]func(wire.Value){"source": func(wire.Value) {}})
	common := message.Common{Meta: meta}
	switch {
	case url != "":
		img := wire.ImageAt(url)
		img.Common = common
		return img
	case len(data) > 0:
		return &message.Image{Common: common, MIME: mime, Data: data}
	}
	return &message.File{Common: common, MIME: cmp.Or(mime, "image/*")}
}

func (d decoder) document(v wire.Value) message.Block {
	mime, url, data, more := d.source(v.Get("source"))
	f := &message.File{MIME: mime, Data: data, URL: url}
	f.Meta = d.rest(v, wire.AppendNested(nil, "source", more), map[string]func(wire.Value){
		"source": func(wire.Value) {},
		"title":  func(x wire.Value) { f.Name = x.Text() },
	})
	if len(f.Data) == 0 {
		f.Data = nil
	}
	f.MIME = cmp.Or(f.MIME, message.MediaType(url, "application/pdf"))
	return f
}
