package openai

import (
	"context"
	"iter"
	"strings"

	"steward/internal/llm"
	"steward/internal/provider/wire"
)

type model struct {
	*Provider
	model string
}

// Stream implements llm.Model.
func (m *model) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	if m.responses {
		return m.respond(ctx, r)
	}
	return func(yield func(llm.Event, error) bool) {
		parts, notices, err := m.encode(r)
		m.wire.Ask(ctx, wire.Question{Path: "/chat/completions", Parts: parts, Notices: notices}, err, yield, func(asm *wire.Assembly, answer *wire.Answer) {
			c := &chunks{model: m, asm: asm, tools: r.Tools}
			if strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") {
				c.readWhole(answer)
				return
			}
			c.readStream(answer)
		})
	}
}

// readStream reads up to [DONE] or, from servers without this mark, to the end of the body once there was
// a finish reason.
func (c *chunks) readStream(answer *wire.Answer) {
	for ev, err := range answer.Events() {
		switch {
		case err != nil:
			c.asm.Fail(err)
		case string(ev.Data) == "[DONE]":
			c.finish()
			answer.Finish()
			return
		case len(ev.Data) > 0:
			c.read(ev.Data)
		}
		if c.asm.Gone {
			return
		}
	}
	c.finish()
}

// readWhole reads the answer of a server that does not stream.
func (c *chunks) readWhole(answer *wire.Answer) {
	body, err := answer.All()
	if err != nil {
		c.asm.Fail(err)
		return
	}
	if c.read(body); !c.asm.Gone {
		c.finish()
	}
}
