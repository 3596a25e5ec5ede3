package wire

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/tool"
)

// Append appends a form of JSON in which each $ stands for the next argument: a string becomes a
// JSON string, and bytes are raw JSON.
func Append(dst []byte, form string, args ...any) []byte {
	for _, a := range args {
		before, after, _ := strings.Cut(form, "$")
		dst, form = append(dst, before...), after
		switch a := a.(type) {
		case string:
			dst = AppendString(dst, a)
		case []byte:
			dst = append(dst, a...)
		}
	}
	return append(dst, form...)
}

// Comma appends the comma between two elements or members, if one stands before.
func Comma(dst []byte) []byte {
	if n := len(dst); n == 0 || dst[n-1] == '[' || dst[n-1] == '{' || dst[n-1] == ',' {
		return dst
	}
	return append(dst, ',')
}

// After returns the second part of a list, with a comma before it if neither part is empty.
func After(first, second []byte) []byte {
	if len(first) > 0 && len(second) > 0 {
		return slices.Insert(second, 0, ',')
	}
	return second
}

// AppendMember appends a member to an object, or to the inside of one. The value is raw JSON.
func AppendMember[S string | []byte](dst []byte, name S, raw []byte) []byte {
	return append(append(AppendString(Comma(dst), name), ':'), raw...)
}

// AppendNested appends a member whose value is an object with the given inside. It appends nothing
// if that is empty.
func AppendNested(dst []byte, name string, inside []byte) []byte {
	if len(inside) == 0 {
		return dst
	}
	return AppendMember(dst, name, Append(nil, `{$}`, inside))
}

// AppendInside appends the members of a raw object unchanged.
func AppendInside(dst, object []byte) []byte {
	object = bytes.TrimSpace(object)
	if len(object) < 2 || len(bytes.TrimSpace(object[1:len(object)-1])) == 0 {
		return dst
	}
	return append(Comma(dst), object[1:len(object)-1]...)
}

// AppendStrings appends a list of strings.
func AppendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for _, s := range list {
		dst = AppendString(Comma(dst), s)
	}
	return append(dst, ']')
}

// MetaOf returns a provider's metadata with the members, which are the inside of a JSON object. If
// there are none, the metadata is empty.
func MetaOf(provider string, members []byte) message.Meta {
	if len(members) == 0 {
		return message.Meta{}
	}
	return message.Meta{Provider: provider, Fields: Append(nil, `{$}`, members)}
}

// Members builds the inside of a JSON object, member by member.
type Members []byte

// Raw adds a member whose value is raw JSON.
func (m *Members) Raw(name string, value []byte) { *m = AppendMember(*m, name, value) }

// String adds a string.
func (m *Members) String(name, value string) { m.Raw(name, AppendString(nil, value)) }

// Int adds a number.
func (m *Members) Int(name string, n int64) { m.Raw(name, strconv.AppendInt(nil, n, 10)) }

// Float adds a number.
func (m *Members) Float(name string, f float64) {
	m.Raw(name, strconv.AppendFloat(nil, f, 'g', -1, 64))
}

// Names are a vendor's names for the common settings.
type Names struct{ Temperature, TopP, Frequency, Presence, Seed, MaxTokens, Stop string }

// Sampling adds the settings that are set, except for the effort. It takes at most most of the
// non-empty stop sequences, or all if most is zero, and reports whether there are more.
func (m *Members) Sampling(n Names, s llm.Sampling, most int) (more bool) {
	for _, f := range [...]struct {
		name  string
		value *float64
	}{{n.Temperature, s.Temperature}, {n.TopP, s.TopP}, {n.Frequency, s.FrequencyPenalty}, {n.Presence, s.PresencePenalty}} {
		if f.value != nil {
			m.Float(f.name, *f.value)
		}
	}
	if s.Seed != nil {
		m.Int(n.Seed, *s.Seed)
	}
	if s.MaxTokens > 0 {
		m.Int(n.MaxTokens, int64(s.MaxTokens))
	}
	stops, more := Stops(s.Stop, most)
	if len(stops) > 0 {
		m.Raw(n.Stop, AppendStrings(nil, stops))
	}
	return more
}

// Stops returns at most most of the non-empty stop sequences, and whether there are more. If most
// is zero, there is no limit.
func Stops(all []string, most int) (list []string, more bool) {
	list = slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "" })
	if most > 0 && len(list) > most {
		return list[:most], true
	}
	return list, false
}

// Keyword is a member of a JSON Schema. Its value is raw JSON.
type Keyword struct {
	Name  string
	Value []byte
}

// AdaptSchema returns a JSON Schema with its members in their order, after it has passed each
// object schema in it to adapt, outer schemas first. If bare is not empty, it replaces whatever is
// not an object where a schema is expected.
func AdaptSchema(schema []byte, bare string, adapt func([]Keyword) []Keyword) []byte {
	d := Decode(schema)
	if !d.IsObject() { // true, false, or no schema at all
		return bytes.TrimSpace(schema)
	}
	var list []Keyword
	d.Object(func(key []byte) { list = append(list, Keyword{string(key), d.Raw()}) })
	sub := func(raw []byte) []byte {
		if bare != "" && !Decode(raw).IsObject() {
			return []byte(bare)
		}
		return AdaptSchema(raw, bare, adapt)
	}
	out := []byte{'{'}
	for _, k := range adapt(list) {
		switch in := Decode(k.Value); k.Name {
		case "properties", "$defs", "definitions", "patternProperties", "dependentSchemas":
			if in.IsObject() {
				subs := []byte{'{'}
				in.Object(func(key []byte) { subs = AppendMember(subs, string(key), sub(in.Raw())) })
				k.Value = append(subs, '}')
			}
		case "anyOf", "oneOf", "allOf", "prefixItems":
			if in.IsArray() {
				subs := []byte{'['}
				in.Array(func(int) { subs = append(Comma(subs), sub(in.Raw())...) })
				k.Value = append(subs, ']')
			}
		case "items", "additionalProperties", "not", "contains", "if", "then", "else", "propertyNames":
			k.Value = AdaptSchema(k.Value, bare, adapt)
		}
		out = AppendMember(out, k.Name, k.Value)
	}
	return append(out, '}')
}

// Functions writes tools in the form of OpenAI's and Ollama's protocols, separated by commas, with each
// schema as adapt returns it.
func Functions(specs []tool.Spec, adapt func(tool.Spec) ([]byte, error)) (out []byte, err error) {
	for _, s := range specs {
		schema, err := adapt(s)
		if err != nil {
			return nil, err
		}
		out = Append(Comma(out), `{"type":"function","function":{"name":$`, ToolName(tool.WireName(s.Name)))
		if s.Description != "" {
			out = Append(out, `,"description":$`, s.Description)
		}
		out = Append(out, `,"parameters":$}}`, schema)
	}
	return out, nil
}
