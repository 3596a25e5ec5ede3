package openai

import (
	"net/http"
	"regexp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/face/httpauth"
	"steward/internal/llm"
	"steward/internal/tool"
)

// completion is the body of POST /v1/chat/completions. What is a raw value is
// either read by a function of its own or has to be without effect.
type completion struct {
	Model         string           `json:"model"`
	Messages      []jsontext.Value `json:"messages"`
	Stream        bool             `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool           `json:"include_usage"`
		Obfuscation  jsontext.Value `json:"include_obfuscation"` // padding against eavesdroppers: ours has none
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
	User             *string           `json:"user"` // whom the caller's own users are, is the caller's affair
	SafetyIdentifier *string           `json:"safety_identifier"`
	CacheKey         *string           `json:"prompt_cache_key"` // caching changes no answer
	CacheRetention   *string           `json:"prompt_cache_retention"`

	N                jsontext.Value `json:"n"`
	Store            jsontext.Value `json:"store"`
	Seed             jsontext.Value `json:"seed"`
	TopP             jsontext.Value `json:"top_p"`
	FrequencyPenalty jsontext.Value `json:"frequency_penalty"`
	PresencePenalty  jsontext.Value `json:"presence_penalty"`
	LogitBias        jsontext.Value `json:"logit_bias"`
	Logprobs         jsontext.Value `json:"logprobs"`
	TopLogprobs      jsontext.Value `json:"top_logprobs"`
	Modalities       jsontext.Value `json:"modalities"`
	Audio            jsontext.Value `json:"audio"`
	Prediction       jsontext.Value `json:"prediction"`
	ServiceTier      jsontext.Value `json:"service_tier"`
	Verbosity        jsontext.Value `json:"verbosity"`
	WebSearch        jsontext.Value `json:"web_search_options"`
	Functions        jsontext.Value `json:"functions"`
	FunctionCall     jsontext.Value `json:"function_call"`
}

type toolPart struct {
	Type     string `json:"type"`
	Function struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  jsontext.Value `json:"parameters"`
		Strict      *bool          `json:"strict"` // how far a provider can hold to it is the provider's
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

// readCompletion reads and checks a request's body, apart from its messages.
func readCompletion(w http.ResponseWriter, r *http.Request, limit int64) (*completion, error) {
	var c completion
	if err := httpauth.Decode(w, r, limit, &c); err != nil {
		return nil, err
	}
	if c.Model == "" {
		return nil, bad("model", "a model is needed").With("GET /v1/models lists them")
	}
	if len(c.Messages) == 0 {
		return nil, bad("messages", "there is no message")
	}
	if c.StreamOptions != nil && !c.Stream {
		return nil, bad("stream_options", "stream_options go with \"stream\": true")
	}
	return &c, c.checkNeutral()
}

// checkNeutral refuses the parameters that Steward has no way to honour,
// unless they are what they would be if they were left out.
func (c *completion) checkNeutral() error {
	for _, p := range []struct {
		name    string
		value   jsontext.Value
		neutral []string
	}{
		{"n", c.N, []string{"1"}},
		{"store", c.Store, []string{"false"}},
		{"seed", c.Seed, nil},
		{"top_p", c.TopP, []string{"1"}},
		{"frequency_penalty", c.FrequencyPenalty, []string{"0"}},
		{"presence_penalty", c.PresencePenalty, []string{"0"}},
		{"logit_bias", c.LogitBias, []string{"{}"}},
		{"logprobs", c.Logprobs, []string{"false"}},
		{"top_logprobs", c.TopLogprobs, []string{"0"}},
		{"modalities", c.Modalities, []string{`["text"]`}},
		{"audio", c.Audio, nil},
		{"prediction", c.Prediction, nil},
		{"service_tier", c.ServiceTier, []string{`"auto"`, `"default"`}},
		{"verbosity", c.Verbosity, []string{`"medium"`}},
		{"web_search_options", c.WebSearch, nil},
		{"functions", c.Functions, []string{"[]"}},
		{"function_call", c.FunctionCall, []string{`"none"`}},
	} {
		if !neutral(p.value, p.neutral) {
			return unsupported(p.name, "%s is not supported", p.name).With("leave it out")
		}
	}
	return nil
}

// neutral reports whether a value is absent, null, or one of a few.
func neutral(v jsontext.Value, values []string) bool {
	if len(v) == 0 || v.Kind() == 'n' {
		return true
	}
	v = v.Clone()
	if v.Canonicalize() != nil {
		return false
	}
	for _, n := range values {
		if string(v) == n {
			return true
		}
	}
	return false
}

// sampling reads how the model is to answer.
func (c *completion) sampling() (s llm.Sampling, err error) {
	s.Temperature = c.Temperature
	if t := c.Temperature; t != nil && (*t < 0 || *t > 2) {
		return s, bad("temperature", "the temperature is a number from 0 to 2, not %v", *t)
	}
	for name, n := range map[string]*int{"max_tokens": c.MaxTokens, "max_completion_tokens": c.MaxCompletion} {
		if n != nil && *n < 1 {
			return s, bad(name, "%s is at least 1, not %d", name, *n)
		}
	}
	switch {
	case c.MaxCompletion != nil:
		s.MaxTokens = *c.MaxCompletion
	case c.MaxTokens != nil:
		s.MaxTokens = *c.MaxTokens
	}
	if s.Stop, err = c.stop(); err != nil {
		return s, err
	}
	if c.Effort == nil {
		return s, nil
	}
	var ok bool
	if s.Effort, ok = efforts[*c.Effort]; !ok {
		return s, bad("reasoning_effort", "there is no effort %.40q", *c.Effort).With("use none, minimal, low, medium, high or xhigh")
	}
	return s, nil
}

// efforts are OpenAI's, of which we know fewer.
var efforts = map[string]llm.Effort{
	"none": llm.EffortNone, "minimal": llm.EffortLow, "low": llm.EffortLow,
	"medium": llm.EffortMedium, "high": llm.EffortHigh, "xhigh": llm.EffortHigh,
}

const maxStops = 4 // as at OpenAI

func (c *completion) stop() ([]string, error) {
	var out []string
	switch c.Stop.Kind() {
	case 0, 'n':
		return nil, nil
	case '"':
		out = []string{""}
		if err := json.Unmarshal(c.Stop, &out[0]); err != nil {
			return nil, bad("stop", "stop cannot be read: %w", err)
		}
	default:
		if err := json.Unmarshal(c.Stop, &out); err != nil {
			return nil, bad("stop", "stop is a text or a list of texts")
		}
	}
	if len(out) > maxStops {
		return nil, bad("stop", "stop has %d sequences, and may have %d", len(out), maxStops)
	}
	for _, s := range out {
		if s == "" {
			return nil, bad("stop", "a stop sequence is empty")
		}
	}
	return out, nil
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// toolset reads the caller's own tools; nil when there are none. They are the
// model's to ask for and the caller's to run.
func (c *completion) toolset() (*llm.Toolset, string, error) {
	var specs []tool.Spec
	names := map[string]bool{}
	for i, t := range c.Tools {
		at := jsonIndex("tools", i)
		if t.Type != "function" || len(t.Custom) > 0 {
			return nil, "", unsupported(at+".type", "tools of the type %.40q are not supported", t.Type).With("use functions")
		}
		f := t.Function
		switch {
		case !toolName.MatchString(f.Name):
			return nil, "", bad(at+".function.name", "%.100q cannot be the name of a function", f.Name).
				With("use 1 to 64 letters, digits, '_' and '-'")
		case names[f.Name]:
			return nil, "", bad(at+".function.name", "there are two functions %q", f.Name)
		}
		names[f.Name] = true
		schema := []byte(f.Parameters)
		switch f.Parameters.Kind() {
		case 0, 'n':
			schema = []byte(`{"type":"object","properties":{}}`)
		case '{':
		default:
			return nil, "", bad(at+".function.parameters", "the parameters of %s are no JSON Schema object", f.Name)
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
			return "", bad("tool_choice", "tool_choice cannot be read: %w", err)
		}
		switch {
		case word != "none" && word != "auto" && word != "required":
			return "", bad("tool_choice", "tool_choice is none, auto, required or a function, not %.40q", word)
		case word == "required" && len(names) == 0:
			return "", bad("tool_choice", "a tool is required, and there is none")
		}
		return word, nil
	}
	var named struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := json.Unmarshal(c.ToolChoice, &named); err != nil {
		return "", bad("tool_choice", "tool_choice is none, auto, required or a function")
	}
	if named.Type != "function" {
		return "", unsupported("tool_choice", "a tool_choice of the type %.40q is not supported", named.Type)
	}
	if !names[named.Function.Name] {
		return "", bad("tool_choice", "there is no function %.100q among the tools", named.Function.Name)
	}
	return named.Function.Name, nil
}

var schemaName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// schema reads the form that the answer is to have; nil for prose.
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
		return nil, bad("response_format.type", "there is no response format %.40q", c.Format.Type).With("use text, json_object or json_schema")
	}
	s := c.Format.Schema
	switch {
	case s == nil:
		return nil, bad("response_format.json_schema", "the schema is missing")
	case !schemaName.MatchString(s.Name):
		return nil, bad("response_format.json_schema.name", "%.100q cannot be the name of a schema", s.Name).
			With("use 1 to 64 letters, digits, '_' and '-'")
	case s.Schema.Kind() != '{':
		return nil, bad("response_format.json_schema.schema", "the schema is no JSON object")
	}
	return &llm.Schema{Name: s.Name, JSON: []byte(s.Schema)}, nil
}
