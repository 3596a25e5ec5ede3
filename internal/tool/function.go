package tool

import (
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// function is a spec in OpenAI's form of one. Source: OpenAI's API reference,
// "tools" of a chat completion.
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
	if f.Function.Parameters = s.Input; !f.Function.Parameters.IsValid() { // no spec that CheckSpec admits
		f.Function.Parameters = jsontext.Value(`{"type":"object"}`)
	}
	return f
}

func written(functions any) []byte {
	b, err := jsonv2.Marshal(functions, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // texts, and JSON that was looked at
	}
	return b
}

// OpenAIFunction returns a spec in OpenAI's form of a function, as JSON:
// {"type":"function","function":{"name":…,"description":…,"parameters":…}}.
// The name is the WireName.
func OpenAIFunction(s Spec) []byte { return written(functionOf(s)) }

// Functions returns all tools as a JSON array of OpenAIFunction, sorted by
// name: the list that a planner is given.
func (r *Registry) Functions() []byte {
	list := []function{}
	for _, s := range r.Specs() {
		list = append(list, functionOf(s))
	}
	return written(list)
}
