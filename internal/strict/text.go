package strict

import (
	"bytes"
	"strings"

	"golang.org/x/text/encoding/unicode"
)

// Unmarked returns a text that a person wrote as UTF-8 without the byte order mark that some editors put at its
// beginning. If the mark is that of UTF-16, the text is converted.
func Unmarked(b []byte) []byte {
	if rest, ok := bytes.CutPrefix(b, []byte("\xef\xbb\xbf")); ok {
		return rest
	}
	if bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff")) {
		if out, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder().Bytes(b); err == nil {
			return out
		}
	}
	return b
}

// ReadText reads a text that a person wrote, as ReadFile and Unmarked do.
func ReadText(name string, most int64) ([]byte, error) {
	b, err := ReadFile(name, most)
	return Unmarked(b), err
}

// FrontMatter divides a text into its head, which stands between two lines of three dashes, and what follows.
// It converts the line ends. line is the number of the first line of the head; ok is false if there is no head.
func FrontMatter(text []byte) (head, body string, line int, ok bool) {
	all := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(Unmarked(text)))
	n := 0
	begin, at := -1, 0
	for l := range strings.Lines(all) {
		n++
		mark := strings.TrimRight(l, " \t\n")
		switch {
		case begin < 0 && mark == "---":
			begin, line = at+len(l), n+1
		case begin < 0 && mark != "": // something else stands before it
			return "", "", 0, false
		case begin >= 0 && (mark == "---" || mark == "..."):
			return all[begin:at], all[at+len(l):], line, true
		}
		at += len(l)
	}
	return "", "", 0, false
}

// ReadFront reads a head leniently: what is no YAML, as "description: Use it so: like this", is read line by
// line as texts. Lines that are indented continue the text before them.
func ReadFront(head string, names ...string) *Node {
	broken := false
	n := ReadYAML([]byte(head), func(Position, string, string, string, ...any) { broken = true })
	for _, name := range names {
		v := n.Get(name)
		broken = broken || v != nil && v.Kind != Text
	}
	if !broken && n != nil && n.Kind == Map {
		return n
	}
	out := &Node{Position: At(1, 1), Kind: Map}
	var cur *Node
	number := 0
	for l := range strings.Lines(head) {
		number++
		said := strings.TrimSpace(l)
		if said == "" || l[0] == '#' {
			continue
		}
		key, value, isKey := strings.Cut(l, ":")
		switch indented := l[0] == ' ' || l[0] == '\t'; {
		case indented && cur != nil:
			cur.Text = strings.TrimSpace(cur.Text + " " + said)
		case isKey && !indented:
			at := At(number, 1)
			cur = &Node{Position: at, Kind: Text, Text: strings.TrimSpace(value)}
			if strings.Trim(cur.Text, "|>+-0123456789") == "" && strings.ContainsAny(cur.Text, "|>") { // the text follows as a block
				cur.Text = ""
			}
			if key = strings.Trim(strings.TrimSpace(key), `"'`); out.Get(key) == nil {
				out.Fields = append(out.Fields, Field{Position: at, Key: key, Value: cur})
			}
		}
	}
	for _, f := range out.Fields {
		f.Value.Text = unquoted(f.Value.Text)
	}
	return out
}

// unquoted removes the quotes around a text.
func unquoted(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}
