package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"steward/internal/fault"
)

// fake is a tool that does nothing, with a schema.
type fake struct{ schema string }

func (f fake) Spec() Spec { return Spec{Name: "test.fake", Input: []byte(f.schema), Effect: Action} }
func (fake) Call(context.Context, Invocation) (Result, error) {
	return Result{}, nil
}

const everyType = `{"type":"object","properties":{
	"n":{"type":"integer"},"x":{"type":"number"},"b":{"type":"boolean"},"s":{"type":"string"},
	"list":{"type":"array","items":{"type":"integer"}},"words":{"type":"array","items":{"type":"string"}},
	"size":{"enum":["small","Large"]},"one":{"const":"yes"},
	"maybe":{"anyOf":[{"type":"integer"},{"type":"null"}]},"null":{"type":["integer","null"]},
	"either":{"anyOf":[{"type":"integer"},{"type":"boolean"}]},
	"many":{"oneOf":[{"type":"integer"},{"type":"array","items":{"type":"integer"}}]},
	"in":{"type":"object","properties":{"n":{"type":"integer"},"deep":{"type":"array","items":{"$ref":"#/$defs/point"}}},"required":["n"],"additionalProperties":false},
	"free":{"type":"object","additionalProperties":{"type":"integer"}}},
	"additionalProperties":false,
	"$defs":{"point":{"type":"object","properties":{"at":{"type":"number"},"next":{"$ref":"#/$defs/point"}},"required":["at"]}}}`

func TestCorrect(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{``, `{}`}, {`null`, `{}`}, {`"{\"n\":\"5\"}"`, `{"n":5}`},
		{`{"n":null,"s":null,"b":null}`, `{}`}, {`{"n":"null"}`, `{}`}, {`{"s":"null"}`, `{"s":"null"}`},
		{`{"unknown":null,"n":1}`, `{"n":1}`}, {`{"maybe":null,"null":null}`, `{"maybe":null,"null":null}`},
		{`{"n":"5"}`, `{"n":5}`}, {`{"n":" 5.0 "}`, `{"n":5}`}, {`{"n":5.0}`, `{"n":5}`}, {`{"n":"-12345678901234567890"}`, `{"n":-12345678901234567890}`},
		{`{"x":"2.50"}`, `{"x":2.5}`}, {`{"x":"1e3"}`, `{"x":1000}`},
		{`{"b":"true"}`, `{"b":true}`}, {`{"b":"False"}`, `{"b":false}`},
		{`{"s":5}`, `{"s":"5"}`}, {`{"s":12345678901234567890}`, `{"s":"12345678901234567890"}`}, {`{"s":["a"]}`, `{"s":"a"}`},
		{`{"list":5}`, `{"list":[5]}`}, {`{"list":"5"}`, `{"list":[5]}`}, {`{"list":"[1,\"2\"]"}`, `{"list":[1,2]}`}, {`{"list":["1",2]}`, `{"list":[1,2]}`},
		{`{"words":"a word"}`, `{"words":["a word"]}`}, {`{"words":"[\"a\",\"b\"]"}`, `{"words":["a","b"]}`}, {`{"words":[1]}`, `{"words":["1"]}`},
		{`{"size":" SMALL "}`, `{"size":"small"}`}, {`{"size":"large"}`, `{"size":"Large"}`}, {`{"one":"Yes"}`, `{"one":"yes"}`},
		{`{"maybe":"7","null":"8"}`, `{"maybe":7,"null":8}`}, {`{"either":"7"}`, `{"either":7}`}, {`{"either":"true"}`, `{"either":true}`},
		{`{"in":"{\"n\":\"1\",\"deep\":{\"at\":\"2\",\"next\":{\"at\":\"3\",\"next\":null}}}"}`, `{"in":{"deep":[{"at":2,"next":{"at":3}}],"n":1}}`},
		{`{"in":{"n":1,"more":null}}`, `{"in":{"n":1}}`}, {`{"free":{"a":"1","b":null}}`, `{"free":{"a":1}}`},
	} {
		got, err := Correct(fake{everyType}, []byte(c.args), nil)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v; want %s", c.args, got, err, c.want)
		}
	}
}

func TestWhatIsNotClearIsNotCorrected(t *testing.T) {
	for _, args := range []string{
		`{"n":"five"}`, `{"n":"5.5"}`, `{"n":5.5}`, `{"n":"007"}`, `{"n":""}`, `{"n":true}`, `{"n":"0x10"}`, `{"n":[1,2]}`,
		`{"x":"1,5"}`, `{"x":"NaN"}`, `{"x":"1e999"}`, `{"b":"yes"}`, `{"b":1}`, `{"b":"1"}`,
		`{"s":1.0}`, `{"s":1.10}`, `{"s":true}`, `{"s":{"a":1}}`, `{"s":["a","b"]}`,
		`{"list":"1,2"}`, `{"words":"a, b"}`, `{"words":"a\nb"}`, `{"words":""}`, `{"words":"[\"a\""}`,
		`{"size":"medium"}`, `{"many":"5"}`, `{"in":"{\"n\":1,\"n\":2}"}`, `{"in":null,"n":"x"}`, `{"in":{"n":null}}`, `{"more":1}`,
		`[{"n":1}]`, `"n"`,
	} {
		_, wrong := Correct(fake{everyType}, []byte(args), nil)
		if !fault.HasCode(wrong, "args_invalid") {
			t.Errorf("%s: %v", args, wrong)
			continue
		}
		canonical, err := Canonical([]byte(args))
		if err != nil {
			t.Fatal(err)
		}
		v, err := NewValidator([]byte(everyType))
		if err != nil {
			t.Fatal(err)
		}
		if plain := v.Validate(canonical); plain == nil || plain.Error() != wrong.Error() {
			t.Errorf("%s: the error is %v, and without corrections %v", args, wrong, plain)
		}
	}
}

// Whatever the schema and the value: a valid value stays as it is, also inside of one that is not valid;
// the result is valid, or the error is the one about the value as it was written.
func TestCorrectionsNeverChangeWhatIsValid(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	corrected := 0
	for range 4_000 {
		part := randomSchema(r, 3)
		schema := object(map[string]any{"a": part, "b": part})
		v, err := NewValidator(schema)
		if err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		args := encoded(t, map[string]any{"a": randomValue(r, 3), "b": randomValue(r, 3)})
		before, err := Canonical(args)
		if err != nil {
			t.Fatal(err)
		}
		plain := v.Validate(before)
		got, err := Correct(fake{string(schema)}, args, nil)
		switch {
		case plain == nil && (err != nil || string(got) != string(before)):
			t.Fatalf("%s: valid %s became %s, %v", schema, before, got, err)
		case plain != nil && err != nil && (string(got) != string(before) || !fault.HasCode(err, "args_invalid")):
			t.Fatalf("%s: %s became %s, and the error is %v", schema, before, got, err)
		case err == nil && v.Validate(got) != nil:
			t.Fatalf("%s: %s became %s, which is not valid", schema, before, got)
		case plain == nil || err != nil:
			continue
		}
		corrected++
		var was, is map[string]json.RawMessage
		if json.Unmarshal(before, &was) != nil || json.Unmarshal(got, &is) != nil {
			t.Fatal(string(got))
		}
		for name, member := range was {
			alone, err := NewValidator(object(map[string]any{name: part}))
			if err != nil {
				t.Fatal(err)
			}
			if alone.Validate(fmt.Appendf(nil, `{%q:%s}`, name, member)) == nil && string(is[name]) != string(member) {
				t.Fatalf("%s: %s: the valid member %s became %s", schema, before, member, is[name])
			}
		}
	}
	if corrected < 100 {
		t.Errorf("only %d values were corrected: the test shows little", corrected)
	}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func object(properties map[string]any) []byte {
	b, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "additionalProperties": false})
	if err != nil {
		panic(err)
	}
	return b
}

func randomSchema(r *rand.Rand, depth int) map[string]any {
	s := map[string]any{}
	switch n := r.IntN(11); {
	case n < 5 || depth == 0:
		s["type"] = []string{"integer", "number", "boolean", "string", "null"}[r.IntN(5)]
		if s["type"] == "integer" && r.IntN(2) == 0 {
			s["minimum"] = 3
		}
		if s["type"] == "string" && r.IntN(2) == 0 {
			s["enum"] = []string{"true", "Low", "5"}
		}
	case n == 5:
		s["type"] = []string{"integer", []string{"null", "string", "boolean"}[r.IntN(3)]}
	case n == 6:
		s["type"], s["items"] = "array", randomSchema(r, depth-1)
	case n == 7:
		s["type"], s["properties"] = "object", map[string]any{"a": randomSchema(r, depth-1), "b": randomSchema(r, depth-1)}
		if r.IntN(2) == 0 {
			s["required"] = []string{"a"}
		}
		if r.IntN(2) == 0 {
			s["additionalProperties"] = r.IntN(2) == 0
		}
	default:
		s[[]string{"anyOf", "oneOf", "allOf"}[n-8]] = []any{randomSchema(r, depth-1), randomSchema(r, depth-1)}
	}
	return s
}

func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(12); {
	case n < 7 || depth == 0:
		return []any{nil, true, 5, 2.5, "5", "true", "low", "null", "[5]", `{"a":"5"}`, " x ", -1, "2.0"}[r.IntN(13)]
	case n < 9:
		list := []any{}
		for range r.IntN(3) {
			list = append(list, randomValue(r, depth-1))
		}
		return list
	}
	m := map[string]any{}
	for _, name := range []string{"a", "b", "c"} {
		if r.IntN(2) == 0 {
			m[name] = randomValue(r, depth-1)
		}
	}
	return m
}
