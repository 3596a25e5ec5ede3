package wire

import (
	"bytes"
	"slices"
	"strconv"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/tool"
)

// AppendMember appends a member to the inside of an object, its value as it
// was written.
func AppendMember[S string | []byte](dst []byte, name S, raw []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return append(append(AppendString(dst, name), ':'), raw...)
}

// AppendNested appends a member that is the object with this inside, unless
// that is empty.
func AppendNested(dst []byte, name string, inside []byte) []byte {
	if len(inside) == 0 {
		return dst
	}
	return AppendMember(dst, name, append(append([]byte{'{'}, inside...), '}'))
}

// AppendInside appends the members of a raw object after others, byte for byte.
func AppendInside(dst, object []byte) []byte {
	object = bytes.TrimSpace(object)
	if len(object) < 2 || len(bytes.TrimSpace(object[1:len(object)-1])) == 0 {
		return dst
	}
	return append(append(dst, ','), object[1:len(object)-1]...)
}

// AppendStrings appends a list of strings.
func AppendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, s)
	}
	return append(dst, ']')
}

// MetaOf returns a provider's metadata with the members, the inside of a JSON
// object; none if there are none.
func MetaOf(provider string, members []byte) message.Meta {
	if len(members) == 0 {
		return message.Meta{}
	}
	return message.Meta{Provider: provider, Fields: append(append([]byte{'{'}, members...), '}')}
}

// Members writes the inside of a JSON object, member by member.
type Members []byte

// Raw adds a member as it is written; String, Int and Float add others.
func (m *Members) Raw(name string, value []byte) { *m = AppendMember(*m, name, value) }

// String adds a text.
func (m *Members) String(name, value string) { m.Raw(name, AppendString(nil, value)) }

// Int adds a number.
func (m *Members) Int(name string, n int64) { m.Raw(name, strconv.AppendInt(nil, n, 10)) }

// Float adds a number.
func (m *Members) Float(name string, f float64) {
	m.Raw(name, strconv.AppendFloat(nil, f, 'g', -1, 64))
}

// Names are the names of the settings that most vendors have.
type Names struct{ Temperature, TopP, Frequency, Presence, Seed, MaxTokens, Stop string }

// Sampling adds the settings that are set, but for the effort. Of the stop
// sequences that are not empty it takes the first most, or all if that is zero;
// it reports whether there are more.
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

// Stops returns the stop sequences that are not empty, most at most, and
// whether there are more; zero bounds nothing.
func Stops(all []string, most int) (list []string, more bool) {
	list = slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "" })
	if most > 0 && len(list) > most {
		return list[:most], true
	}
	return list, false
}

// Keyword is a member of a JSON Schema, its value as it was written.
type Keyword struct {
	Name  string
	Value []byte
}

// AdaptSchema returns a JSON Schema, its members in their order, after adapt
// has had each object schema in it, the outer ones first. bare, if it is not
// empty, stands for what is no object where a list or an object holds schemas.
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
	var out []byte
	for _, k := range adapt(list) {
		switch in := Decode(k.Value); k.Name {
		case "properties", "$defs", "definitions", "patternProperties", "dependentSchemas":
			if in.IsObject() {
				var inside []byte
				in.Object(func(key []byte) { inside = AppendMember(inside, string(key), sub(in.Raw())) })
				k.Value = append(append([]byte{'{'}, inside...), '}')
			}
		case "anyOf", "oneOf", "allOf", "prefixItems":
			if in.IsArray() {
				var items [][]byte
				in.Array(func(int) { items = append(items, sub(in.Raw())) })
				k.Value = append(append([]byte{'['}, bytes.Join(items, []byte{','})...), ']')
			}
		case "items", "additionalProperties", "not", "contains", "if", "then", "else", "propertyNames":
			k.Value = AdaptSchema(k.Value, bare, adapt)
		}
		out = AppendMember(out, k.Name, k.Value)
	}
	return append(append([]byte{'{'}, out...), '}')
}

// Functions writes tools as OpenAI's protocol, and Ollama's, have them, each
// schema as adapted.
func Functions(specs []tool.Spec, adapt func(tool.Spec) ([]byte, error)) ([]byte, error) {
	out := []byte{'['}
	for i, s := range specs {
		if i > 0 {
			out = append(out, ',')
		}
		var f Members
		f.String("name", ToolName(tool.WireName(s.Name)))
		if s.Description != "" {
			f.String("description", s.Description)
		}
		schema, err := adapt(s)
		if err != nil {
			return nil, err
		}
		f.Raw("parameters", schema)
		out = append(append(append(out, `{"type":"function","function":{`...), f...), "}}"...)
	}
	return append(out, ']'), nil
}

// InWords is the system prompt of a request whose schema the model is told in
// words: it could not call its tools if it were held to it.
func InWords(r *llm.Request) string {
	words := "Your final answer must be one JSON value of this JSON Schema, and nothing else:\n" + string(r.Schema.JSON)
	if r.System == "" {
		return words
	}
	return r.System + "\n\n" + words
}
