package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"steward/internal/fault"
)

// leastEffort is how many schemas may be applied to the parts of any
// arguments; long ones may cost in proportion.
const leastEffort = 1 << 17

// effort counts how many schemas are applied to the parts of a value, each
// pair of them once. A schema that refers to itself twice below a property
// would take time that doubles with each level of the value.
type effort struct {
	recursion
	most  int
	known map[part]int
	refs  map[string]target
}

// part is a schema, by its JSON pointer, and an object or a list by its address.
type part struct {
	schema string
	value  uintptr
}

type target struct {
	schema any
	at     string
}

// referring returns a schema that has references, decoded, and nil for others:
// their own size bounds what they cost.
func referring(schema []byte) (any, error) {
	var root any
	if !bytes.Contains(schema, []byte(`Ref"`)) && !bytes.Contains(schema, []byte(`$ref"`)) {
		return nil, nil
	}
	err := json.Unmarshal(schema, &root)
	return root, err
}

// checkEffort refuses a value of so many bytes that it would take too long to
// validate under a schema (TooLarge, args_too_complex).
func checkEffort(schema, v any, size int) error {
	e := effort{recursion: recursion{root: schema}, most: leastEffort + 4*size, known: map[part]int{}, refs: map[string]target{}}
	if schema == nil || e.of(schema, "", v) <= e.most {
		return nil
	}
	return fault.New(fault.TooLarge, "args_too_complex", "the arguments are nested too deep for a schema that refers to itself several times").
		WithHint("send less at once, nested less deep")
}

// of counts what one schema costs at one value, and gives up beyond the most.
func (e *effort) of(schema any, at string, v any) int {
	s, ok := schema.(map[string]any)
	if !ok {
		return 0
	}
	key := part{schema: at}
	if r := reflect.ValueOf(v); r.Kind() == reflect.Map || r.Kind() == reflect.Slice {
		key.value = r.Pointer()
	}
	if n, ok := e.known[key]; ok && key.value != 0 {
		return n
	}
	total := 1
	add := func(sub any, at string, v any) {
		if total <= e.most {
			total += e.of(sub, at, v)
		}
	}
	for name, sub := range s {
		if slices.Contains(inPlace, name) {
			each(sub, at+"/"+name, name == "dependentSchemas" || name == "dependencies", func(sub any, at string) { add(sub, at, v) })
		}
	}
	for _, name := range references {
		if ref, ok := s[name].(string); ok {
			t, ok := e.refs[ref]
			if !ok {
				t.schema, t.at = e.find(ref)
				e.refs[ref] = t
			}
			add(t.schema, t.at, v)
		}
	}
	e.below(s, at, v, add)
	e.known[key] = total
	return total
}

// below tells add which schemas are applied to the members of a value.
func (e *effort) below(s map[string]any, at string, v any, add func(sub any, at string, v any)) {
	all := func(names []string, v any) {
		for _, name := range names {
			each(s[name], at+"/"+name, name == "patternProperties", func(sub any, at string) { add(sub, at, v) })
		}
	}
	switch v := v.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		for name, member := range v {
			add(properties[name], at+"/properties/"+escape(name), member)
			add(s["propertyNames"], at+"/propertyNames", name)
			all([]string{"patternProperties", "additionalProperties", "unevaluatedProperties"}, member)
		}
	case []any:
		first, _ := s["prefixItems"].([]any)
		for i, item := range v {
			if i < len(first) {
				add(first[i], fmt.Sprintf("%s/prefixItems/%d", at, i), item)
			}
			all([]string{"items", "additionalItems", "contains", "unevaluatedItems"}, item)
		}
	}
}
