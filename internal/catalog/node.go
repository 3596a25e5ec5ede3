package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// kind is what a node is.
type kind byte

const (
	kindNull kind = iota
	kindText
	kindInteger
	kindFloat
	kindBool
	kindList
	kindMap
)

// place is where something stands in a file.
type place struct{ line, column int }

// node is a value of a definition, of YAML or JSON alike, with its place.
type node struct {
	kind   kind
	text   string // of a scalar
	list   []*node
	fields []field
	place
}

// field is a member of a map.
type field struct {
	key   string
	value *node
	place // of the key
}

// get returns the member of that name.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

// is reports whether the node is there and a scalar of that text.
func (n *node) is(text string) bool { return n != nil && n.text == text }

// texts returns the texts of a list, or the one that stands in its place.
func (n *node) texts() []string {
	if n == nil {
		return nil
	}
	var out []string
	for _, e := range append([]*node{n}, n.list...) {
		if e.kind == kindText {
			out = append(out, clip(e.text))
		}
	}
	return out
}

// says names what stands there, for a person.
func (n *node) says() string {
	switch n.kind {
	case kindText:
		return fmt.Sprintf("the text %q", clip(n.text))
	case kindInteger, kindFloat:
		return "the number " + clip(n.text)
	case kindBool:
		return n.text
	case kindList:
		return "a list"
	case kindMap:
		return "keys and values"
	}
	return "nothing"
}

// any returns the node as plain Go values: what JSON has.
func (n *node) any() any {
	switch n.kind {
	case kindText:
		return n.text
	case kindInteger, kindFloat:
		return json.Number(number(n.text))
	case kindBool:
		return n.text == "true"
	case kindList:
		out := make([]any, len(n.list))
		for i, e := range n.list {
			out[i] = e.any()
		}
		return out
	case kindMap:
		out := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			out[f.key] = f.value.any()
		}
		return out
	}
	return nil
}

// number writes a number of YAML as JSON does.
func number(text string) string {
	if json.Valid([]byte(text)) {
		return text
	}
	var f float64
	if _, err := fmt.Sscan(text, &f); err != nil {
		return "0"
	}
	b, err := json.Marshal(f)
	if err != nil {
		return "0"
	}
	return string(b)
}

const (
	mostDepth  = 32       // levels of nesting in a definition
	mostColumn = 16 << 10 // of a line; a parser's time grows with it
)

// report takes what is wrong at a place.
type report func(p place, code, remedy, format string, args ...any)

// readYAML reads one document. It returns nil where there is none, or where
// it cannot be read, which is told to bad.
func readYAML(text []byte, bad report) *node {
	if p, ok := tooDeep(text); ok {
		bad(p, "definition_too_deep", "write it flatter", "this is nested too deeply, or the line is too long")
		return nil
	}
	f, err := parser.ParseBytes(text, 0)
	if err != nil {
		if ye := yaml.Error(nil); errors.As(err, &ye) {
			bad(at(ye.GetToken()), "yaml_invalid", "mend the YAML here", "%s", ye.GetMessage())
			return nil
		}
		bad(place{1, 1}, "yaml_invalid", "mend the YAML", "this is no YAML: %s", clip(err.Error()))
		return nil
	}
	var body ast.Node
	for _, doc := range f.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			bad(at(doc.Body.GetToken()), "yaml_invalid", "keep one document in a file", "a second document begins here")
			return nil
		}
		body = doc.Body
	}
	if body == nil || body.Type() == ast.CommentType {
		return nil
	}
	return fromYAML(body, bad, 0)
}

func at(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{1, 1}
	}
	return place{t.Position.Line, t.Position.Column}
}

// tooDeep looks for nesting that no definition needs, before a recursive
// parser sees it.
func tooDeep(text []byte) (place, bool) {
	depth, line, column, indent, deep := 0, 1, 0, true, 0
	for _, c := range text {
		column++
		switch {
		case c == '\n':
			line, column, indent, deep = line+1, 0, true, 0
			continue
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		}
		// "- - - -" nests without any bracket.
		if indent && (c == '-' || c == '?') {
			deep++
		} else if c != ' ' {
			indent = false
		}
		if depth > 2*mostDepth || deep > mostDepth || column > mostColumn {
			return place{line, column}, true
		}
	}
	return place{}, false
}

// fromYAML turns what the parser has read into nodes.
func fromYAML(n ast.Node, bad report, depth int) *node {
	out := &node{place: at(n.GetToken())}
	if depth > mostDepth {
		bad(out.place, "definition_too_deep", "write it flatter", "this is nested too deeply")
		return out
	}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		out.kind, out.text = kindText, n.Value
	case *ast.LiteralNode:
		out.kind, out.text = kindText, n.Value.Value
	case *ast.IntegerNode:
		out.kind, out.text = kindInteger, fmt.Sprint(n.Value)
	case *ast.FloatNode:
		out.kind, out.text = kindFloat, n.GetToken().Value
	case *ast.BoolNode:
		out.kind, out.text = kindBool, fmt.Sprint(n.Value)
	case *ast.SequenceNode:
		out.kind = kindList
		for _, e := range n.Values {
			out.list = append(out.list, fromYAML(e, bad, depth+1))
		}
	case ast.MapNode:
		out.kind = kindMap
		yamlFields(n, out, bad, depth)
	default:
		bad(out.place, "yaml_unsupported", "write the value out", "anchors, aliases, tags and the like are not understood here")
	}
	return out
}

func yamlFields(m ast.MapNode, out *node, bad report, depth int) {
	seen := map[string]bool{}
	for it := m.MapRange(); it.Next(); {
		kv := it.KeyValue()
		f := field{place: at(kv.Key.GetToken())}
		if _, plain := kv.Key.(ast.ScalarNode); kv.Key.IsMergeKey() || !plain {
			bad(f.place, "yaml_unsupported", "write the values out", "merge keys and keys that are no plain words are not understood here")
			continue
		}
		f.key = kv.Key.GetToken().Value
		if seen[f.key] {
			bad(f.place, "key_twice", "keep one of the two", "%q is there twice", clip(f.key))
			continue
		}
		seen[f.key] = true
		f.value = fromYAML(kv.Value, bad, depth+1)
		out.fields = append(out.fields, f)
	}
	if flow, ok := m.(*ast.MappingNode); len(out.fields) > 0 && !(ok && flow.IsFlowStyle) {
		out.place = out.fields[0].place // goccy places a block map at its first colon
	}
}

// readJSON reads one JSON value, names in their exact case and none twice.
func readJSON(text []byte, bad report) *node {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	r := &jsonReader{text: text, dec: json.NewDecoder(bytes.NewReader(text)), bad: bad}
	r.dec.UseNumber()
	n := r.value(0)
	if n == nil {
		return nil
	}
	if _, err := r.dec.Token(); err != io.EOF {
		bad(r.here(), "json_invalid", "keep one value in the file", "something follows after the end")
		return nil
	}
	return n
}

type jsonReader struct {
	text []byte
	dec  *json.Decoder
	bad  report
}

// here is the place of what the decoder reads next.
func (r *jsonReader) here() place {
	off := int(r.dec.InputOffset())
	for off < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[off]) >= 0 {
		off++
	}
	return placeOf(r.text, off)
}

func placeOf(text []byte, off int) place {
	before := text[:min(off, len(text))]
	return place{1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')}
}

// value reads one value; nil after a fault, which was told.
func (r *jsonReader) value(depth int) *node {
	out := &node{place: r.here()}
	t, err := r.dec.Token()
	if err == nil && depth > mostDepth {
		err = errors.New("it is nested too deeply")
	}
	if err != nil {
		p := r.here()
		if se := (*json.SyntaxError)(nil); errors.As(err, &se) {
			p = placeOf(r.text, int(se.Offset)-1)
		}
		r.bad(p, "json_invalid", "mend the JSON here", "this is no JSON: %s", clip(err.Error()))
		return nil
	}
	switch t := t.(type) {
	case string:
		out.kind, out.text = kindText, t
	case json.Number:
		out.kind, out.text = kindInteger, t.String()
		if strings.ContainsAny(out.text, ".eE") {
			out.kind = kindFloat
		}
	case bool:
		out.kind, out.text = kindBool, fmt.Sprint(t)
	case json.Delim:
		return r.inside(out, t, depth)
	}
	return out
}

// inside reads the rest of a list or an object.
func (r *jsonReader) inside(out *node, open json.Delim, depth int) *node {
	out.kind = kindList
	if open == '{' {
		out.kind = kindMap
	}
	for r.dec.More() {
		f := field{place: r.here()}
		if out.kind == kindMap {
			key := r.value(depth + 1)
			if key == nil {
				return nil
			}
			if f.key = key.text; out.get(f.key) != nil {
				r.bad(f.place, "key_twice", "keep one of the two", "%q is there twice", clip(f.key))
				return nil
			}
		}
		if f.value = r.value(depth + 1); f.value == nil {
			return nil
		}
		if out.kind == kindMap {
			out.fields = append(out.fields, f)
		} else {
			out.list = append(out.list, f.value)
		}
	}
	if _, err := r.dec.Token(); err != nil { // the closing bracket
		r.bad(r.here(), "json_invalid", "mend the JSON here", "this is no JSON: %s", clip(err.Error()))
		return nil
	}
	return out
}

// clip keeps what is quoted back readable.
func clip(s string) string {
	const show = 80
	if r := []rune(s); len(r) > show {
		return string(r[:show]) + "…"
	}
	return s
}
