package openai

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// What the items of the responses API preserve of a history. Whatever is not listed here comes back
// unchanged.
//
//	reasoning                 all, byte for byte, if it has its encrypted or open content and
//	                          something of the same message follows; else nothing
//	text                      as Unicode; of a block that is not empty
//	metadata of a text        ids, status and phase of its item, annotations, that it is a refusal
//	metadata of a call        all, without white space between members
//	the provider's own tools  all, byte for byte, of kinds that the client does not run
//	metadata of a message     nothing
//	images                    as in chat completions, and those of results in their results
//	files                     likewise, and by HTTPS
//	arguments                 all; none and white space are {}
//	another provider's        nothing of its metadata, and of its reasoning nothing
//	metadata

// itemMember holds, in the metadata of a text or a call, those members of its item that Steward does not
// model.
const itemMember = "item"

// hosted reports whether an item of this type belongs to a tool that the server runs, so that it is
// sent back as it came.
func hosted(kind string) bool {
	switch kind {
	case "mcp_list_tools", "compaction":
		return true
	case "custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call", "function_call":
		return false // the client runs these
	}
	return strings.HasSuffix(kind, "_call")
}

// output appends a result: a text, or a list if there is something to show.
func (e *encoder) output(dst []byte, r *message.ToolResult) []byte {
	dst = wire.Append(wire.Comma(dst), `{"type":"function_call_output","call_id":$,"output":`, wire.CallID(r.CallID, r.Call, "call_", takesID))
	var text strings.Builder
	var shown []message.Block
	for _, b := range r.Content {
		if t, ok := b.(*message.Text); ok {
			text.WriteString(t.Text)
			continue
		}
		if e.accepts(b) {
			shown = append(shown, b)
			continue
		}
		if text.Len() > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(e.describeMedia(b))
	}
	words := wire.StatusText(r.Status, text.String(), len(shown) > 0)
	if len(shown) == 0 {
		return append(wire.AppendString(dst, words), '}')
	}
	dst = wire.Append(append(dst, '['), e.textStart()+`$}`, words)
	for _, b := range shown {
		dst = e.show(append(dst, ','), b)
	}
	return append(dst, "]}"...)
}

// turn appends the items of a message of the model. The API refuses reasoning without the item that it
// led to.
func (e *encoder) turn(dst []byte, m *message.Message) []byte {
	var thoughts [][]byte
	for i, b := range m.Blocks {
		if r, ok := b.(*message.Reasoning); ok && e.thought(r) {
			thoughts = append(thoughts, r.Meta.Fields)
			continue
		}
		item := e.item(b, message.Ref{Message: m.ID, Block: i})
		if item == nil {
			continue
		}
		for _, raw := range append(thoughts, item) {
			dst = append(wire.Comma(dst), raw...)
		}
		thoughts = nil
	}
	return dst
}

// thought reports whether reasoning is this provider's own and complete: nothing is stored at the
// server, so the item must hold its content.
func (e *encoder) thought(r *message.Reasoning) bool {
	f := r.Meta.Fields
	if r.Meta.Provider != e.provider || string(wire.Member(f, "type")) != `"reasoning"` {
		return false
	}
	return len(wire.Member(f, "encrypted_content")) > len(`null`) || bytes.HasPrefix(wire.Member(f, "content"), []byte(`[{`))
}

// item returns a block of the model as an item, or nil.
func (e *encoder) item(b message.Block, ref message.Ref) (dst []byte) {
	var own []byte
	if b.Base().Meta.Provider == e.provider {
		own = b.Base().Meta.Fields
	}
	switch b := b.(type) {
	case *message.Text:
		if b.Text == "" {
			return nil
		}
		dst = append(dst, `{"type":"message","role":"assistant","content":[`...)
		if bytes.HasPrefix(own, []byte("{"+refusalMember)) {
			dst = wire.Append(dst, `{"type":"refusal","refusal":$}]`, b.Text)
		} else {
			notes := wire.Member(own, "annotations")
			if !wire.Decode(notes).IsArray() {
				notes = []byte("[]")
			}
			dst = wire.Append(dst, `{"type":"output_text","text":$,"annotations":$}]`, b.Text, notes)
		}
	case *message.ToolCall:
		dst = wire.Append(dst, `{"type":"function_call","call_id":$,"name":$,"arguments":$`, wire.CallID(b.CallID, ref, "call_", takesID),
			wire.ToolName(tool.WireName(b.Name)), cmp.Or(string(b.Args), "{}"))
	case *message.Vendor:
		if !wire.IsObject(own) || !hosted(wire.Decode(wire.Member(own, "type")).String()) {
			return nil
		}
		return own
	default:
		return nil
	}
	if more := wire.Member(own, itemMember); wire.IsObject(more) {
		dst = wire.AppendInside(dst, more)
	}
	return append(dst, '}')
}

// readItems reads a list of items, or the body of a request.
func readItems(h *wire.History, doc wire.Value) {
	d := itemDecoder{decoder: decoder{History: h, items: true}}
	list := doc.Named("input")
	if doc.Is('{') {
		if s := doc.Get("instructions"); !s.Zero() {
			d.AddText(s, message.System, message.Meta{}, &message.Text{Text: s.Text()})
		}
		list = doc.Get("input")
	}
	if list.Is('"') {
		d.AddText(list, message.User, message.Meta{}, &message.Text{Text: list.Text()})
		return
	}
	for _, v := range list.Items() {
		d.item(v)
	}
	d.end()
}

// itemDecoder reads items. Those of the model that follow each other are one message.
type itemDecoder struct {
	decoder
	at      wire.Value // the first of them
	blocks  []message.Block
	refused bool
}

func (d *itemDecoder) add(at wire.Value, blocks ...message.Block) {
	if len(d.blocks) == 0 {
		d.at = at
	}
	d.blocks = append(d.blocks, blocks...)
}

// end adds the message of the model that was read.
func (d *itemDecoder) end() {
	if len(d.blocks) == 0 {
		return
	}
	if said := d.Assistant(d.at, message.Meta{}, d.blocks...); said != nil && d.refused {
		said.Stop = message.StopRefused
	}
	d.blocks, d.refused = nil, false
}

func (d *itemDecoder) item(v wire.Value) {
	switch kind := v.Get("type").Text(); {
	case (kind == "message" || kind == "") && role(v) == "assistant":
		d.readMessage(v)
	case kind == "message" || kind == "":
		d.end()
		d.message(v)
	case kind == "reasoning":
		r := &message.Reasoning{Common: d.mark(string(v.Raw()))}
		r.Text = strings.Join(append(d.texts(v.Get("summary")), d.texts(v.Get("content"))...), "\n\n")
		d.add(v, r)
	case kind == "function_call":
		d.called(v)
	case kind == "function_call_output":
		d.end()
		d.result(v)
	case hosted(kind):
		d.add(v, &message.Vendor{Common: d.mark(string(v.Raw())), Kind: kind})
	default:
		d.add(v, d.UnknownContent(v, kind, "an item of the type %.40q cannot be read", kind))
	}
}

func (d *itemDecoder) texts(list wire.Value) (out []string) {
	for _, x := range list.Items() {
		out = append(out, x.Get("text").Text())
	}
	return out
}

// readMessage reads a message of the model. Its first text keeps the item's own members.
func (d *itemDecoder) readMessage(v wire.Value) {
	var content wire.Value
	var item []byte
	for key, x := range v.Members() {
		switch key {
		case "type", "role":
		case "content":
			content = x
		default:
			item = wire.AppendMember(item, key, x.Raw())
		}
	}
	for _, b := range slices.DeleteFunc(d.content(v, content), silentText) {
		meta := &b.Base().Meta
		d.refused = d.refused || bytes.HasPrefix(meta.Fields, []byte("{"+refusalMember))
		*meta = d.Meta(wire.AppendNested(wire.AppendInside(nil, meta.Fields), itemMember, item))
		item = nil
		d.add(v, b)
	}
}

func (d *itemDecoder) called(v wire.Value) {
	c := &message.ToolCall{}
	var item []byte
	for key, x := range v.Members() {
		switch {
		case key == "type":
		case key == "call_id":
			c.CallID = x.Text()
		case !named(c, key, x):
			item = wire.AppendMember(item, key, x.Raw())
		}
	}
	c.Meta = d.Meta(wire.AppendNested(nil, itemMember, item))
	d.add(v, c)
}

func (d *itemDecoder) result(v wire.Value) {
	r := &message.ToolResult{}
	var id string
	var extra []byte
	for key, x := range v.Members() {
		switch key {
		case "type":
		case "call_id":
			id = x.Text()
		case "output":
			r.Content = slices.DeleteFunc(d.content(v, x), silentText)
		default:
			extra = wire.AppendMember(extra, key, x.Raw())
		}
	}
	r.Meta = d.Meta(extra)
	wire.Words(r, false, false)
	d.Result(v, id, "", r)
}
