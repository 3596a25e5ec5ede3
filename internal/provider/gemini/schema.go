package gemini

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"steward/internal/provider/wire"
)

var errSchema = errors.New("not a JSON object")

// adaptSchema returns a schema in the form that Gemini accepts. Gemini ignores keywords that it does not
// know. Beside $ref it refuses everything that does not begin with $ (GenerationConfig.responseJsonSchema
// in the API reference). It ignores const, which becomes an enum with one value. A schema with neither is
// returned unchanged.
func adaptSchema(schema []byte) ([]byte, error) {
	if !wire.IsObject(schema) {
		return nil, errSchema
	}
	if !bytes.Contains(schema, []byte(`"$ref"`)) && !bytes.Contains(schema, []byte(`"const"`)) {
		return schema, nil
	}
	return wire.AdaptSchema(schema, "", func(list []wire.Keyword) []wire.Keyword {
		ref, enum := false, false
		for _, k := range list {
			ref = ref || k.Name == "$ref" && k.Value[0] == '"'
			enum = enum || k.Name == "enum"
		}
		list = slices.DeleteFunc(list, func(k wire.Keyword) bool {
			return ref && !strings.HasPrefix(k.Name, "$") || enum && k.Name == "const"
		})
		for i, k := range list {
			if k.Name == "const" {
				list[i] = wire.Keyword{Name: "enum", Value: append(append([]byte{'['}, k.Value...), ']')}
			}
		}
		return list
	}), nil
}
