package tool

import (
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// function is a spec in OpenAI's form (API reference, "tools" of a chat completion).
type function struct {
	Type     string `json:"type"`
	Function struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  jsontext.Value `json:"parameters"`
	} `json:"function"`
}

func functionOf(s Spec) (f function) {
	f.Type, f.Function.Name, f.Function.Description = "function", WireName(s.Name), s.Description
	if f.Function.Parameters = s.Input; !f.Function.Parameters.IsValid() { // CheckSpec does not admit such a spec
		f.Function.Parameters = jsontext.Value(`{"type":"object"}`)
	}
	return f
}

func written(functions any) []byte {
	b, err := jsonv2.Marshal(functions, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // texts and valid JSON: cannot fail
	}
	return b
}

// OpenAIFunction returns a spec as JSON in OpenAI's form, with its WireName:
// {"type":"function","function":{"name":…,"description":…,"parameters":…}}.
func OpenAIFunction(s Spec) []byte { return written(functionOf(s)) }

// Functions returns all tools as a JSON array of OpenAIFunction, sorted by name, for planners.
func (r *Registry) Functions() []byte {
	list := []function{}
	for _, s := range r.Specs() {
		list = append(list, functionOf(s))
	}
	return written(list)
}
