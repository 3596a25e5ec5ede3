package anthropic

import (
	"bytes"
	"fmt"
	"slices"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// Thinking budgets for models that require one, in tokens: at least minBudget and less than
// max_tokens.
const (
	budgetLow    = 4096
	budgetMedium = 12000
	budgetHigh   = 24000
	minBudget    = 1024
)

// cacheMark asks the API to cache the prompt up to here.
const cacheMark = `,"cache_control":{"type":"ephemeral"}`

// body is a request that is being written.
type body struct {
	*model
	r       *llm.Request
	out     wire.Members // after the messages
	notices []string
	forced  bool // a tool must be used
	thinks  bool // thinking is asked for or on by default
}

// encode returns the request's body in parts. Notices about what it could not express are in body.
func (m *model) encode(r *llm.Request) (*body, [][]byte, error) {
	b := &body{model: m, r: r}
	if r.Schema != nil && !m.native {
		return b, nil, m.wire.Fault(wire.CodeNoSchema, m.model+" cannot be held to a schema", 0)
	}
	b.settings()
	tools, err := b.tools()
	if err != nil {
		return nil, nil, err
	}
	head := wire.Append(nil, `{"model":$,"stream":true`, m.model)
	if m.opt.Head != "" {
		head = []byte("{" + m.opt.Head)
	}
	if !blank(r.System) {
		head = wire.Append(head, `,"system":[{"type":"text","text":$`+cacheMark+`}]`, r.System)
	}
	head = append(head, `,"messages":[`...)
	opening, kept, tail, err := b.messages()
	if err != nil {
		return nil, nil, err
	}
	parts := [][]byte{append(head, opening...), kept, append(tail, ']')}
	if tools != nil {
		parts = append(parts, tools...)
	}
	return b, append(parts, []byte{','}, b.out, []byte{'}'}), nil
}

// messages encodes the transcript. The API requires a user's message first and, for newer models,
// last. The cache mark goes on the last block, because the cached encoding must not change.
func (b *body) messages() (opening string, kept, tail []byte, err error) {
	enc := encoder{provider: b.name}
	codec := b.name + ":anthropic"
	if b.thinks {
		enc.model, codec = b.full, b.full+":anthropic"
	}
	kept, tail, err = b.r.Transcript.Encoded(codec, enc.group)
	if err != nil {
		return "", nil, nil, err
	}
	b.notices = append(b.notices, enc.notices...)
	first := tail
	if len(kept) > 0 {
		first = kept
	}
	if !bytes.HasPrefix(first, []byte(userTurn)) {
		opening = `{"role":"user","content":[{"type":"text","text":"` + wire.NoContent + `"}]}`
		if len(kept)+len(tail) > 0 {
			opening += ","
		}
	}
	if bytes.HasPrefix(tail, []byte(modelTurn)) {
		tail = append(tail, `,{"role":"user","content":[{"type":"text","text":"Continue."}]}`...)
	}
	tail = wire.After(kept, tail)
	if end := `}]}`; bytes.HasSuffix(tail, []byte(end)) {
		tail = append(tail[:len(tail)-len(end)], cacheMark+end...)
	}
	return opening, kept, tail, nil
}

// tools returns the member tools in parts, or nil if there is none. The API requires definitions of
// the tools that the history has calls of.
func (b *body) tools() ([][]byte, error) {
	var list []byte
	var err error
	if len(b.r.Tools.Specs()) > 0 {
		if list, err = b.r.Tools.Encoded("anthropic", encodeTools); err != nil {
			return nil, err
		}
		list = b.hosted(list[:len(list):len(list)])
	} else if list = mentionedTools(b.r.Transcript); list == nil {
		return nil, nil
	} else {
		b.out.Raw("tool_choice", []byte(`{"type":"none"}`))
	}
	end := []byte("]")
	if blank(b.r.System) { // else the mark on the system prompt covers the tools
		list = list[: len(list)-1 : len(list)-1]
		end = []byte(cacheMark + "}]")
	}
	return [][]byte{[]byte(`,"tools":[`), list, end}, nil
}

// maxUses bounds how often a tool of Anthropic's own is used in one request, and maxFetched the
// tokens of a page that it fetches.
const (
	maxUses    = 8
	maxFetched = 50_000
)

// hosted appends Anthropic's own tools, in the versions that all models have.
//
// Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools.
func (b *body) hosted(list []byte) []byte {
	for _, t := range b.opt.Tools {
		switch t {
		case "web_search":
			list = fmt.Appendf(list, `,{"type":"web_search_20250305","name":"web_search","max_uses":%d}`, maxUses)
		case "web_fetch":
			list = fmt.Appendf(list, `,{"type":"web_fetch_20250910","name":"web_fetch","max_uses":%d,"max_content_tokens":%d,"citations":{"enabled":true}}`, maxUses, maxFetched)
		case "code_execution":
			list = append(list, `,{"type":"code_execution_20250825","name":"code_execution"}`...)
		}
	}
	return list
}

// mentionedTools returns definitions, by name only, of the tools that the messages have calls of.
func mentionedTools(t *llm.Transcript) (list []byte) {
	head, tail := wire.Fold(t, "anthropic/called", func(dst []byte, group []*message.Message) []byte {
		for _, m := range group {
			for _, c := range m.Calls() {
				dst = wire.AppendString(wire.Comma(dst), toolName(c.Name))
			}
		}
		return dst
	})
	seen := map[string]bool{}
	d := wire.Decode(wire.Append(nil, `[$$]`, head, wire.After(head, tail)))
	d.Array(func(int) {
		if name := d.String(); !seen[name] {
			seen[name] = true
			list = appendTool(list, name, "", nil)
		}
	})
	return list
}

// encodeTools returns the tools, separated by commas.
func encodeTools(specs []tool.Spec) ([]byte, error) {
	var out []byte
	for _, s := range specs {
		out = appendTool(out, tool.WireName(s.Name), s.Description, s.Input)
	}
	return out, nil
}

func appendTool(dst []byte, name, description string, schema []byte) []byte {
	dst = wire.Append(wire.Comma(dst), `{"name":$`, name)
	if description != "" {
		dst = wire.Append(dst, `,"description":$`, description)
	}
	return append(wire.AppendObjectSchema(append(dst, `,"input_schema":`...), schema), '}')
}

// settings adds the members beside model, system, messages and tools.
func (b *body) settings() {
	s := b.r.Sampling
	b.choice()
	limit := s.MaxTokens
	if limit <= 0 {
		limit = b.maxTokens
	}
	b.out.Int("max_tokens", int64(limit))
	effort := b.effort(s.Effort, limit)
	b.temperature(s.Temperature)
	b.addTopP(s)
	b.stop(s.Stop)
	b.outputConfig(effort)
	if b.r.User != "" {
		b.out.Raw("metadata", wire.Append(nil, `{"user_id":$}`, wire.Opaque(b.r.User)))
	}
}

func (b *body) notice(s string) { b.notices = append(b.notices, b.full+" "+s) }

// choice adds tool_choice. Models that always think cannot be forced to use a tool.
func (b *body) choice() {
	switch c := b.r.ToolChoice; {
	case len(b.r.Tools.Specs()) == 0, c == "", c == "auto":
	case c == "none":
		b.out.Raw("tool_choice", []byte(`{"type":"none"}`))
	case b.off == offNever || b.off == offBetween:
		b.notice("cannot be made to use a tool; it was left to choose.")
	case c == "required":
		b.forced = true
		b.out.Raw("tool_choice", []byte(`{"type":"any"}`))
	default:
		b.forced = true
		b.out.Raw("tool_choice", wire.Append(nil, `{"type":"tool","name":$}`, tool.WireName(c)))
	}
}

// effort adds the member thinking and returns the effort for output_config.
func (b *body) effort(e llm.Effort, limit int) string {
	asked := e != "" && e != llm.EffortNone
	if b.forced && asked && b.thinking != unable {
		b.notice("cannot think when it must use a tool; it was asked not to.")
		asked, e = false, llm.EffortNone
	}
	if b.forced {
		e = llm.EffortNone
	}
	switch {
	case asked && b.thinking == unable:
		b.notice("does not know reasoning effort; it was left out.")
	case asked && b.thinking == budget:
		b.budget(e, limit)
	case b.thinking == adaptive && (asked || e == "" && b.bound):
		b.adapt(asked)
		return string(e)
	case e == llm.EffortNone:
		return b.turnOff()
	default:
		b.thinks = e == "" // its own thinking is sent back, whatever its default is
	}
	return ""
}

func (b *body) turnOff() string {
	switch b.off {
	case offType:
		b.out.Raw("thinking", []byte(`{"type":"disabled"}`))
	case offBetween:
		b.out.Raw("thinking", []byte(`{"type":"between_tools"}`))
	case offNever:
		b.notice("always thinks; it does so at low effort.")
		b.adapt(false)
		return string(llm.EffortLow)
	}
	return ""
}

// adapt lets the model decide how much to think.
func (b *body) adapt(shown bool) {
	b.thinks = true
	thinking := wire.Members(`"type":"adaptive"`)
	if shown {
		thinking.String("display", "summarized")
	}
	if b.bound {
		thinking.Raw("block_binding", []byte(`{"prefix_mismatch_behavior":"drop_block"}`))
	}
	b.out = wire.AppendNested(b.out, "thinking", thinking)
}

// budget turns on thinking with a budget. The API does not allow this in the middle of a turn that
// began without thinking.
func (b *body) budget(e llm.Effort, limit int) {
	tokens := map[llm.Effort]int{llm.EffortLow: budgetLow, llm.EffortMedium: budgetMedium, llm.EffortHigh: budgetHigh}[e]
	tokens = min(tokens, limit-1)
	switch {
	case tokens < minBudget:
		b.notice("has too few tokens to think; it answers without.")
		return
	case !b.mayThink():
		return
	}
	b.thinks = true
	b.out.Raw("thinking", fmt.Appendf(nil, `{"type":"enabled","budget_tokens":%d}`, tokens))
}

// mayThink reports whether the current turn, if there is one, has thinking that can be sent back. Each
// message is cached as a letter: r for a result, s and n for a message of the model with and without
// such thinking.
func (b *body) mayThink() bool {
	enc := encoder{provider: b.name, model: b.full}
	head, tail := wire.Fold(b.r.Transcript, "anthropic/thought:"+b.full, func(dst []byte, group []*message.Message) []byte {
		for _, m := range group {
			switch {
			case m.Role == message.Tool:
				dst = append(dst, 'r')
			case m.Role != message.Assistant || isEmpty(m):
			case enc.signed(m):
				dst = append(dst, 's')
			default:
				dst = append(dst, 'n')
			}
		}
		return dst
	})
	results := false // a result follows the message
	for _, letters := range [][]byte{tail, head} {
		for _, c := range slices.Backward(letters) {
			switch c {
			case 'r':
				results = true
			case 's', 'n':
				if !results || c == 'n' {
					return !results
				}
				results = false
			}
		}
	}
	return true
}

func (b *body) temperature(t *float64) {
	switch {
	case t == nil:
	case !b.sampling && *t == 1:
	case !b.sampling:
		b.notice("does not know temperature; it was left out.")
	case b.thinks && bytes.Contains(b.out, []byte(`"thinking":`)) && *t != 1:
		b.notice("does not take a temperature when it thinks; it was left out.")
	case *t > 1:
		b.notice("takes temperatures up to 1; it was set to 1.")
		b.out.Int("temperature", 1)
	default:
		b.out.Float("temperature", *t)
	}
}

// addTopP adds top_p, the only one of the finer settings that Anthropic knows. It is not allowed beside a
// temperature or while a model thinks.
func (b *body) addTopP(s llm.Sampling) {
	switch {
	case s.TopP == nil:
	case !b.sampling, s.Temperature != nil, bytes.Contains(b.out, []byte(`"thinking":`)):
		b.notice("does not take top_p here; it was left out.")
	default:
		b.out.Float("top_p", *s.TopP)
	}
	if s.Seed != nil || s.FrequencyPenalty != nil || s.PresencePenalty != nil {
		b.notice("does not know seed and penalties; they were left out.")
	}
}

// stop adds the stop sequences. The API refuses sequences of only white space.
func (b *body) stop(all []string) {
	all, _ = wire.Stops(all, 0)
	list := slices.DeleteFunc(slices.Clone(all), blank)
	if len(list) < len(all) {
		b.notice("does not take stop sequences of white space; they were left out.")
	}
	if len(list) > 0 {
		b.out.Raw("stop_sequences", wire.AppendStrings(nil, list))
	}
}

func (b *body) outputConfig(effort string) {
	var config wire.Members
	if effort != "" {
		config.String("effort", effort)
	}
	if b.r.Schema != nil {
		config.Raw("format", wire.Append(nil, `{"type":"json_schema","schema":$}`, adaptSchema(b.r.Schema.JSON)))
	}
	b.out = wire.AppendNested(b.out, "output_config", config)
}
