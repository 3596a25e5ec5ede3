package openai

import (
	"encoding/json"
	"slices"
)

// strict reports whether a schema meets the rules of OpenAI's strict mode, in which answers are
// guaranteed to follow it: an object at the root; in each object all properties are required and no
// others are allowed; and only keywords that the mode knows.
//
// Source: https://platform.openai.com/docs/guides/structured-outputs, "Supported schemas".
func strict(schema []byte) bool {
	var s any
	if json.Unmarshal(schema, &s) != nil {
		return false
	}
	root, ok := s.(map[string]any)
	return ok && root["type"] == "object" && root["anyOf"] == nil && strictSchema(root)
}

func strictSchema(v any) bool {
	s, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for key, sub := range s {
		if !strictMember(key, sub) {
			return false
		}
	}
	return !isObject(s["type"]) || strictObject(s)
}

func strictMember(key string, v any) bool {
	switch key {
	case "type", "required", "additionalProperties", "enum", "const", "title", "description", "$ref",
		"pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
		"minItems", "maxItems":
		return true
	case "items":
		return strictSchema(v)
	case "anyOf":
		list, ok := v.([]any)
		return ok && !slices.ContainsFunc(list, func(x any) bool { return !strictSchema(x) })
	case "properties", "$defs", "definitions":
		all, ok := v.(map[string]any)
		for _, sub := range all {
			ok = ok && strictSchema(sub)
		}
		return ok
	}
	return false
}

func isObject(typ any) bool {
	list, ok := typ.([]any)
	return typ == "object" || ok && slices.Contains(list, any("object"))
}

func strictObject(s map[string]any) bool {
	props, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for name := range props {
		if !slices.Contains(required, any(name)) {
			return false
		}
	}
	return s["additionalProperties"] == false && len(required) == len(props)
}
