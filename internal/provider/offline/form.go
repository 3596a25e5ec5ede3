package offline

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"steward/internal/tool"
)

const deepest = 12 // levels of a value; below, only what a schema demands

// value makes a value of the schema s for the place path.
func (f *form) value(s *jsonschema.Schema, path []string, depth int) any {
	s = f.follow(s)
	name := ""
	if len(path) > 0 {
		name = path[len(path)-1]
	}
	switch {
	case s.Const != nil:
		return *s.Const
	case len(s.Enum) > 0:
		return f.enum(s, path)
	case len(s.AnyOf) > 0 || len(s.OneOf) > 0:
		return f.branch(s, path, depth)
	case len(s.AllOf) > 0:
		return f.value(f.joined(s), path, depth)
	}
	if v, ok := f.found[strings.Join(path, "/")]; ok && !f.plain && !f.judges(name) && f.valid(s, v) {
		return v
	}
	switch typeOf(s) {
	case "object":
		return f.object(s, path, depth)
	case "array":
		return f.array(s, path, depth)
	case "string":
		return f.str(s, name)
	case "integer", "number":
		return f.num(s, name)
	case "boolean":
		return !f.plain && f.verdict(name)
	case "null":
		return nil
	}
	if s.Type == "" && len(s.Types) == 0 && (s.MinLength != nil || s.MaxLength != nil || s.Pattern != "") {
		return f.str(s, name)
	}
	if s.Type == "" && len(s.Types) == 0 && (s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil || s.MultipleOf != nil) {
		return f.num(s, name)
	}
	if len(s.Types) > 0 { // only null
		return nil
	}
	if len(s.Required) > 0 || s.MinProperties != nil {
		return f.object(s, path, depth)
	}
	if !f.plain && f.request != "" && name != "" && depth < deepest {
		return f.str(s, name)
	}
	return map[string]any{}
}

// follow resolves references; what stands beside one is left to the check at the end.
func (f *form) follow(s *jsonschema.Schema) *jsonschema.Schema {
	for range 8 {
		if s == nil {
			return &jsonschema.Schema{}
		}
		if s.Ref == "" {
			return s
		}
		s = resolve(f.root, &jsonschema.Schema{Ref: s.Ref})
	}
	return s
}

// valid checks a value against a part of the schema.
func (f *form) valid(s *jsonschema.Schema, v any) bool {
	c := s.CloneSchemas()
	if c.Defs == nil {
		c.Defs, c.Definitions = f.root.CloneSchemas().Defs, nil
	}
	r, err := c.Resolve(nil)
	return err == nil && r.Validate(v) == nil
}

// branch takes the first alternative whose value holds for the whole.
func (f *form) branch(s *jsonschema.Schema, path []string, depth int) any {
	rest := *s
	rest.AnyOf, rest.OneOf = nil, nil
	var last any
	for _, b := range append(append([]*jsonschema.Schema{}, s.AnyOf...), s.OneOf...) {
		b = f.follow(b)
		if b.Type == "null" && !f.plain && f.request != "" && len(path) > 0 && depth < deepest/2 {
			last = nil
			continue // rather a value than none
		}
		last = f.value(f.joined(&jsonschema.Schema{AllOf: []*jsonschema.Schema{&rest, b}}), path, depth+1)
		if f.valid(s, last) {
			return last
		}
	}
	if f.valid(s, nil) {
		return nil
	}
	return last
}

// enum takes the value that the request names, else the listed thing that the
// request means, else one that says "none", else the first.
func (f *form) enum(s *jsonschema.Schema, path []string) any {
	if f.plain {
		for _, v := range s.Enum {
			if f.valid(s, v) {
				return v
			}
		}
		return s.Enum[0]
	}
	name := ""
	if len(path) > 0 {
		name = path[len(path)-1]
	}
	if v, ok := f.found[strings.Join(path, "/")]; ok && !f.judges(name) {
		return v
	}
	best, score := s.Enum[0], 0.0
	for _, v := range s.Enum {
		text, ok := v.(string)
		if !ok {
			continue
		}
		n := f.alike(text)
		if n > score {
			best, score = v, n
		}
	}
	if score < 0.2 {
		for _, v := range s.Enum {
			switch v {
			case "none", "unknown", "other", "unclear", "general", "default", nil:
				return v
			}
		}
		if word := f.grade(s.Enum); word != nil {
			return word
		}
	}
	return best
}

// alike compares the request with a name, through its listed description if it has one.
func (f *form) alike(name string) float64 {
	if f.best != nil && f.best.tool.spec.Name == name {
		return f.sure
	}
	e := newIndex([]tool.Spec{{Name: name, Description: f.describe(name)}})
	var words []queryWord
	for _, c := range f.clauses {
		words = append(words, c.words...)
	}
	if list := e.rank(words, 1); len(list) > 0 {
		return likeness(list[0], words) * 0.95
	}
	return 0
}

func (f *form) describe(name string) string {
	if e := f.listed.byName[name]; e != nil {
		return e.spec.Description
	}
	return ""
}

// grade answers an enumeration of judgements: pass or fail, yes or no.
func (f *form) grade(values []any) any {
	good, bad := words("pass passed yes ok success succeeded done complete completed good true approved accepted"), words("fail failed no error failure incomplete bad false rejected revise retry")
	for _, v := range values {
		text, _ := v.(string)
		if text = strings.ToLower(text); f.met() && good[text] || !f.met() && bad[text] {
			return v
		}
	}
	return nil
}

func (f *form) object(s *jsonschema.Schema, path []string, depth int) any {
	out := map[string]any{}
	for _, name := range ordered(s.Properties, f.orders[slashed(path)]) {
		sub := s.Properties[name]
		if contains(s.Required, name) || !f.plain && depth < 4 && f.worth(sub, append(path, name)) {
			out[name] = f.value(sub, append(path[:len(path):len(path)], name), depth+1)
		}
	}
	for _, name := range s.Required {
		if _, ok := out[name]; !ok {
			sub := s.AdditionalProperties
			for pattern, ps := range s.PatternProperties {
				if (&param{schema: &jsonschema.Schema{Pattern: pattern}}).matches(name) {
					sub = ps
				}
			}
			out[name] = f.value(sub, append(path[:len(path):len(path)], name), depth+1)
		}
	}
	f.enough(s, out, path, depth)
	return out
}

func slashed(path []string) string {
	if len(path) == 0 {
		return ""
	}
	return "/" + strings.Join(path, "/")
}

// enough adds members until the schema's least count is reached.
func (f *form) enough(s *jsonschema.Schema, out map[string]any, path []string, depth int) {
	if s.MinProperties == nil {
		return
	}
	for _, name := range ordered(s.Properties, nil) {
		if len(out) >= *s.MinProperties {
			return
		}
		if _, ok := out[name]; !ok {
			out[name] = f.value(s.Properties[name], append(path[:len(path):len(path)], name), depth+1)
		}
	}
	for i := 1; len(out) < *s.MinProperties && i < 1000; i++ {
		out["item"+strconv.Itoa(i)] = f.value(s.AdditionalProperties, append(path[:len(path):len(path)], "item"), depth+1)
	}
}

// worth reports whether an optional member has something to say.
func (f *form) worth(s *jsonschema.Schema, path []string) bool {
	key := strings.Join(path, "/")
	for k := range f.found {
		if k == key || strings.HasPrefix(k, key+"/") {
			return true
		}
	}
	name := path[len(path)-1]
	t := typeOf(f.follow(s))
	switch {
	case t == "array":
		return about(name, toolWords) && len(f.chosen) > 0 || about(name, partWords) && len(f.clauses) > 1
	case t == "string":
		return about(name, reasonWords)
	}
	return about(name, sureWords)
}

func (f *form) array(s *jsonschema.Schema, path []string, depth int) any {
	least, most := 0, math.MaxInt
	if s.MinItems != nil {
		least = *s.MinItems
	}
	if s.MaxItems != nil {
		most = *s.MaxItems
	}
	out := []any{}
	name := leaf(path)
	for i, p := range s.PrefixItems {
		if i < most && (i < least || !f.plain) {
			out = append(out, f.value(p, append(path, strconv.Itoa(i)), depth+1))
		}
	}
	if !f.plain && depth < deepest && s.Items != nil {
		out = f.members(s, path, name, depth, out, most)
	}
	if s.Contains != nil {
		n := 1
		if s.MinContains != nil {
			n = *s.MinContains
		}
		for i := range n {
			out = append(out, f.distinct(s, s.Contains, path, depth, out, i))
		}
	}
	for i := 0; len(out) < least && i < 1000; i++ {
		out = append(out, f.distinct(s, s.Items, path, depth, out, i))
	}
	return out
}

func leaf(path []string) string {
	if len(path) == 0 {
		return ""
	}
	return path[len(path)-1]
}

// members are the items that the request calls for.
func (f *form) members(s *jsonschema.Schema, path []string, name string, depth int, out []any, most int) []any {
	item := f.follow(s.Items)
	add := func(v any) {
		if len(out) < most && f.valid(item, v) && !(s.UniqueItems && has(out, v)) {
			out = append(out, v)
		}
	}
	switch {
	case typeOf(item) == "string" && (about(name, toolWords) || f.names(item)):
		for _, c := range f.chosen {
			add(c)
		}
	case typeOf(item) == "object" && about(name, partWords) && len(f.clauses) > 1:
		for _, c := range f.clauses {
			add(f.part(c).value(item, append(path, "#"), depth+1))
		}
	case typeOf(item) == "string" && about(name, partWords):
		for _, c := range f.clauses {
			add(clip(c.source(c.lo, c.hi), 200))
		}
	}
	return out
}

// names reports whether the schema's values are listed things.
func (f *form) names(s *jsonschema.Schema) bool {
	for _, v := range s.Enum {
		if text, ok := v.(string); ok && f.listed.byName[text] != nil {
			return true
		}
	}
	return false
}

// part is the form of one wish of several.
func (f *form) part(c *clause) *form {
	g := *f
	g.clauses, g.request, g.found, g.chosen, g.best, g.sure = []*clause{c}, c.source(c.lo, c.hi), nil, nil, nil, 0
	g.compare()
	return &g
}

// distinct makes one more item, unlike the others where they must be.
func (f *form) distinct(s, item *jsonschema.Schema, path []string, depth int, out []any, i int) any {
	v := f.value(item, append(path, "#"), depth+1)
	if !s.UniqueItems || !has(out, v) {
		return v
	}
	item = f.follow(item)
	for k := 1; k < 200; k++ {
		switch {
		case len(item.Enum) > 0 && k <= len(item.Enum):
			v = item.Enum[k-1]
		case typeOf(item) == "string":
			v = f.sized(item, fmt.Sprintf("%d %s", k, f.request))
		case typeOf(item) == "integer" || typeOf(item) == "number":
			v = f.fit(item, float64(k))
		case typeOf(item) == "boolean":
			v = k%2 == 0
		}
		if !has(out, v) && f.valid(item, v) {
			return v
		}
	}
	return v
}

func has(list []any, v any) bool {
	for _, w := range list {
		if string(encode(w)) == string(encode(v)) {
			return true
		}
	}
	return false
}
