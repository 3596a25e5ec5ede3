package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
)

// The time to validate a value depends on how often schemas are applied to its parts. A schema without
// references is applied at most once to each part, so its size bounds the cost. A schema that refers
// to itself in place would be applied for ever, and one that does so twice below a property takes time
// that doubles with each level of the value. So the applications are counted first, up to a bound.
const (
	maxSchemaDepth = 256     // of a schema itself
	minEffort      = 1 << 17 // applications that any arguments may take; longer ones may take proportionally more
	maxApplied     = 10_000  // nested applications
)

// inPlace are the keywords whose schemas apply to the same part of a value as the schema itself.
var inPlace = []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}

// references are the keywords that refer to another schema.
var references = []string{"$ref", "$dynamicRef", "$recursiveRef"}

// referring returns a decoded schema if it has references, and otherwise nil. It refuses a schema that
// is nested too deep, or that refers to itself so that not even an empty object could be checked.
func referring(schema []byte) (root any, err error) {
	for dec := jsontext.NewDecoder(bytes.NewReader(schema)); err == nil; _, err = dec.ReadToken() {
		if dec.StackDepth() > maxSchemaDepth {
			return nil, fmt.Errorf("it is nested more than %d deep", maxSchemaDepth)
		}
	}
	if err != io.EOF || !bytes.Contains(schema, []byte(`Ref"`)) && !bytes.Contains(schema, []byte(`$ref"`)) {
		return nil, nil // if it is not JSON, decoding it fails later
	}
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, err
	}
	if checkEffort(root, map[string]any{}, 0) != nil {
		return nil, fmt.Errorf("it refers to itself without end")
	}
	return root, nil
}

// checkEffort refuses a value, of size bytes, that would take too long to validate (TooLarge,
// args_too_complex).
func checkEffort(schema, v any, size int) error {
	e := effort{root: schema, left: minEffort + 4*size, refs: map[string]any{}}
	if schema == nil || e.apply(schema, v, 0) {
		return nil
	}
	return fault.New(fault.TooLarge, "args_too_complex", "the arguments are nested too deep for a schema that refers to itself several times").
		WithHint("send less at once, with less nesting")
}

type effort struct {
	root any
	left int            // applications
	refs map[string]any // the targets of references
}

// apply counts the applications of one schema to one value, and reports whether they are within the
// bound.
func (e *effort) apply(schema, v any, depth int) bool {
	s, ok := schema.(map[string]any)
	if !ok {
		return true
	}
	if e.left--; e.left < 0 || depth > maxApplied {
		return false
	}
	here := func(sub any) bool { return e.apply(sub, v, depth+1) }
	for _, name := range inPlace {
		if sub, ok := s[name]; ok && !each(sub, name == "dependentSchemas" || name == "dependencies", here) {
			return false
		}
	}
	for _, name := range references {
		if ref, ok := s[name].(string); ok && !here(e.find(ref)) {
			return false
		}
	}
	return e.below(s, v, depth+1)
}

// below applies the schemas for the members of a value.
func (e *effort) below(s map[string]any, v any, depth int) bool {
	all := func(member any, names ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			return !each(s[name], name == "patternProperties", func(sub any) bool { return e.apply(sub, member, depth) })
		})
	}
	switch v := v.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		for name, member := range v {
			if !e.apply(properties[name], member, depth) || !e.apply(s["propertyNames"], name, depth) ||
				!all(member, "patternProperties", "additionalProperties", "unevaluatedProperties") {
				return false
			}
		}
	case []any:
		first, _ := s["prefixItems"].([]any)
		for i, item := range v {
			if i < len(first) && !e.apply(first[i], item, depth) || !all(item, "items", "additionalItems", "contains", "unevaluatedItems") {
				return false
			}
		}
	}
	return true
}

// each calls do for the schemas of a keyword, as long as it returns true: a list of schemas, a map of
// them if named is set, or a single one.
func each(v any, named bool, do func(sub any) bool) bool {
	list, ok := v.([]any)
	if m, by := v.(map[string]any); by && named {
		for _, sub := range m {
			list = append(list, sub)
		}
	} else if !ok {
		return do(v)
	}
	return !slices.ContainsFunc(list, func(sub any) bool { return !do(sub) })
}

// find returns the schema that a reference leads to: by a JSON pointer, or the name of an anchor.
func (e *effort) find(ref string) any {
	v, ok := e.refs[ref]
	if ok {
		return v
	}
	_, fragment, _ := strings.Cut(ref, "#")
	if text, err := url.PathUnescape(fragment); err == nil {
		fragment = text
	}
	if v = e.root; fragment != "" && fragment[0] != '/' {
		v = anchored(e.root, fragment)
	} else {
		for token := range jsontext.Pointer(fragment).Tokens() {
			switch parent := v.(type) {
			case map[string]any:
				v = parent[token]
			case []any:
				v = nil
				if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(parent) {
					v = parent[i]
				}
			}
		}
	}
	e.refs[ref] = v
	return v
}

// anchored returns the schema with an anchor.
func anchored(v any, name string) (found any) {
	if m, ok := v.(map[string]any); ok && (m["$anchor"] == name || m["$dynamicAnchor"] == name || m["$id"] == "#"+name) {
		return m
	}
	each(v, true, func(sub any) bool {
		if sub != nil && found == nil {
			switch sub.(type) {
			case map[string]any, []any:
				found = anchored(sub, name)
			}
		}
		return found == nil
	})
	return found
}
