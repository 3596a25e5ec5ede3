package intent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/tool"
)

func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		glob, text string
		want       bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a", "aa", false},
		{"*", "", true}, {"*", "anything-1_2.txt", true}, {"*", "zwölf", true}, {"*", "two words", false},
		{"notes/*", "notes/a.txt", true}, {"notes/*", "notes/b/a.txt", false}, {"notes/**", "notes/b/a.txt", true},
		{"notes/**", "notes/../secret", false}, {"notes/*", "notes/..", false}, {"**", "a/../b", false}, {"../*", "../..", false},
		{"notes/**", "notes/%2e%2e/x", false}, {"notes/**", `notes\..\x`, false}, {"**", "wait..", true}, {"**", "a..b/c", true},
		{"https://a.org/open/**", "https://a.org/open/..?x", false}, {"https://a.org/open/**", "https://a.org/open/..#x", false},
		{"https://a.org/open/**", "https://a.org/open/..;x/secret", false}, {"https://a.org/open/**", "https://a.org/open/a?x#y;z", true},
		{"*@example.org", "bob@example.org", true}, {"*@example.org", "eve@evil.com,bob@example.org", false},
		{"*@example.org", "eve@evil.com bob@example.org", false}, {"*@example.org", "x@evil.com\nbob@example.org", false},
		{"https://*.example.org/", "https://www.example.org/", true}, {"https://*.example.org/", "https://evil.com/?x.example.org/", false},
		{"https://*.example.org/", "https://evil.com#x.example.org/", false},
		{"**", "line\nbreak", false}, {"**", "hidden\u202etext", false}, {"**", "zero\u200bwidth", false},
		{"?.txt", "a.txt", true}, {"?.txt", "ab.txt", false}, {"?", "/", false},
		{`\*`, "*", true}, {`\*`, "a", false}, {`a\\b`, `a\b`, true},
		{"**x**y", "axbyc", false}, {"**x**y", "axbcy", true},
	} {
		if got := like(c.glob, c.text); got != c.want {
			t.Errorf("%q like %q: %v", c.text, c.glob, got)
		}
	}
	if like("**", strings.Repeat("a", maxGlobbed+1)) {
		t.Error("a text of any length")
	}
}

func TestPatterns(t *testing.T) {
	args := `{"n":1.0,"path":"notes/a","to":["bob"]}`
	canonical, err := tool.Canonical([]byte(args))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pattern string
		odd     string // the argument that is not covered; "-": covered
	}{
		{`{"n":{"is":1},"path":{"is":"notes/a"},"to":{"is":["bob"]}}`, "-"},
		{`{"n":{"is":1.00},"path":{"like":"notes/*"},"to":{"any":true}}`, "-"},
		{`{"n":{"is":1},"path":{"like":"notes/*"},"to":{"any":true},"cc":{"any":true}}`, "-"},
		{`{"n":{"is":1},"path":{"like":"notes/*"},"to":{"any":true},"cc":{"is":"eve"}}`, "cc"},
		{`{"n":{"is":1},"path":{"like":"notes/*"}}`, "to"},
		{`{"n":{"is":2},"path":{"like":"notes/*"},"to":{"any":true}}`, "n"},
		{`{"n":{"like":"1"},"path":{"like":"notes/*"},"to":{"any":true}}`, "n"},
		{`{"n":{"is":1},"path":{"like":"Notes/*"},"to":{"any":true}}`, "path"},
		{`{"n":{"is":1},"path":{"like":"notes/*"},"to":{"is":["bob","eve"]}}`, "to"},
		{`{}`, "n"},
	} {
		p, err := ParsePattern(c.pattern, nil)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		odd, ok := p.Covers(canonical)
		if ok != (c.odd == "-") || !ok && odd != c.odd {
			t.Errorf("%s: %q, %v", c.pattern, odd, ok)
		}
	}
	for _, bad := range []string{`{"a":{}}`, `{"a":{"is":1,"any":true}}`, `{"a":{"like":"x\\"}}`, `{"a":{"like":"` + strings.Repeat("x", maxGlob+1) + `"}}`, `{"a":{"odd":1}}`, `{`, `null`,
		"a", "a is", "a is x", "a like", "a any thing", `"a is 1`} {
		if p, err := ParsePattern(bad, nil); err == nil && strings.HasPrefix(bad, "{") || err == nil && p != nil || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v, %v", bad, p, err)
		}
	}
	if _, ok := (Pattern{}).Covers([]byte("[]")); ok {
		t.Error("a list is covered")
	}
}

func TestWithin(t *testing.T) {
	read := func(text string) Pattern {
		p, err := ParsePattern(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		narrow, wide string
		want         bool
	}{
		{"a is 1", "a is 1", true}, {"a is 1", "a any", true}, {"a any", "a is 1", false}, {"a is \"x\"", "a like *", true}, {"a is \"x/y\"", "a like *", false},
		{"a like x*", "a like x*", true}, {"a like x*", "a like *", false}, {"a like x*", "a any", true}, {"a any", "a like **", false},
		{"", "a any", true}, {"", "a is 1", false}, {"a any", "", false}, {"a is 1\nb is 2", "a is 1", false},
	} {
		if got := read(c.narrow).Within(read(c.wide)); got != c.want {
			t.Errorf("%q within %q: %v", c.narrow, c.wide, got)
		}
	}
}

// anyArgs are canonical arguments of one level.
func anyArgs(t *rapid.T) []byte {
	m := rapid.MapOfN(rapid.StringMatching(`[a-z "]{0,6}`), rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.StringMatching(`[a-z*?\\/. \n€]{0,12}`), func(s string) any { return s }),
		rapid.Map(rapid.IntRange(-9, 9), func(n int) any { return n }), rapid.Just[any](map[string]any{"x": []int{1}})), 0, 4).Draw(t, "args")
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	args, err := tool.Canonical(b)
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// What a pattern is made of it covers; what it is written as is read again as
// it is; and one that lies within another covers no more than that.
func TestPatternsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		args := anyArgs(t)
		p, err := Exactly(args)
		if err != nil {
			t.Fatal(err)
		}
		if odd, ok := p.Covers(args); !ok {
			t.Fatalf("%s is not covered by %s: %q", args, p, odd)
		}
		if other := anyArgs(t); string(other) != string(args) {
			if _, ok := p.Covers(other); ok {
				t.Fatalf("%s is covered by %s", other, p)
			}
		}
		again, err := ParsePattern(strings.Join(p.Lines(), "\n"), nil)
		if err != nil || again.String() != p.String() {
			t.Fatalf("%s became %s, %v", p, again, err)
		}
		wide := Pattern{}
		for name, m := range p {
			if wide[name] = m; rapid.Bool().Draw(t, "widen") {
				wide[name] = Match{Any: true}
			}
		}
		if _, ok := wide.Covers(args); !ok || !p.Within(wide) {
			t.Fatalf("%s is not within %s", p, wide)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("path like notes/*\ntext any", `{"path":"notes/a","text":""}`)
	f.Add(`{"a":{"is":{"b":[1]}}}`, `{"a":{"b":[1]}}`)
	f.Add(`"a b" is "c"`, `{}`)
	f.Add(`{"a":{"like":"x\nb any"}}`, `{"a":"x","b":1}`)
	f.Add(`{"a":{"like":" x "}}`, `{"a":"x"}`)
	f.Add(`{"{a":{"any":true}}`, `{"{a":1}`)
	f.Add(`{"\u00a0a\r":{"any":true}}`, `{}`)
	f.Fuzz(func(t *testing.T, text, args string) {
		p, err := ParsePattern(text, nil)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
			return
		}
		again, err := ParsePattern(strings.Join(p.Lines(), "\n"), nil)
		if err != nil || again.String() != p.String() || !again.Within(p) {
			t.Fatalf("%q: %s became %s, %v", text, p, again, err)
		}
		canonical, err := tool.Canonical([]byte(args))
		if err != nil || jsontext.Value(canonical).Kind() != '{' {
			return
		}
		if _, ok := p.Covers(canonical); ok {
			if exact, err := Exactly(canonical); err != nil || !exact.Within(p) {
				t.Fatalf("%s covers %s, which is not within it: %v", p, canonical, err)
			}
		}
	})
}
