package gemini

import (
	"fmt"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// maxStops is the maximum number of stop sequences (GenerationConfig).
const maxStops = 5

// body returns the request's body in parts, and notices about what Gemini cannot do.
func (m *model) body(r *llm.Request) (parts [][]byte, notices []string, err error) {
	enc := encoder{provider: m.p.name, family: m.family}
	head, tail, err := r.Transcript.Encoded(enc.codec(), enc.group)
	if err != nil {
		return nil, nil, err
	}
	if len(head)+len(tail) == 0 {
		return nil, nil, fault.New(fault.Invalid, wire.CodeRefused, "%s: the conversation has nothing to answer", m.p.name)
	}
	// The contents must begin and end with a turn of the user. A window may begin within an answer, and
	// an answer that was cut by length is to be continued.
	open, end := "", []byte{']'}
	first, last := wire.Ends(r.Transcript)
	if first {
		open = `{"role":"user","parts":[{"text":"(The conversation before this point is not shown.)"}]},`
	}
	if last {
		end = []byte(`,{"role":"user","parts":[{"text":"Continue exactly where you stopped."}]}]`)
	}
	// Some models give structured output only without tools: then it is asked for in words.
	loose := r.Schema != nil && !m.family.schemaWithTools() && len(r.Tools.Specs()) > 0 && r.ToolChoice != "none"
	system := r.System
	if loose {
		system = llm.InWords(r)
	}
	if system != "" {
		end = wire.Append(end, `,"systemInstruction":{"parts":[{"text":$}]}`, system)
	}
	if end, err = m.tools(end, r); err != nil {
		return nil, nil, err
	}
	end = append(end, `,"generationConfig":{`...)
	if end, notices, err = m.config(end, r, loose); err != nil {
		return nil, nil, err
	}
	end = append(end, `}}`...)
	if len(m.p.hosted) > 0 && !m.family.signed() && len(r.Tools.Specs()) > 0 {
		notices = append(notices, m.name+" does not accept Google's own tools together with others: they are left out.")
	}
	if slices.ContainsFunc(wire.Newest(r.Transcript), func(b message.Block) bool { return !takes(b) }) {
		notices = append(notices, "Gemini does not read files of this type: the model was told only that there is one.")
	}
	return [][]byte{[]byte(`{"contents":[` + open), head, wire.After(head, tail), end}, notices, nil
}

// tools appends the tools and the choice among them.
func (m *model) tools(dst []byte, r *llm.Request) ([]byte, error) {
	if len(r.Tools.Specs()) == 0 {
		return dst, nil
	}
	if r.ToolChoice == "none" && r.Schema != nil && !m.family.schemaWithTools() {
		return dst, nil
	}
	decls, err := r.Tools.Encoded("gemini", encodeTools)
	if err != nil {
		return nil, err
	}
	dst = wire.Append(dst, `,"tools":$`, decls)
	var config wire.Members
	switch r.ToolChoice {
	case "", "auto":
	case "none":
		config.Raw("functionCallingConfig", []byte(`{"mode":"NONE"}`))
	case "required":
		config.Raw("functionCallingConfig", []byte(`{"mode":"ANY"}`))
	default:
		config.Raw("functionCallingConfig", wire.Append(nil, `{"mode":"ANY","allowedFunctionNames":[$]}`, wireName(r.ToolChoice)))
	}
	if own := m.hosted(); len(own) > 0 {
		dst = append(append(dst[:len(dst)-1], own...), ']')
		config.Raw("includeServerSideToolInvocations", []byte("true"))
	}
	return wire.AppendNested(dst, "toolConfig", config), nil
}

// hosted returns Google's own tools, each after a comma. Models before Gemini 3 take them only
// without functions.
//
// Source: https://ai.google.dev/gemini-api/docs/tool-combination.
func (m *model) hosted() (out []byte) {
	if !m.family.signed() {
		return nil
	}
	for _, t := range m.p.hosted {
		if name := map[string]string{"google_search": "googleSearch", "url_context": "urlContext", "code_execution": "codeExecution"}[t]; name != "" {
			out = append(out, `,{"`+name+`":{}}`...)
		}
	}
	return out
}

// encodeTools returns the declarations. A tool without parameters has no schema at all, as the
// reference says.
func encodeTools(specs []tool.Spec) ([]byte, error) {
	dst := []byte(`[{"functionDeclarations":[`)
	for _, s := range specs {
		dst = wire.Append(wire.Comma(dst), `{"name":$,"description":$`, wireName(s.Name), s.Description)
		if hasParameters(s.Input) {
			if !wire.IsObject(s.Input) {
				return nil, fault.New(fault.Invalid, wire.CodeRefused, "the schema of the tool %s is not valid JSON: %w", s.Name, errSchema)
			}
			schema, err := adaptSchema(wire.AppendObjectSchema(nil, s.Input))
			if err != nil {
				return nil, err
			}
			dst = wire.Append(dst, `,"parametersJsonSchema":$`, schema)
		}
		dst = append(dst, '}')
	}
	return append(dst, `]}]`...), nil
}

// hasParameters reports whether a schema is more than an object without properties. It leaves invalid
// JSON to adaptSchema.
func hasParameters(schema []byte) bool {
	if len(schema) == 0 {
		return false
	}
	if !wire.IsObject(schema) {
		return true
	}
	found, d := false, wire.Decode(schema)
	d.Object(func(key []byte) {
		switch string(key) {
		case "properties", "additionalProperties":
			d.Object(func([]byte) { found = true })
		case "$ref", "anyOf", "oneOf", "allOf":
			found = true
		}
	})
	return found
}

// names are the names of the settings.
var names = wire.Names{Temperature: "temperature", TopP: "topP", Frequency: "frequencyPenalty", Presence: "presencePenalty",
	Seed: "seed", MaxTokens: "maxOutputTokens", Stop: "stopSequences"}

// config appends the members of the generationConfig.
func (m *model) config(dst []byte, r *llm.Request, loose bool) ([]byte, []string, error) {
	var notices []string
	var c wire.Members
	if c.Sampling(names, r.Sampling, maxStops) {
		notices = append(notices, fmt.Sprintf("Gemini takes %d stop sequences: the others are not sent.", maxStops))
	}
	if loose {
		notices = append(notices, m.name+" cannot be held to a schema while it has tools: it is asked in words.")
	} else if r.Schema != nil {
		schema, err := adaptSchema(r.Schema.JSON)
		if err != nil {
			return nil, nil, fault.New(fault.Invalid, wire.CodeRefused, "the schema %s is not valid JSON: %w", r.Schema.Name, err)
		}
		c.String("responseMimeType", "application/json")
		c.Raw("responseJsonSchema", schema)
	}
	thinking, notice := m.family.thinking(r.Sampling.Effort)
	if thinking != nil {
		c.Raw("thinkingConfig", thinking)
	}
	if notice != "" {
		notices = append(notices, notice)
	}
	return append(dst, c...), notices, nil
}

// path returns the model's path below the base URL. A name may include its collection ("models/…",
// "tunedModels/…").
func path(model string) string {
	if !strings.Contains(model, "/") {
		model = "models/" + model
	}
	return "/" + model
}
