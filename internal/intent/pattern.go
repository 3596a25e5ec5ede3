package intent

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/tool"
)

// Pattern describes which calls of a tool a standing approval covers, by the name of each
// top-level argument. A call with an argument that the pattern does not name is not
// covered.
type Pattern map[string]Match

// Match describes what one argument may be. Exactly one of its fields is set.
type Match struct {
	Is   jsontext.Value `json:"is,omitzero"`   // exactly this value
	Like string         `json:"like,omitzero"` // a text that this glob matches; see like
	Any  bool           `json:"any,omitzero"`  // anything; the argument may also be missing
}

// Limits of patterns.
const (
	maxGlob    = 1 << 10 // bytes of a glob
	maxGlobbed = 8 << 10 // bytes of a text that a glob is compared with
	maxMembers = 256
)

// Exactly returns the pattern that covers only calls with these arguments, which must be
// canonical.
func Exactly(args []byte) (Pattern, error) {
	given, err := members(args)
	if err != nil {
		return nil, err
	}
	p := make(Pattern, len(given))
	for name, v := range given {
		p[name] = Match{Is: v}
	}
	return p, nil
}

// members returns the top-level arguments by name.
func members(args []byte) (map[string]jsontext.Value, error) {
	var m map[string]jsontext.Value
	if err := json.Unmarshal(args, &m); err != nil || m == nil {
		return nil, fault.New(fault.Invalid, "args_invalid", "the arguments are not a JSON object")
	}
	return m, nil
}

// Checked returns a copy of p whose values are in the canonical form that Covers compares.
// It refuses an invalid pattern (grant_invalid).
func (p Pattern) Checked() (Pattern, error) {
	if p == nil {
		return nil, invalidPattern("the pattern is missing")
	}
	if len(p) > maxMembers {
		return nil, invalidPattern("it has more than %d arguments", maxMembers)
	}
	out := make(Pattern, len(p))
	for name, m := range p {
		n := 0
		for _, set := range []bool{len(m.Is) > 0, m.Like != "", m.Any} {
			if set {
				n++
			}
		}
		switch {
		case n != 1:
			return nil, invalidPattern("the argument %q needs one of is, like and any", name)
		case !utf8.ValidString(name) || !utf8.ValidString(m.Like):
			return nil, invalidPattern("the argument %q has a text that is not valid UTF-8", name)
		case len(m.Like) > maxGlob:
			return nil, invalidPattern("the glob of %q has more than %d bytes", name, maxGlob)
		case strings.TrimSpace(m.Like) != m.Like || strings.ContainsFunc(m.Like, unicode.IsControl):
			return nil, invalidPattern("the glob of %q begins or ends in a space, or has a line break or another control character", name)
		case strings.HasSuffix(strings.ReplaceAll(m.Like, `\\`, ""), `\`):
			return nil, invalidPattern("the glob of %q ends in a backslash", name)
		case len(m.Is) > 0:
			v, err := canonicalValue(m.Is)
			if err != nil {
				return nil, err
			}
			m.Is = v
		}
		out[name] = m
	}
	return out, nil
}

// canonicalValue returns a value in the form that it has in canonical arguments.
func canonicalValue(v jsontext.Value) (jsontext.Value, error) {
	whole, err := tool.Canonical(slices.Concat([]byte(`{"v":`), v, []byte("}")))
	if err != nil {
		return nil, err
	}
	m, err := members(whole)
	return m["v"], err
}

func invalidPattern(format string, args ...any) error {
	return fault.New(fault.Invalid, "grant_invalid", "invalid pattern: "+format, args...).
		WithHint(`give each argument {"is": VALUE}, {"like": "GLOB"} or {"any": true}`)
}

// Covers reports whether a call with these canonical arguments is covered. If it is not,
// odd is the first argument, by name, that does not match.
func (p Pattern) Covers(args []byte) (odd string, ok bool) {
	given, err := members(args)
	if err != nil {
		return "", false
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if m, named := p[name]; !named || !m.matches(given[name]) {
			return name, false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if _, there := given[name]; !there && !p[name].Any {
			return name, false
		}
	}
	return "", true
}

// Over returns a pattern that covers the arguments: p, or if p is nil, one that covers
// nothing else. It refuses a p that does not cover them (grant_other).
func (p Pattern) Over(args []byte) (Pattern, error) {
	if p == nil {
		return Exactly(args)
	}
	p, err := p.Checked()
	if err != nil {
		return nil, err
	}
	if odd, ok := p.Covers(args); !ok {
		return nil, fault.New(fault.Conflict, "grant_other", "the pattern does not cover the call: the argument %q does not match", odd).
			WithHint("widen it there, or approve once")
	}
	return p, nil
}

func (m Match) matches(v jsontext.Value) bool {
	switch {
	case m.Any:
		return true
	case m.Like != "":
		var text string
		return v.Kind() == '"' && json.Unmarshal(v, &text) == nil && like(m.Like, text)
	}
	return len(m.Is) > 0 && string(m.Is) == string(v)
}

// Within reports whether q covers everything that p covers. For two different globs it
// returns false, because it cannot compare them.
func (p Pattern) Within(q Pattern) bool {
	for name, m := range p {
		if of, named := q[name]; !named || !m.within(of) {
			return false
		}
	}
	for name, of := range q {
		if _, named := p[name]; !named && !of.Any {
			return false // q requires the argument, and p does not allow it
		}
	}
	return true
}

func (m Match) within(of Match) bool {
	switch {
	case of.Any:
		return true
	case m.Any:
		return false
	case m.Like != "":
		return m.Like == of.Like
	}
	return of.matches(m.Is)
}

// like reports whether a glob matches a text:
//
//   - "*" matches any run of letters, digits and - _ . + ~, so that it never crosses a
//     separator into another folder, host or address;
//   - "**" matches any run of characters except control and invisible ones;
//   - "?" matches one character of those that "*" matches;
//   - a backslash makes the next character literal.
//
// No glob matches a text that contains ".." as a path segment.
func like(glob, text string) bool {
	return len(text) <= maxGlobbed && !hasParentSegment(text) && globRegexp(glob).MatchString(text)
}

// globRegexp converts a glob to a regular expression, which matches in time linear in the
// text.
func globRegexp(glob string) *regexp.Regexp {
	const (
		wide = `[^\p{Cc}\p{Cf}\x{2028}\x{2029}\x{FFFD}]*`
		one  = `[\p{L}\p{N}\p{M}\-_.+~]`
	)
	var b strings.Builder
	b.WriteString(`\A`)
	for len(glob) > 0 {
		_, n := utf8.DecodeRuneInString(glob)
		switch {
		case strings.HasPrefix(glob, "**"):
			b.WriteString(wide)
			n = len("**")
		case glob[0] == '*':
			b.WriteString(one + "*")
		case glob[0] == '?':
			b.WriteString(one)
		case glob[0] == '\\' && len(glob) > 1:
			_, next := utf8.DecodeRuneInString(glob[1:])
			b.WriteString(regexp.QuoteMeta(glob[1 : 1+next]))
			n = 1 + next
		default:
			b.WriteString(regexp.QuoteMeta(glob[:n]))
		}
		glob = glob[n:]
	}
	return regexp.MustCompile(b.String() + `\z`)
}

// hasParentSegment reports whether a text contains ".." as a path segment, plainly or in URL
// escapes. In a URL a segment also ends at the query, the fragment and the parameters.
func hasParentSegment(text string) bool {
	text = strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", `\`, "%5C", `\`).Replace(text)
	for step := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(`/\?#;`, r) }) {
		if step == ".." {
			return true
		}
	}
	return false
}

// String returns a pattern on one line: the argument names and what each may be.
func (p Pattern) String() string {
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(p)) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name + " " + p[name].String())
	}
	if len(p) == 0 {
		return "no arguments"
	}
	return b.String()
}

// String describes what an argument may be.
func (m Match) String() string {
	switch {
	case m.Any:
		return "anything"
	case m.Like != "":
		return "like " + m.Like
	}
	return "= " + string(m.Is)
}
