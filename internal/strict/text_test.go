package strict

import (
	"strings"
	"testing"
	"unicode/utf16"
)

// utf16Of returns a text in UTF-16 with its mark, as Windows' programs write it.
func utf16Of(s string, big bool) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune("\ufeff" + s)) {
		if big {
			b.WriteByte(byte(u >> 8))
		}
		b.WriteByte(byte(u))
		if !big {
			b.WriteByte(byte(u >> 8))
		}
	}
	return b.String()
}

// A byte order mark changes nothing of what a file says.
func TestByteOrderMarks(t *testing.T) {
	const text = "name: größe\nlist: [1]\n"
	for _, marked := range []string{text, "\ufeff" + text, utf16Of(text, false), utf16Of(text, true)} {
		if got := string(Unmarked([]byte(marked))); got != text {
			t.Errorf("%q: %q", marked, got)
		}
		n := ReadYAML([]byte(marked), func(_ Position, code, _, format string, args ...any) { t.Errorf("%q: %s", marked, code) })
		if name := n.Get("name"); name == nil || name.Text != "größe" || name.Line != 1 {
			t.Errorf("%q: %+v", marked, n)
		}
	}
	for _, marked := range []string{"\ufeff{\"a\":1}", utf16Of(`{"a":1}`, false)} {
		n := ReadJSON([]byte(marked), func(_ Position, code, _, _ string, _ ...any) { t.Errorf("%q: %s", marked, code) })
		if a := n.Get("a"); a == nil || a.Text != "1" {
			t.Errorf("%q: %+v", marked, n)
		}
	}
}

// Heads are read as people write them, not only as YAML.
func TestFrontMatter(t *testing.T) {
	for _, c := range []struct{ text, description string }{
		{"---\nname: x\ndescription: Fills in forms: use it for PDF files\n---\nbody\n", "Fills in forms: use it for PDF files"},
		{"---\r\nname: x\r\ndescription: a: b\r\n---\r\nbody\r\n", "a: b"},
		{"---\rname: x\rdescription: a: b\r---\rbody\r", "a: b"},
		{"\ufeff---\nname: x\ndescription: plain\n---\nbody\n", "plain"},
		{"\n--- \nname: x\ndescription: plain\n---\t\nbody\n", "plain"},
		{"---\nname: x\ndescription: plain\n...\nbody\n", "plain"},
		{"---\nname: x\ndescription: [PDF] forms\n---\nbody\n", "[PDF] forms"},
		{"---\nname: x\ndescription: [PDF]\n---\nbody\n", "[PDF]"},
		{"---\nname: x\ndescription: @mentions and `code`\n---\nbody\n", "@mentions and `code`"},
		{"---\nname: x\ndescription: *bold* words\n---\nbody\n", "*bold* words"},
		{"---\nname: x\ndescription: \"quoted: well\"\n---\nbody\n", "quoted: well"},
		{"---\nname: x\ndescription: \"never closed: here\n---\nbody\n", "\"never closed: here"},
		{"---\nname: x\ndescription: 'it's here'\n---\nbody\n", "it's here"},
		{"---\nname: x\ndescription: yes\n---\nbody\n", "yes"},
		{"---\nname: x\ndescription: 2024\n---\nbody\n", "2024"},
		{"---\nname: x\ndescription: use: one\n  and: two\n---\nbody\n", "use: one and: two"},
		{"---\nname: x\ndescription: >\n  first line\n  second line\nallowed: a: b\n---\nbody\n", "first line second line"},
		{"---\nname: x\ndescription: |\n  one\n  two\n---\nbody\n", "one\ntwo\n"},
		{"---\nname: x\n\tkey: tab\ndescription: after a tab\n---\nbody\n", "after a tab"},
		{"---\nname: x\ndescription: first\ndescription: second\n---\nbody\n", "first"},
		{"---\nname: x\ndescription: ---- dashes\n----: x\n---\nbody\n", "---- dashes"},
	} {
		head, body, _, ok := FrontMatter([]byte(c.text))
		if !ok || body != "body\n" {
			t.Errorf("%q: %q, %v", c.text, body, ok)
			continue
		}
		n := ReadFront(head, "name", "description")
		if d := n.Get("description"); d == nil || d.Kind != Text || d.Text != c.description {
			t.Errorf("%q: %+v", c.text, d)
		}
	}
	for _, text := range []string{"", "# Title\n---\nname: x\n---\n", "---\nname: x\n", "name: x\n---\n", "----\nname: x\n----\n"} {
		if _, _, _, ok := FrontMatter([]byte(text)); ok {
			t.Errorf("%q has a head", text)
		}
	}
}

func FuzzFrontMatter(f *testing.F) {
	f.Add("---\nname: x\ndescription: a: b\n---\nbody\n")
	f.Fuzz(func(t *testing.T, text string) {
		if head, _, _, ok := FrontMatter([]byte(text)); ok {
			if n := ReadFront(head, "name"); n.Get("name") != nil && n.Get("name").Kind != Text {
				t.Fatalf("%q: %+v", text, n.Get("name"))
			}
		}
	})
}
