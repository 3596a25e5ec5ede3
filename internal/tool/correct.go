package tool

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"steward/internal/fault"
)

// Correct returns the canonical arguments of a call in the form that the tool takes. Models write "5" for
// the number 5, null for an argument that they leave out, and a single value for a list of one. It
// corrects arguments whose meaning the schema leaves no doubt about: what is authorized, shown to a person,
// recorded and executed is then the corrected value. Valid arguments are never changed. Arguments that
// cannot be corrected are returned with the error about them as they were written.
//
// canonical makes JSON canonical, and may hide secrets in it; nil stands for Canonical.
func Correct(t Tool, args []byte, canonical func([]byte) ([]byte, error)) ([]byte, error) {
	if canonical == nil {
		canonical = Canonical
	}
	if text := string(bytes.TrimSpace(args)); text == "" || text == "null" { // models leave them out for tools that need none
		args = []byte("{}")
	}
	written, err := canonical(args)
	if err != nil {
		return nil, err
	}
	check, err := checkerOf(t)
	if err != nil {
		return nil, err
	}
	wrong := check(written)
	if !fault.HasCode(wrong, "args_invalid") {
		return written, wrong
	}
	// The text as written says more than its canonical form: 1.0 is not 1 where a text is wanted.
	corrected, ok := coerce(t.Spec().Input, args)
	if !ok {
		return written, wrong
	}
	if corrected, err = canonical(corrected); err != nil || check(corrected) != nil {
		return written, wrong
	}
	return corrected, nil
}

// checkerOf returns what checks the arguments of a tool.
func checkerOf(t Tool) (func([]byte) error, error) {
	if c, ok := t.(Checker); ok {
		return c.Check, nil
	}
	v, err := NewValidator(t.Spec().Input) // tools of a registry are Checkers
	if err != nil {
		return nil, err
	}
	return v.Validate, nil
}

// Bounds of a correction. Deeper values are left unchanged.
const (
	maxCoerced      = 1 << 20 // bytes of arguments
	maxCoerceSteps  = 50_000  // applications of a schema to a part
	maxCoerceDepth  = 64
	maxNumberLength = 64
)

// coerce returns the arguments with everything corrected that does not fit the schema and can only
// mean one thing. It returns false if nothing was changed.
func coerce(schema, args []byte) ([]byte, bool) {
	var root map[string]any
	var in any
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber()
	if len(args) > maxCoerced || json.Unmarshal(schema, &root) != nil || dec.Decode(&in) != nil {
		return nil, false
	}
	version, _ := root["$schema"].(string)
	c := &coercer{old: draft(version) != "", left: maxCoerceSteps, refs: effort{root: root, refs: map[string]any{}}}
	out := c.value(root, in, 0)
	if c.left < 0 || reflect.DeepEqual(in, out) {
		return nil, false
	}
	b, err := json.Marshal(out)
	return b, err == nil
}

// coercer corrects values by one schema. Values are decoded JSON with json.Number; it changes none in
// place.
type coercer struct {
	old  bool // draft 7, in which nothing counts beside a $ref
	left int  // steps
	refs effort
}

// step counts a step, and reports whether there may be more.
func (c *coercer) step(depth int) bool {
	c.left--
	return c.left >= 0 && depth <= maxCoerceDepth
}

// value returns v as the schema wants it, or v itself where that is not certain.
func (c *coercer) value(schema, v any, depth int) any {
	s, ok := schema.(map[string]any)
	if !ok || !c.step(depth) || c.accepts(s, v, depth) {
		return v
	}
	if ref, ok := s["$ref"].(string); ok {
		if v = c.value(c.refs.find(ref), v, depth+1); c.old {
			return v
		}
	}
	for _, sub := range list(s["allOf"]) {
		v = c.value(sub, v, depth+1)
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		v = c.only(v, list(s[name]), depth)
	}
	if types := typesOf(s); types != nil && !hasType(types, v) {
		var could []any
		for _, t := range types {
			could = append(could, c.convertTo(t, s, v, depth)...)
		}
		return c.single(s, v, could, depth)
	}
	switch v := v.(type) {
	case string:
		return choice(s, v)
	case []any:
		return c.items(s, v, depth)
	case map[string]any:
		return c.members(s, v, depth)
	}
	return v
}

// only corrects a value by the one of several schemas after whose corrections it is accepted.
func (c *coercer) only(v any, schemas []any, depth int) any {
	if slices.ContainsFunc(schemas, func(s any) bool { return c.accepts(s, v, depth+1) }) {
		return v
	}
	var found []any
	for _, s := range schemas {
		if got := c.value(s, v, depth+1); c.accepts(s, got, depth+1) {
			found = distinct(found, got)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return v
}

// single returns the one of several readings of a value that the schema accepts, and the value itself
// if it is not exactly one.
func (c *coercer) single(s map[string]any, v any, readings []any, depth int) any {
	var found []any
	for _, r := range readings {
		if r = c.value(s, r, depth+1); c.accepts(s, r, depth+1) {
			found = distinct(found, r)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return v
}

func distinct(all []any, v any) []any {
	if slices.ContainsFunc(all, func(x any) bool { return equal(x, v) }) {
		return all
	}
	return append(all, v)
}

var (
	numberText = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	wholeText  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.0+)?$`)
	plainWhole = regexp.MustCompile(`^(-?[1-9][0-9]*|0)$`)
)

// convertTo returns what a value of another type can mean where the type t is wanted.
func (c *coercer) convertTo(t string, s map[string]any, v any, depth int) []any {
	text, isText := v.(string)
	bare := strings.TrimSpace(text)
	switch one, isList := v.([]any); {
	case isList && t != "array" && t != "object" && len(one) == 1: // a list of one for the value itself
		return []any{one[0]}
	case isList && t != "object":
		return nil
	}
	switch t {
	case "integer":
		if isText && len(bare) <= maxNumberLength && wholeText.MatchString(bare) {
			whole, _, _ := strings.Cut(bare, ".")
			return []any{json.Number(whole)}
		}
	case "number":
		if isText && len(bare) <= maxNumberLength && numberText.MatchString(bare) {
			return []any{json.Number(bare)}
		}
	case "boolean":
		if isText && (strings.EqualFold(bare, "true") || strings.EqualFold(bare, "false")) {
			return []any{strings.EqualFold(bare, "true")}
		}
	case "string": // only what can be written in one way
		if n, ok := v.(json.Number); ok && plainWhole.MatchString(n.String()) {
			return []any{n.String()}
		}
	case "null":
		if isText && bare == "null" {
			return []any{nil}
		}
	case "array":
		if isText && strings.HasPrefix(bare, "[") {
			return parsed[[]any](bare)
		}
		// A text with commas or lines can be a list of several.
		if v == nil || isText && (bare == "" || strings.ContainsAny(text, ",;\n")) {
			return nil
		}
		return []any{[]any{v}}
	case "object":
		if isText && strings.HasPrefix(bare, "{") {
			return parsed[map[string]any](bare)
		}
	}
	return nil
}

// parsed reads a text that holds JSON of one type.
func parsed[T any](text string) []any {
	if _, err := Canonical([]byte(text)); err != nil { // for example the same member twice
		return nil
	}
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return nil
	}
	if _, ok := v.(T); !ok {
		return nil
	}
	return []any{v}
}

// choice returns the word of an enumeration that a text is, apart from its case and the blanks around
// it.
func choice(s map[string]any, v string) any {
	words := list(s["enum"])
	if word, ok := s["const"]; ok {
		words = []any{word}
	}
	var found []any
	for _, w := range words {
		if word, ok := w.(string); ok && strings.EqualFold(word, strings.TrimSpace(v)) {
			found = distinct(found, word)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return v
}

func (c *coercer) items(s map[string]any, v []any, depth int) any {
	first := list(s["prefixItems"])
	out := make([]any, len(v))
	for i, item := range v {
		if i < len(first) {
			out[i] = c.value(first[i], item, depth+1)
		} else {
			out[i] = c.value(s["items"], item, depth+1)
		}
	}
	return out
}

// members corrects the members of an object. A null is left out where the member is optional and
// cannot be null.
func (c *coercer) members(s map[string]any, v map[string]any, depth int) any {
	required := list(s["required"])
	out := make(map[string]any, len(v))
	for name, member := range v {
		sub := memberSchema(s, name)
		nothing := member == nil || member == "null" && !c.accepts(sub, member, depth+1)
		if nothing && !slices.Contains(required, any(name)) && !c.accepts(sub, nil, depth+1) {
			continue
		}
		out[name] = c.value(sub, member, depth+1)
	}
	return out
}

// accepts reports whether a value may be valid. It looks at the keywords by which corrections go, so
// it is true for every valid value, and may be true for others.
func (c *coercer) accepts(schema, v any, depth int) bool {
	s, ok := schema.(map[string]any)
	if !ok {
		return schema != false
	}
	if !c.step(depth) {
		return true
	}
	if ref, ok := s["$ref"].(string); ok {
		if to := c.refs.find(ref); to != nil && !c.accepts(to, v, depth+1) {
			return false
		}
		if c.old {
			return true
		}
	}
	if types := typesOf(s); types != nil && !hasType(types, v) {
		return false
	}
	same := func(x any) bool { return equal(x, v) }
	if words, ok := s["enum"].([]any); ok && !slices.ContainsFunc(words, same) {
		return false
	}
	if word, ok := s["const"]; ok && !same(word) {
		return false
	}
	here := func(sub any) bool { return c.accepts(sub, v, depth+1) }
	if slices.ContainsFunc(list(s["allOf"]), func(sub any) bool { return !here(sub) }) {
		return false
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		if subs := list(s[name]); len(subs) > 0 && !slices.ContainsFunc(subs, here) {
			return false
		}
	}
	return c.acceptsParts(s, v, depth)
}

func (c *coercer) acceptsParts(s map[string]any, v any, depth int) bool {
	switch v := v.(type) {
	case []any:
		first := list(s["prefixItems"])
		for i, item := range v {
			sub := s["items"]
			if _, tuple := sub.([]any); i < len(first) {
				sub = first[i]
			} else if tuple {
				sub = nil
			}
			if !c.accepts(sub, item, depth+1) {
				return false
			}
		}
	case map[string]any:
		for _, name := range list(s["required"]) {
			if name, ok := name.(string); ok {
				if _, there := v[name]; !there {
					return false
				}
			}
		}
		for name, member := range v {
			if !c.accepts(memberSchema(s, name), member, depth+1) {
				return false
			}
		}
	}
	return true
}

// memberSchema returns the schema for a member of an object, or nil if there is none or it goes by
// patterns.
func memberSchema(s map[string]any, name string) any {
	properties, _ := s["properties"].(map[string]any)
	if sub, known := properties[name]; known {
		return sub
	}
	if _, patterns := s["patternProperties"]; patterns {
		return nil
	}
	return s["additionalProperties"]
}

// list returns a keyword's list of schemas or values.
func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// typesOf returns the types that a schema names, or nil.
func typesOf(s map[string]any) []string {
	switch t := s["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var out []string
		for _, x := range t {
			if name, ok := x.(string); ok {
				out = append(out, name)
			}
		}
		return out
	}
	return nil
}

func hasType(types []string, v any) bool {
	switch v := v.(type) {
	case nil:
		return slices.Contains(types, "null")
	case bool:
		return slices.Contains(types, "boolean")
	case string:
		return slices.Contains(types, "string")
	case []any:
		return slices.Contains(types, "array")
	case map[string]any:
		return slices.Contains(types, "object")
	case json.Number:
		f, err := v.Float64()
		whole := err == nil && f == math.Trunc(f)
		return slices.Contains(types, "number") || whole && slices.Contains(types, "integer")
	}
	return true
}

// equal compares values one of which may be decoded without json.Number.
func equal(a, b any) bool { return reflect.DeepEqual(floats(a), floats(b)) }

func floats(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := strconv.ParseFloat(v.String(), 64)
		if err != nil {
			return v.String()
		}
		return f
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = floats(x)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, x := range v {
			out[name] = floats(x)
		}
		return out
	}
	return v
}
