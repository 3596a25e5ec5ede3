package tool

import (
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"
)

// anySchema draws a schema of the keywords that a plain one may have.
func anySchema(depth int) *rapid.Generator[*jsonschema.Schema] {
	return rapid.Custom(func(t *rapid.T) *jsonschema.Schema {
		s := &jsonschema.Schema{Title: "t", Description: "d"}
		types := []string{"", "integer", "number", "string", "boolean", "null", "array", "object"}
		s.Type = rapid.SampledFrom(types).Draw(t, "type")
		if rapid.IntRange(0, 5).Draw(t, "union") == 0 {
			s.Type, s.Types = "", []string{"string", "number"}
		}
		some := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 0 }
		float := func(name string) *float64 {
			return jsonschema.Ptr(float64(rapid.IntRange(-3, 3).Draw(t, name)))
		}
		length := func(name string) *int { return jsonschema.Ptr(rapid.IntRange(0, 3).Draw(t, name)) }
		if some("has min") {
			s.Minimum = float("min")
		}
		if some("has max") {
			s.Maximum = float("max")
		}
		if some("has xmin") {
			s.ExclusiveMinimum = float("xmin")
		}
		if some("has xmax") {
			s.ExclusiveMaximum = float("xmax")
		}
		if some("has multiple") {
			s.MultipleOf = jsonschema.Ptr(rapid.SampledFrom([]float64{0.5, 2, 0.1}).Draw(t, "multiple"))
		}
		if some("has lengths") {
			s.MinLength, s.MaxItems = length("minlen"), length("maxitems")
		}
		if some("has more lengths") {
			s.MaxLength, s.MinItems = length("maxlen"), length("minitems")
		}
		if some("has enum") {
			s.Enum = []any{"a", 1.0, nil, true}
		}
		if some("has const") {
			var c any = 2.0
			s.Const = &c
		}
		if depth == 0 {
			return s
		}
		sub := anySchema(depth - 1)
		if some("has items") {
			s.Items = sub.Draw(t, "items")
		}
		if rapid.Bool().Draw(t, "has properties") {
			s.Properties = map[string]*jsonschema.Schema{"a": sub.Draw(t, "a"), "b": sub.Draw(t, "b")}
			if some("requires") {
				s.Required = []string{"a"}
			}
		}
		switch rapid.IntRange(0, 3).Draw(t, "additional") {
		case 0:
			s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
		case 1:
			s.AdditionalProperties = sub.Draw(t, "additional schema")
		}
		return s
	})
}

func anyValue(depth int) *rapid.Generator[any] {
	leaf := rapid.SampledFrom([]any{nil, true, false, "", "a", "bb", "ccccc", "é€😀", 0.0, 1.0, 2.0, -3.0, 0.5, 2.3, 1e300})
	if depth == 0 {
		return leaf
	}
	sub := anyValue(depth - 1)
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(sub, 0, 4), func(v []any) any { return v }),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), sub, 0, 3), func(v map[string]any) any { return v }))
}

// For schemas of common keywords explain decides alone: it must decide as the
// library does.
func TestPlainSchemasAreDecidedAsTheLibraryDoes(t *testing.T) {
	valid := 0
	rapid.Check(t, func(t *rapid.T) {
		s := anySchema(2).Draw(t, "schema")
		s.Type, s.Types = "object", nil
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		v, err := NewValidator(b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if !v.plain {
			t.Fatalf("not plain: %s", b)
		}
		val := anyValue(3).Draw(t, "value")
		want := v.resolved.Validate(val)
		got := explain(v.schema, val)
		if (want == nil) != (len(got) == 0) {
			t.Fatalf("%s\n%v\nthe library says %v, explain %v", b, val, want, got)
		}
		if want == nil {
			valid++
		}
	})
	if valid == 0 {
		t.Error("no value was valid")
	}
}

func TestWhatIsNotPlain(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"type":"object","title":"x","properties":{"a":{"type":"string","format":"date","default":"x","examples":["y"]}},"additionalProperties":false}`: true,
		`{"type":"object","properties":{"a":{"pattern":"x"}}}`:                       false,
		`{"type":"object","properties":{"a":{"items":{"uniqueItems":true}}}}`:        false,
		`{"type":"object","additionalProperties":{"anyOf":[{"type":"string"}]}}`:     false,
		`{"type":"object","$defs":{"a":{}},"properties":{"a":{"$ref":"#/$defs/a"}}}`: false,
		`{"type":"object","patternProperties":{"a":{}}}`:                             false,
		`{"type":"object","properties":{"a":{"allOf":[{}]}}}`:                        false,
		`{"type":"object","minProperties":1}`:                                        false,
	} {
		v, err := NewValidator([]byte(schema))
		if err != nil || v.plain != want {
			t.Errorf("%s: plain %v, %v", schema, v.plain, err)
		}
	}
	deep := &jsonschema.Schema{Type: "object"}
	for range maxDepth + 2 {
		deep = &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"a": deep}}
	}
	if plain(deep, 0) {
		t.Error("a schema deeper than explain goes is plain")
	}
}
