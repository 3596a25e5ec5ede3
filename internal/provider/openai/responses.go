package openai

import (
	"context"
	"iter"
	"slices"
	"strings"

	"steward/internal/llm"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// minOutput is the least max_output_tokens that the API accepts.
const minOutput = 16

// mostHosted bounds how often the server's own tools are used in one request.
const mostHosted = 16

// respond asks by the responses API. The server stores nothing (store is false), so reasoning travels
// in encrypted form, and the whole conversation is sent each time.
func (m *model) respond(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		parts, notices, err := m.encodeItems(r)
		m.wire.Ask(ctx, wire.Question{Path: "/responses", Parts: parts, Notices: notices}, err, yield, func(asm *wire.Assembly, answer *wire.Answer) {
			o := &outputs{model: m, asm: asm, tools: r.Tools, items: map[int64]*item{}, ids: wire.CallIDs{Prefix: "call_"}}
			if strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") {
				body, err := answer.All()
				if err != nil {
					asm.Fail(err)
					return
				}
				o.finish(body)
				return
			}
			o.read(answer)
		})
	}
}

// encodeItems returns the request's body in parts, and notices about what it could not express.
func (m *model) encodeItems(r *llm.Request) (parts [][]byte, notices []string, err error) {
	enc := encoder{provider: m.name, official: m.official, responses: true}
	kept, tail, err := r.Transcript.Encoded(m.codec, enc.items)
	if err != nil {
		return nil, nil, err
	}
	head := wire.Append(nil, `{"model":$,"stream":true,"store":false`, m.model)
	if r.System != "" {
		head = wire.Append(head, `,"instructions":$`, r.System)
	}
	parts = [][]byte{append(head, `,"input":[`...), kept, append(wire.After(kept, tail), ']')}
	s := settings{model: m, notices: enc.notices}
	if len(r.Tools.Specs()) > 0 {
		tools, err := r.Tools.Encoded(m.codec, encodeFunctions)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, []byte(`,"tools":[`), tools, append(s.hostedTools(), ']'))
	}
	s.addResponses(r)
	if len(s.Members) > 0 {
		parts = append(parts, []byte{','}, s.Members)
	}
	return append(parts, []byte{'}'}), s.notices, nil
}

// encodeFunctions returns the tools, separated by commas. Functions are strict unless they say
// otherwise.
func encodeFunctions(specs []tool.Spec) (out []byte, err error) {
	for _, s := range specs {
		out = wire.Append(wire.Comma(out), `{"type":"function","name":$,"strict":false`, wire.ToolName(tool.WireName(s.Name)))
		if s.Description != "" {
			out = wire.Append(out, `,"description":$`, s.Description)
		}
		out = append(wire.AppendObjectSchema(append(out, `,"parameters":`...), s.Input), '}')
	}
	return out, nil
}

// hostedTools returns the server's own tools, each after a comma.
func (s *settings) hostedTools() (out []byte) {
	for _, t := range s.hosted {
		switch {
		case t == "code_interpreter":
			out = append(out, `,{"type":"code_interpreter","container":{"type":"auto"}}`...)
		case t != "file_search":
			out = wire.Append(out, `,{"type":$}`, t)
		case len(s.stores) == 0:
			s.notices = append(s.notices, s.name+" needs to know which vector stores file_search searches; it was left out.")
		default:
			out = wire.Append(out, `,{"type":"file_search","vector_store_ids":$}`, wire.AppendStrings(nil, s.stores))
		}
	}
	return out
}

// addResponses adds the settings in the form of the responses API.
func (s *settings) addResponses(r *llm.Request) {
	var include []string
	if !s.official || familyOf(s.model.model) != plainModel { // others refuse it
		include = append(include, "reasoning.encrypted_content")
	}
	for name, result := range map[string]string{"web_search": "web_search_call.action.sources",
		"code_interpreter": "code_interpreter_call.outputs", "file_search": "file_search_call.results"} {
		if len(r.Tools.Specs()) > 0 && slices.Contains(s.hosted, name) {
			include = append(include, result)
		}
	}
	if len(r.Tools.Specs()) > 0 && len(s.hosted) > 0 {
		s.Int("max_tool_calls", mostHosted)
	}
	slices.Sort(include)
	if len(include) > 0 {
		s.Raw("include", wire.AppendStrings(nil, include))
	}
	s.choice(r, `{"type":"function","name":$}`)
	set := r.Sampling
	if word := s.effort(set.Effort); word != "" {
		reasoning := wire.Members{}
		reasoning.String("effort", word)
		if s.official && set.Effort != llm.EffortNone {
			reasoning.String("summary", "auto")
		}
		s.Members = wire.AppendNested(s.Members, "reasoning", reasoning)
	}
	if t := set.Temperature; t != nil {
		s.temperature(*t, set.Effort)
	}
	if set.MaxTokens > 0 {
		s.Int("max_output_tokens", int64(max(set.MaxTokens, minOutput)))
	}
	s.fine("top_p", set.TopP, set.Effort)
	if set.FrequencyPenalty != nil || set.PresencePenalty != nil || set.Seed != nil {
		s.notice("penalties and seed")
	}
	if list, _ := wire.Stops(set.Stop, 0); len(list) > 0 {
		s.notice("stop sequences")
	}
	if r.Schema != nil {
		s.Raw("text", wire.Append(nil, `{"format":{"type":"json_schema",$}}`, format(r.Schema)))
	}
	s.user(r.User)
}
