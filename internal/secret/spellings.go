package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// spellings returns the forms in which a value may appear, without duplicates.
func spellings(value string) []string {
	plain := []string{value}
	if lines := strings.Split(value, "\n"); len(lines) > 1 {
		for _, line := range lines {
			if line = strings.TrimSpace(line); len(line) >= minLine && !strings.HasPrefix(line, "-----") {
				plain = append(plain, line)
			}
		}
	}
	var out []string
	for _, v := range plain {
		out = append(out, v, unquote(strconv.Quote(v)), unquote(strconv.QuoteToASCII(v)),
			hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v))))
		for _, once := range inJSON(v) {
			out = append(out, once, jsonText(once), htmlJSON(once))
		}
		for _, u := range inURL(v) {
			out = append(out, u, lowerEscapes(u))
		}
		out = append(out, inBase64(v)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// inJSON returns the forms of a text in a JSON string. Writers differ in which
// characters they escape (non-ASCII, slashes, those with a meaning in HTML), and
// in the case of hexadecimal digits.
func inJSON(v string) []string {
	var out []string
	for _, s := range []string{jsonText(v), htmlJSON(v), asciiJSON(v)} {
		for _, t := range []string{s, strings.ReplaceAll(s, "/", `\/`)} {
			out = append(out, t, unicodeEscape.ReplaceAllStringFunc(t, func(e string) string { return e[:2] + strings.ToUpper(e[2:]) }))
		}
	}
	return out
}

var unicodeEscape = regexp.MustCompile(`\\u[0-9a-f]{4}`)

// asciiJSON returns a text as it is in a JSON string of ASCII characters.
func asciiJSON(s string) string {
	var b strings.Builder
	for _, r := range jsonText(s) {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// inURL returns the forms of a text in a URL. Writers differ in which characters
// they escape, and in how they write a blank.
func inURL(v string) []string {
	out := []string{url.PathEscape(v)}
	for _, keep := range []string{
		"",                  // form data of PHP
		"*",                 // and of Java and browsers
		"~",                 // RFC 3986, Go
		"~/",                // Python
		"~!'()*",            // JavaScript's encodeURIComponent
		"~!'()*;/?:@&=+$,#", // its encodeURI
	} {
		out = append(out, escaped(v, keep, "%20"), escaped(v, keep, "+"))
	}
	return out
}

// escaped writes all bytes as %XX, except letters, digits, -, _, . and those in
// keep.
func escaped(s, keep, blank string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c == ' ':
			b.WriteString(blank)
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.", c) >= 0, strings.IndexByte(keep, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// jsonText returns a text as it is in a JSON string.
func jsonText(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) != nil {
		return s
	}
	return unquote(strings.TrimSuffix(b.String(), "\n"))
}

// unquote removes the quotes of a quoted text.
func unquote(quoted string) string { return quoted[1 : len(quoted)-1] }

// htmlJSON is jsonText with <, > and & escaped, as Go and others write them.
func htmlJSON(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return s
	}
	return unquote(string(b))
}

// lowerEscapes replaces %2F by %2f.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(string(b[i+1:i+3])))
		}
	}
	return string(b)
}

// inBase64 returns the forms of a value in base64, in both alphabets and at every
// offset in a longer text. It leaves out the characters at the ends that also
// depend on the neighbouring bytes.
func inBase64(v string) []string {
	var out []string
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		out = append(out, enc.EncodeToString([]byte(v)), enc.WithPadding('=').EncodeToString([]byte(v)))
		for shift := range 3 {
			s := enc.EncodeToString(append(make([]byte, shift), v...))
			from, to := (shift*8+5)/6, (shift+len(v))*8/6
			if to-from >= 2*minForm-4 {
				out = append(out, s[from:to])
			}
		}
	}
	return out
}
