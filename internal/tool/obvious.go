package tool

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// obvious reports whether a schema is certain to be one that NewValidator
// takes, at a small part of the cost of compiling it: it has only keywords
// that most tools have, each once and of the right form. A schema of which it
// says no may be good all the same.
func obvious(schema []byte) bool {
	r := reading{jsontext.NewDecoder(bytes.NewReader(schema))}
	if !r.schema(0) {
		return false
	}
	_, err := r.dec.ReadToken()
	return err == io.EOF
}

// reading reads a schema; its methods report whether all is well.
type reading struct{ dec *jsontext.Decoder }

func (r reading) schema(depth int) bool {
	if depth > maxDepth || !r.begins('{') {
		return false
	}
	object := false
	for r.dec.PeekKind() == '"' {
		name, ok := r.text()
		if !ok || !r.keyword(name, depth, &object) {
			return false
		}
	}
	return r.begins('}') && (object || depth > 0)
}

func (r reading) keyword(name string, depth int, object *bool) bool {
	switch name {
	case "type":
		is, ok := r.text()
		*object = is == "object"
		return ok && slices.Contains([]string{"object", "array", "string", "number", "integer", "boolean"}, is)
	case "description", "title", "format":
		_, ok := r.text()
		return ok
	case "$schema":
		_, ok := r.text()
		return ok && depth == 0
	case "required":
		return r.list(func() bool { _, ok := r.text(); return ok })
	case "enum":
		return r.list(func() bool { return r.dec.SkipValue() == nil })
	case "default":
		return r.dec.SkipValue() == nil
	case "minimum", "maximum":
		return r.number("-0123456789.")
	case "minLength", "maxLength", "minItems", "maxItems":
		return r.number("0123456789")
	case "properties":
		if !r.begins('{') {
			return false
		}
		for r.dec.PeekKind() == '"' {
			if _, ok := r.text(); !ok || !r.schema(depth+1) {
				return false
			}
		}
		return r.begins('}')
	case "items":
		return r.schema(depth + 1)
	case "additionalProperties":
		if k := r.dec.PeekKind(); k == 't' || k == 'f' {
			return r.dec.SkipValue() == nil
		}
		return r.schema(depth + 1)
	}
	return false
}

// begins reads a token of a kind.
func (r reading) begins(kind jsontext.Kind) bool {
	t, err := r.dec.ReadToken()
	return err == nil && t.Kind() == kind
}

func (r reading) text() (string, bool) {
	t, err := r.dec.ReadToken()
	if err != nil || t.Kind() != '"' {
		return "", false
	}
	return t.String(), true
}

// number reads a number of few characters, and of these only.
func (r reading) number(of string) bool {
	v, err := r.dec.ReadValue()
	return err == nil && v.Kind() == '0' && len(v) <= 9 && strings.Trim(string(v), of) == ""
}

func (r reading) list(each func() bool) bool {
	if !r.begins('[') {
		return false
	}
	for r.dec.PeekKind() != ']' {
		if !each() {
			return false
		}
	}
	return r.begins(']')
}
