package wire

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "steward/test/seed"
)

func TestAppendString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		var back string
		if err := json.Unmarshal(AppendString(nil, s), &back); err != nil || back != s {
			t.Fatalf("%q became %q, %v", s, back, err)
		}
	})
	for in, want := range map[string]string{
		"":             `""`,
		"a\"b\\c\n\t":  `"a\"b\\c\n\t"`,
		"\x00\x1f\x7f": "\"\\u0000\\u001f\x7f\"",
		"ü😀":           `"ü😀"`,
		"a\xffb":       "\"a\uFFFDb\"",
	} {
		if got := string(AppendString([]byte("x"), in)); got != "x"+want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
		if got := string(AppendString(nil, []byte(in))); got != want {
			t.Errorf("bytes %q: %s", in, got)
		}
	}
}

// decodeAny reads any value with the decoder's own methods.
func decodeAny(d *Decoder) any {
	switch {
	case d.IsObject():
		out := map[string]any{}
		d.Object(func(key []byte) { out[string(key)] = decodeAny(d) })
		return out
	case d.IsArray():
		out := []any{}
		d.Array(func(int) { out = append(out, decodeAny(d)) })
		return out
	case d.IsString():
		return d.String()
	case d.Null():
		return nil
	case d.peek() == 't' || d.peek() == 'f':
		return d.Bool()
	}
	return number(d)
}

func number(d *Decoder) float64 {
	f, err := strconv.ParseFloat(string(d.Raw()), 64)
	if err != nil {
		return 0
	}
	return f
}

func anyJSON(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.Float64Range(-1e9, 1e9), func(f float64) any { return f }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Just[any](nil),
	)
	if depth == 0 {
		return leaf
	}
	sub := rapid.Deferred(func() *rapid.Generator[any] { return anyJSON(depth - 1) })
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(sub, 0, 4), func(l []any) any { return append([]any{}, l...) }),
		rapid.Map(rapid.MapOfN(rapid.String(), sub, 0, 4), func(m map[string]any) any { return m }))
}

func TestDecoder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyJSON(3).Draw(t, "v")
		for _, indent := range []string{"", " \t"} {
			b, err := json.MarshalIndent(v, "", indent)
			if err != nil {
				t.Fatal(err)
			}
			d := Decode(b)
			got := decodeAny(d)
			if d.End() != nil || !reflect.DeepEqual(got, v) {
				t.Fatalf("%s: %#v, %v", b, got, d.End())
			}
			skip := Decode(b)
			if skip.Skip(); skip.End() != nil {
				t.Fatalf("%s cannot be skipped: %v", b, skip.End())
			}
			raw := Decode(append([]byte(" "), b...))
			if string(raw.Raw()) != string(b) || raw.End() != nil {
				t.Fatalf("%s raw: %v", b, raw.End())
			}
		}
	})
}

func TestDecoderLenient(t *testing.T) {
	d := Decode([]byte(`{"a":1,"s":[1,"x"],"n":null,"i":1.9,"big":1e3,"f":"no","e":"\ud83d\ude00\ud83d","dup":1,"dup":2}`))
	got := map[string]any{}
	d.Object(func(key []byte) {
		switch k := string(key); k {
		case "a":
			got[k] = d.String() // a number, asked for as a string
		case "s":
			got[k] = d.Int() // a list, asked for as a number
		case "n":
			got[k] = d.Bool()
		case "i", "big":
			got[k] = d.Int()
		case "f":
			got[k] = number(d)
		case "e":
			got[k] = d.String()
		case "dup":
			got[k] = d.Int()
		}
	})
	want := map[string]any{"a": "", "s": int64(0), "n": false, "i": int64(1), "big": int64(1000), "f": 0.0, "e": "😀\uFFFD", "dup": int64(2)}
	if d.End() != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, %v", got, d.End())
	}
	for _, in := range []string{`1`, `"x"`, `null`} {
		d := Decode([]byte(in))
		d.Object(func([]byte) { t.Error("a member") })
		if d.End() != nil {
			t.Errorf("%s as an object: %v", in, d.End())
		}
		d = Decode([]byte(in))
		d.Array(func(int) { t.Error("an element") })
		if d.End() != nil {
			t.Errorf("%s as a list: %v", in, d.End())
		}
	}
}

func TestDecoderErrors(t *testing.T) {
	for _, in := range []string{
		"", " ", "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{a:1}`, `{"a" 1}`, `{"a":}`, "[", "[1", "[1,", "[1,]", "[,]",
		`"abc`, `"abc\"`, "]", "}", ",", "{} {}", "1 2", `{"a":{]}`,
	} {
		for name, read := range map[string]func(*Decoder){
			"any": func(d *Decoder) { decodeAny(d) }, "skip": (*Decoder).Skip, "raw": func(d *Decoder) { d.Raw() },
			"object": func(d *Decoder) { d.Object(func([]byte) {}) },
		} {
			d := Decode([]byte(in))
			inside := strings.ContainsAny(in, ":, ") // what Skip does not look at
			if read(d); d.End() == nil && !(inside && (name == "skip" || name == "object")) {
				t.Errorf("%q read as %s: no error", in, name)
			}
			if d.String() != "" || d.Int() != 0 || d.Raw() != nil || d.Span() != nil || d.Bool() {
				if d.End() != nil {
					t.Errorf("%q: something was read after the error", in)
				}
			}
		}
	}
	for _, in := range []string{"-", "1x", "1e999x"} {
		d := Decode([]byte(in))
		if d.Int(); d.End() == nil {
			t.Errorf("%q is a number", in)
		}
	}
	if d := Decode([]byte(`[1,{"a":tru}]`)); d.Raw() != nil || d.End() == nil {
		t.Error("raw JSON was not checked")
	}
	if d := Decode([]byte(`[1,{"a":1}] x`)); string(d.Span()) != `[1,{"a":1}]` || d.End() == nil {
		t.Error("span")
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add(`{"a":[1,"x\n",null,true]}`)
	f.Add(`{"a":"\\\""}`)
	f.Fuzz(func(t *testing.T, in string) {
		d := Decode([]byte(in))
		got := decodeAny(d)
		var want any
		if err := json.Unmarshal([]byte(in), &want); err == nil && d.End() == nil && !strings.Contains(in, `\u`) {
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%q: %#v, want %#v", in, got, want)
			}
		} else if err == nil && d.End() != nil && !strings.ContainsAny(in, "eE") { // large exponents
			t.Errorf("%q is JSON: %v", in, d.End())
		}
	})
}

func TestIsObject(t *testing.T) {
	for in, want := range map[string]bool{
		`{}`: true, ` {"a":1}`: true, `{"a":1,"a":2}`: false, `[]`: false, `{`: false, ``: false, `null`: false, "{\"a\":\"\xff\"}": false,
	} {
		if IsObject([]byte(in)) != want {
			t.Errorf("%q: %v", in, !want)
		}
	}
}
