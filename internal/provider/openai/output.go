package openai

import (
	"bytes"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
)

// outputs reads the events of one answer of the responses API. Deltas are shown as they come; what
// else an item has is read when the item is done. Events of other types change nothing.
//
// Source: https://platform.openai.com/docs/api-reference/responses-streaming.
type outputs struct {
	*model
	asm   *wire.Assembly
	tools *llm.Toolset

	items   map[int64]*item // by output_index
	ids     wire.CallIDs
	calls   int
	refused bool
	result  response
}

// item is an item of the output. Text parts of a message are blocks of their own; the Part of other
// items is their block.
type item struct {
	*wire.Part
	typ   string
	texts map[int64]*wire.Part // by content_index
	loose bool                 // its text was said as that of a local model
	place int64                // of reasoning: the part that was written last
	done  bool
}

// response is the object of that name.
type response struct {
	status string
	reason string // why it is incomplete
	failed wire.APIError
	output []byte
	usage  message.Usage
}

// stream reads to the event that ends the response, the stream's only good end.
func (o *outputs) stream(answer *wire.Answer) {
	if !answer.Follow(o.asm, o.event) {
		o.asm.Fail(o.wire.Broken(nil))
	}
}

// event reads one event, and reports whether it is the last. Members may come in any order.
func (o *outputs) event(data []byte) (last bool) {
	if string(data) == doneMark { // a gateway's, without the event that ends a response
		if o.asm.Written() {
			o.close()
		} else {
			o.asm.Fail(o.wire.Broken(nil))
		}
		return true
	}
	var typ string
	var index, place int64
	var delta, raw []byte
	d := wire.Decode(data)
	d.Object(func(key []byte) {
		switch string(key) {
		case "type":
			typ = d.String()
		case "output_index":
			index = d.Int()
		case "content_index", "summary_index":
			place = d.Int()
		case "delta":
			delta = d.Piece()
		case "item":
			raw = d.Raw()
		case "response":
			raw = d.Span()
		}
	})
	if err := d.End(); err != nil {
		o.asm.Fail(o.wire.Malformed(err))
		return false
	}
	switch typ {
	case "response.output_item.added":
		o.begin(index, raw)
	case "response.output_text.delta":
		o.text(index, place, delta, false)
	case "response.refusal.delta":
		o.text(index, place, delta, true)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		o.think(index, place, delta)
	case "response.function_call_arguments.delta":
		if it := o.items[index]; it != nil && it.typ == "function_call" {
			it.Add(delta)
		}
	case "response.output_item.done":
		o.end(index, raw)
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		o.readWhole(raw)
		return true
	case "error":
		failed, _ := wire.ReadAPIError(data) // it is JSON
		o.asm.Fail(o.streamError(failed))
	}
	return false
}

// begin begins an item, unless it has begun.
func (o *outputs) begin(index int64, raw []byte) *item {
	if it := o.items[index]; it != nil {
		return it
	}
	const each = 64 // bytes, about, that an item takes besides its content
	if !o.asm.Keep(each) {
		return nil
	}
	it := &item{texts: map[int64]*wire.Part{}}
	var id, name string
	d := wire.Decode(raw)
	d.Object(func(key []byte) {
		switch string(key) {
		case "type":
			it.typ = d.String()
		case "call_id":
			id = d.String()
		case "name":
			name = d.String()
		}
	})
	o.items[index] = it
	switch it.typ {
	case "", "message":
	case "reasoning":
		it.Part = o.asm.Open(llm.ReasoningDelta)
	case "function_call":
		o.calls++
		it.Part = o.asm.Open(llm.CallArgs)
		it.Name, it.CallID = o.tools.Name(name), o.ids.Next(id, wire.NewCallID(""))
		it.Announce()
	default: // a tool of the server's own
		it.Part = o.asm.Vendor(it.typ)
		it.Meta = o.meta(raw)
	}
	return it
}

// meta returns an item as metadata, byte for byte.
func (o *outputs) meta(raw []byte) message.Meta {
	if !o.asm.Keep(len(raw)) {
		return message.Meta{}
	}
	return message.Meta{Provider: o.name, Fields: bytes.Clone(raw)}
}

func (o *outputs) text(index, place int64, s []byte, refusal bool) {
	it := o.begin(index, []byte(`{"type":"message"}`))
	if len(s) == 0 || it == nil || it.typ != "message" {
		return
	}
	if !o.official && !refusal {
		it.loose = true
		o.asm.AddMixedText(s)
		return
	}
	p := it.texts[place]
	if p == nil {
		p = o.asm.Open(llm.TextDelta)
		it.texts[place] = p
	}
	if refusal {
		o.refused = true
		p.Meta = message.Meta{Provider: o.name, Fields: []byte(refusalMeta)}
	}
	p.Add(s)
}

// think adds reasoning. Each part of it is a paragraph.
func (o *outputs) think(index, place int64, s []byte) {
	it := o.begin(index, []byte(`{"type":"reasoning"}`))
	if len(s) == 0 || it == nil || it.typ != "reasoning" {
		return
	}
	if place != it.place && it.Len() > 0 {
		it.Add([]byte("\n\n"))
	}
	it.place = place
	it.Add(s)
}

// end reads an item that is done: what was not streamed of it, and what else it has.
func (o *outputs) end(index int64, raw []byte) {
	it := o.begin(index, raw)
	if it == nil || it.done {
		return
	}
	it.done = true
	switch it.typ {
	case "", "message":
		o.finishMessage(index, it, raw)
	case "reasoning":
		if it.Len() == 0 {
			o.thoughts(index, raw)
		}
		it.Meta = o.meta(raw)
	case "function_call":
		var more []byte
		d := wire.Decode(raw)
		d.Object(func(key []byte) {
			switch string(key) {
			case "type", "call_id", "name":
			case "arguments":
				if s := d.Piece(); it.Len() == 0 {
					it.Add(s)
				}
			default:
				more = wire.AppendMember(more, key, d.Raw())
			}
		})
		it.Meta = wire.MetaOf(o.name, wire.AppendNested(nil, itemMember, more))
	default:
		it.Meta = o.meta(raw)
	}
}

// thoughts reads the texts of reasoning that was not streamed.
func (o *outputs) thoughts(index int64, raw []byte) {
	var place int64
	d := wire.Decode(raw)
	d.Object(func(key []byte) {
		if k := string(key); k != "summary" && k != "content" {
			return
		}
		d.Array(func(int) {
			d.Object(func(key []byte) {
				if string(key) == "text" {
					o.think(index, place, d.Bytes())
				}
			})
			place++
		})
	})
}

// finishMessage reads a message that is done. Its first text keeps the item's own members.
func (o *outputs) finishMessage(index int64, it *item, raw []byte) {
	var content, more []byte
	d := wire.Decode(raw)
	d.Object(func(key []byte) {
		switch string(key) {
		case "type", "role":
		case "content":
			content = d.Span()
		default:
			if !d.Null() {
				more = wire.AppendMember(more, key, d.Raw())
			}
		}
	})
	d = wire.Decode(content)
	d.Array(func(i int) {
		var text, notes, fields []byte
		refusal := false
		d.Object(func(key []byte) {
			switch string(key) {
			case "text":
				text = d.Bytes()
			case "refusal":
				text, refusal = d.Bytes(), true
			case "annotations":
				notes = d.Raw()
			}
		})
		if it.texts[int64(i)] == nil && (refusal || !it.loose) {
			o.text(index, int64(i), text, refusal)
		}
		p := it.texts[int64(i)]
		if p == nil {
			return
		}
		if refusal {
			fields = []byte(refusalMember)
		}
		if p.Cites = citationsOf(notes); len(p.Cites) > 0 {
			fields = wire.AppendMember(fields, "annotations", notes)
		}
		p.Meta = wire.MetaOf(o.name, wire.AppendNested(fields, itemMember, more))
		more = nil
	})
}

// readWhole ends the stream with a response: the last event's, or a whole answer.
func (o *outputs) readWhole(raw []byte) {
	r := &o.result
	d := wire.Decode(raw)
	d.Object(func(key []byte) {
		switch string(key) {
		case "status":
			r.status = d.String()
		case "incomplete_details":
			d.Object(func(key []byte) {
				if string(key) == "reason" {
					r.reason = d.String()
				}
			})
		case "error":
			r.failed.Read(d)
		case "output":
			r.output = d.Span()
		case "usage":
			readUsage(d, &r.usage)
		}
	})
	switch {
	case d.End() != nil:
		o.asm.Fail(o.wire.Malformed(d.End()))
		return
	case r.status == "failed", r.status == "" && r.failed != (wire.APIError{}):
		o.asm.Fail(o.streamError(r.failed))
		return
	case r.status != "completed" && r.status != "incomplete":
		o.asm.Fail(o.wire.Broken(nil))
		return
	}
	o.close()
}

// close ends the stream with the reply.
func (o *outputs) close() {
	r := &o.result
	if len(o.items) == 0 { // nothing was streamed
		d := wire.Decode(r.output)
		d.Array(func(i int) { o.end(int64(i), d.Raw()) })
	}
	for _, it := range o.items {
		if it.typ == "web_search_call" {
			r.usage.Searches++
		}
		if it.typ == "function_call" && it.Len() == 0 && r.status != "incomplete" {
			it.Add([]byte("{}")) // a call without arguments
		}
	}
	o.asm.Done(&llm.Reply{Model: o.name + "/" + o.model.model, Stop: o.stop(), Usage: r.usage})
}

func (o *outputs) stop() message.Stop {
	switch {
	case o.result.reason == "content_filter", o.refused && o.calls == 0:
		return message.StopRefused
	case o.result.status == "incomplete":
		return message.StopLength
	case o.calls > 0:
		return message.StopTools
	}
	return message.StopEnd
}
