package tool

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// Argument is what a person should know about one argument of a call before allowing it. It is
// derived in one place, so that every interface shows the same.
type Argument struct {
	Name  string   `json:"name"`
	Size  int      `json:"size"`            // bytes of its JSON
	Marks []string `json:"marks,omitempty"` // what to look at; see the Mark constants
}

// Marks of an argument.
const (
	MarkUndeclared = "not in the tool's schema"
	MarkInvisible  = "invisible characters"
	MarkLookAlike  = "look-alike letters"
)

// Arguments lists the arguments of a call in their order. Without a schema, none counts as
// undeclared. It returns nil if args is not a JSON object.
func Arguments(args, schema []byte) []Argument {
	var out []Argument
	var declared struct {
		Properties map[string]json.RawMessage
	}
	known := json.Unmarshal(schema, &declared) == nil && declared.Properties != nil
	names, values, ok := members(args)
	if !ok {
		return nil
	}
	for i, name := range names {
		a := Argument{Name: name, Size: len(values[i])}
		if _, there := declared.Properties[name]; known && !there {
			a.Marks = append(a.Marks, MarkUndeclared)
		}
		var v any
		if json.Unmarshal(values[i], &v) == nil {
			texts := textsOf(v, []string{name})
			for _, m := range []struct {
				mark string
				has  func(string) bool
			}{{MarkInvisible, hasUnseen}, {MarkLookAlike, looksAlike}} {
				if slices.ContainsFunc(texts, m.has) {
					a.Marks = append(a.Marks, m.mark)
				}
			}
		}
		out = append(out, a)
	}
	return out
}

func hasUnseen(s string) bool {
	for i, r := range s {
		if r != '\n' && r != '\t' && r != '\r' && Invisible(r) && !inEmoji(s, i) {
			return true
		}
	}
	return false
}

// Invisible reports whether a character is invisible, or changes how others are displayed: controls,
// formatting, blanks that are not on a keyboard, fillers and variation selectors.
func Invisible(r rune) bool {
	switch {
	case ' ' <= r && r < 0x7f:
		return false
	case unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zs, unicode.Zl, unicode.Zp):
		return true
	case r == '\u034f', r == '\u115f', r == '\u1160', r == '\u17b4', r == '\u17b5', r == '\u3164', r == '\uffa0':
		return true
	}
	return 0xfe00 <= r && r <= 0xfe0f || 0x180b <= r && r <= 0x180f || 0xe0000 <= r && r <= 0xe0fff
}

// textsOf collects all texts in a JSON value, including the names of members.
func textsOf(v any, out []string) []string {
	switch v := v.(type) {
	case string:
		out = append(out, v)
	case []any:
		for _, x := range v {
			out = textsOf(x, out)
		}
	case map[string]any:
		for name, x := range v {
			out = textsOf(x, append(out, name))
		}
	}
	return out
}

// members reads a JSON object in the order of its members.
func members(object []byte) (names []string, values []json.RawMessage, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, nil, false
	}
	for dec.More() {
		tok, err := dec.Token()
		name, _ := tok.(string)
		var v json.RawMessage
		if err != nil || dec.Decode(&v) != nil {
			return nil, nil, false
		}
		names, values = append(names, name), append(values, v)
	}
	return names, values, true
}

// latinLike are letters of other alphabets that look like Latin ones.
const latinLike = "асеорхуіјѕһԁԛԝӏьАВЕКМНОРСТХУІЈЅԌ" + "οαινρυκτΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"

// looksAlike reports whether a text has letters that can be mistaken for others: a word that mixes Latin
// letters with look-alikes of them, or that consists only of look-alikes in an otherwise Latin
// text; or letters that exist only to look like plain ones.
func looksAlike(s string) bool {
	var latin, other bool // letters of the whole text: Latin; of another alphabet, and not like Latin ones
	var alone bool        // some word consists only of look-alikes
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) }) {
		var plain, alike, own bool
		for _, r := range word {
			switch {
			case 0x1d400 <= r && r <= 0x1d7ff, 0xff21 <= r && r <= 0xff5a: // mathematical, fullwidth
				return true
			case unicode.Is(unicode.Latin, r):
				plain = true
			case strings.ContainsRune(latinLike, r):
				alike = true
			case unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee):
				own = true
			}
		}
		if plain && (alike || own) {
			return true
		}
		latin, other, alone = latin || plain, other || own, alone || alike && !own
	}
	return latin && alone && !other
}
