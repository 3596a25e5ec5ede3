package offline

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"unicode/utf8"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
)

// tokensOf is the documented count: a token for every four bytes begun.
func tokensOf(bytes int) int64 { return int64(bytes+3) / 4 }

// input counts what the model is shown: the system prompt, the texts, calls
// and results of the messages, the tools and the schema.
func (p *Provider) input(r *llm.Request, msgs []*message.Message) message.Usage {
	n := tokensOf(len(r.System))
	for _, m := range msgs {
		for _, b := range m.Blocks {
			n += tokensOf(blockBytes(b))
		}
	}
	if r.Tools != nil {
		n += p.indexes.of(r.Tools).tokens
	}
	if r.Schema != nil {
		n += tokensOf(len(r.Schema.JSON))
	}
	return message.Usage{Input: n}
}

func blockBytes(b message.Block) int {
	switch b := b.(type) {
	case *message.Text:
		return len(b.Text)
	case *message.ToolCall:
		return len(b.Name) + len(b.Args)
	case *message.ToolResult:
		n := 0
		for _, c := range b.Content {
			n += blockBytes(c)
		}
		return n
	}
	return 0
}

// writer yields the events of one answer.
type writer struct {
	ctx   context.Context
	yield func(llm.Event, error) bool
	usage message.Usage
}

// event yields one event; false means to stop.
func (w *writer) event(e llm.Event) bool {
	if err := w.ctx.Err(); err != nil {
		w.yield(llm.Event{}, fault.Of(err))
		return false
	}
	return w.yield(e, nil)
}

// notices says what the user should know before the answer: in the first
// answer of a conversation what answers, and which settings mean nothing here.
func (w *writer) notices(r *llm.Request, msgs []*message.Message, turns []*turn) bool {
	var out []string
	first := true
	for _, m := range msgs {
		if m.Role == message.Assistant {
			first = false
			break
		}
	}
	if first && r.Schema == nil {
		out = append(out, Disclosure)
	}
	if r.Sampling.Temperature != nil {
		out = append(out, "The offline model always answers alike: temperature has no meaning for it.")
	}
	if r.Sampling.Effort != "" && r.Sampling.Effort != llm.EffortNone {
		out = append(out, "The offline model does not reason: effort has no meaning for it.")
	}
	if turns[len(turns)-1].images {
		out = append(out, "The offline model cannot see images; it read the text only.")
	}
	for _, text := range out {
		if !w.event(llm.Event{Kind: llm.Notice, Text: text}) {
			return false
		}
	}
	return true
}

// text writes an answer, from where an earlier part of it was cut.
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
		for limit > 0 && !utf8.RuneStart(text[limit]) {
			limit--
		}
		text, stop = text[:limit], message.StopLength
	}
	for _, piece := range pieces(text) {
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

// pieces cuts a text behind its spaces.
func pieces(text string) []string {
	var out []string
	for text != "" {
		n := strings.IndexByte(text, ' ') + 1
		if n == 0 || n > 64 {
			n = min(len(text), 64)
			for n < len(text) && n > 0 && !utf8.RuneStart(text[n]) {
				n--
			}
		}
		n = max(n, 1)
		out, text = append(out, text[:n]), text[n:]
	}
	return out
}

// calls writes tool calls. A limit on tokens cuts between calls, never within one.
func (w *writer) calls(steps []*step, at, limit int) {
	var blocks []message.Block
	stop := message.StopTools
	for i, s := range steps {
		args := encode(s.args)
		cost := tokensOf(len(s.tool.spec.Name) + len(args))
		if limit > 0 && w.usage.Output+cost > int64(limit) {
			if i == 0 && !w.event(llm.Event{Kind: llm.Notice, Text: fmt.Sprintf("The limit of %d output tokens is too small for the call of %s.", limit, s.tool.spec.Name)}) {
				return
			}
			stop = message.StopLength
			break
		}
		w.usage.Output += cost
		call := &message.ToolCall{CallID: callID(at, i, s.tool.spec.Name, args), Name: s.tool.spec.Name, Args: args}
		if !w.event(llm.Event{Kind: llm.CallStart, Block: i, Name: call.Name, CallID: call.CallID}) {
			return
		}
		for _, piece := range pieces(string(args)) {
			if !w.event(llm.Event{Kind: llm.CallArgs, Block: i, Text: piece}) {
				return
			}
		}
		blocks = append(blocks, call)
	}
	if stop == message.StopLength && len(blocks) > 0 {
		stop = message.StopTools // those that fit are whole; the rest follows their results
	}
	w.done(blocks, stop)
}

// callID is the same for the same call at the same place of a conversation,
// and differs from all others.
func callID(at, i int, name string, args []byte) string {
	h := fnv.New32a()
	h.Write([]byte(name)) // a hash's Write does not fail
	h.Write(args)
	return fmt.Sprintf("call_%d_%d_%08x", at, i, h.Sum32())
}

func (w *writer) done(blocks []message.Block, stop message.Stop) {
	w.event(llm.Event{Kind: llm.Done, Reply: &llm.Reply{Model: ProviderName + "/" + ModelName, Blocks: blocks, Stop: stop, Usage: w.usage}})
}
