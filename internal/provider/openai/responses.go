package openai

import (
	"slices"

	"steward/internal/llm"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// minOutput is the least max_output_tokens that the API accepts.
const minOutput = 16

// maxHosted bounds how often the server's own tools are used in one request.
const maxHosted = 16

// encodeTools returns the tools, separated by commas. Parameters are sent unchanged, except for the
// members that OpenAI requires of an object schema. In the responses API, functions are strict unless
// they say otherwise.
func (m *model) encodeTools(specs []tool.Spec) (out []byte, err error) {
	if !m.responses {
		return wire.Functions(specs, func(s tool.Spec) ([]byte, error) { return wire.AppendObjectSchema(nil, s.Input), nil })
	}
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
		s.Int("max_tool_calls", maxHosted)
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
	s.addSampling("top_p", set.TopP, set.Effort)
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
