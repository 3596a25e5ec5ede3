package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	_ "steward/test/seed"
)

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"b":1, "a" : 2}`, `{"a":2,"b":1}`},
		{`{"a":1.0,"b":1e2,"c":-0,"d":0.10,"e":-0.0}`, `{"a":1,"b":100,"c":0,"d":0.1,"e":0}`},
		{`{"a":"\u00e9\/\u0041"}`, `{"a":"é/A"}`},
		{"\n{ }\t", `{}`},
		{`[1,[2,{"z":null,"y":true}]]`, `[1,[2,{"y":true,"z":null}]]`},
		// RFC 8785, section 3.2.3: sorted by UTF-16 code units.
		{`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`,
			"{\"\\r\":2,\"1\":4,\"\u0080\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\ufb33\":3}"},
		// RFC 8785, section 3.2.2: numbers as ECMAScript writes them.
		{`[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001]`, `[333333333.33333329,1e+30,4.5,0.002,1e-27]`},
		// A number that a double cannot hold keeps its digits.
		{`{"n":12345678901234567890}`, `{"n":12345678901234567890}`},
		{`[0.12345678901234567890123]`, `[0.12345678901234567890123]`},
		{`["1.0 \"2.0",{"1.0":"\\"}]`, `["1.0 \"2.0",{"1.0":"\\"}]`},
	} {
		got, err := Canonical([]byte(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("Canonical(%s) = %s, %v; want %s", c.in, got, err, c.want)
		}
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for _, c := range []struct{ in, says string }{
		{``, "empty"},
		{`  `, "empty"},
		{`{"a":1,"a":2}`, `"a" occurs twice`},
		{`{"a":1,"\u0061":2}`, `"a" occurs twice`},
		{`{"x":{"b":1,"b":1}}`, `"b" occurs twice`},
		{"{\"a\":\"\xff\"}", "UTF-8"},
		{`{"a":"\ud800"}`, "at byte"},
		{`{"a":1} x`, "at byte"},
		{`{"a":1}{}`, "at byte"},
		{`{"a":`, "at byte"},
		{`{'a':1}`, "at byte"},
		{`{"a":NaN}`, "at byte"},
		{`{"a":1e400}`, "out of range"},
		{`{"a":` + strings.Repeat("9", 400) + `}`, "out of range"},
		{`{"a":01}`, "at byte"},
	} {
		_, err := Canonical([]byte(c.in))
		if !fault.HasCode(err, "args_invalid") || !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Canonical(%s): %v; want args_invalid with %q", c.in, err, c.says)
		}
	}
}

// sameValue compares two JSON texts, including every digit of their numbers.
func sameValue(t interface{ Fatalf(string, ...any) }, a, b []byte) bool {
	read := func(in []byte) any {
		d := json.NewDecoder(bytes.NewReader(in))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		return exactNumbers(v)
	}
	return fmt.Sprint(read(a)) == fmt.Sprint(read(b))
}

func exactNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		r, _ := new(big.Rat).SetString(v.String())
		return r.RatString()
	case []any:
		for i := range v {
			v[i] = exactNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = exactNumbers(v[k])
		}
	}
	return v
}

func anyJSON(depth int) *rapid.Generator[any] {
	number := rapid.Custom(func(t *rapid.T) any {
		s := rapid.StringMatching(`-?(0|[1-9][0-9]{0,22})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number")
		return json.Number(s)
	})
	leaf := rapid.OneOf(number, rapid.Map(rapid.String(), func(s string) any { return strings.ToValidUTF8(s, "?") }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }), rapid.Just[any](nil))
	if depth == 0 {
		return leaf
	}
	sub := anyJSON(depth - 1)
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(sub, 0, 4), func(v []any) any { return v }),
		rapid.Map(rapid.MapOfN(rapid.StringMatching(`[a-zé€😀"\\]{0,4}`), sub, 0, 4), func(v map[string]any) any { return v }))
}

func TestCanonicalKeepsValuesAndIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, err := json.MarshalIndent(anyJSON(3).Draw(t, "value"), " ", "\t")
		if err != nil {
			t.Fatalf("%v", err)
		}
		before := string(in)
		once, err := Canonical(in)
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		if string(in) != before {
			t.Fatalf("the input was modified")
		}
		if !sameValue(t, in, once) {
			t.Fatalf("%s became %s", in, once)
		}
		twice, err := Canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s, then %s (%v)", once, twice, err)
		}
	})
}
