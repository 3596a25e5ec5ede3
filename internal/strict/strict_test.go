package strict_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/strict"
	_ "steward/test/seed"
)

// told collects faults as "LINE:COLUMN code".
func told(into *[]string) strict.Report {
	return func(p strict.Position, code, remedy, format string, args ...any) {
		if fmt.Sprintf(format, args...) == "" || remedy == "" {
			*into = append(*into, "a fault without words")
		}
		*into = append(*into, fmt.Sprintf("%d:%d %s", p.Line, p.Column, code))
	}
}

func TestFaultsHaveTheirPosition(t *testing.T) {
	for _, c := range []struct {
		read func([]byte, strict.Report) *strict.Node
		text string
		want string
	}{
		{strict.ReadYAML, "a: &b c\n", "1:4 yaml_unsupported"},
		{strict.ReadYAML, "a: .inf\n", "1:4 yaml_unsupported"},
		{strict.ReadYAML, "a: 1\n---\nb: 2\n", "3:2 yaml_invalid"},
		{strict.ReadYAML, "a: " + strings.Repeat("[", 100), "1:68 definition_too_deep"},
		{strict.ReadYAML, strings.Repeat("- ", 100), "1:65 definition_too_deep"},
		{strict.ReadJSON, "{\n \"a\": 1,\n \"a\": 2}", "3:2 key_twice"},
		{strict.ReadJSON, `{"a": tru}`, "1:10 json_invalid"},
		{strict.ReadJSON, `{"a": 1} x`, "1:10 json_invalid"},
		{strict.ReadJSON, `{"a": 1`, "1:8 json_invalid"},
		{strict.ReadJSON, ``, "1:1 json_invalid"},
		{strict.ReadJSON, strings.Repeat("[", 100), "1:34 json_invalid"},
	} {
		var got []string
		if c.read([]byte(c.text), told(&got)); fmt.Sprint(got) != "["+c.want+"]" {
			t.Errorf("%.20q: %v, want %s", c.text, got, c.want)
		}
	}
}

func TestDecode(t *testing.T) {
	type inner struct {
		On bool `yaml:"on"`
	}
	type into struct {
		inner `yaml:",inline"`
		Name  string            `yaml:"name"`
		List  []string          `yaml:"list"`
		Wait  time.Duration     `yaml:"wait"`
		Env   map[string]string `yaml:"env"`
		More  *int              `yaml:"more"`
		Any   any               `yaml:"any"`
		Raw   json.RawMessage   `yaml:"raw"`
	}
	const yaml = "name: x\nlist: one\nwait: 5s\nenv: {a: \"\\n\"}\nmore: 3\nany: [1, 2.5, {b: null}]\nraw: {c: [true]}\non: true\n"
	var got into
	var faults []string
	strict.Decoder{Bad: told(&faults)}.Decode(strict.ReadYAML([]byte(yaml), told(&faults)), &got)
	if len(faults) > 0 || got.Name != "x" || got.List[0] != "one" || got.Wait != 5*time.Second || got.Env["a"] != "\n" || *got.More != 3 ||
		fmt.Sprint(got.Any) != "[1 2.5 map[b:<nil>]]" || string(got.Raw) != `{"c":[true]}` || !got.On {
		t.Errorf("%+v, %v", got, faults)
	}
	strict.Decoder{Bad: told(&faults)}.Decode(strict.ReadYAML([]byte("nmae: x\nlist: {a: b}\nwait: 5\nenv: {a: 1}\n"), told(&faults)), &got)
	if fmt.Sprint(faults) != "[1:1 key_unknown 2:7 value_invalid 3:7 value_invalid 4:10 value_invalid]" {
		t.Errorf("%v", faults)
	}
}

// What is JSON is read the same by both readers' nodes.
func TestJSONIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var gen func(depth int) *rapid.Generator[any]
		gen = func(depth int) *rapid.Generator[any] {
			scalar := rapid.OneOf(rapid.Just[any](nil), rapid.Just[any](true), rapid.Just[any](0.5), rapid.Just[any](-3.0), rapid.String().AsAny())
			if depth == 0 {
				return scalar
			}
			return rapid.OneOf(scalar, rapid.SliceOfN(gen(depth-1), 0, 3).AsAny(), rapid.MapOfN(rapid.String(), gen(depth-1), 0, 3).AsAny())
		}
		text, err := json.Marshal(gen(3).Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		var faults []string
		n := strict.ReadJSON(text, told(&faults))
		if len(faults) > 0 {
			t.Fatalf("%s: %v", text, faults)
		}
		var want, got any
		if json.Unmarshal(text, &want) != nil || json.Unmarshal(n.JSON(), &got) != nil || fmt.Sprint(want) != fmt.Sprint(got) {
			t.Fatalf("%s became %s", text, n.JSON())
		}
	})
}
