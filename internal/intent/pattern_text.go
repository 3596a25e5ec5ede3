package intent

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Lines returns a pattern in the form that people write, one argument per line: its name,
// and "is" with a JSON value, "like" with a glob, or "any". ParsePattern reads this form.
func (p Pattern) Lines() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		m, line := p[name], name
		if name == "" || strings.ContainsAny(name, `"{`) || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			b, _ := jsontext.AppendQuote(nil, name) // invalid UTF-8 is shown as such
			line = string(b)
		}
		switch {
		case m.Any:
			line += " any"
		case m.Like != "":
			line += " like " + m.Like
		default:
			line += " is " + string(m.Is)
		}
		out = append(out, line)
	}
	return out
}

// ParsePattern parses a pattern in the form of Lines, or in JSON (error code
// grant_invalid). In the form of Lines, arguments of base that no line names are kept, and
// a line "NAME none" removes one.
func ParsePattern(text string, base Pattern) (Pattern, error) {
	p := Pattern{}
	maps.Copy(p, base)
	if t := strings.TrimSpace(text); strings.HasPrefix(t, "{") {
		p = nil
		if err := json.Unmarshal([]byte(t), &p, json.RejectUnknownMembers(true)); err != nil {
			return nil, invalidPattern("it cannot be read as JSON: %s", err)
		}
		return p.Checked()
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, rest, err := nameOf(line)
		if err != nil {
			return nil, err
		}
		how, what, _ := strings.Cut(strings.TrimSpace(rest), " ")
		what = strings.TrimSpace(what)
		switch {
		case how == "any" && what == "":
			p[name] = Match{Any: true}
		case how == "none" && what == "":
			delete(p, name)
		case how == "like" && what != "":
			p[name] = Match{Like: what}
		case how == "is" && what != "":
			if !jsontext.Value(what).IsValid() {
				return nil, invalidPattern("%q is not a JSON value; write a text in quotes", what)
			}
			p[name] = Match{Is: jsontext.Value(what)}
		default:
			return nil, invalidPattern("in the line %q, NAME is VALUE, NAME like GLOB or NAME any is missing", line)
		}
	}
	return p.Checked()
}

// nameOf splits the argument name from the beginning of a line.
func nameOf(line string) (name, rest string, err error) {
	if !strings.HasPrefix(line, `"`) {
		name, rest, _ = strings.Cut(line, " ")
		return name, rest, nil
	}
	dec := jsontext.NewDecoder(strings.NewReader(line))
	tok, err := dec.ReadToken()
	if err != nil {
		return "", "", invalidPattern("the name in %q has no end", line)
	}
	name = tok.String()
	return name, line[dec.InputOffset():], nil
}
