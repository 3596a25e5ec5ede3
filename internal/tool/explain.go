package tool

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"steward/internal/strict"
)

// maxFaults bounds how many faults of one call are reported to a model.
const maxFaults = 8

// maxDepth bounds how deep a schema is explained.
const maxDepth = 64

// explain lists the faults of a value, each with its path, what was expected and what came, so that a
// model can correct all of them at once. It knows the keywords that argument schemas use; an empty
// list means that the fault concerns another keyword.
func explain(s *jsonschema.Schema, v any) []string {
	x := explainer{root: s}
	x.walk(s, v, "", 0)
	return x.faults
}

type explainer struct {
	root   *jsonschema.Schema
	faults []string
}

func (x *explainer) add(path, format string, args ...any) {
	if len(x.faults) >= maxFaults {
		return
	}
	if path == "" {
		path = "the arguments"
	}
	x.faults = append(x.faults, path+": "+fmt.Sprintf(format, args...))
}

func (x *explainer) walk(s *jsonschema.Schema, v any, path string, depth int) {
	if s = x.deref(s); s == nil || depth > maxDepth {
		return
	}
	if !x.rightType(s, v, path) {
		return
	}
	if s.Enum != nil && !slices.ContainsFunc(s.Enum, func(e any) bool { return jsonschema.Equal(e, v) }) {
		x.add(path, "expected one of %s, got %s", show(s.Enum), show(v))
	}
	if s.Const != nil && !jsonschema.Equal(*s.Const, v) {
		x.add(path, "expected %s, got %s", show(*s.Const), show(v))
	}
	switch v := v.(type) {
	case float64:
		x.number(s, v, path)
	case string:
		x.text(s, v, path)
	case []any:
		x.array(s, v, path, depth)
	case map[string]any:
		x.object(s, v, path, depth)
	}
	for _, sub := range s.AllOf {
		x.walk(sub, v, path, depth+1)
	}
}

// deref follows local references to definitions.
func (x *explainer) deref(s *jsonschema.Schema) *jsonschema.Schema {
	for range 16 {
		if s == nil || s.Ref == "" {
			return s
		}
		if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
			s = x.root.Defs[name]
		} else if name, ok := strings.CutPrefix(s.Ref, "#/definitions/"); ok {
			s = x.root.Definitions[name]
		} else {
			return nil
		}
	}
	return nil
}

func (x *explainer) rightType(s *jsonschema.Schema, v any, path string) bool {
	want := s.Types
	if s.Type != "" {
		want = []string{s.Type}
	}
	got := typeName(v)
	if want == nil || slices.Contains(want, got) || got == "integer" && slices.Contains(want, "number") {
		return true
	}
	x.add(path, "expected %s, got %s %s", strings.Join(want, " or "), got, show(v))
	return false
}

func (x *explainer) number(s *jsonschema.Schema, v float64, path string) {
	switch {
	case s.Minimum != nil && v < *s.Minimum:
		x.add(path, "expected at least %s, got %s", show(*s.Minimum), show(v))
	case s.Maximum != nil && v > *s.Maximum:
		x.add(path, "expected at most %s, got %s", show(*s.Maximum), show(v))
	case s.ExclusiveMinimum != nil && v <= *s.ExclusiveMinimum:
		x.add(path, "expected more than %s, got %s", show(*s.ExclusiveMinimum), show(v))
	case s.ExclusiveMaximum != nil && v >= *s.ExclusiveMaximum:
		x.add(path, "expected less than %s, got %s", show(*s.ExclusiveMaximum), show(v))
	case s.MultipleOf != nil && v / *s.MultipleOf != math.Trunc(v / *s.MultipleOf):
		x.add(path, "expected a multiple of %s, got %s", show(*s.MultipleOf), show(v))
	}
}

func (x *explainer) text(s *jsonschema.Schema, v, path string) {
	n := utf8.RuneCountInString(v)
	if s.MinLength != nil && n < *s.MinLength {
		x.add(path, "expected at least %d characters, got %d", *s.MinLength, n)
	}
	if s.MaxLength != nil && n > *s.MaxLength {
		x.add(path, "expected at most %d characters, got %d", *s.MaxLength, n)
	}
	if s.Pattern != "" {
		if re, err := regexp.Compile(s.Pattern); err == nil && !re.MatchString(v) {
			x.add(path, "expected text that matches the regular expression %s, got %s", s.Pattern, show(v))
		}
	}
}

func (x *explainer) array(s *jsonschema.Schema, v []any, path string, depth int) {
	if s.MinItems != nil && len(v) < *s.MinItems {
		x.add(path, "expected at least %d items, got %d", *s.MinItems, len(v))
	}
	if s.MaxItems != nil && len(v) > *s.MaxItems {
		x.add(path, "expected at most %d items, got %d", *s.MaxItems, len(v))
	}
	for i, item := range v {
		sub := s.Items
		if i < len(s.PrefixItems) {
			sub = s.PrefixItems[i]
		}
		x.walk(sub, item, path+"["+strconv.Itoa(i)+"]", depth+1)
	}
}

func (x *explainer) object(s *jsonschema.Schema, v map[string]any, path string, depth int) {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			x.add(strict.Join(path, name), "is missing%s", expected(x.deref(s.Properties[name])))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if sub, ok := s.Properties[name]; ok {
			x.walk(sub, v[name], strict.Join(path, name), depth+1)
		} else if s.AdditionalProperties != nil && len(s.PatternProperties) == 0 {
			if closed(s.AdditionalProperties) {
				x.add(strict.Join(path, name), "is unknown%s", known(s, name))
			} else {
				x.walk(s.AdditionalProperties, v[name], strict.Join(path, name), depth+1)
			}
		}
	}
}

// closed reports whether s admits nothing.
func closed(s *jsonschema.Schema) bool {
	return s.Not != nil && show(s) == "false"
}

// expected describes a missing member, as in "; expected a number: the first factor".
func expected(s *jsonschema.Schema) string {
	if s == nil {
		return ""
	}
	out := cmp.Or(s.Type, strings.Join(s.Types, " or "))
	if s.Description != "" {
		out += " (" + Clip(s.Description, 120) + ")"
	}
	if out == "" {
		return ""
	}
	return "; expected " + strings.TrimSpace(out)
}

// known names the members that an object may have, and the one that was probably meant.
func known(s *jsonschema.Schema, name string) string {
	names := slices.Sorted(maps.Keys(s.Properties))
	if len(names) == 0 {
		return "; it takes no arguments"
	}
	out := "; known are " + strings.Join(names, ", ")
	if near := nearest(name, names, 1); len(near) > 0 {
		out += "; did you mean " + near[0] + "?"
	}
	return out
}

func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	}
	return "object"
}

// show returns a value as JSON, shortened.
func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return Clip(string(b), 80)
}
