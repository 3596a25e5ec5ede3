package message

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/id"
)

// Decoding has two steps. First, check validates the whole input strictly (RFC 8259
// and RFC 7493: no duplicate names, valid UTF-8). Then the scanner below splits the
// accepted input into values; it relies on valid JSON.

// check returns an error unless b is exactly one strict JSON value.
func check(b []byte) error {
	if jsontext.Value(b).IsValid() {
		return nil
	}
	// Parse it again to find out what is wrong.
	d := jsontext.NewDecoder(bytes.NewReader(b))
	_, err := d.ReadValue()
	if err == nil {
		return fault.New(fault.Invalid, "message_invalid", "there is data after the message's JSON value")
	}
	code := "message_invalid"
	if errors.Is(err, jsontext.ErrDuplicateName) {
		code = "message_name_repeated"
	} else if !utf8.Valid(b) {
		code = "message_utf8_invalid"
	}
	f := fault.New(fault.Invalid, code, "the message is not strict JSON: %w", err)
	var syn *jsontext.SyntacticError
	if errors.As(err, &syn) {
		f = f.Detail("position", syn.ByteOffset)
	}
	return f
}

// value is one checked JSON value, without white space around it.
type value []byte

// each calls f for the members of an object, in order. name is unescaped; quoted is
// the name as written, with quotes and escapes. If f returns a mistyped error, each
// returns the coded error for that member.
func (v value) each(f func(name []byte, quoted, val value) error) error {
	if v[0] != '{' {
		return mistyped("an object")
	}
	for rest := skipSpace(v[1:]); rest[0] != '}'; {
		n := valueLen(rest)
		quoted := rest[:n]
		rest = skipSpace(rest[n:])
		rest = skipSpace(rest[1:]) // the colon
		n = valueLen(rest)
		val := rest[:n]
		if rest = skipSpace(rest[n:]); rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
		name := unquote(quoted)
		if err := f(name, quoted, val); err != nil {
			return ofMember(name, err)
		}
	}
	return nil
}

// items calls f for the elements of an array, in order.
func (v value) items(f func(val value) error) error {
	if v[0] != '[' {
		return mistyped("an array")
	}
	for rest := skipSpace(v[1:]); rest[0] != ']'; {
		n := valueLen(rest)
		if err := f(rest[:n]); err != nil {
			return err
		}
		if rest = skipSpace(rest[n:]); rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
	}
	return nil
}

func (v value) text() (string, error) {
	if v[0] != '"' {
		return "", mistyped("a string")
	}
	return string(unquote(v)), nil
}

func (v value) data() ([]byte, error) {
	s, err := v.text()
	if err != nil || s == "" {
		return nil, err
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, mistyped("base64 with padding")
	}
	return b, nil
}

func (v value) integer() (int64, error) {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		return 0, mistyped("an integer of 64 bits")
	}
	return n, nil
}

func (v value) ref() (Ref, error) {
	s, err := v.text()
	if err != nil {
		return Ref{}, err
	}
	r, ok := ParseRef(s)
	if !ok {
		err = mistyped("a message's UUID, '/' and the number of a block")
	}
	return r, err
}

func (v value) boolean() (bool, error) {
	if v[0] != 't' && v[0] != 'f' {
		return false, mistyped("true or false")
	}
	return v[0] == 't', nil
}

func (v value) id() (id.ID, error) {
	if v[0] == '"' {
		if x, ok := id.Parse(string(unquote(v))); ok {
			return x, nil
		}
	}
	return id.ID{}, mistyped("a UUID in lower case")
}

// mistyped is the error for a value of the wrong type. It names the right one.
type mistyped string

func (m mistyped) Error() string { return "it must be " + string(m) }

// ofMember converts a mistyped error to the coded error for the named member. It
// returns other errors unchanged.
func ofMember[T string | []byte](name T, err error) error {
	if want, ok := err.(mistyped); ok {
		return fault.New(fault.Invalid, "message_member_invalid", "%.40q must be %s", name, string(want)).Detail("member", string(name))
	}
	return err
}

// unquote returns the text of a string; it may share the value's bytes.
func unquote(v value) []byte {
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	b, _ := jsontext.AppendUnquote(nil, v) // check has validated it
	return b
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// valueLen returns the length of the value at the beginning of checked JSON.
func valueLen(b []byte) int {
	switch b[0] {
	case '"':
		return stringLen(b)
	case '{', '[':
		depth := 0
		for i := 0; ; i++ {
			switch b[i] {
			case '"':
				i += stringLen(b[i:]) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	n := bytes.IndexAny(b, ",]} \t\r\n")
	if n < 0 {
		return len(b)
	}
	return n
}

// stringLen returns the length of the string at the beginning of checked JSON.
func stringLen(b []byte) int {
	at := 1
	for {
		quote := at + bytes.IndexByte(b[at:], '"')
		slash := bytes.IndexByte(b[at:quote], '\\')
		if slash < 0 {
			return quote + 1
		}
		at += slash + 2
	}
}
