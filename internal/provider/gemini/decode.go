package gemini

import (
	"cmp"
	"encoding/base64"
	"strings"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
)

// What the wire form preserves of a history. Whatever is not listed here comes back unchanged.
//
//	reasoning                 all, with this provider's metadata; else ""
//	metadata of the model's   all of texts, reasoning, calls, images and of what Gemini
//	                          ran itself, without
//	blocks                    white space between members, but for the signature that
//	                          stands for a missing one and for what is kept of inside
//	                          of a call or data
//	metadata of other blocks  nothing
//	metadata of a message     nothing
//	images                    by address or inline, of the types that Gemini reads; a
//	                          data URL comes back as data; others as words; the
//	                          system's: nothing
//	files                     likewise, and texts
//	arguments                 all; none and white space are {}
//	another provider's        nothing of its metadata, and of its reasoning ""
//	metadata
//	unknown members of the    nothing
//	stored form

// Codec returns the codec of this API's form of a history for the named model, without the turns that
// open or close a request whose history begins or ends with the model's. It also reads what other
// programs write: names in snake case, contents that are a string or a single one, a system instruction
// that is a string, the role function, calls without ids, responses of any object. Members that Steward
// does not model are kept as metadata.
func (p *Provider) Codec(model string) wire.Codec {
	return wire.Codec{Provider: p.name, Prefix: mintedPrefix, Read: read, Encoder: func() llm.GroupEncoder {
		return encoder{provider: p.name, family: familyOf(model)}.group
	}}
}

func read(h *wire.History, doc wire.Value) {
	d := decoder{h}
	if doc.Is('{') {
		for key, v := range doc.Members() {
			if camel(key) == "systemInstruction" {
				d.system(v)
			}
		}
	}
	contents := doc.Within("contents")
	if doc.Is('{') && contents.Is('"') { // as Google's libraries take it, like one content in place of a list
		d.AddText(contents, message.User, message.Meta{}, &message.Text{Text: contents.Text()})
		return
	}
	for _, v := range contents.Each() {
		d.content(v)
	}
}

type decoder struct{ *wire.History }

func (d decoder) system(v wire.Value) {
	if v.Is('"') {
		d.AddText(v, message.System, message.Meta{}, &message.Text{Text: v.Text()})
		return
	}
	d.AddText(v, message.System, message.Meta{}, d.parts(v.Get("parts"), false, nil)...)
}

// camel returns a name in camel case, as in the reference. The API accepts snake case, too.
func camel(name string) string {
	head, rest, found := strings.Cut(name, "_")
	for found && rest != "" {
		var word string
		word, rest, found = strings.Cut(rest, "_")
		if word != "" {
			head += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return head
}

func (d decoder) content(v wire.Value) {
	parts, extra := v.Split("parts")
	switch role := v.Get("role").Text(); role {
	case "model":
		d.Assistant(v, d.Meta(extra), d.parts(parts, true, nil)...)
	case "user", "function", "":
		var results []wire.Value
		blocks := d.parts(parts, false, func(x wire.Value) { results = append(results, x) })
		d.Turn(v, "content", extra, results, blocks, d.result)
	default:
		d.AddUnknownRole(v, role, d.Meta(extra), d.parts(parts, false, nil)...)
	}
}

// parts reads a content's parts. Responses are passed to result, if it is not nil.
func (d decoder) parts(v wire.Value, model bool, result func(wire.Value)) []message.Block {
	var blocks []message.Block
	for _, x := range v.Each() {
		if r := response(x); !r.Zero() && result != nil {
			result(r)
		} else if b := d.part(x, model); b != nil {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

func response(part wire.Value) wire.Value {
	for key, x := range part.Members() {
		if camel(key) == "functionResponse" {
			return x
		}
	}
	return wire.Value{}
}

// part reads one part.
func (d decoder) part(v wire.Value, model bool) message.Block {
	var b message.Block
	var extra []byte
	thought, kinds := false, 0
	is := func(block message.Block) {
		b = block
		kinds++
	}
	for key, x := range v.Members() {
		switch key := camel(key); key {
		case "text":
			is(&message.Text{Text: x.Text()})
		case "thought":
			thought = x.Flag()
		case "thoughtSignature":
			if signature(x) {
				extra = wire.AppendMember(extra, key, x.Raw())
			}
		case "functionCall":
			c, more := functionCall(x)
			is(c)
			extra = wire.AppendNested(extra, key, more)
		case "inlineData", "fileData":
			m, more := media(x)
			is(m)
			extra = wire.AppendNested(extra, key, more)
		default:
			if model && hosted(key) {
				is(&message.Vendor{Kind: key})
			}
			extra = wire.AppendMember(extra, key, x.Raw())
		}
	}
	if kinds != 1 {
		return d.UnknownContent(v, "part", "a part is text, a call, a response, or data, and one of these only")
	}
	if thought {
		extra = append([]byte(`"thought":true`), wire.After([]byte{'{'}, extra)...)
	}
	return d.signed(b, extra, model, thought)
}

// signature reports whether there is a signature, which must be base64.
func signature(v wire.Value) bool {
	s := v.Text()
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		v.Fault(wire.CodeHistory, "it must be base64 with padding")
	}
	return s != ""
}

// signed sets a block's metadata. A model's text that is a thought, or only a signature, is reasoning.
// The placeholder for a missing signature is removed.
func (d decoder) signed(b message.Block, extra []byte, model, thought bool) message.Block {
	meta := d.Meta(extra)
	switch t := b.(type) {
	case *message.Text:
		switch {
		case !model:
		case thought, t.Text == "" && hasSignature(extra):
			b = &message.Reasoning{Text: t.Text}
		case t.Text == "" && len(extra) == 0:
			return nil
		}
	case *message.ToolCall:
		var own []byte
		in := wire.Decode(meta.Fields)
		in.Object(func(key []byte) {
			if raw := in.Raw(); string(key) != "thoughtSignature" || string(raw) != `"`+skipSignature+`"` {
				own = wire.AppendMember(own, key, raw)
			}
		})
		meta = d.Meta(own)
	}
	b.Base().Meta = meta
	return b
}

// functionCall reads a call of a history or a stream. more has the members that are not modelled.
func functionCall(v wire.Value) (c *message.ToolCall, more []byte) {
	c = &message.ToolCall{Args: []byte(`{}`)}
	for key, x := range v.Members() {
		switch key {
		case "id":
			c.CallID = x.Text()
		case "name":
			c.Name = x.Text()
		case "args":
			x.Object() // anything else is a fault, unless it is read leniently
			c.Args = wire.Args(x.Raw(), wrapper)
		default:
			more = wire.AppendMember(more, key, x.Raw())
		}
	}
	return c, more
}

// media reads inline data or a URL.
func media(v wire.Value) (b message.Block, more []byte) {
	var mime, name, url string
	var data []byte
	for key, x := range v.Members() {
		switch camel(key) {
		case "mimeType":
			mime = x.Text()
		case "data":
			data = x.Base64()
		case "fileUri":
			url = x.Text()
		case "displayName":
			name = x.Text()
		default:
			more = wire.AppendMember(more, key, x.Raw())
		}
	}
	if (len(data) > 0) == (url != "") {
		v.Fault(wire.CodeHistory, "either data or a URL is required, not both")
	}
	mime = cmp.Or(mime, message.MediaType(url, "application/octet-stream"))
	if strings.HasPrefix(mime, "image/") {
		return &message.Image{MIME: mime, Data: data, URL: url}, more
	}
	return &message.File{MIME: mime, Name: name, Data: data, URL: url}, more
}

// result reads a response. The reference names the keys output and error. An object without them is the
// output itself.
func (d decoder) result(v wire.Value, extra []byte) {
	r := &message.ToolResult{}
	var id, name, words string
	failed := false
	for key, x := range v.Members() {
		switch key {
		case "id":
			id = x.Text()
		case "name":
			name = x.Text()
		case "response":
			words, failed = output(x)
		case "parts":
			for _, b := range d.parts(x, false, nil) {
				switch b.(type) {
				case *message.Image, *message.File, *message.Text:
					r.Content = append(r.Content, b)
				default:
					r.Content = append(r.Content, d.UnknownContent(x, "part", "a response holds data only"))
				}
			}
		default:
			extra = wire.AppendMember(extra, key, x.Raw())
		}
	}
	if words != "" {
		r.Content = append([]message.Block{&message.Text{Text: words}}, r.Content...)
	}
	r.Meta = d.Meta(extra)
	wire.Words(r, failed, true)
	d.Result(v, id, name, r)
}

func output(v wire.Value) (words string, failed bool) {
	n := 0
	var said wire.Value
	for key, x := range v.Members() {
		if n++; key == "output" || key == "error" {
			said, failed = x, key == "error"
		}
	}
	switch {
	case n == 1 && said.Is('"'):
		return said.Text(), failed
	case n == 0:
		return "", false
	}
	return string(v.Raw()), false
}
