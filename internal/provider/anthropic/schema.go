package anthropic

import (
	"slices"
	"strings"

	"steward/internal/provider/wire"
)

// keywords and formats are those that output_config.format knows.
var (
	keywords = []string{"type", "description", "title", "enum", "const", "required", "$ref", "default", "additionalProperties",
		"items", "properties", "$defs", "definitions", "anyOf", "allOf"}
	formats = []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)

// adaptSchema returns a schema in the form that output_config.format accepts. Keywords that it does not
// know are left out, which makes the schema less strict, and objects with properties allow no others. The
// order of the members, which is the order of the answer, does not change.
//
// Source: https://platform.claude.com/docs/en/build-with-claude/structured-outputs, "JSON Schema limitations".
func adaptSchema(schema []byte) []byte {
	return wire.AdaptSchema(schema, "", func(list []wire.Keyword) (out []wire.Keyword) {
		object, said := false, false
		for _, k := range list {
			value := string(k.Value)
			known := slices.Contains(keywords, k.Name)
			switch k.Name {
			case "type":
				object = object || strings.Contains(value, `"object"`)
			case "properties":
				object = true
			case "additionalProperties": // false, or a map: its values' schema
				known = value != "true"
				said = said || known
			case "oneOf":
				k.Name, known = "anyOf", true
			case "minItems":
				known = value == "0" || value == "1"
			case "format":
				known = slices.Contains(formats, strings.Trim(value, `"`))
			}
			if known {
				out = append(out, k)
			}
		}
		if object && !said {
			out = append(out, wire.Keyword{Name: "additionalProperties", Value: []byte("false")})
		}
		return out
	})
}
