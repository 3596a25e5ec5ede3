package ollama

import (
	"bytes"
	"context"
	"encoding/base64"
	"iter"
	"net/http"
	"strconv"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
)

type model struct {
	p    *Provider
	name string
}

// Stream implements llm.Model by /api/chat.
func (m *model) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		parts, notices, err := m.body(ctx, r)
		q := wire.Question{Path: "/api/chat", Parts: parts, Notices: notices}
		told := func(ev llm.Event, err error) bool {
			if err != nil {
				err = m.p.remedy(err, m.name)
			}
			return yield(ev, err)
		}
		m.p.client.Ask(ctx, q, err, told, func(asm *wire.Assembly, answer *wire.Answer) {
			w := &writer{Assembly: asm, provider: m.p.name, tools: r.Tools, size: wire.Size(parts), ids: wire.CallIDs{Prefix: mintedPrefix}}
			end, err := m.read(answer, w)
			switch {
			case err != nil:
				w.Fail(err)
			case !w.Gone:
				answer.Finish()
				m.finish(w, end)
			}
		})
	}
}

// read takes the answer's lines up to its end mark, the one with done, which
// it returns.
func (m *model) read(answer *wire.Answer, w *writer) (line, error) {
	for raw, err := range answer.Lines() {
		if err != nil {
			return line{}, err
		}
		l, err := m.line(raw)
		if err != nil {
			return line{}, err
		}
		if w.add(l); l.done || w.Gone {
			return l, nil
		}
	}
	return line{}, m.p.client.Broken(nil)
}

// line reads one line of the stream; an error that it tells is one.
func (m *model) line(raw []byte) (line, error) {
	l, err := readLine(raw)
	if err != nil {
		return l, m.p.client.Malformed(err)
	}
	if l.failed { // an error in the middle of the stream
		status := l.status
		if status < 400 {
			status = http.StatusInternalServerError
		}
		return l, m.p.client.Refused(status, http.Header{}, raw)
	}
	return l, nil
}

func (m *model) finish(w *writer, l line) {
	reply := &llm.Reply{Model: m.p.name + "/" + m.name, Usage: l.usage, Stop: message.StopEnd}
	switch {
	case l.reason == "load" || l.reason == "unload":
		w.Fail(m.p.client.Fault(wire.CodeProvider, "the model was only loaded or unloaded, and did not answer", 0))
		return
	case l.reason == "length":
		reply.Stop = message.StopLength
	case w.ids.Len() > 0:
		reply.Stop = message.StopTools
	}
	w.Done(reply)
}

// line is one line of a stream.
type line struct {
	text, thinking []byte
	calls          []call
	images         [][]byte
	done           bool
	reason         string
	usage          message.Usage
	created        string
	failed         bool
	status         int
}

// call is one tool call; ofCall and ofFunction are members beyond the modelled.
type call struct {
	id, name           string
	args               []byte
	ofCall, ofFunction []byte
}

func readLine(raw []byte) (l line, err error) {
	d := wire.Decode(raw)
	d.Object(func(key []byte) {
		switch string(key) {
		case "message":
			l.message(d)
		case "created_at":
			l.created = d.String()
		case "done":
			l.done = d.Bool()
		case "done_reason":
			l.reason = d.String()
		case "prompt_eval_count":
			l.usage.Input = d.Int()
		case "eval_count":
			l.usage.Output = d.Int()
		case "error":
			l.failed = !d.Null()
		case "status":
			l.status = int(d.Int())
		}
	})
	return l, d.End()
}

func (l *line) message(d *wire.Decoder) {
	d.Object(func(key []byte) {
		switch string(key) {
		case "content":
			l.text = d.Bytes()
		case "thinking":
			l.thinking = d.Bytes()
		case "tool_calls":
			d.Array(func(int) { l.calls = append(l.calls, readCall(d)) })
		case "images":
			d.Array(func(int) {
				if data, err := base64.StdEncoding.DecodeString(d.String()); err == nil {
					l.images = append(l.images, data)
				}
			})
		}
	})
}

func readCall(d *wire.Decoder) call {
	c := call{args: []byte(`{}`)}
	d.Object(func(key []byte) {
		switch string(key) {
		case "id":
			c.id = d.String()
		case "type": // always "function", where it stands
			d.Skip()
		case "function":
			d.Object(func(key []byte) {
				switch string(key) {
				case "name":
					c.name = d.String()
				case "arguments":
					if !d.Null() {
						c.args = bytes.Clone(d.Raw())
					}
				default:
					c.ofFunction = wire.AppendMember(c.ofFunction, key, d.Raw())
				}
			})
		default:
			c.ofCall = wire.AppendMember(c.ofCall, key, d.Raw())
		}
	})
	return c
}

// meta keeps what the call had beyond its modelled members.
func (c call) meta(provider string) message.Meta {
	return wire.MetaOf(provider, wire.AppendNested(wire.AppendNested(nil, "call", c.ofCall), "function", c.ofFunction))
}

// writer puts the message together that a stream brings.
type writer struct {
	*wire.Assembly
	provider string
	tools    *llm.Toolset
	size     int // bytes of what the model was asked: tells its answers apart

	ids      wire.CallIDs
	thoughts wire.Thoughts
	created  string // of the stream's first line
}

// say: a model whose template does not mark its reasoning leaves it in the text.
func (w *writer) say(think, text []byte) {
	if len(think) > 0 {
		w.Last(llm.ReasoningDelta).Add(think)
	}
	if len(text) > 0 {
		w.Last(llm.TextDelta).Add(text)
	}
}

func (w *writer) add(l line) {
	if w.created == "" {
		w.created = l.created
	}
	think, text := w.thoughts.Split(l.text)
	w.say(l.thinking, nil)
	w.say(think, text)
	if l.done {
		w.say(w.thoughts.Rest())
	}
	for _, data := range l.images {
		w.Show(&message.Image{MIME: http.DetectContentType(data), Data: data})
	}
	for _, c := range l.calls {
		p := w.Open(llm.CallArgs)
		p.Meta, p.Name = c.meta(w.provider), w.tools.Name(c.name)
		p.CallID = w.ids.Next(c.id, "ollama", w.created, strconv.Itoa(w.size))
		p.Add(c.args)
	}
}
