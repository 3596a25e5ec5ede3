package wire

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
)

// CodeHistory is the error code for a history that cannot be read: it is not JSON, or not in the
// form that the vendor documents. Details["at"] is the place ("messages[3].content[0]").
const CodeHistory = "history_invalid"

// Value is a part of a JSON document that knows its place there. Unlike Decoder it is strict, for
// documents of which nothing may be lost. The document keeps its first fault; everything read after
// it is empty. It is not safe for concurrent use.
type Value struct {
	raw  []byte
	at   string
	root *root
}

// root is the state that all values of a document share.
type root struct {
	bad     error
	lenient bool     // faults are notes
	notes   []string // what was converted
}

// document returns the JSON value in b. Repeated names and invalid Unicode are faults, unless the
// document is read leniently.
func document(b []byte, lenient bool) Value {
	v := Value{raw: bytes.TrimSpace(b), root: &root{lenient: lenient}}
	if jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(lenient), jsontext.AllowInvalidUTF8(lenient)) {
		return v
	}
	_, err := jsontext.NewDecoder(bytes.NewReader(b)).ReadValue()
	if err == nil {
		err = errors.New("something follows its end")
	}
	v.root.bad = fault.New(fault.Invalid, CodeHistory, "the document is not strict JSON: %w", err)
	return v
}

// Leniently returns a value of a stream that is to be read leniently.
func Leniently(raw []byte) Value { return document(raw, true) }

// Err returns the document's first fault.
func (v Value) Err() error { return v.root.bad }

// At returns the value's place.
func (v Value) At() string { return v.at }

// Named returns the same value with a different name for its place.
func (v Value) Named(at string) Value { return v.part(v.raw, at) }

// Within returns a member of an object, or any other value itself under that name.
func (v Value) Within(name string) Value {
	if v.Is('{') {
		return v.Get(name)
	}
	return v.Named(name)
}

// Raw returns the value's raw JSON. It aliases the document.
func (v Value) Raw() []byte { return v.raw }

// Zero reports whether there is no value, because the member is missing or null.
func (v Value) Zero() bool { return len(v.raw) == 0 || v.raw[0] == 'n' }

// Is reports whether the value begins with c: '{', '[', '"', 't', 'f' or, for a
// number, '0'.
func (v Value) Is(c byte) bool {
	if len(v.raw) == 0 {
		return false
	}
	first := v.raw[0]
	return first == c || c == '0' && (first == '-' || '0' <= first && first <= '9')
}

// Fault records a fault at this place. In a document that is read leniently it is a note.
func (v Value) Fault(code, format string, args ...any) {
	if v.root.lenient {
		v.Note("malformed content is left out")
		return
	}
	at := v.at
	if at == "" {
		at = "the document"
	}
	if v.root.bad == nil {
		v.root.bad = fault.New(fault.Invalid, code, "%s: %s", at, fmt.Sprintf(format, args...)).Detail("at", v.at)
	}
}

// Note records how something was converted in a document that is read leniently.
func (v Value) Note(format string, args ...any) {
	v.root.notes = append(v.root.notes, fmt.Sprintf(format, args...))
}

// Lenient reports whether the document is read leniently.
func (v Value) Lenient() bool { return v.root.lenient }

func (v Value) want(what string) { v.Fault(CodeHistory, "it must be %s", what) }

// part returns a value inside v.
func (v Value) part(raw []byte, at string) Value {
	return Value{raw: raw, at: strings.TrimPrefix(at, "."), root: v.root}
}

// Members yields the members of an object that are not null, in order. A missing value has none;
// any other value is a fault.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.Zero() || v.root.bad != nil {
			return
		}
		if !v.Is('{') {
			v.want("an object")
			return
		}
		d := Decode(v.raw)
		left := false
		d.Object(func(key []byte) {
			name := string(key)
			m := v.part(d.Span(), v.at+"."+name)
			left = left || !m.Zero() && !yield(name, m)
		})
	}
}

// Items yields the elements of an array, in order. A missing value has none; any other value is a
// fault.
func (v Value) Items() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if v.Zero() || v.root.bad != nil {
			return
		}
		if !v.Is('[') {
			v.want("a list")
			return
		}
		d := Decode(v.raw)
		left := false
		d.Array(func(i int) {
			m := v.part(d.Span(), v.at+"["+strconv.Itoa(i)+"]")
			left = left || !yield(i, m)
		})
	}
}

// Each yields the elements of an array, or a single object that is given in place of an array.
func (v Value) Each() iter.Seq2[int, Value] {
	if v.Is('{') {
		return func(yield func(int, Value) bool) { yield(0, v) }
	}
	return v.Items()
}

// Get returns a member of an object, or a missing value.
func (v Value) Get(name string) Value {
	for n, m := range v.Members() {
		if n == name {
			return m
		}
	}
	return v.part(nil, v.at+"."+name)
}

// Split returns the member of a message with its content, and the members beside it, without its role, as the
// inside of an object.
func (v Value) Split(content string) (part Value, others []byte) {
	for name, m := range v.Members() {
		switch name {
		case "role":
		case content:
			part = m
		default:
			others = AppendMember(others, name, m.Raw())
		}
	}
	return part, others
}

// Text returns a string. A missing value is the empty string.
func (v Value) Text() string {
	switch {
	case v.Zero() || v.root.bad != nil:
		return ""
	case !v.Is('"'):
		v.want("a string")
		return ""
	}
	return string(unquoted(v.raw))
}

// Flag returns a boolean. A missing value is false.
func (v Value) Flag() bool {
	if !v.Zero() && !v.Is('t') && !v.Is('f') {
		v.want("true or false")
	}
	return v.Is('t')
}

// Object returns the raw JSON of an object. A missing value is nil.
func (v Value) Object() []byte {
	switch {
	case v.Zero():
		return nil
	case !v.Is('{'):
		v.want("an object")
		return nil
	}
	return v.raw
}
