package gemini

import (
	"bytes"
	"errors"

	"steward/internal/provider/wire"
)

var errSchema = errors.New("not a JSON object")

// adaptSchema returns a schema as Gemini takes it. Gemini ignores keywords
// that it does not know, so the rest may stay; but beside $ref it refuses
// everything that does not begin with $ (GenerationConfig.responseJsonSchema
// in the API reference), and const, which it ignores, is said by a one-valued
// enum. A schema that has neither is returned as it is.
func adaptSchema(schema []byte) ([]byte, error) {
	if !wire.IsObject(schema) {
		return nil, errSchema
	}
	if !bytes.Contains(schema, []byte(`"$ref"`)) && !bytes.Contains(schema, []byte(`"const"`)) {
		return schema, nil
	}
	d := wire.Decode(schema)
	out := appendSchema(nil, d)
	return out, d.End()
}

// appendSchema appends the schema that comes next, adapted.
func appendSchema(dst []byte, d *wire.Decoder) []byte {
	if !d.IsObject() { // true, false, or no schema at all
		return append(dst, d.Raw()...)
	}
	raw := d.Raw()
	ref, enum := false, false
	scan := wire.Decode(raw)
	scan.Object(func(key []byte) {
		ref = ref || string(key) == "$ref" && scan.IsString()
		enum = enum || string(key) == "enum"
	})

	in := wire.Decode(raw)
	dst = append(dst, '{')
	first := len(dst)
	in.Object(func(key []byte) {
		name := string(key)
		if ref && name[:min(1, len(name))] != "$" || enum && name == "const" {
			return
		}
		if len(dst) > first {
			dst = append(dst, ',')
		}
		switch name {
		case "const":
			dst = append(dst, `"enum":[`...)
			dst = append(dst, in.Raw()...)
			dst = append(dst, ']')
			return
		case "properties", "$defs", "definitions", "patternProperties", "dependentSchemas":
			dst = appendName(dst, name)
			dst = appendSchemas(dst, in)
		case "items", "additionalProperties", "not", "contains", "if", "then", "else", "propertyNames":
			dst = appendName(dst, name)
			dst = appendSchema(dst, in)
		case "anyOf", "oneOf", "allOf", "prefixItems":
			dst = appendName(dst, name)
			dst = appendSchemaList(dst, in)
		default:
			dst = appendName(dst, name)
			dst = append(dst, in.Raw()...)
		}
	})
	return append(dst, '}')
}

// appendSchemas appends an object whose members are schemas.
func appendSchemas(dst []byte, d *wire.Decoder) []byte {
	if !d.IsObject() {
		return append(dst, d.Raw()...)
	}
	dst = append(dst, '{')
	first := len(dst)
	d.Object(func(key []byte) {
		if len(dst) > first {
			dst = append(dst, ',')
		}
		dst = appendName(dst, string(key))
		dst = appendSchema(dst, d)
	})
	return append(dst, '}')
}

func appendSchemaList(dst []byte, d *wire.Decoder) []byte {
	if !d.IsArray() {
		return append(dst, d.Raw()...)
	}
	dst = append(dst, '[')
	d.Array(func(i int) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendSchema(dst, d)
	})
	return append(dst, ']')
}

func appendName(dst []byte, name string) []byte {
	dst = wire.AppendString(dst, name)
	return append(dst, ':')
}
