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

// reader reads one answer, as a stream or, from a server that does not stream, whole.
type reader interface {
	stream(answer *wire.Answer)
	readWhole(body []byte)
}

// Stream implements llm.Model.
func (m *model) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		parts, notices, err := m.encode(r)
		q := wire.Question{Path: "/chat/completions", Parts: parts, Notices: notices}
		if m.responses {
			q.Path = "/responses"
		}
		m.wire.Ask(ctx, q, err, yield, func(asm *wire.Assembly, answer *wire.Answer) {
			asm.Tools = r.Tools
			var in reader = &chunks{model: m, asm: asm, tools: r.Tools}
			if m.responses {
				in = &outputs{model: m, asm: asm, tools: r.Tools, items: map[int64]*item{}, ids: wire.CallIDs{Prefix: "call_"}}
			}
			if !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") {
				in.stream(answer)
			} else if body, err := answer.All(); err != nil {
				asm.Fail(err)
			} else {
				in.readWhole(body)
			}
		})
	}
}
