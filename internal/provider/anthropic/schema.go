package anthropic

import (
	"bytes"
	"slices"

	"steward/internal/provider/wire"
)

// appendSchema appends a schema as output_config.format takes it: keywords
// that it does not know are left out, which only widens what the schema
// allows, and objects with properties allow no others, as it demands. The
// order of the members, which is the order of the answer, stays.
//
// Source: https://platform.claude.com/docs/en/build-with-claude/structured-outputs, "JSON Schema limitations".
func appendSchema(dst, schema []byte) []byte {
	if t := bytes.TrimSpace(schema); len(t) == 0 || t[0] != '{' {
		return append(dst, schema...) // true and false are schemas too
	}
	dst = append(dst, '{')
	start := len(dst)
	var object, closed, open bool
	d := wire.Decode(schema)
	d.Object(func(key []byte) {
		raw := d.Raw()
		switch k := string(key); k {
		case "type":
			object = object || bytes.Contains(raw, []byte(`"object"`))
		case "properties":
			object = true
		case "additionalProperties":
			closed = string(raw) == "false"
			open = !closed && string(raw) != "true" // a map: its values' schema
			if !closed && !open {
				return
			}
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		before := len(dst)
		if dst = appendKeyword(dst, key, raw); len(dst) == before && before > start {
			dst = dst[:before-1]
		}
	})
	if object && !closed && !open {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(dst, `"additionalProperties":false`...)
	}
	return append(dst, '}')
}

// appendKeyword appends a member of a schema, or nothing.
func appendKeyword(dst, key, raw []byte) []byte {
	name := string(key)
	member := func() []byte { return append(wire.AppendString(dst, key), ':') }
	switch name {
	case "type", "description", "title", "enum", "const", "required", "$ref", "default":
		return append(member(), raw...)
	case "additionalProperties", "items":
		return appendSchema(member(), raw)
	case "properties", "$defs", "definitions":
		return appendEach(member(), raw, '{', '}')
	case "anyOf", "allOf":
		return appendEach(member(), raw, '[', ']')
	case "oneOf":
		return appendEach(append(dst, `"anyOf":`...), raw, '[', ']')
	case "minItems":
		if s := string(raw); s == "0" || s == "1" {
			return append(member(), raw...)
		}
	case "format":
		formats := []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
		if slices.Contains(formats, string(bytes.Trim(raw, `"`))) {
			return append(member(), raw...)
		}
	}
	return dst
}

// appendEach appends a list or an object of schemas.
func appendEach(dst, raw []byte, begin, end byte) []byte {
	dst = append(dst, begin)
	start := len(dst)
	d := wire.Decode(raw)
	next := func() {
		if len(dst) > start {
			dst = append(dst, ',')
		}
	}
	if begin == '[' {
		d.Array(func(int) {
			next()
			dst = appendSchema(dst, d.Raw())
		})
	} else {
		d.Object(func(key []byte) {
			next()
			dst = append(wire.AppendString(dst, key), ':')
			dst = appendSchema(dst, d.Raw())
		})
	}
	return append(dst, end)
}
