package anthropic

import (
	"bytes"
	"slices"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// answerTool is the tool by which models without structured output are made
// to answer in a schema.
const answerTool = "structured_answer"

// Budgets of thinking for models that are told one, in tokens; at least
// minBudget, and less than max_tokens.
const (
	budgetLow    = 4096
	budgetMedium = 12000
	budgetHigh   = 24000
	minBudget    = 1024
)

// cacheMark asks for the prompt up to here to be cached.
const cacheMark = `,"cache_control":{"type":"ephemeral"}`

// body is a request that is being written.
type body struct {
	*model
	r       *llm.Request
	out     wire.Members // after the messages
	notices []string
	forced  bool // a tool must be used
	thinks  bool // thinking is asked for or on by default
	answer  bool // by answerTool
}

// encode returns the request's body in pieces, and what could not be said in it.
func (m *model) encode(r *llm.Request) (*body, [][]byte, error) {
	b := &body{model: m, r: r}
	b.answer = r.Schema != nil && !m.native
	b.settings()
	tools, err := b.tools()
	if err != nil {
		return nil, nil, err
	}
	head := make([]byte, 0, 256+len(r.System))
	head = append(head, `{"model":`...)
	head = wire.AppendString(head, m.model)
	head = append(head, `,"stream":true`...)
	if !blank(r.System) {
		head = append(head, `,"system":[{"type":"text","text":`...)
		head = wire.AppendString(head, r.System)
		head = append(append(head, cacheMark...), `}]`...)
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

// messages encodes the transcript. The API wants a user's message first and,
// from newer models on, last; and the mark for the cache goes on what is last,
// because what is kept may not change.
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
	last := bytes.HasPrefix(tail, []byte(modelTurn))
	if len(kept) > 0 && len(tail) > 0 {
		tail = slices.Insert(tail, 0, ',')
	}
	if last {
		tail = append(tail, `,{"role":"user","content":[{"type":"text","text":"Continue."}]}`...)
	}
	if end := []byte(`}]}`); bytes.HasSuffix(tail, end) {
		tail = append(append(tail[:len(tail)-len(end)], cacheMark...), end...)
	}
	return opening, kept, tail, nil
}

// tools returns the member tools, in pieces; nil if there is none. The API
// demands definitions of the tools that a history has calls of.
func (b *body) tools() ([][]byte, error) {
	var list []byte
	var err error
	switch {
	case len(b.r.Tools.Specs()) > 0:
		if list, err = b.r.Tools.Encoded("anthropic", encodeTools); err != nil {
			return nil, err
		}
		list = list[:len(list):len(list)]
	case !b.answer:
		list = mentioned(b.r.Transcript)
		if list != nil {
			b.out.Raw("tool_choice", []byte(`{"type":"none"}`))
		}
	}
	if b.answer {
		if list != nil {
			list = append(list, ',')
		}
		list = appendTool(list, answerTool, "Gives the answer to the user, in the form that is wanted.", b.r.Schema.JSON)
	}
	if list == nil {
		return nil, nil
	}
	end := []byte("]")
	if blank(b.r.System) { // else the mark on the system prompt covers the tools
		list = list[: len(list)-1 : len(list)-1]
		end = []byte(cacheMark + "}]")
	}
	return [][]byte{[]byte(`,"tools":[`), list, end}, nil
}

// mentioned defines the tools of which the messages have calls, by name only.
func mentioned(t *llm.Transcript) (list []byte) {
	head, tail := wire.Fold(t, "anthropic/called", func(dst []byte, group []*message.Message) []byte {
		start := len(dst)
		for _, m := range group {
			for _, c := range m.Calls() {
				if len(dst) > start {
					dst = append(dst, ',')
				}
				dst = wire.AppendString(dst, toolName(c.Name))
			}
		}
		return dst
	})
	seen := map[string]bool{}
	for _, names := range [][]byte{head, tail} {
		d := wire.Decode(append(append([]byte{'['}, names...), ']'))
		d.Array(func(int) {
			name := d.String()
			if seen[name] {
				return
			}
			if seen[name] = true; list != nil {
				list = append(list, ',')
			}
			list = appendTool(list, name, "", nil)
		})
	}
	return list
}

// encodeTools writes the tools, separated by commas.
func encodeTools(specs []tool.Spec) ([]byte, error) {
	var out []byte
	for i, s := range specs {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendTool(out, tool.WireName(s.Name), s.Description, s.Input)
	}
	return out, nil
}

func appendTool(dst []byte, name, description string, schema []byte) []byte {
	dst = wire.AppendString(append(dst, `{"name":`...), name)
	if description != "" {
		dst = wire.AppendString(append(dst, `,"description":`...), description)
	}
	return append(wire.AppendObjectSchema(append(dst, `,"input_schema":`...), schema), '}')
}

// settings writes the members beside model, system, messages and tools.
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
	b.fine(s)
	b.stop(s.Stop)
	b.outputConfig(effort)
	if b.r.User != "" {
		var user wire.Members
		user.String("user_id", wire.Opaque(b.r.User))
		b.out = wire.AppendNested(b.out, "metadata", user)
	}
}

func (b *body) notice(s string) { b.notices = append(b.notices, b.full+" "+s) }

// choice: models that always think cannot be made to use a tool.
func (b *body) choice() {
	c, tools := b.r.ToolChoice, len(b.r.Tools.Specs()) > 0
	switch {
	case b.answer && !tools:
		c = answerTool
	case b.answer && c != "none":
		c = "required"
	case b.answer:
		c = answerTool
	case !tools, c == "", c == "auto":
		return
	}
	if c == "none" {
		b.out.Raw("tool_choice", []byte(`{"type":"none"}`))
		return
	}
	if b.off == offNever || b.off == offBetween {
		b.notice("cannot be made to use a tool; it was left to choose.")
		return
	}
	b.forced = true
	if c == "required" {
		b.out.Raw("tool_choice", []byte(`{"type":"any"}`))
		return
	}
	named := wire.Members(`"type":"tool"`)
	named.String("name", tool.WireName(c))
	b.out = wire.AppendNested(b.out, "tool_choice", named)
}

// effort writes the member thinking and returns the word for output_config.
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
		b.thinks = e == "" // its own thinking goes back, whatever it does by default
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

// adapt lets the model think as it finds right.
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

// budget turns on thinking with a budget. In the middle of a turn that was
// begun without thinking the API does not allow it.
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
	thinking := wire.Members(`"type":"enabled"`)
	thinking.Int("budget_tokens", int64(tokens))
	b.out = wire.AppendNested(b.out, "thinking", thinking)
}

// mayThink reports whether the turn that is going on, if one is, was written
// with thinking that can go back. Of each message a letter is kept: r for a
// result, s and n for the model's with and without such thinking.
func (b *body) mayThink() bool {
	enc := encoder{provider: b.name, model: b.full}
	head, tail := wire.Fold(b.r.Transcript, "anthropic/thought:"+b.full, func(dst []byte, group []*message.Message) []byte {
		for _, m := range group {
			switch {
			case m.Role == message.Tool:
				dst = append(dst, 'r')
			case m.Role != message.Assistant || silent(m):
			case enc.signed(m):
				dst = append(dst, 's')
			default:
				dst = append(dst, 'n')
			}
		}
		return dst
	})
	results := false // a result stands after the message before
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

// fine: Anthropic knows top_p alone of the finer settings, and not beside a
// temperature or while a model thinks.
func (b *body) fine(s llm.Sampling) {
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

// stop: sequences of white space alone are refused by the API.
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
	if b.r.Schema != nil && b.native {
		format := wire.Members(`"type":"json_schema"`)
		format.Raw("schema", adaptSchema(b.r.Schema.JSON))
		config = wire.AppendNested(config, "format", format)
	}
	b.out = wire.AppendNested(b.out, "output_config", config)
}
