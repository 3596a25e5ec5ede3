package gemini

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
)

type model struct {
	p      *Provider
	name   string
	family family
}

// Stream implements llm.Model by streamGenerateContent.
func (m *model) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		parts, notices, err := m.body(r)
		q := wire.Question{Path: path(m.name) + ":streamGenerateContent?alt=sse", Parts: parts, Notices: notices}
		m.p.client.Ask(ctx, q, err, yield, func(asm *wire.Assembly, answer *wire.Answer) {
			asm.Tools = r.Tools
			w := &writer{Assembly: asm, provider: m.p.name, loose: m.p.loose || !strings.HasPrefix(strings.TrimPrefix(m.name, "models/"), "gemini"), tools: r.Tools, size: wire.Size(parts), ids: wire.CallIDs{Prefix: mintedPrefix}}
			if err := m.read(answer, w); err != nil {
				w.Fail(err)
			} else if reply, err := m.finish(w); err != nil {
				w.Fail(err)
			} else {
				answer.Finish()
				w.Done(reply)
			}
		})
	}
}

// read reads the answer's events. The end mark is a finishReason. Only usage may follow it, so a
// connection that breaks after it loses nothing of the answer.
func (m *model) read(answer *wire.Answer, w *writer) error {
	for ev, err := range answer.Events() {
		switch {
		case err != nil && w.finish != "" && !fault.Is(err, fault.Cancelled):
			return nil
		case err == nil && string(ev.Data) == doneMark:
			w.done = true
			return nil
		case err == nil:
			err = m.step(w, ev.Data)
		}
		if err != nil || w.Gone {
			return err
		}
	}
	return nil
}

// doneMark is the last event of gateways that know OpenAI's form of a stream. They may drop the finishReason.
const doneMark = "[DONE]"

// step reads one event of the stream.
func (m *model) step(w *writer, data []byte) error {
	c, err := readChunk(data)
	if err != nil {
		return m.p.client.Malformed(err)
	}
	if c.failed != nil { // an error in the middle of the stream
		e, _ := wire.ReadAPIError(c.failed)
		status := e.Number
		if status < 400 {
			status = http.StatusInternalServerError
		}
		return m.p.client.Refused(status, http.Header{}, c.failed)
	}
	w.add(c)
	return nil
}

// errBadCall is the error for a call that Gemini itself could not read. The request may be retried
// (https://ai.google.dev/api/generate-content#FinishReason).
var errBadCall = errors.New("the model wrote a call that Gemini could not read")

// finish returns the reply of a stream that has ended.
func (m *model) finish(w *writer) (*llm.Reply, error) {
	sources, searches := grounding(w.grounds)
	w.Cite(append(sources, pages(w.pages)...)...)
	w.usage.Searches = searches
	reply := &llm.Reply{Model: m.p.name + "/" + m.name, Usage: w.usage}
	var members []byte
	if w.grounds != nil {
		members = wire.AppendMember(members, "groundingMetadata", w.grounds)
	}
	if w.pages != nil {
		members = wire.AppendMember(members, "urlContextMetadata", w.pages)
	}
	if members != nil {
		reply.Meta = w.Sound(wire.MetaOf(m.p.name, members))
	}
	if w.finish == "" && w.blocked == "" && w.done {
		w.finish = "STOP"
	}
	switch w.finish {
	case "":
		if w.blocked == "" {
			return nil, m.p.client.Broken(nil)
		}
		reply.Stop = message.StopRefused
		w.Notice("Gemini refused the prompt (" + w.blocked + ").")
	case "STOP", "FUNCTION_CALL": // the second is what some gateways write
		reply.Stop = message.StopEnd
		if w.ids.Len() > 0 {
			reply.Stop = message.StopTools
		}
	case "MAX_TOKENS", "CONTINUATION":
		reply.Stop = message.StopLength
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE":
		e := m.p.client.Fault(wire.CodeProvider, errBadCall.Error()+" ("+w.finish+"): "+w.why, 0)
		e.Cause = errBadCall
		return nil, e
	default: // SAFETY, RECITATION, LANGUAGE, BLOCKLIST, PROHIBITED_CONTENT, SPII, OTHER, IMAGE_…
		reply.Stop = message.StopRefused
		w.Notice(strings.TrimSpace("Gemini stopped its answer (" + w.finish + "). " + w.why))
	}
	return reply, nil
}
