package policy

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Masked replaces a masked value.
const Masked = "***"

// Mask masks the values at JSON pointers (RFC 6901; "*" is any one step) in a text that is one
// JSON value, and reports whether there were any. If the text is not one JSON value, its parts
// cannot be told apart, and ok is false.
func Mask(text string, pointers []string) (masked string, some, ok bool) {
	if slices.Contains(pointers, "") {
		return Masked, true, true
	}
	m := masker{dec: jsontext.NewDecoder(strings.NewReader(text))}
	var b strings.Builder
	m.enc = jsontext.NewEncoder(&b)
	for _, p := range pointers {
		if !strings.HasPrefix(p, "/") {
			return "", false, false // a rule that matches nothing would mask nothing: refuse
		}
		steps := strings.Split(p[1:], "/")
		for i := range steps {
			steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(steps[i])
		}
		m.rules = append(m.rules, steps)
	}
	if m.value() != nil {
		return "", false, false
	}
	if _, err := m.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return "", false, false
	}
	return strings.TrimSuffix(b.String(), "\n"), m.some, true
}

// MaskBody is Mask for a body that is JSON and remains JSON. It returns nil if the body cannot be
// split into parts.
func MaskBody(body []byte, pointers []string) (masked []byte, some bool) {
	if slices.Contains(pointers, "") {
		return []byte(`"` + Masked + `"`), true
	}
	text, some, ok := Mask(string(body), pointers)
	switch {
	case !ok:
		return nil, true
	case !some:
		return body, false
	}
	return []byte(text), true
}

// masker copies one JSON value, token by token.
type masker struct {
	dec   *jsontext.Decoder
	enc   *jsontext.Encoder
	rules [][]string
	path  []string
	some  bool // something was masked
}

// hides reports whether a rule matches the current path.
func (m *masker) hides() bool {
	return slices.ContainsFunc(m.rules, func(r []string) bool {
		return slices.EqualFunc(r, m.path, func(want, is string) bool { return want == "*" || want == is })
	})
}

func (m *masker) value() error {
	if m.hides() {
		m.some = true
		if err := m.dec.SkipValue(); err != nil {
			return err
		}
		return m.enc.WriteToken(jsontext.String(Masked))
	}
	kind := m.dec.PeekKind()
	if kind != '{' && kind != '[' {
		v, err := m.dec.ReadValue()
		if err != nil {
			return err
		}
		return m.enc.WriteValue(v)
	}
	if _, err := m.copy(); err != nil {
		return err
	}
	for i := 0; m.dec.PeekKind() != '}' && m.dec.PeekKind() != ']'; i++ {
		step := strconv.Itoa(i)
		if kind == '{' {
			name, err := m.copy()
			if err != nil {
				return err
			}
			step = name
		}
		m.path = append(m.path, step)
		if err := m.value(); err != nil {
			return err
		}
		m.path = m.path[:len(m.path)-1]
	}
	_, err := m.copy()
	return err
}

// copy copies a token and returns its text.
func (m *masker) copy() (string, error) {
	t, err := m.dec.ReadToken()
	if err != nil {
		return "", err
	}
	text := t.String()
	return text, m.enc.WriteToken(t)
}
