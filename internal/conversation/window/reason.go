package window

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"steward/internal/secret/mask"
	"steward/internal/tool"
)

// Bounds of the parts of a reason, in bytes.
const (
	maxReason  = 300
	maxSubject = 80
)

// reason says why an entry became obsolete.
func (c cause) reason(e *entry) string {
	s := c.strategy
	switch s.Kind {
	case tool.ByAge:
		return oneLine(fmt.Sprintf("%s is older than %s", e.describe(), s.MaxAge), maxReason)
	case tool.ByParameters:
		return oneLine(fmt.Sprintf("%s was made obsolete by a later %s with the same %s", e.describe(), c.by, listed(s.Parameters)), maxReason)
	}
	with := ""
	if s.Kind == tool.ByTool && len(s.Parameters) > 0 {
		with = " with the same " + listed(s.Parameters)
	}
	return oneLine(fmt.Sprintf("%s was made obsolete by a later %s%s", e.describe(), c.by, with), maxReason)
}

// cascadeReason says why an entry became obsolete as a consequence of another one.
func (c cause) cascadeReason(e, first *entry) string {
	if c.call == nil {
		return oneLine(fmt.Sprintf("%s is no longer valid because %s is too old", e.describe(), first.describe()), maxReason)
	}
	return oneLine(fmt.Sprintf("%s was made obsolete by a later %s, together with %s", e.describe(), c.by, first.describe()), maxReason)
}

// describe returns a short description of the entry's call.
func (e *entry) describe() string {
	if e.subject == "" {
		return e.tool
	}
	return e.tool + " of " + e.subject
}

func listed(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

// subject returns the first value of the parameters in about that is short and not
// a secret, as a description of what the call is about. It skips the parameters in
// secret, and values that look like credentials.
func (m members) subject(about, secret []string) string {
	for _, name := range about {
		raw, ok := m[name]
		if !ok || len(raw) > 4*maxSubject || slices.Contains(secret, name) || mask.Name(name, "") {
			continue
		}
		text := ""
		switch raw.Kind() {
		case '"':
			if json.Unmarshal(raw, &text) != nil {
				continue
			}
		case '0':
			text = string(raw)
		}
		if text = oneLine(text, maxSubject); text != "" && !secretValue(text) {
			return text
		}
	}
	return ""
}

// oneLine returns a text without line breaks and control characters, cut to at
// most the given number of bytes.
func oneLine(s string, most int) string {
	if len(s) > 8*most {
		s = s[:8*most]
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= most {
		return s
	}
	const more = "…"
	return s[:boundary(s, most-len(more))] + more
}

// secretValue reports whether a text seems to contain a credential.
func secretValue(s string) bool { return mask.New(nil, nil, false).Text(s) != s }
