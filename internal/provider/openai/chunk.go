package openai

import (
	"bytes"
	"errors"
	"strings"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
)

// The metadata of blocks: the member in which a compatible server sent its reasoning, and the mark of a
// text that is OpenAI's refusal.
const (
	reasoningContentMeta = `{"field":"reasoning_content"}`
	reasoningMeta        = `{"field":"reasoning"}`
	refusalMember        = `"refusal":true`
	refusalMeta          = "{" + refusalMember + "}"
)

// chunks reads the chunks of one answer.
type chunks struct {
	*model
	asm   *wire.Assembly
	tools *llm.Toolset

	calls    []openCall
	extras   []extra        // members of the message that are not modelled
	places   map[string]int // of the extras, by key
	think    string         // the metadata of the member in which reasoning comes
	ended    string         // the finish reason
	begun    bool           // there was a choice
	counted  bool           // the usage came alone, as it does after the last choice
	sequence bool           // a stop sequence was written, as vLLM reports
	refused  bool
	usage    message.Usage
}

// openCall is a call that is being written.
type openCall struct {
	*wire.Part
	index int64
	name  []byte // as the model wrote it, possibly in several pieces
}

// stream reads up to [DONE] or, from servers without this mark, to the end of the body once there was
// a finish reason or the usage. Gateways drop the finish reason, but do not send [DONE] after half an answer.
func (c *chunks) stream(answer *wire.Answer) {
	complete := answer.Follow(c.asm, func(data []byte) bool {
		if string(data) == doneMark {
			c.finish(c.begun)
			return true
		}
		c.read(data)
		return false
	})
	if !complete {
		c.finish(c.begun && c.counted)
	}
}

// doneMark is the data of the last event.
const doneMark = "[DONE]"

func (c *chunks) readWhole(body []byte) {
	if c.read(body); !c.asm.Gone {
		c.finish(c.begun)
	}
}

// read reads one chunk, or a whole completion.
func (c *chunks) read(data []byte) {
	var failed *wire.APIError
	var object, said string
	choices, usage := 0, false
	d := wire.Decode(data)
	d.Object(func(key []byte) {
		switch string(key) {
		case "choices":
			d.Array(func(int) {
				choices++
				c.choice(d)
			})
		case "usage":
			usage = d.IsObject()
			readUsage(d, &c.usage)
		case "object":
			object = d.String()
		case "message":
			said = d.String()
		case "error":
			if !d.Null() {
				failed = &wire.APIError{}
				failed.Read(d)
			}
		}
	})
	c.begun, c.counted = c.begun || choices > 0, usage && choices == 0
	if object == "error" && failed == nil { // old versions of vLLM
		failed = &wire.APIError{Message: said}
	}
	switch {
	case failed != nil:
		c.asm.Fail(c.streamError(*failed))
	case d.End() != nil:
		c.asm.Fail(c.wire.Malformed(d.End()))
	}
}

// choice reads a choice. Only the first one counts, because only one is requested.
func (c *chunks) choice(d *wire.Decoder) {
	if c.asm.Gone { // one event may hold a million of them
		return
	}
	var other bool
	d.Object(func(key []byte) {
		switch string(key) {
		case "index":
			other = d.Int() != 0
		case "delta":
			if !other {
				c.delta(d, false)
			}
		case "message":
			if !other {
				c.delta(d, true)
			}
		case "finish_reason":
			if s := d.Bytes(); len(s) > 0 && !other {
				c.ended = string(s)
			}
		case "stop_reason": // vLLM: the stop sequence that was written
			c.sequence = c.sequence || len(d.Bytes()) > 0
		}
	})
}

func (c *chunks) delta(d *wire.Decoder, whole bool) {
	d.Object(func(key []byte) {
		switch string(key) {
		case "role":
			d.Skip()
		case "content":
			c.content(d)
		case "reasoning_content":
			c.reasoning(d.Piece(), reasoningContentMeta)
		case "reasoning":
			c.reasoning(d.Piece(), reasoningMeta)
		case "refusal":
			c.refusal(d.Piece())
		case "tool_calls":
			d.Array(func(int) { c.call(d, whole) })
		default:
			if !d.Null() {
				c.keep(string(key), d.Raw())
			}
		}
	})
}

// content reads a string or, from Mistral's reasoning models, a list of parts.
func (c *chunks) content(d *wire.Decoder) {
	if !d.IsArray() {
		c.text(d.Piece())
		return
	}
	d.Array(func(int) {
		d.Object(func(key []byte) {
			switch string(key) {
			case "text":
				c.text(d.Piece())
			case "thinking":
				d.Array(func(int) {
					d.Object(func(key []byte) {
						if string(key) == "text" {
							c.reasoning(d.Piece(), "")
						}
					})
				})
			}
		})
	})
}

// settle announces the last call, before another block begins.
func (c *chunks) settle() {
	if n := len(c.calls); n > 0 {
		c.announce(&c.calls[n-1])
	}
}

// text adds text. Servers of local models that do not know how a model marks its reasoning leave it in the
// text.
func (c *chunks) text(s []byte) {
	if len(s) == 0 {
		return
	}
	c.settle()
	if c.official {
		c.asm.Last(llm.TextDelta).Add(s)
	} else {
		c.asm.AddMixedText(s)
	}
}

// reasoning adds reasoning. A server that sends it in two members sends the same in both.
func (c *chunks) reasoning(s []byte, meta string) {
	if len(s) == 0 {
		return
	}
	if c.think == "" {
		c.think = meta
	}
	if c.think != meta {
		return
	}
	c.settle()
	p := c.asm.Last(llm.ReasoningDelta)
	if p.Len() == 0 && meta != "" {
		p.Meta = message.Meta{Provider: c.name, Fields: []byte(meta)}
	}
	p.Add(s)
}

func (c *chunks) refusal(s []byte) {
	if len(s) == 0 {
		return
	}
	c.settle()
	p := c.asm.Last(llm.TextDelta)
	if !c.refused && p.Len() > 0 {
		p = c.asm.Open(llm.TextDelta)
	}
	c.refused = true
	p.Meta = message.Meta{Provider: c.name, Fields: []byte(refusalMeta)}
	p.Add(s)
}

// callDelta is what one element of tool_calls says.
type callDelta struct {
	index    int64
	id       string
	name     []byte
	args     []byte
	hasIndex bool
	extra    []byte // members beyond those modelled, without braces
}

func (c *chunks) call(d *wire.Decoder, whole bool) {
	if c.asm.Gone {
		return
	}
	cd := callDelta{index: -1}
	d.Object(func(key []byte) {
		switch string(key) {
		case "index":
			if !d.Null() {
				cd.index, cd.hasIndex = d.Int(), true
			}
		case "id":
			cd.id = d.String()
		case "type":
			d.Skip()
		case "function":
			d.Object(func(key []byte) {
				switch string(key) {
				case "name":
					cd.name = d.Bytes()
				case "arguments":
					if d.IsObject() { // servers that forget to quote it
						cd.args = d.Raw()
					} else {
						cd.args = d.Piece()
					}
				}
			})
		default:
			if !d.Null() {
				cd.extra = wire.AppendMember(cd.extra, key, d.Raw())
			}
		}
	})
	call := c.openCall(&cd, whole)
	c.addName(call, cd.name)
	if cd.extra != nil {
		call.Meta = wire.MetaOf(c.name, cd.extra)
	}
	if len(cd.args) > 0 {
		c.announce(call)
		call.Add(cd.args)
	}
}

// openCall returns the call that a delta continues, or begins a new one. The index identifies the call,
// unless a server uses the same one for all calls: then a new id with a name begins a call. Without an
// index, a new id begins a call or, without an id, a name.
func (c *chunks) openCall(cd *callDelta, whole bool) *openCall {
	if !whole {
		for i := len(c.calls) - 1; i >= 0; i-- {
			if o := &c.calls[i]; cd.continues(o) {
				return o
			}
			if !cd.hasIndex {
				break
			}
		}
	}
	c.settle()
	p := c.asm.Open(llm.CallArgs)
	p.CallID = cd.id
	c.calls = append(c.calls, openCall{Part: p, index: cd.index})
	return &c.calls[len(c.calls)-1]
}

func (cd *callDelta) continues(o *openCall) bool {
	if cd.hasIndex {
		anew := cd.id != "" && cd.id != o.CallID && len(cd.name) > 0 && (o.CallID != "" || o.Announced())
		return cd.index == o.index && !anew
	}
	if cd.id != "" {
		return cd.id == o.CallID
	}
	return len(cd.name) == 0
}

// addName adds a name that comes whole, repeatedly, or in pieces.
func (c *chunks) addName(o *openCall, piece []byte) {
	if len(piece) == 0 || o.Announced() || bytes.Equal(piece, o.name) || !c.asm.Keep(len(piece)) {
		return
	}
	o.name = append(o.name, piece...)
}

// announce fixes the name and the id, which cannot change afterwards.
func (c *chunks) announce(o *openCall) {
	if o.Announced() {
		return
	}
	o.Name = c.tools.Name(string(o.name))
	for i := range c.calls {
		if p := c.calls[i].Part; p != o.Part && p.CallID == o.CallID {
			o.CallID = ""
		}
	}
	if o.CallID == "" {
		o.CallID = wire.NewCallID("call_")
	}
	o.Announce()
}

// extra is a member of the message that will be sent back.
type extra struct {
	key string
	raw []byte
}

// keep joins a member's values in several chunks: lists and strings are concatenated, and of other values
// the last one counts.
func (c *chunks) keep(key string, raw []byte) {
	const each = 64 // bytes, about, that a member takes besides its value
	if len(raw) == 0 || !c.asm.Keep(each+len(key)+len(raw)) {
		return
	}
	if i, there := c.places[key]; there {
		c.extras[i].raw = joined(c.extras[i].raw, raw)
		return
	}
	if c.places == nil {
		c.places = map[string]int{}
	}
	c.places[key] = len(c.extras)
	c.extras = append(c.extras, extra{key, bytes.Clone(raw)})
}

func joined(a, b []byte) []byte {
	switch {
	case bytes.Equal(a, b):
		return a
	case a[0] == '[' && b[0] == '[': // in place, because there may be many
		x, y := bytes.TrimSpace(a[:len(a)-1]), bytes.TrimSpace(b[1:len(b)-1])
		if len(x) > 1 && len(y) > 0 {
			x = append(x, ',')
		}
		return append(append(x, y...), ']')
	case a[0] == '"' && b[0] == '"':
		return append(a[:len(a)-1], b[1:]...)
	}
	return bytes.Clone(b)
}

func (c *chunks) meta() message.Meta {
	var fields []byte
	for _, x := range c.extras {
		fields = wire.AppendMember(fields, x.key, x.raw)
	}
	return wire.MetaOf(c.name, fields)
}

// citations returns the sources that a reply names: OpenAI's annotations, or the list of URLs of some
// compatible servers.
func (c *chunks) citations() (list []message.Citation) {
	for _, x := range c.extras {
		if x.key == "annotations" || x.key == "citations" {
			list = append(list, citationsOf(x.raw)...)
		}
	}
	return list
}

// citationsOf returns the sources in a list of annotations, pages and files, or of URLs.
func citationsOf(notes []byte) (list []message.Citation) {
	d := wire.Decode(notes)
	d.Array(func(int) {
		c := message.Citation{}
		if d.IsObject() {
			c = citation(d)
		} else {
			c.URL = d.String()
		}
		if c != (message.Citation{}) {
			list = append(list, c)
		}
	})
	return list
}

func citation(d *wire.Decoder) (c message.Citation) {
	d.Object(func(key []byte) {
		switch string(key) {
		case "url_citation": // in chat completions
			c = citation(d)
		case "url":
			c.URL = d.String()
		case "title", "filename":
			c.Title = d.String()
		case "content": // OpenRouter: of the page
			c.Text = d.String()
		}
	})
	return c
}

// readUsage reads token counts, in the words of either API.
func readUsage(d *wire.Decoder, u *message.Usage) {
	d.Object(func(key []byte) {
		switch string(key) {
		case "prompt_tokens", "input_tokens":
			u.Input = d.Int()
		case "completion_tokens", "output_tokens":
			u.Output = d.Int()
		case "prompt_cache_hit_tokens", "cached_tokens": // DeepSeek; Moonshot
			u.CacheRead = d.Int()
		case "prompt_tokens_details", "input_tokens_details", "completion_tokens_details", "output_tokens_details":
			readUsage(d, u)
		case "cache_write_tokens": // OpenRouter
			u.CacheWrite = d.Int()
		case "reasoning_tokens":
			u.Reasoning = d.Int()
		}
	})
}

// finish ends the stream, with the reply if it is complete: if there was a finish reason or another mark of the
// end.
func (c *chunks) finish(marked bool) {
	switch {
	case c.ended == "" && !marked:
		c.asm.Fail(c.wire.Broken(nil))
		return
	case c.ended == "error", c.ended == "abort": // OpenRouter; vLLM, SGLang
		c.asm.Fail(c.wire.Broken(errAborted))
		return
	case c.ended == "insufficient_system_resource": // DeepSeek
		c.asm.Fail(c.wire.Fault(wire.CodeOverloaded, "it has too much to do to finish the answer", 0))
		return
	}
	c.asm.Cite(c.citations()...)
	for i := range c.calls {
		o := &c.calls[i]
		c.announce(o)
		if o.Len() == 0 && !cutOff(c.ended) {
			o.Add([]byte("{}")) // a call without arguments
		}
	}
	c.asm.Done(&llm.Reply{Model: c.name + "/" + c.model.model, Stop: c.stop(), Usage: c.usage, Meta: c.asm.Sound(c.meta())})
}

// stop returns the reason why the model stopped. Some servers say "stop" although there are calls, and
// "tool_calls" without any call means that the model was cut off and must continue.
func (c *chunks) stop() message.Stop {
	switch {
	case cutOff(c.ended):
		return message.StopLength
	case c.ended == "content_filter", c.ended == "sensitive", c.refused && len(c.calls) == 0: // the second is Zhipu's
		return message.StopRefused
	case len(c.calls) > 0:
		return message.StopTools
	case c.ended == "tool_calls", c.ended == "function_call":
		return message.StopLength
	case c.sequence:
		return message.StopSequence
	}
	return message.StopEnd
}

// cutOff reports whether a finish reason means that the answer is too long, in the words of any server.
func cutOff(reason string) bool {
	switch strings.ToLower(reason) {
	case "length", "max_tokens", "model_length", "max_output_tokens":
		return true
	}
	return false
}

var errAborted = errors.New("the server gave the answer up")
