package anthropic

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
)

type model struct {
	*Provider
	traits
	model string
	full  string // "provider/model"
}

// Stream implements llm.Model.
func (m *model) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		b, parts, err := m.encode(r)
		q, client := wire.Question{Path: "/v1/messages", Parts: parts}, m.wire
		if m.opt.Path != nil {
			q.Path = m.opt.Path(m.model)
		}
		if err == nil {
			q.Notices = b.notices
		}
		if err == nil && m.bound && b.thinks {
			client = m.binding
		}
		client.Ask(ctx, q, err, yield, func(asm *wire.Assembly, answer *wire.Answer) {
			asm.Tools = r.Tools
			(&events{model: m, asm: asm, tools: r.Tools, ids: wire.CallIDs{Prefix: "toolu_"}}).read(answer)
		})
	}
}

// events reads the events of one answer.
type events struct {
	*model
	asm   *wire.Assembly
	tools *llm.Toolset

	blocks []*open
	stop   string
	begun  bool // message_start has come
	usage  message.Usage
	calls  int
	ids    wire.CallIDs
}

// open is a content block.
type open struct {
	*wire.Part
	typ       string
	loose     bool       // a text of a local model, which has no Part
	said      *wire.Part // where it was written last
	input     []byte     // of a tool_use that was not streamed
	signature []byte     // as raw JSON, without quotes
	cites     []byte     // citations as they came, with commas between
	whole     []byte     // the start of a block that Steward does not model
	streamed  []byte     // its input
}

// read reads to message_stop, the stream's only good end.
func (e *events) read(answer *wire.Answer) {
	if !answer.Follow(e.asm, e.event) {
		e.asm.Fail(e.wire.Broken(nil))
	}
}

// doneMark is the last event of gateways that know OpenAI's form of a stream.
const doneMark = "[DONE]"

// event reads one event, and reports whether it is the last. Members may come in any order, so the
// index is read before the block.
func (e *events) event(data []byte) (last bool) {
	if string(data) == doneMark {
		e.finish()
		return true
	}
	var typ string
	var index int64 = -1
	var block, delta, usage []byte
	d := wire.Decode(data)
	d.Object(func(key []byte) {
		switch string(key) {
		case "type":
			typ = d.String()
		case "index":
			index = d.Int()
		case "content_block":
			block = d.Raw()
		case "delta":
			delta = d.Span()
		case "usage":
			usage = d.Span()
		case "message":
			d.Object(func(key []byte) {
				if string(key) == "usage" {
					usage = d.Span()
				}
			})
		}
	})
	if err := d.End(); err != nil {
		e.asm.Fail(e.wire.Malformed(err))
		return false
	}
	if usage != nil {
		e.readUsage(usage)
	}
	switch typ {
	case "message_start":
		if e.begun { // a proxy has put two answers into one stream
			e.asm.Fail(e.wire.Malformed(errors.New("a second message begins in the stream of the first")))
			return false
		}
		e.begun = true
	case "content_block_start":
		e.start(index, block)
	case "content_block_delta":
		e.delta(index, delta)
	case "message_delta":
		e.stop = cmp.Or(wire.Decode(wire.Member(delta, "stop_reason")).String(), e.stop)
	case "message_stop":
		e.finish()
		return true
	case "error":
		e.asm.Fail(e.wire.RefusalError(explain(0, data)))
	}
	return false
}

func (e *events) start(index int64, raw []byte) {
	o := &open{}
	var text, id, name []byte
	var extra []byte
	d := wire.Decode(raw)
	d.Object(func(key []byte) {
		switch string(key) {
		case "type":
			o.typ = d.String()
		case "text", "thinking":
			text = d.Piece()
		case "id":
			id = d.Bytes()
		case "name":
			name = d.Bytes()
		case "input":
			if raw := d.Raw(); e.asm.Keep(len(raw)) {
				o.input = bytes.Clone(raw)
			}
		case "signature":
			o.signature = appendInner(o.signature, d.Span())
		case "citations":
			d.Array(func(int) { e.cite(o, d.Raw()) })
		default:
			if !d.Null() {
				extra = wire.AppendMember(extra, key, d.Raw())
			}
		}
	})
	for int64(len(e.blocks)) <= index && len(e.blocks) < maxBlocks {
		e.blocks = append(e.blocks, nil)
	}
	if index < 0 || index >= maxBlocks {
		return
	}
	e.blocks[index] = o
	switch o.typ {
	case "text":
		if o.loose = e.loose; o.loose {
			e.asm.StartMixedText()
			e.asm.AddMixedText(text)
			return
		}
		o.Part = e.asm.Open(llm.TextDelta)
	case "thinking":
		o.Part = e.asm.Open(llm.ReasoningDelta)
	case "redacted_thinking":
		o.Part = e.asm.Open(llm.ReasoningDelta)
		o.Meta = wire.MetaOf(e.name, extra)
	case "tool_use":
		e.calls++
		o.Part = e.asm.Open(llm.CallArgs)
		o.Meta = wire.MetaOf(e.name, extra)
		o.Name, o.CallID = e.tools.Name(string(name)), e.ids.Next(string(id), wire.NewCallID(""))
		o.Announce()
	case "":
		return
	default: // a tool of the provider's own, or what it returned
		if !e.asm.Keep(len(raw)) {
			return
		}
		o.whole, o.Part = bytes.Clone(raw), e.asm.Vendor(o.typ)
		return
	}
	o.Add(text)
}

// cite keeps a citation of a text.
func (e *events) cite(o *open, raw []byte) {
	if !wire.IsObject(raw) || !e.asm.Keep(len(raw)) {
		return
	}
	if len(o.cites) > 0 {
		o.cites = append(o.cites, ',')
	}
	o.cites = append(o.cites, raw...)
}

// cited returns the citations of a text in the form that is shown to a person.
func (o *open) cited() (list []message.Citation) {
	d := wire.Decode(append(append([]byte{'['}, o.cites...), ']'))
	d.Array(func(int) {
		var c message.Citation
		var document string
		d.Object(func(key []byte) {
			switch string(key) {
			case "url", "source": // of the web; of a search result of the caller's
				c.URL = d.String()
			case "title":
				c.Title = d.String()
			case "document_title":
				document = d.String()
			case "cited_text":
				c.Text = d.String()
			}
		})
		c.Title = cmp.Or(c.Title, document)
		list = append(list, c)
	})
	return list
}

// kept returns a block unchanged, with the input that was streamed.
func (o *open) kept() []byte {
	if len(o.streamed) == 0 || !wire.IsObject(o.streamed) {
		return o.whole
	}
	var out []byte
	d := wire.Decode(o.whole)
	d.Object(func(key []byte) {
		raw := d.Raw()
		if string(key) == "input" {
			raw = o.streamed
		}
		out = wire.AppendMember(out, key, raw)
	})
	return append(append([]byte{'{'}, out...), '}')
}

// maxBlocks limits the blocks of a message, in case a server counts wrongly.
const maxBlocks = 4096

// appendInner appends the inside of a JSON string unchanged.
func appendInner(dst, raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return dst
	}
	return append(dst, raw[1:len(raw)-1]...)
}

func (e *events) delta(index int64, raw []byte) {
	if index < 0 || index >= int64(len(e.blocks)) || e.blocks[index] == nil || e.blocks[index].Part == nil && !e.blocks[index].loose {
		return
	}
	o := e.blocks[index]
	d := wire.Decode(raw)
	d.Object(func(key []byte) {
		switch string(key) {
		case "text", "thinking", "partial_json":
			if s := d.Piece(); o.loose {
				e.asm.AddMixedText(s)
				o.said = e.asm.MixedTextPart()
			} else if o.whole == nil {
				o.Add(s)
			} else if e.asm.Keep(len(s)) {
				o.streamed = append(o.streamed, s...)
			}
		case "citation":
			e.cite(o, d.Raw())
		case "signature":
			if s := d.Span(); e.asm.Keep(len(s)) {
				o.signature = appendInner(o.signature, s)
			}
		}
	})
}

// readUsage reads token counts, which are cumulative. Input tokens are reported without those that were
// read from or written to the cache.
func (e *events) readUsage(raw []byte) {
	input := e.usage.Input - e.usage.CacheRead - e.usage.CacheWrite
	d := wire.Decode(raw)
	d.Object(func(key []byte) {
		switch string(key) {
		case "input_tokens":
			input = max(input, d.Int())
		case "output_tokens":
			e.usage.Output = max(e.usage.Output, d.Int())
		case "cache_read_input_tokens":
			e.usage.CacheRead = max(e.usage.CacheRead, d.Int())
		case "cache_creation_input_tokens":
			e.usage.CacheWrite = max(e.usage.CacheWrite, d.Int())
		case "server_tool_use":
			d.Object(func(key []byte) {
				if string(key) == "web_search_requests" {
					e.usage.Searches = max(e.usage.Searches, d.Int())
				}
			})
		case "output_tokens_details":
			d.Object(func(key []byte) {
				if string(key) == "thinking_tokens" {
					e.usage.Reasoning = d.Int()
				}
			})
		}
	})
	e.usage.Input = input + e.usage.CacheRead + e.usage.CacheWrite
}

// finish ends the stream at its end mark, with the reply. Gateways may drop the stop reason.
func (e *events) finish() {
	if !e.begun && e.stop == "" && len(e.blocks) == 0 {
		e.asm.Fail(e.wire.Broken(nil))
		return
	}
	e.asm.Settle()
	for _, o := range e.blocks {
		if o != nil && o.loose {
			o.Part = o.said
		}
		switch {
		case o == nil || o.Part == nil:
		case o.whole != nil:
			o.Meta = message.Meta{Provider: e.name, Fields: o.kept()}
		case o.typ == "text" && len(o.cites) > 0:
			o.Cites = o.cited()
			o.Meta = wire.MetaOf(e.name, append(append([]byte(`"citations":[`), o.cites...), ']'))
		case o.typ == "thinking" && len(o.signature) > 0:
			o.Meta = wire.MetaOf(e.name, append(append([]byte(`"signature":"`), o.signature...), '"'))
		case o.typ == "tool_use" && o.Len() == 0 && len(o.input) > len("{}"):
			o.Add(o.input)
		case o.typ == "tool_use" && o.Len() == 0 && e.reason() != message.StopLength:
			o.Add([]byte("{}"))
		}
	}
	e.asm.Done(&llm.Reply{Model: e.full, Stop: e.reason(), Usage: e.usage})
}

// reason returns why the model stopped. It must continue after pause_turn and after tool_use without a
// tool.
func (e *events) reason() message.Stop {
	switch e.stop {
	case "max_tokens", "length", "pause_turn", "model_context_window_exceeded":
		return message.StopLength
	case "refusal":
		return message.StopRefused
	}
	switch {
	case e.calls > 0:
		return message.StopTools
	case e.stop == "stop_sequence":
		return message.StopSequence
	case e.stop == "tool_use":
		return message.StopLength
	}
	return message.StopEnd
}
