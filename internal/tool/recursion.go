package tool

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Limits of a schema, so that validating a value under it ends and takes time
// in proportion to the value.
const (
	maxSchemaDepth = 256  // of the schema itself
	maxInPlace     = 4096 // schemas that are applied to one part of a value
)

// inPlace are keywords whose schemas are applied to the same part of a value
// as the schema that has them.
var inPlace = []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}

// references are keywords that name a schema elsewhere.
var references = []string{"$ref", "$dynamicRef", "$recursiveRef"}

// checkRecursion refuses a schema that refers to itself without going down
// into the value, which would be applied for ever, and one whose references
// multiply: {"allOf": [A, A]} over A = {"allOf": [B, B]} and so on. A schema
// that describes a tree, and refers to itself below a property, is fine.
func checkRecursion(schema []byte) error {
	var root any
	if err := json.Unmarshal(schema, &root); err != nil {
		return err
	}
	c := &recursion{root: root, cost: map[string]int{}}
	return c.walk(root, "", 0)
}

type recursion struct {
	root any
	cost map[string]int // by JSON pointer; -1 while it is being counted
}

// walk counts every schema of the tree.
func (c *recursion) walk(v any, at string, depth int) error {
	if depth > maxSchemaDepth {
		return fmt.Errorf("it is nested more than %d deep", maxSchemaDepth)
	}
	switch v := v.(type) {
	case map[string]any:
		if _, err := c.count(v, at); err != nil {
			return err
		}
		for key, sub := range v {
			if err := c.walk(sub, at+"/"+escape(key), depth+1); err != nil {
				return err
			}
		}
	case []any:
		for i, sub := range v {
			if err := c.walk(sub, fmt.Sprintf("%s/%d", at, i), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// count returns how many schemas are applied in place of the one at a pointer.
func (c *recursion) count(v any, at string) (int, error) {
	schema, ok := v.(map[string]any)
	if !ok {
		return 0, nil
	}
	if n, ok := c.cost[at]; ok {
		if n < 0 {
			return 0, fmt.Errorf("it refers to itself without end at %q", "#"+at)
		}
		return n, nil
	}
	c.cost[at] = -1
	total := 1
	add := func(sub any, at string) error {
		n, err := c.count(sub, at)
		if total += n; err == nil && total > maxInPlace {
			err = fmt.Errorf("it applies more than %d schemas to one value", maxInPlace)
		}
		return err
	}
	for key, sub := range schema {
		if !slices.Contains(inPlace, key) {
			continue
		}
		var err error
		each(sub, at+"/"+key, key == "dependentSchemas" || key == "dependencies", func(sub any, at string) {
			if err == nil {
				err = add(sub, at)
			}
		})
		if err != nil {
			return 0, err
		}
	}
	for _, key := range references {
		if ref, ok := schema[key].(string); ok {
			target, pointer := c.find(ref)
			if err := add(target, pointer); err != nil {
				return 0, err
			}
		}
	}
	c.cost[at] = total
	return total, nil
}

// each calls do for the schemas of a keyword: a list of them, several by name,
// or one.
func each(v any, at string, named bool, do func(sub any, at string)) {
	switch v := v.(type) {
	case []any:
		for i, sub := range v {
			do(sub, fmt.Sprintf("%s/%d", at, i))
		}
	case map[string]any:
		if !named {
			do(v, at)
			return
		}
		for name, sub := range v {
			do(sub, at+"/"+escape(name))
		}
	}
}

// find follows a reference: a JSON pointer, or the name of an anchor.
func (c *recursion) find(ref string) (any, string) {
	_, fragment, _ := strings.Cut(ref, "#")
	if text, err := url.PathUnescape(fragment); err == nil {
		fragment = text
	}
	if fragment != "" && fragment[0] != '/' {
		return anchored(c.root, fragment, "")
	}
	v := c.root
	for _, part := range strings.Split(fragment, "/")[1:] {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch parent := v.(type) {
		case map[string]any:
			v = parent[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(parent) {
				return nil, ""
			}
			v = parent[i]
		}
	}
	return v, fragment
}

// anchored finds the schema that has an anchor.
func anchored(v any, name, at string) (any, string) {
	switch v := v.(type) {
	case map[string]any:
		if v["$anchor"] == name || v["$dynamicAnchor"] == name || v["$id"] == "#"+name {
			return v, at
		}
		for key, sub := range v {
			if found, p := anchored(sub, name, at+"/"+escape(key)); found != nil {
				return found, p
			}
		}
	case []any:
		for i, sub := range v {
			if found, p := anchored(sub, name, fmt.Sprintf("%s/%d", at, i)); found != nil {
				return found, p
			}
		}
	}
	return nil, ""
}

func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }
