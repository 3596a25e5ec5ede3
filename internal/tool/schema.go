package tool

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// schemer is a type with a JSON Schema of its own.
type schemer interface{ JSONSchema() string }

// SchemaFor returns the JSON Schema of a struct type, by the rules described at New. The same type
// always gives the same bytes.
func SchemaFor(t reflect.Type) ([]byte, error) {
	own := map[reflect.Type]*jsonschema.Schema{}
	if err := ownSchemas(t, own, map[reflect.Type]bool{}); err != nil {
		return nil, err
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: own})
	if err != nil {
		return nil, badSchema("%w", err)
	}
	dropNull(s)
	if err := annotate(t, s); err != nil {
		return nil, err
	}
	out, err := json.Marshal(s)
	if err != nil {
		return nil, badSchema("%w", err)
	}
	return out, nil
}

// ownSchemas collects the own schemas of t and of the types in it.
func ownSchemas(t reflect.Type, own map[reflect.Type]*jsonschema.Schema, seen map[reflect.Type]bool) error {
	if seen[t] {
		return nil
	}
	seen[t] = true
	if s, ok := reflect.Zero(t).Interface().(schemer); ok && t.Kind() != reflect.Pointer {
		sch := new(jsonschema.Schema)
		if err := json.Unmarshal([]byte(s.JSONSchema()), sch); err != nil {
			return badSchema("the schema of %v: %w", t, err)
		}
		own[t] = sch
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return ownSchemas(t.Elem(), own, seen)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if !f.IsExported() {
				continue
			}
			if err := ownSchemas(f.Type, own, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropNull removes null from inferred types: a missing argument is simply left out, and several
// providers refuse lists of types.
func dropNull(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if rest := slices.DeleteFunc(slices.Clone(s.Types), func(t string) bool { return t == "null" }); len(rest) == 1 {
		s.Type, s.Types = rest[0], nil
	}
	for _, sub := range s.Properties {
		dropNull(sub)
	}
	dropNull(s.Items)
	dropNull(s.AdditionalProperties)
}

// annotate adds the tags of t's fields to its schema.
func annotate(t reflect.Type, s *jsonschema.Schema) error {
	switch t.Kind() {
	case reflect.Pointer:
		return annotate(t.Elem(), s)
	case reflect.Slice, reflect.Array:
		if s.Items != nil {
			return annotate(t.Elem(), s.Items)
		}
	case reflect.Map:
		if s.AdditionalProperties != nil {
			return annotate(t.Elem(), s.AdditionalProperties)
		}
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			sub, ok := s.Properties[name]
			if !ok || f.Anonymous {
				continue
			}
			if err := annotateField(f, sub); err != nil {
				return err
			}
			if err := annotate(f.Type, sub); err != nil {
				return err
			}
		}
	}
	return nil
}

func annotateField(f reflect.StructField, s *jsonschema.Schema) error {
	var bad error
	float := func(tag string, to **float64) {
		if v, ok := f.Tag.Lookup(tag); ok && bad == nil {
			n, err := strconv.ParseFloat(v, 64)
			*to, bad = &n, err
		}
	}
	length := func(tag string, text, list **int) {
		if v, ok := f.Tag.Lookup(tag); ok && bad == nil {
			n, err := strconv.Atoi(v)
			bad = err
			if s.Type == "array" {
				*list = &n
			} else {
				*text = &n
			}
		}
	}
	float("min", &s.Minimum)
	float("max", &s.Maximum)
	length("minlen", &s.MinLength, &s.MinItems)
	length("maxlen", &s.MaxLength, &s.MaxItems)
	if v, ok := f.Tag.Lookup("pattern"); ok {
		s.Pattern = v
	}
	if v, ok := f.Tag.Lookup("format"); ok {
		s.Format = v
	}
	if v, ok := f.Tag.Lookup("enum"); ok && bad == nil {
		for _, word := range strings.Split(v, ",") {
			x, err := literal(s.Type, word)
			s.Enum, bad = append(s.Enum, x), err
		}
	}
	if v, ok := f.Tag.Lookup("default"); ok && bad == nil {
		x, err := literal(s.Type, v)
		bad = err
		s.Default, _ = json.Marshal(x) // a string or decoded from JSON: cannot fail
	}
	if bad != nil {
		return badSchema("the tags of %s: %w", f.Name, bad)
	}
	return nil
}

// literal reads a tag's value: as text if the schema is a string, otherwise as JSON.
func literal(typ, s string) (any, error) {
	if typ == "string" {
		return s, nil
	}
	var v any
	err := json.Unmarshal([]byte(s), &v)
	return v, err
}
