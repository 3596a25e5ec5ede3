package tool

import (
	"bytes"
	"encoding/json"
)

// OpenAIFunction returns a spec in OpenAI's form of a function, as JSON:
// {"type":"function","function":{"name":…,"description":…,"parameters":…}}.
// The name is the WireName. Source: OpenAI's API reference, "tools" of a chat
// completion.
func OpenAIFunction(s Spec) []byte {
	return appendFunction(nil, s)
}

func appendFunction(dst []byte, s Spec) []byte {
	dst = append(dst, `{"type":"function","function":{"name":`...)
	dst = appendString(dst, WireName(s.Name))
	dst = append(dst, `,"description":`...)
	dst = appendString(dst, s.Description)
	dst = append(dst, `,"parameters":`...)
	var schema bytes.Buffer
	if json.Compact(&schema, s.Input) != nil || schema.Len() == 0 { // no spec that CheckSpec admits
		schema.Reset()
		schema.WriteString(`{"type":"object"}`)
	}
	return append(append(dst, schema.Bytes()...), "}}"...)
}

func appendString(dst []byte, s string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // a string
	}
	return append(dst, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}

// Functions returns all tools as a JSON array of OpenAIFunction, sorted by
// name: the list that a planner is given.
func (r *Registry) Functions() []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := []byte{'['}
	for i, n := range r.names {
		if i > 0 {
			list = append(list, ',')
		}
		list = appendFunction(list, r.tools[n].spec)
	}
	return append(list, ']')
}
