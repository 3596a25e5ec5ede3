// Package mask hides secrets where tool calls are shown. It recognises them by the
// names of parameters, by the look of values, and by values that it has recognised
// before.
//
// It guesses. secret.Masker knows: it hides the exact values of the secrets that
// the settings name, in all their spellings, in everything that leaves or is stored.
// The two have no engine in common. That one searches large texts and streams for
// thousands of forms, whose tables take longer to make than a call takes to be
// shown; this one also finds the first bytes of a value that a tool has cut off.
package mask

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Secret replaces a secret.
const Secret = "[secret]"

// Masker knows the secrets of a call: the parameters that the tool's spec names,
// and those whose name or value looks secret.
type Masker struct {
	names map[string]bool // plain names that the spec calls secret
	seen  []string        // values of secrets, the longest first
}

// New returns a masker for a call, with the secrets in its arguments. If hidden is
// set, all arguments are secrets.
func New(secret []string, args map[string]any, hidden bool) *Masker {
	m := &Masker{names: map[string]bool{}}
	for _, s := range secret {
		m.names[plainName(s)] = true
	}
	m.collect(args, hidden)
	slices.SortFunc(m.seen, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	m.seen = slices.Compact(m.seen)
	return m
}

// Join adds the secrets of another call's masker.
func (m *Masker) Join(other *Masker) { m.seen = append(m.seen, other.seen...) }

// minKept is the minimum length of a secret whose other occurrences are masked.
// Shorter ones are parts of words.
const minKept = 4

// collect collects the values of secrets, plain and as in JSON text. If hidden is
// set, all of v is secret.
func (m *Masker) collect(v any, hidden bool) {
	switch v := v.(type) {
	case string:
		for _, s := range []string{v, strings.TrimSpace(v), escaped(v)} {
			if hidden && len(s) >= minKept {
				m.seen = append(m.seen, s)
			}
		}
	case json.Number:
		m.collect(v.String(), hidden)
	case []any:
		for _, sub := range v {
			m.collect(sub, hidden)
		}
	case map[string]any:
		pair := m.isSecretPair(v)
		for k, sub := range v {
			m.collect(sub, hidden || m.secret(k, sub) || pair && isValueName(k))
		}
	}
}

func escaped(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return s
	}
	return string(b[1 : len(b)-1])
}

// value returns a copy of a value with its secrets masked.
func (m *Masker) value(v any) any {
	switch v := v.(type) {
	case string:
		return m.Text(v)
	case json.Number:
		if m.Text(v.String()) != v.String() {
			return Secret
		}
	case []any:
		out := make([]any, len(v))
		for i, sub := range v {
			out[i] = m.value(sub)
		}
		return out
	case map[string]any:
		return m.Object(v)
	}
	return v
}

// Object returns a copy of arguments with their secrets masked.
func (m *Masker) Object(v map[string]any) map[string]any {
	out := make(map[string]any, len(v))
	pair := m.isSecretPair(v)
	for k, sub := range v {
		if m.secret(k, sub) || pair && isValueName(k) {
			out[m.Text(k)] = Secret
		} else {
			out[m.Text(k)] = m.value(sub)
		}
	}
	return out
}

// isSecretPair reports whether an object is a pair of a name and a value, and the name is
// that of a secret: {"name": "Authorization", "value": …}.
func (m *Masker) isSecretPair(v map[string]any) bool {
	for k, sub := range v {
		switch name, _ := sub.(string); plainName(k) {
		case "name", "key", "header", "field", "param", "parameter", "label", "variable", "env", "k", "id":
			if name != "" && m.secret(name, "") {
				return true
			}
		}
	}
	return false
}

func isValueName(k string) bool {
	switch plainName(k) {
	case "value", "values", "val", "v", "content", "data", "text", "default":
		return true
	}
	return false
}

// secret reports whether a name says that its value is secret.
func (m *Masker) secret(name string, v any) bool {
	p := plainName(name)
	return m.names[p] || secretName(p, v)
}

// plainName normalises a name: X-API-Key, apiKey and api_key are the same.
func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}

// Name reports whether the name of a parameter says that its value is secret.
func Name(name string, v any) bool { return secretName(plainName(name), v) }

func secretName(p string, v any) bool {
	switch p {
	case "pass", "pwd", "pin", "pat", "sas", "otp", "cvv", "cvc", "csrf":
		return true
	}
	for _, part := range [...]string{"password", "passwd", "passphrase", "passcode", "secret", "apikey", "accesskey", "privatekey",
		"signingkey", "encryptionkey", "sessionkey", "authorization", "credential", "bearer", "cookie", "jwt", "totp", "sessionid",
		"passwort", "kennwort", "contraseña", "contrasena", "motdepasse", "senha"} {
		if strings.Contains(p, part) {
			return true
		}
	}
	if strings.HasSuffix(p, "auth") || strings.HasSuffix(p, "pwd") {
		return true
	}
	if !strings.Contains(p, "token") {
		return false
	}
	switch v.(type) { // "max_tokens": 100 is a count, not a secret
	case json.Number, bool:
		return !strings.Contains(p, "tokens") && !strings.Contains(p, "tokencount") && !strings.Contains(p, "tokenlimit")
	}
	return true
}

// secretPatterns are patterns of secrets. A pattern can only match a text that contains one
// of its marks (in lower case), and most texts contain none, which is faster to
// check.
var secretPatterns = []struct {
	marks   []string
	pattern *regexp.Regexp
	with    string
}{
	{[]string{"://"}, regexp.MustCompile(`(?i)\b([a-z][a-z0-9+.-]*://[^/\s:@]*:)[^/\s@]+@`), "$1" + Secret + "@"},
	{[]string{"-----begin"}, regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|$)`), Secret},
	{[]string{"sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "gh", "github_pat", "glpat", "xox", "akia", "asia", "aiza", "hf_", "ya29", "age-secret"},
		regexp.MustCompile(`\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{8,}|\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{16,}` +
			`|\bxox[a-z]-[\w-]{8,}|\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bAIza[\w-]{30,}|\bhf_[A-Za-z0-9]{16,}|\bya29\.[\w-]+|\bAGE-SECRET-KEY-1[A-Z0-9]+`), Secret},
	{[]string{"eyj"}, regexp.MustCompile(`\beyJ[\w-]{4,}\.[\w-]{4,}(?:\.[\w-]*)?`), Secret},
	{[]string{"?", "&"}, regexp.MustCompile(`(?i)([?&](?:key|sig|signature|code|auth)=)[^&\s#"']+`), "$1" + Secret},
	{[]string{"bearer", "basic", "digest"}, regexp.MustCompile(`(?i)\b(bearer|basic|digest)([ \t]+)[\w.~+/=-]{8,}`), "$1$2" + Secret},
	{namedMarks, regexp.MustCompile(`(?i)(--?(?:password|pass|token|secret|api-?key|auth)[= \t]+)\S+`), "$1" + Secret},
}

// Patterns of values after the name of a secret, and of random values.
var (
	namedMarks   = []string{"pass", "pwd", "secret", "token", "key", "auth", "credential", "cookie"}
	namedPattern = regexp.MustCompile(`(?i)([\w.-]*(?:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|authorization|credential|cookie)[\w-]*)` +
		`(["']?\s*[:=]\s*|[ \t]+["'])((?:bearer|basic|digest)\s+\S+|"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s,;&"']+)`)
	randomPattern = regexp.MustCompile(`[A-Za-z0-9_+/=-]{24,}`)
	uuidPattern   = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`)
)

// Text returns a text with its secrets masked.
func (m *Masker) Text(s string) string {
	for _, secret := range m.seen {
		s = maskPrefix(s, secret)
	}
	if len(s) < minKept {
		return s
	}
	lower := strings.ToLower(s)
	for _, l := range secretPatterns {
		if containsAny(lower, l.marks) {
			s = l.pattern.ReplaceAllString(s, l.with)
		}
	}
	if containsAny(lower, namedMarks) {
		s = namedPattern.ReplaceAllStringFunc(s, maskNamed)
	}
	if !hasRun(s) {
		return s
	}
	return randomPattern.ReplaceAllStringFunc(s, func(run string) string {
		if looksRandom(run) {
			return Secret
		}
		return run
	})
}

// minRandom is the minimum length of a run of characters that may be a key.
const minRandom = 24

// hasRun reports whether a text has a run of characters that may be a key.
func hasRun(s string) bool {
	run := 0
	for i := range len(s) {
		if c := s[i]; kindOf(c) == 0 && strings.IndexByte("_-+/=", c) < 0 {
			run = 0
		} else if run++; run >= minRandom {
			return true
		}
	}
	return false
}

func containsAny(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) })
}

// maskNamed masks the value in texts such as "password: hunter2". It leaves numbers
// of tokens as they are.
func maskNamed(s string) string {
	p := namedPattern.FindStringSubmatch(s)
	if strings.Trim(p[3], "0123456789.,") == "" && strings.Contains(strings.ToLower(p[1]), "tokens") {
		return s
	}
	quote := ""
	if q := p[3][:1]; q == `"` || q == "'" {
		quote = q
	}
	return p[1] + p[2] + quote + Secret + quote
}

// minRevealing is how many characters of a secret give it away. Tools often quote their
// arguments truncated.
const minRevealing = 8

// maskPrefix masks a secret in a text, even if only its beginning is left.
func maskPrefix(s, secret string) string {
	head := secret[:min(minRevealing, len(secret))]
	if !strings.Contains(s, head) {
		return s
	}
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, head)
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		n := 0
		for n < len(rest) && len(head)+n < len(secret) && rest[n] == secret[len(head)+n] {
			n++
		}
		b.WriteString(Secret)
		s = strings.ToValidUTF8(rest[n:], "")
	}
}

// looksRandom reports whether a run of characters looks random, as keys do: letters and
// digits change often. Words joined by signs, paths, dates and UUIDs do not.
func looksRandom(run string) bool {
	run = uuidPattern.ReplaceAllString(run, "")
	n, changes, digits, hex := 0, 0, 0, true
	last := byte(0)
	for i := range len(run) {
		c := kindOf(run[i])
		if c == 0 {
			last = 0
			continue
		}
		n++
		hex = hex && (c == '0' || run[i]|0x20 <= 'f')
		if last != 0 && c != last {
			changes++
			if c == '0' || last == '0' {
				digits++
			}
		}
		last = c
	}
	switch {
	case n < 20 || digits < 3:
		return false
	case hex && n >= 32:
		return true
	}
	return changes*4 >= n
}

func kindOf(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return '0'
	case 'a' <= c && c <= 'z':
		return 'a'
	case 'A' <= c && c <= 'Z':
		return 'A'
	}
	return 0
}
