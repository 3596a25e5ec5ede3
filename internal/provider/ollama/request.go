package ollama

import (
	"context"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// body returns the request in parts to be sent one after the other, and what
// of it Ollama cannot do.
func (m *model) body(ctx context.Context, r *llm.Request) (parts [][]byte, notices []string, err error) {
	b := &builder{p: m.p, name: m.name, r: r}
	b.facts(ctx)
	enc := encoder{provider: m.p.name, blind: b.images && !b.f.sees()}
	if enc.blind && slices.ContainsFunc(newest(r.Transcript), isImage) {
		return nil, nil, m.p.client.Fault(wire.CodeNoImages, m.name+" takes no images", 0).
			WithHint("choose a model that sees, such as one that `ollama show` lists with the capability vision")
	}
	head, tail, err := r.Transcript.Encoded(enc.codec(), enc.group)
	if err != nil {
		return nil, nil, err
	}
	start := wire.AppendString([]byte(`{"model":`), m.name)
	start = append(start, `,"messages":[`...)
	if system := b.system(); system != "" {
		start = append(start, `{"role":"system","content":`...)
		start = wire.AppendString(start, system)
		start = append(start, '}')
		if len(head)+len(tail) > 0 {
			start = append(start, ',')
		}
	}
	if len(head)+len(tail) == 0 {
		return nil, nil, fault.New(fault.Invalid, wire.CodeRefused, "%s: the conversation has nothing to answer", m.p.name)
	}
	between := ""
	if len(head) > 0 && len(tail) > 0 {
		between = ","
	}
	var end []byte
	if _, last := wire.Ends(r.Transcript); last { // cut by length
		end = append(end, `,{"role":"user","content":"Continue exactly where you stopped."}`...)
	}
	end, err = b.rest(append(end, `],"stream":true,"truncate":false,"shift":false`...))
	if err != nil {
		return nil, nil, err
	}
	b.unsendable()
	return [][]byte{start, head, []byte(between), tail, end}, b.notices, nil
}

// builder gathers a request and what of it cannot be had.
type builder struct {
	p       *Provider
	name    string
	r       *llm.Request
	f       facts
	images  bool // there is a picture somewhere in the transcript
	notices []string
}

func (b *builder) notice(s string) { b.notices = append(b.notices, s) }

// facts asks what the model can do, if that matters for this request. A server
// that cannot tell is taken for one whose model can do all.
func (b *builder) facts(ctx context.Context) {
	b.images = hasImage(b.r.Transcript)
	if b.images || b.r.Sampling.Effort != "" {
		b.f = b.p.known(ctx, b.name)
	}
}

// tools returns the tools to be offered.
func (b *builder) tools() []tool.Spec {
	if b.r.ToolChoice == "none" {
		return nil
	}
	return b.r.Tools.Specs()
}

// loose reports whether structured output is asked for together with tools:
// Ollama's format would keep the model from calling any, so it is asked for in
// words.
func (b *builder) loose() bool { return b.r.Schema != nil && len(b.tools()) > 0 }

func (b *builder) system() string {
	if !b.loose() {
		return b.r.System
	}
	return wire.InWords(b.r)
}

// rest appends what follows the messages. Ollama would drop old messages
// without a word when the context is full (truncate, shift): Steward has it
// refuse, and keeps the window itself.
func (b *builder) rest(dst []byte) ([]byte, error) {
	if len(b.tools()) > 0 {
		list, err := b.r.Tools.Encoded("ollama", encodeTools)
		if err != nil {
			return nil, err
		}
		dst = append(dst, `,"tools":`...)
		dst = append(dst, list...)
		if c := b.r.ToolChoice; c != "" && c != "auto" {
			b.notice("Ollama cannot be told to call a tool: the model chooses.")
		}
	}
	switch {
	case b.loose():
		b.notice("Ollama cannot hold a model to a schema while it has tools: it is asked in words.")
	case b.r.Schema != nil:
		if !wire.IsObject(b.r.Schema.JSON) {
			return nil, fault.New(fault.Invalid, wire.CodeRefused, "the schema %s is not a JSON object", b.r.Schema.Name)
		}
		dst = append(dst, `,"format":`...)
		dst = append(dst, b.r.Schema.JSON...)
	}
	dst = b.think(dst)
	dst = b.p.appendKeepAlive(dst)
	dst = b.options(dst)
	return append(dst, '}'), nil
}

// think appends the field of that name: a level for gpt-oss, which cannot stop
// thinking, a boolean for others (https://docs.ollama.com/capabilities/thinking).
func (b *builder) think(dst []byte) []byte {
	effort := b.r.Sampling.Effort
	levels := strings.Contains(b.name, "gpt-oss")
	switch {
	case effort == "":
	case b.f.capabilities != nil && !b.f.capabilities["thinking"]:
		if effort != llm.EffortNone {
			b.notice(b.name + " does not think: the reasoning effort is not sent.")
		}
	case levels && effort == llm.EffortNone:
		b.notice(b.name + " cannot stop thinking: the reasoning effort is low instead.")
		dst = append(dst, `,"think":"low"`...)
	case levels:
		dst = append(dst, `,"think":`...)
		dst = wire.AppendString(dst, string(effort))
	case effort == llm.EffortNone:
		dst = append(dst, `,"think":false`...)
	default:
		b.notice(b.name + " thinks or does not: it knows no reasoning effort " + string(effort) + ".")
		dst = append(dst, `,"think":true`...)
	}
	return dst
}

// options appends the options, if there are any.
func (b *builder) options(dst []byte) []byte {
	var o wire.Members
	o.Sampling(names, b.r.Sampling, 0)
	if b.p.numCtx > 0 {
		o.Int("num_ctx", int64(b.p.numCtx))
	}
	if len(o) == 0 {
		return dst
	}
	return append(append(append(dst, `,"options":{`...), o...), '}')
}

// names are those of the options.
var names = wire.Names{Temperature: "temperature", TopP: "top_p", Frequency: "frequency_penalty", Presence: "presence_penalty",
	Seed: "seed", MaxTokens: "num_predict", Stop: "stop"}

// unsendable tells of pictures and files of the newest turn that Ollama cannot
// be given.
func (b *builder) unsendable() {
	for _, block := range newest(b.r.Transcript) {
		switch block := block.(type) {
		case *message.Image:
			if imageData(block) == nil {
				b.notice("Ollama does not fetch pictures from the web: the model was told only that there is one.")
				return
			}
		case *message.File:
			if _, whole := wire.FileText(block); !whole {
				b.notice("Ollama takes text files only: the model was told only that there is a file.")
				return
			}
		}
	}
}

// newest returns the blocks of what came after the last answer.
func newest(t *llm.Transcript) (out []message.Block) {
	for _, m := range wire.Newest(t) {
		out = append(out, m.Blocks...)
	}
	return out
}

func isImage(b message.Block) bool { _, ok := b.(*message.Image); return ok }

// hasImage reports whether there is a picture anywhere.
func hasImage(t *llm.Transcript) bool {
	head, tail := wire.Fold(t, "ollama/images", func(dst []byte, group []*message.Message) []byte {
		for _, m := range group {
			r := m.Result()
			if slices.ContainsFunc(m.Blocks, isImage) || r != nil && slices.ContainsFunc(r.Content, isImage) {
				return append(dst, '1')
			}
		}
		return dst
	})
	return len(head)+len(tail) > 0
}

func encodeTools(specs []tool.Spec) ([]byte, error) {
	return wire.Functions(specs, func(s tool.Spec) ([]byte, error) {
		if len(s.Input) > 0 && !wire.IsObject(s.Input) {
			return nil, fault.New(fault.Invalid, wire.CodeRefused, "the schema of the tool %s is not a JSON object", s.Name)
		}
		return appendParameters(nil, s.Input), nil
	})
}

// appendParameters appends a tool's schema as Ollama reads it: with type and
// properties always there, and each property an object (Ollama refuses the
// schemas true and false).
func appendParameters(dst, schema []byte) []byte {
	return wire.AppendObjectSchema(dst, wire.AdaptSchema(schema, "{}", func(list []wire.Keyword) []wire.Keyword { return list }))
}
