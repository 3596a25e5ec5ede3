package wire

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString[S string | []byte](dst []byte, s S) []byte {
	if plain(s) {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	dst, _ = jsontext.AppendQuote(dst, s) // the error only reports replaced UTF-8
	return dst
}

// plain reports whether s needs neither escapes nor a check of its UTF-8.
func plain[S string | []byte](s S) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// Valid reports whether b is one JSON value with unique names and valid UTF-8.
func Valid(b []byte) bool { return jsontext.Value(b).IsValid() }

// IsObject reports whether b is a valid JSON object.
func IsObject(b []byte) bool {
	t := bytes.TrimLeft(b, " \t\r\n")
	return len(t) > 0 && t[0] == '{' && Valid(b)
}

// Member returns the raw value of a member of an object, or nil.
func Member(object []byte, name string) (raw []byte) {
	d := Decode(object)
	d.Object(func(key []byte) {
		if string(key) == name {
			raw = d.Raw()
		}
	})
	return raw
}

var errJSON = errors.New("not the JSON that was expected")

// Decoder reads one JSON value from front to back, in place and in one pass. It is lenient where a
// vendor's mistake does no harm: a value of an unexpected type is skipped, and its zero value
// returned. Errors are sticky: after the first, all values are zero. It is not safe for concurrent
// use.
//
// It is our own because a stream has an event for every few characters. A jsontext.Decoder that is
// reused for all events takes 1.3 times as long for those of OpenAI and Anthropic, 1.4 times for
// Ollama's and 1.6 times for Gemini's (BenchmarkChunk; medians of 9 runs). It also checks what is
// skipped, and a value within a value, which Span returns, would need another decoder. jsontext
// still does what is hard: it checks raw values, and quotes and unquotes strings.
type Decoder struct {
	buf []byte
	pos int
	err error
}

// Decode returns a decoder of b, which it does not modify.
func Decode(b []byte) *Decoder { return &Decoder{buf: b} }

// End returns the error that stopped the decoder, or an error if anything follows the value.
func (d *Decoder) End() error {
	if d.err == nil && d.peek() != 0 {
		d.fail()
	}
	return d.err
}

// Refuse stops the decoder with an error, because there is too much of something.
func (d *Decoder) Refuse() { d.fail() }

func (d *Decoder) fail() { d.err, d.pos = errJSON, len(d.buf) }

// peek returns the first byte of the next token, or 0 at the end.
func (d *Decoder) peek() byte {
	for d.pos < len(d.buf) {
		switch c := d.buf[d.pos]; c {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return c
		}
	}
	return 0
}

// Object calls member for each member of the next value, an object. member reads the value, or
// leaves it to be skipped. The key is valid until member returns.
func (d *Decoder) Object(member func(key []byte)) {
	if d.peek() != '{' {
		d.Skip()
		return
	}
	d.pos++
	for first := true; d.more('}', first); first = false {
		key := d.key()
		if d.err != nil {
			return
		}
		at := d.pos
		member(key)
		if d.pos == at {
			d.Skip()
		}
	}
}

// Array calls element for each element of the next value, an array. element reads the value, or
// leaves it to be skipped.
func (d *Decoder) Array(element func(i int)) {
	if d.peek() != '[' {
		d.Skip()
		return
	}
	d.pos++
	for i := 0; d.more(']', i == 0); i++ {
		d.peek()
		at := d.pos
		element(i)
		if d.pos == at {
			d.Skip()
		}
	}
}

// more advances to the next member or element. It returns false after the last one.
func (d *Decoder) more(end byte, first bool) bool {
	switch c := d.peek(); {
	case d.err != nil:
		return false
	case c == end:
		d.pos++
		return false
	case first && c != 0:
		return true
	case c == ',':
		d.pos++
		if d.peek() != end {
			return true
		}
	}
	d.fail()
	return false
}

func (d *Decoder) key() []byte {
	if d.peek() != '"' {
		d.fail()
		return nil
	}
	raw := d.token()
	if d.peek() != ':' {
		d.fail()
		return nil
	}
	d.pos++
	d.peek()
	return unquoted(raw)
}

// unquoted decodes a JSON string, in place if it has no escapes.
func unquoted(raw []byte) []byte {
	in := raw[1 : len(raw)-1]
	for i, c := range in {
		if c == '\\' || c >= utf8.RuneSelf {
			if bytes.IndexByte(in[i:], '\\') < 0 && utf8.Valid(in[i:]) {
				return in
			}
			out, _ := jsontext.AppendUnquote(nil, raw) // replaces invalid Unicode
			return out
		}
	}
	return in
}

// token returns the next string, number or literal as raw JSON.
func (d *Decoder) token() []byte {
	start := d.pos
	if d.buf[start] == '"' {
		return d.quoted(start)
	}
	for d.pos < len(d.buf) && !delimits(d.buf[d.pos]) {
		d.pos++
	}
	if d.pos == start {
		d.fail()
		return nil
	}
	return d.buf[start:d.pos]
}

// quoted returns the string that begins at start. Most strings are names and tokens of a few bytes,
// for which a loop is faster than a search.
func (d *Decoder) quoted(start int) []byte {
	for i := start + 1; i < len(d.buf); i++ {
		switch d.buf[i] {
		case '"':
			d.pos = i + 1
			return d.buf[start:d.pos]
		case '\\':
			i++
		}
	}
	d.fail()
	return nil
}

func delimits(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', ',', ':', ']', '}', '[', '{', '"':
		return true
	}
	return false
}

// Skip skips the next value. It finds the value's end without validating the value.
func (d *Decoder) Skip() {
	for depth := 0; ; {
		switch d.peek() {
		case 0:
			d.fail()
			return
		case '{', '[':
			depth++
			d.pos++
		case '}', ']':
			if depth--; depth < 0 {
				d.fail()
				return
			}
			d.pos++
		case ',', ':':
			if depth == 0 {
				d.fail()
				return
			}
			d.pos++
		default:
			d.token()
		}
		if depth == 0 || d.err != nil {
			return
		}
	}
}

// Raw returns the next value as raw JSON, which it validates (except for duplicate names). The
// result aliases the decoder's input.
func (d *Decoder) Raw() []byte {
	d.peek()
	start := d.pos
	d.Skip()
	if d.err == nil && !jsontext.Value(d.buf[start:d.pos]).IsValid(jsontext.AllowDuplicateNames(true)) {
		d.fail()
	}
	if d.err != nil {
		return nil
	}
	return d.buf[start:d.pos]
}

// Span returns the next value as raw JSON for another decoder. Unlike Raw, it does not validate it.
func (d *Decoder) Span() []byte {
	d.peek()
	start := d.pos
	d.Skip()
	if d.err != nil {
		return nil
	}
	return d.buf[start:d.pos]
}

// Bytes returns the next value, a string. The result may alias the decoder's input.
func (d *Decoder) Bytes() []byte {
	raw := d.text()
	if raw == nil {
		return nil
	}
	return unquoted(raw)
}

// text returns the next value, a string, as raw JSON. It skips any other value and returns nil.
func (d *Decoder) text() []byte {
	if d.peek() != '"' {
		d.Skip()
		return nil
	}
	return d.token()
}

// String returns the next value, a string.
func (d *Decoder) String() string { return string(d.Bytes()) }

// Int returns the next value, a number, without its fraction.
func (d *Decoder) Int() int64 {
	c := d.peek()
	if c != '-' && (c < '0' || c > '9') {
		d.Skip()
		return 0
	}
	s := string(d.token())
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil {
		return n
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		d.fail()
		return 0
	}
	return int64(max(-1<<62, min(1<<62, f)))
}

// Bool returns the next value, a boolean.
func (d *Decoder) Bool() bool {
	if c := d.peek(); c != 't' && c != 'f' {
		d.Skip()
		return false
	}
	return string(d.token()) == "true"
}

// Null skips the next value if it is null, and reports whether it was.
func (d *Decoder) Null() bool {
	if d.peek() != 'n' {
		return false
	}
	d.token()
	return d.err == nil
}

// IsString reports whether the next value is a string.
func (d *Decoder) IsString() bool { return d.peek() == '"' }

// IsObject reports whether the next value is an object.
func (d *Decoder) IsObject() bool { return d.peek() == '{' }

// IsArray reports whether the next value is an array.
func (d *Decoder) IsArray() bool { return d.peek() == '[' }
