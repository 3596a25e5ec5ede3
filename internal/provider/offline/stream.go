package offline

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
)

// tokensOf returns the documented count: one token for every four bytes, rounded up.
func tokensOf(bytes int) int64 { return int64(bytes+3) / 4 }

// messageTokens counts a message's texts, calls and results.
func messageTokens(m *message.Message) int64 {
	n := tokensOf(len(m.Text()))
	for _, c := range m.Calls() {
		n += tokensOf(len(c.Name) + len(c.Args))
	}
	if r := m.Result(); r != nil {
		n += tokensOf(len(r.Plain()))
	}
	return n
}

// writer yields the events of one answer.
type writer struct {
	ctx    context.Context
	yield  func(llm.Event, error) bool
	usage  message.Usage
	closed bool // the consumer has stopped
	strict bool // the model is the strict one
}

// event yields one event. It returns false if the stream must stop.
func (w *writer) event(e llm.Event) bool {
	if w.closed {
		return false
	}
	if err := w.ctx.Err(); err != nil {
		w.closed = true
		w.yield(llm.Event{}, fault.Of(err))
		return false
	}
	w.closed = !w.yield(e, nil)
	return !w.closed
}

// notices yields the notices before the answer: what answers, before the first answer of a conversation,
// and which settings have no effect.
func (w *writer) notices(r *llm.Request, msgs []*message.Message, cur *turn) bool {
	first := !slices.ContainsFunc(msgs, func(m *message.Message) bool {
		return m.Role == message.Assistant || m.Role == message.User && !says(m) // a summary stands for an earlier answer
	})
	for _, n := range []struct {
		applies bool
		text    string
	}{
		{first && r.Schema == nil, Disclosure},
		{r.Sampling.Temperature != nil, "The offline model always answers alike: temperature has no meaning for it."},
		{r.Sampling.Effort != "" && r.Sampling.Effort != llm.EffortNone, "The offline model does not reason: effort has no meaning for it."},
		{cur.images, "The offline model cannot see images; it read the text only."},
	} {
		if n.applies && !w.event(llm.Event{Kind: llm.Notice, Text: n.text}) {
			return false
		}
	}
	return true
}

// text yields an answer, or its rest if its beginning was already yielded.
func (w *writer) text(text, before string, s llm.Sampling) {
	if rest, ok := strings.CutPrefix(text, before); ok {
		text = rest
	}
	stop := message.StopEnd
	for _, seq := range s.Stop {
		if i := strings.Index(text, seq); seq != "" && i >= 0 {
			text, stop = text[:i], message.StopSequence
		}
	}
	if limit := s.MaxTokens * 4; s.MaxTokens > 0 && len(text) > limit {
		text, stop = whole(text, limit), message.StopLength
	}
	for piece := range strings.SplitAfterSeq(text, " ") {
		if !w.event(llm.Event{Kind: llm.TextDelta, Text: piece}) {
			return
		}
	}
	w.usage.Output += tokensOf(len(text))
	var blocks []message.Block
	if text != "" {
		blocks = append(blocks, &message.Text{Text: text})
	}
	w.done(blocks, stop)
}

// calls yields tool calls. A token limit stops it between two calls; the rest follows after the results.
func (w *writer) calls(steps []*step, at, limit int) {
	var blocks []message.Block
	for i, s := range steps {
		call := &message.ToolCall{Name: s.tool.spec.Name, Args: encode(s.args)}
		call.CallID = fmt.Sprintf("call_%d_%d_%08x", at, i, crc32.ChecksumIEEE(append([]byte(call.Name), call.Args...)))
		cost := tokensOf(len(call.Name) + len(call.Args))
		if limit > 0 && w.usage.Output+cost > int64(limit) {
			break
		}
		w.usage.Output += cost
		if !w.event(llm.Event{Kind: llm.CallStart, Block: i, Name: call.Name, CallID: call.CallID}) ||
			!w.event(llm.Event{Kind: llm.CallArgs, Block: i, Text: string(call.Args)}) {
			return
		}
		blocks = append(blocks, call)
	}
	stop := message.StopTools
	if len(blocks) == 0 {
		stop = message.StopLength
	}
	w.done(blocks, stop)
}

func (w *writer) done(blocks []message.Block, stop message.Stop) {
	name := ModelName
	if w.strict {
		name = SentencesName
	}
	w.event(llm.Event{Kind: llm.Done, Reply: &llm.Reply{Model: ProviderName + "/" + name, Blocks: blocks, Stop: stop, Usage: w.usage}})
}
