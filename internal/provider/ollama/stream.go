package ollama

import (
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
			asm.Tools = r.Tools
			w := &writer{Assembly: asm, tools: r.Tools, size: wire.Size(parts), ids: wire.CallIDs{Prefix: mintedPrefix}}
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

// read reads the answer's lines up to its end mark, the one with done, which it returns.
func (m *model) read(answer *wire.Answer, w *writer) (line, error) {
	for raw, err := range answer.Lines() {
		if err != nil {
			return line{}, err
		}
		l, err := m.line(raw)
		if err != nil {
			return line{}, err
		}
		if w.add(l); l.done || l.reason != "" || w.Gone {
			return l, nil
		}
	}
	return line{}, m.p.client.Broken(nil)
}

// line reads one line of the stream. If the line reports an error, that is returned.
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
	reply := &llm.Reply{Model: provider + "/" + m.name, Usage: l.usage, Stop: message.StopEnd}
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
	calls          []wire.Value
	images         [][]byte
	done           bool
	reason         string
	usage          message.Usage
	created        string
	failed         bool
	status         int
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
			l.text = d.Piece()
		case "thinking":
			l.thinking = d.Piece()
		case "tool_calls":
			d.Array(func(int) { l.calls = append(l.calls, wire.Leniently(d.Raw())) })
		case "images":
			d.Array(func(int) {
				if data, err := base64.StdEncoding.DecodeString(d.String()); err == nil {
					l.images = append(l.images, data)
				}
			})
		}
	})
}

// writer assembles the message of a stream.
type writer struct {
	*wire.Assembly
	tools *llm.Toolset
	size  int // bytes of the request, which identify the answer

	ids     wire.CallIDs
	created string // of the stream's first line
}

func (w *writer) add(l line) {
	if w.created == "" {
		w.created = l.created
	}
	if len(l.thinking) > 0 {
		w.Last(llm.ReasoningDelta).Add(l.thinking)
	}
	w.AddMixedText(l.text)
	for _, data := range l.images {
		w.Show(&message.Image{MIME: http.DetectContentType(data), Data: data})
	}
	for _, v := range l.calls {
		c, p := readCall(v), w.Open(llm.CallArgs)
		p.Meta, p.Name = c.Meta, w.tools.Name(c.Name)
		p.CallID = w.ids.Next(c.CallID, "ollama", w.created, strconv.Itoa(w.size))
		if len(c.Args) == 0 {
			c.Args = []byte(`{}`)
		}
		p.Add(c.Args)
	}
}
