package policy_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/policy"
	_ "steward/test/seed"
)

func TestMask(t *testing.T) {
	for _, c := range []struct {
		in       string
		pointers []string
		out      string // empty: masking is refused
	}{
		{`{"a":1,"b":[{"c":2,"d":3},{"c":4}]}`, []string{"/b/*/c"}, `{"a":1,"b":[{"c":"***","d":3},{"c":"***"}]}`},
		{`{"a":1,"b":{"c":2}}`, []string{"/b", "/x"}, `{"a":1,"b":"***"}`},
		{`{"a/b":1,"m~n":2,"c":3}`, []string{"/a~1b", "/m~0n"}, `{"a/b":"***","m~n":"***","c":3}`},
		{`[1,2,3]`, []string{"/1"}, `[1,"***",3]`},
		{` [1e400, 12345678901234567890]` + "\n", []string{"/2"}, `[1e400,12345678901234567890]`},
		{`"plain"`, []string{"/a"}, `"plain"`},
		{`{"a":1}`, []string{""}, `***`},
		{`no json`, []string{""}, `***`},
		{`no json`, []string{"/a"}, ``},
		{`{"a":1} and more`, []string{"/a"}, ``},
		{`{"a":1}{"a":2}`, []string{"/a"}, ``},
		{`{"a":1,"a":2}`, []string{"/a"}, ``}, // ambiguous: readers differ in which member they take
		{`{"a":1`, []string{"/a"}, ``},
		{``, []string{"/a"}, ``},
		{`{"a":1}`, []string{"a"}, ``},
	} {
		got, _, ok := policy.Mask(c.in, c.pointers)
		if ok != (c.out != "") || ok && got != c.out {
			t.Errorf("%s %v: %q, %v", c.in, c.pointers, got, ok)
		}
	}
}

// Masking removes every masked value and changes nothing else.
func TestMaskHidesAndOnlyThat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "c/d", "e~f", "é"})
		var value func(depth int) any
		value = func(depth int) any {
			switch k := rapid.IntRange(0, 3).Draw(t, "kind"); {
			case depth == 0 || k == 0:
				return rapid.SampledFrom([]any{"secret", 1.5, true, nil, ""}).Draw(t, "scalar")
			case k == 1:
				out := []any{}
				for range rapid.IntRange(0, 3).Draw(t, "length") {
					out = append(out, value(depth-1))
				}
				return out
			}
			out := map[string]any{}
			for range rapid.IntRange(0, 3).Draw(t, "members") {
				out[name.Draw(t, "name")] = value(depth - 1)
			}
			return out
		}
		v := map[string]any{"a": value(3), "b": value(3)}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, _, ok := policy.Mask(string(b), []string{"/a/*", "/b"})
		if !ok {
			t.Fatalf("%s", b)
		}
		want := map[string]any{"a": v["a"], "b": "***"}
		switch x := v["a"].(type) {
		case []any:
			for i := range x {
				x[i] = "***"
			}
		case map[string]any:
			for k := range x {
				x[k] = "***"
			}
		}
		wb, _ := json.Marshal(want)
		var g any
		if err := json.Unmarshal([]byte(got), &g); err != nil {
			t.Fatal(err)
		}
		gb, _ := json.Marshal(g)
		if string(gb) != string(wb) {
			t.Fatalf("%s: %s, want %s", b, gb, wb)
		}
	})
}

func FuzzMask(f *testing.F) {
	f.Add(`{"a":{"b":"secret"}}`, "/a/b")
	f.Add(`[{"a":"secret"}]`, "/*/a")
	f.Add("\xff", "")
	f.Fuzz(func(t *testing.T, text, pointer string) {
		got, _, ok := policy.Mask(text, []string{pointer})
		if ok && pointer != "" && !json.Valid([]byte(got)) {
			t.Fatalf("%q: %q", text, got)
		}
	})
}
