package openai

import (
	"cmp"
	"strconv"
	"strings"

	"steward/internal/llm"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// maxStops is the maximum number of stop sequences.
const maxStops = 4

// encode returns the request's body in parts, and notices about what it could not express. In the
// responses API the server stores nothing (store is false), so reasoning travels in encrypted form, and
// the whole conversation is sent each time.
func (m *model) encode(r *llm.Request) (parts [][]byte, notices []string, err error) {
	enc := encoder{provider: m.name, official: m.official, responses: m.responses}
	kept, tail, err := r.Transcript.Encoded(m.codec, enc.group)
	if err != nil {
		return nil, nil, err
	}
	head := wire.Append(nil, `{"model":$,"stream":true`, m.model)
	switch {
	case !m.responses:
		head = append(head, `,"stream_options":{"include_usage":true},"messages":[`...)
		if r.System != "" {
			head = wire.Append(head, `{"role":"system","content":$}`, r.System)
			if len(kept)+len(tail) > 0 {
				head = append(head, ',')
			}
		}
	case r.System != "":
		head = wire.Append(head, `,"store":false,"instructions":$,"input":[`, r.System)
	default:
		head = append(head, `,"store":false,"input":[`...)
	}
	parts = [][]byte{head, kept, append(wire.After(kept, tail), ']')}
	s := settings{model: m, notices: enc.notices}
	if len(r.Tools.Specs()) > 0 {
		tools, err := r.Tools.Encoded(m.codec, m.encodeTools)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, []byte(`,"tools":[`), tools, append(s.hostedTools(), ']'))
	}
	if m.responses {
		s.addResponses(r)
	} else {
		s.addChat(r)
	}
	if len(s.Members) > 0 {
		parts = append(parts, []byte{','}, s.Members)
	}
	return append(parts, []byte{'}'}), s.notices, nil
}

// settings are the members of a request beside messages and tools.
type settings struct {
	*model
	wire.Members
	notices []string
}

// addChat adds the settings in the form of chat completions.
func (s *settings) addChat(r *llm.Request) {
	s.choice(r, `{"type":"function","function":{"name":$}}`)
	if word := s.effort(r.Sampling.Effort); word != "" {
		s.String("reasoning_effort", word)
	}
	if t := r.Sampling.Temperature; t != nil {
		s.temperature(*t, r.Sampling.Effort)
	}
	if n := r.Sampling.MaxTokens; n > 0 {
		key := "max_tokens"
		if s.official {
			key = "max_completion_tokens"
		}
		s.Int(key, int64(n))
	}
	s.addSampling("top_p", r.Sampling.TopP, r.Sampling.Effort)
	s.addSampling("frequency_penalty", r.Sampling.FrequencyPenalty, r.Sampling.Effort)
	s.addSampling("presence_penalty", r.Sampling.PresencePenalty, r.Sampling.Effort)
	if n := r.Sampling.Seed; n != nil {
		s.Int("seed", *n)
	}
	s.stop(r.Sampling.Stop)
	if r.Schema != nil {
		s.schema(r.Schema)
	}
	s.user(r.User)
}

func (s *settings) user(name string) {
	key := "user"
	if s.official {
		key = "safety_identifier"
	}
	if name != "" {
		s.String(key, wire.Opaque(name))
	}
}

func (s *settings) notice(what string) {
	s.notices = append(s.notices, s.name+"/"+s.model.model+" does not know "+what+"; it was left out.")
}

// choice adds tool_choice. named is the form of a function that must be called.
func (s *settings) choice(r *llm.Request, named string) {
	switch c := r.ToolChoice; {
	case len(r.Tools.Specs()) == 0, c == "", c == "auto":
	case c == "none", c == "required":
		s.String("tool_choice", c)
	default:
		s.Raw("tool_choice", wire.Append(nil, named, tool.WireName(c)))
	}
}

// effort returns the word for a reasoning effort. OpenAI's own models differ in the words that they know;
// compatible servers get the word unchanged.
func (s *settings) effort(e llm.Effort) string {
	word := string(e)
	if s.official && e != "" {
		family := familyOf(s.model.model)
		switch {
		case family == plainModel && e != llm.EffortNone:
			s.notice("reasoning effort")
			return ""
		case family == plainModel:
			return "" // it does not reason, as requested
		case e == llm.EffortNone && family == gpt5:
			word = "minimal"
		case e == llm.EffortNone && family == oSeries:
			s.notices = append(s.notices, s.name+"/"+s.model.model+" always reasons; it does so at low effort.")
			word = "low"
		}
	}
	return word
}

// temperature sets the temperature. OpenAI's reasoning models accept only their default, 1.
func (s *settings) temperature(t float64, e llm.Effort) {
	if t != 1 && !s.samples(e) {
		s.notice("temperature")
		return
	}
	s.Float("temperature", t)
}

// samples reports whether the model accepts sampling settings. OpenAI's own reasoning models do not
// while they reason.
func (s *settings) samples(e llm.Effort) bool {
	f := familyOf(s.model.model)
	return !s.official || f == plainModel || f == gpt51 && e == llm.EffortNone
}

// addSampling adds one of the finer settings if it is set and the model accepts it.
func (s *settings) addSampling(name string, v *float64, e llm.Effort) {
	switch {
	case v == nil:
	case !s.samples(e):
		s.notice(name)
	default:
		s.Float(name, *v)
	}
}

func (s *settings) stop(all []string) {
	list, more := wire.Stops(all, maxStops)
	if len(list) == 0 {
		return
	}
	if s.official && familyOf(s.model.model) != plainModel {
		s.notice("stop sequences")
		return
	}
	if more {
		s.notices = append(s.notices, s.name+" takes "+strconv.Itoa(maxStops)+" stop sequences; the others were left out.")
	}
	s.Raw("stop", wire.AppendStrings(nil, list))
}

func (s *settings) schema(sch *llm.Schema) {
	s.Raw("response_format", wire.Append(nil, `{"type":"json_schema","json_schema":{$}}`, format(sch)))
}

// format returns the members of a schema for structured output.
func format(sch *llm.Schema) []byte {
	form := `"name":$,"schema":$`
	if strict(sch.JSON) {
		form = `"name":$,"strict":true,"schema":$`
	}
	return wire.Append(nil, form, wire.ToolName(cmp.Or(sch.Name, "answer")), sch.JSON)
}

// family groups OpenAI's own models by the settings that they accept.
type family int

const (
	plainModel family = iota // does not reason: gpt-4o, gpt-4.1, gpt-5-chat, …
	oSeries                  // o1, o3, o4-mini: effort from low
	gpt5                     // gpt-5, -mini, -nano: effort from minimal
	gpt51                    // gpt-5.1 and later: effort from none
)

func familyOf(model string) family {
	name := strings.TrimPrefix(model, "ft:")
	switch rest, is5 := strings.CutPrefix(name, "gpt-5"); {
	case len(name) > 1 && name[0] == 'o' && name[1] >= '1' && name[1] <= '9':
		return oSeries
	case strings.HasPrefix(name, "codex-"):
		return oSeries
	case !is5 || strings.HasPrefix(rest, "-chat"):
		if n, ok := strings.CutPrefix(name, "gpt-"); ok && n != "" && n[0] >= '6' && n[0] <= '9' {
			return gpt51
		}
		return plainModel
	case strings.HasPrefix(rest, "."):
		if strings.Contains(rest, "-chat") {
			return plainModel
		}
		return gpt51
	}
	return gpt5
}
