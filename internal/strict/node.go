// Package strict reads YAML and JSON written by people and reports all faults at
// once, each with line, column and remedy. The text is parsed into nodes that
// record their position, and nodes are decoded into structs. Unknown keys,
// duplicate keys and values of the wrong type are faults.
package strict

import (
	"encoding/json"
	"fmt"
	"strings"

	"steward/internal/fault"
)

// Kind is the kind of a node.
type Kind byte

// The kinds of nodes.
const (
	Null Kind = iota
	Text
	Integer
	Float
	Bool
	List
	Map
)

// Position is a place in a file, counted from 1. The zero value means the file
// as a whole.
type Position struct{ Line, Column int }

// At returns a position.
func At(line, column int) Position { return Position{line, column} }

// Node is a value in a file, of YAML or JSON alike.
type Node struct {
	Position
	Kind   Kind
	Text   string // of a scalar
	Block  bool   // the text stands in a block, | or >, and ends with its last line
	List   []*Node
	Fields []Field
}

// Field is a member of a map.
type Field struct {
	Position // of the key
	Key      string
	Value    *Node
}

// Report receives a fault and its position.
type Report func(p Position, code, remedy, format string, args ...any)

// Get returns the member of that name, or nil.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for _, f := range n.Fields {
		if f.Key == key {
			return f.Value
		}
	}
	return nil
}

// Is reports whether the node is there and a scalar of that text.
func (n *Node) Is(text string) bool { return n != nil && n.Text == text }

// String names what stands there, for a person.
func (n *Node) String() string {
	switch n.Kind {
	case Text:
		return fmt.Sprintf("the text %q", Clip(n.Text))
	case Integer, Float:
		return "the number " + Clip(n.Text)
	case Bool:
		return n.Text
	case List:
		return "a list"
	case Map:
		return "keys and values"
	}
	return "nothing"
}

// Value returns the node as plain Go values: what JSON has.
func (n *Node) Value() any {
	switch n.Kind {
	case Text:
		return n.Text
	case Integer, Float:
		return number(n.Text)
	case Bool:
		return n.Text == "true"
	case List:
		out := make([]any, len(n.List))
		for i, e := range n.List {
			out[i] = e.Value()
		}
		return out
	case Map:
		out := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			out[f.Key] = f.Value.Value()
		}
		return out
	}
	return nil
}

// number writes a number of YAML as JSON does.
func number(text string) json.Number {
	if json.Valid([]byte(text)) {
		return json.Number(text)
	}
	var f float64
	if _, err := fmt.Sscan(text, &f); err != nil {
		return "0"
	}
	b, err := json.Marshal(f)
	if err != nil {
		return "0"
	}
	return json.Number(b)
}

// JSON writes the node as JSON.
func (n *Node) JSON() []byte {
	b, err := json.Marshal(n.Value())
	if err != nil {
		return []byte("null") // numbers and texts that were read: cannot fail
	}
	return b
}

// Clip shortens quoted input to keep messages readable.
func Clip(s string) string {
	const show = 80
	if r := []rune(s); len(r) > show {
		return string(r[:show]) + "…"
	}
	return s
}

// Suggest returns the word that was probably meant, or "" if none is near: the
// nearest by edits (a swap of neighbours counts once), at most a third of its
// letters away.
func Suggest(word string, words []string) string {
	best, least := "", 0
	for _, w := range words {
		far := fault.Distance(strings.ToLower(word), strings.ToLower(w))
		if far <= max(1, len(w)/3) && (best == "" || far < least) {
			best, least = w, far
		}
	}
	return best
}

// Join returns the path of a key below a path.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
