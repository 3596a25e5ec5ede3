package openai

import (
	"maps"
	"net/http"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/llm"
	"steward/internal/server/auth"
	"steward/internal/tool"
)

// completion is the body of POST /v1/chat/completions. Other functions decode the raw values, except
// those that have no effect.
type completion struct {
	Model         string           `json:"model"`
	Messages      []jsontext.Value `json:"messages"`
	Stream        bool             `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool           `json:"include_usage"`
		Obfuscation  jsontext.Value `json:"include_obfuscation"` // padding against eavesdroppers, which Steward does not add
	} `json:"stream_options"`
	Tools            []toolPart        `json:"tools"`
	ToolChoice       jsontext.Value    `json:"tool_choice"`
	Parallel         *bool             `json:"parallel_tool_calls"`
	Temperature      *float64          `json:"temperature"`
	MaxTokens        *int              `json:"max_tokens"`
	MaxCompletion    *int              `json:"max_completion_tokens"`
	Stop             jsontext.Value    `json:"stop"`
	Effort           *string           `json:"reasoning_effort"`
	Format           *formatPart       `json:"response_format"`
	Metadata         map[string]string `json:"metadata"`
	TopP             *float64          `json:"top_p"`
	Seed             *int64            `json:"seed"`
	FrequencyPenalty *float64          `json:"frequency_penalty"`
	PresencePenalty  *float64          `json:"presence_penalty"`

	// Rest holds the members that Steward ignores, whether the protocol knows them or not. Programs
	// send many that they do not depend on.
	Rest map[string]jsontext.Value `json:",embed"`

	size int // of the body, in bytes
}

type toolPart struct {
	Type     string `json:"type"`
	Function struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  jsontext.Value `json:"parameters"`
		Strict      *bool          `json:"strict"` // only some providers respect it
	} `json:"function"`
	Custom jsontext.Value `json:"custom"`
}

type formatPart struct {
	Type   string `json:"type"`
	Schema *struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Schema      jsontext.Value `json:"schema"`
		Strict      *bool          `json:"strict"`
	} `json:"json_schema"`
}

// readCompletion reads and checks a request's body, except its messages.
func readCompletion(w http.ResponseWriter, r *http.Request, limit int64) (*completion, error) {
	var c completion
	body, err := auth.ReadBody(w, r, limit)
	if err == nil {
		err = auth.UnmarshalKnown(body, &c)
	}
	if err != nil {
		return nil, err
	}
	c.size = len(body)
	if c.Model == "" {
		return nil, bad("model", "the model is missing").WithHint("GET /v1/models lists them")
	}
	if len(c.Messages) == 0 {
		return nil, bad("messages", "messages is empty")
	}
	if c.StreamOptions != nil && !c.Stream {
		return nil, bad("stream_options", "stream_options requires \"stream\": true")
	}
	return &c, nil
}

// noEffectMembers are members that never change an answer.
var noEffectMembers = []string{"user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "service_tier"}

// defaultValues are the default values of other members, which have no effect.
var defaultValues = map[string]string{"n": "1", "store": "false", "logit_bias": "{}", "logprobs": "false", "top_logprobs": "0",
	"modalities": `["text"]`, "verbosity": `"medium"`, "functions": "[]", "function_call": `"none"`, "best_of": "1", "echo": "false", "suffix": `""`,
	"background": "false", "truncation": `"disabled"`}

// unsupportedMembers are members that change what is answered, and that Steward does not serve. With another value
// than the default they are refused: a program that asked for three answers cannot use one.
var unsupportedMembers = []string{"n", "best_of", "logprobs", "top_logprobs", "logit_bias", "modalities", "audio", "functions", "function_call",
	"web_search_options", "background", "suffix", "echo", "max_tool_calls"}

// rejectUnsupported refuses members that change the meaning of the request.
func (c *completion) rejectUnsupported() error {
	for _, name := range c.ignored() {
		if slices.Contains(unsupportedMembers, name) {
			return unsupported(name, "only the default value of %s is supported", name).WithHint("leave %s out", name)
		}
	}
	return nil
}

// ignored returns the sorted names of the members that would have an effect but are ignored.
func (c *completion) ignored() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c.Rest)) {
		v := c.Rest[name].Clone()
		if slices.Contains(noEffectMembers, name) || v.Kind() == 'n' || v.Canonicalize() == nil && string(v) == defaultValues[name] {
			continue
		}
		out = append(out, name)
	}
	return out
}

// sampling reads the parameters of the model's answer.
func (c *completion) sampling() (s llm.Sampling, err error) {
	for _, f := range []struct {
		name      string
		v         *float64
		low, high float64
	}{{"temperature", c.Temperature, 0, 2}, {"top_p", c.TopP, 0, 1}, {"frequency_penalty", c.FrequencyPenalty, -2, 2}, {"presence_penalty", c.PresencePenalty, -2, 2}} {
		if f.v != nil && (*f.v < f.low || *f.v > f.high) {
			return s, bad(f.name, "%s must be a number from %v to %v, not %v", f.name, f.low, f.high, *f.v)
		}
	}
	s.Temperature, s.TopP, s.Seed, s.FrequencyPenalty, s.PresencePenalty = c.Temperature, c.TopP, c.Seed, c.FrequencyPenalty, c.PresencePenalty
	for _, n := range []struct {
		name string
		v    *int
	}{{"max_tokens", c.MaxTokens}, {"max_completion_tokens", c.MaxCompletion}} { // the second one takes precedence
		if n.v != nil && *n.v < 1 {
			return s, bad(n.name, "%s must be at least 1, not %d", n.name, *n.v)
		} else if n.v != nil {
			s.MaxTokens = *n.v
		}
	}
	if s.Stop, err = c.stop(); err != nil {
		return s, err
	}
	if c.Effort == nil {
		return s, nil
	}
	var ok bool
	if s.Effort, ok = efforts[*c.Effort]; !ok {
		return s, bad("reasoning_effort", "unknown effort %.40q", *c.Effort).WithHint("use none, minimal, low, medium, high or xhigh")
	}
	return s, nil
}

// efforts maps OpenAI's efforts to Steward's, of which there are fewer.
var efforts = map[string]llm.Effort{
	"none": llm.EffortNone, "minimal": llm.EffortLow, "low": llm.EffortLow,
	"medium": llm.EffortMedium, "high": llm.EffortHigh, "xhigh": llm.EffortHigh,
}

const maxStops = 4 // as in OpenAI's API

func (c *completion) stop() ([]string, error) {
	out, err := oneOrMore(c.Stop)
	if err != nil {
		return nil, bad("stop", "stop must be a text or a list of texts")
	}
	if len(out) > maxStops {
		return nil, bad("stop", "stop has %d sequences; the limit is %d", len(out), maxStops)
	}
	if slices.Contains(out, "") {
		return nil, bad("stop", "a stop sequence is empty")
	}
	return out, nil
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// toolset reads the caller's own tools, which the model may call and the caller runs. It returns nil
// if there are none.
func (c *completion) toolset() (*llm.Toolset, string, error) {
	var specs []tool.Spec
	names := map[string]bool{}
	for i, t := range c.Tools {
		at := jsonIndex("tools", i)
		if t.Type != "function" || len(t.Custom) > 0 {
			return nil, "", unsupported(at+".type", "tools of the type %.40q are not supported", t.Type).WithHint("use functions")
		}
		f := t.Function
		switch {
		case !toolName.MatchString(f.Name):
			return nil, "", bad(at+".function.name", "invalid function name %.100q", f.Name).
				WithHint("use 1 to 64 letters, digits, '_' and '-'")
		case names[f.Name]:
			return nil, "", bad(at+".function.name", "duplicate function %q", f.Name)
		}
		names[f.Name] = true
		schema := []byte(f.Parameters)
		switch f.Parameters.Kind() {
		case 0, 'n':
			schema = []byte(`{"type":"object","properties":{}}`)
		case '{':
		default:
			return nil, "", bad(at+".function.parameters", "the parameters of %s are not a JSON Schema object", f.Name)
		}
		specs = append(specs, tool.Spec{Name: f.Name, Description: f.Description, Input: schema, Effect: tool.Query})
	}
	choice, err := c.choice(names)
	if err != nil || len(specs) == 0 {
		return nil, "", err
	}
	return llm.NewToolset(specs...), choice, nil
}

func (c *completion) choice(names map[string]bool) (string, error) {
	switch c.ToolChoice.Kind() {
	case 0, 'n':
		return "", nil
	case '"':
		var word string
		if err := json.Unmarshal(c.ToolChoice, &word); err != nil {
			return "", bad("tool_choice", "invalid tool_choice: %w", err)
		}
		switch {
		case word != "none" && word != "auto" && word != "required":
			return "", bad("tool_choice", "tool_choice must be none, auto, required or a function, not %.40q", word)
		case word == "required" && len(names) == 0:
			return "", bad("tool_choice", "tool_choice requires a tool, but there are no tools")
		}
		return word, nil
	}
	var named toolPart
	if err := json.Unmarshal(c.ToolChoice, &named); err != nil {
		return "", bad("tool_choice", "tool_choice must be none, auto, required or a function")
	}
	if named.Type != "function" {
		return "", unsupported("tool_choice", "a tool_choice of the type %.40q is not supported", named.Type)
	}
	if !names[named.Function.Name] {
		return "", bad("tool_choice", "there is no function %.100q among the tools", named.Function.Name)
	}
	return named.Function.Name, nil
}

// schema reads the schema of the answer; nil for prose.
func (c *completion) schema() (*llm.Schema, error) {
	if c.Format == nil {
		return nil, nil
	}
	switch c.Format.Type {
	case "text":
		return nil, nil
	case "json_object":
		return &llm.Schema{Name: "object", JSON: []byte(`{"type":"object"}`)}, nil
	case "json_schema":
	default:
		return nil, bad("response_format.type", "unknown response format %.40q", c.Format.Type).WithHint("use text, json_object or json_schema")
	}
	s := c.Format.Schema
	switch {
	case s == nil:
		return nil, bad("response_format.json_schema", "the schema is missing")
	case !toolName.MatchString(s.Name):
		return nil, bad("response_format.json_schema.name", "invalid schema name %.100q", s.Name).
			WithHint("use 1 to 64 letters, digits, '_' and '-'")
	case s.Schema.Kind() != '{':
		return nil, bad("response_format.json_schema.schema", "the schema is not a JSON object")
	}
	return &llm.Schema{Name: s.Name, JSON: []byte(s.Schema)}, nil
}
