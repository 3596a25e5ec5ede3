package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	maxDepth  = 32       // levels of nesting
	maxColumn = 16 << 10 // of a line; a parser's time grows with it
)

// ReadYAML reads one document. It returns nil where there is none, or where it
// cannot be read, which is reported to bad. Error codes: yaml_invalid,
// yaml_unsupported, key_twice, definition_too_deep.
func ReadYAML(text []byte, bad Report) *Node {
	text = Unmarked(text)
	if p, ok := tooDeep(text); ok {
		bad(p, "definition_too_deep", "reduce the nesting", "the nesting is too deep, or the line is too long")
		return nil
	}
	f, err := parser.ParseBytes(text, 0)
	if err != nil {
		if ye := yaml.Error(nil); errors.As(err, &ye) {
			bad(at(ye.GetToken()), "yaml_invalid", "fix the YAML here", "%s", ye.GetMessage())
			return nil
		}
		bad(Position{1, 1}, "yaml_invalid", "fix the YAML", "invalid YAML: %s", Clip(err.Error()))
		return nil
	}
	var body ast.Node
	for _, doc := range f.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			bad(at(doc.Body.GetToken()), "yaml_invalid", "keep one document in each file", "a second document begins here")
			return nil
		}
		body = doc.Body
	}
	if body == nil || body.Type() == ast.CommentType {
		return nil
	}
	return fromYAML(body, bad, 0)
}

func at(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{1, 1}
	}
	return Position{t.Position.Line, t.Position.Column}
}

// tooDeep looks for nesting that nobody needs, before a recursive parser sees
// it.
func tooDeep(text []byte) (Position, bool) {
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
		if depth > 2*maxDepth || deep > maxDepth || column > maxColumn {
			return Position{line, column}, true
		}
	}
	return Position{}, false
}

// fromYAML turns what the parser has read into nodes.
func fromYAML(n ast.Node, bad Report, depth int) *Node {
	out := &Node{Position: at(n.GetToken())}
	if depth > maxDepth {
		bad(out.Position, "definition_too_deep", "reduce the nesting", "the nesting is too deep")
		return out
	}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		out.Kind, out.Text = Text, n.Value
	case *ast.LiteralNode:
		out.Kind, out.Text, out.Block = Text, n.Value.Value, true
	case *ast.IntegerNode:
		out.Kind, out.Text = Integer, fmt.Sprint(n.Value)
	case *ast.FloatNode:
		out.Kind, out.Text = Float, n.GetToken().Value
	case *ast.BoolNode:
		out.Kind, out.Text = Bool, fmt.Sprint(n.Value)
	case *ast.InfinityNode, *ast.NanNode:
		bad(out.Position, "yaml_unsupported", "write a number", "%s is not supported", n.GetToken().Value)
	case *ast.SequenceNode:
		out.Kind = List
		for _, e := range n.Values {
			out.List = append(out.List, fromYAML(e, bad, depth+1))
		}
	case ast.MapNode:
		out.Kind = Map
		yamlFields(n, out, bad, depth)
	default:
		bad(out.Position, "yaml_unsupported", "write the value out", "anchors, aliases and tags are not supported")
	}
	return out
}

func yamlFields(m ast.MapNode, out *Node, bad Report, depth int) {
	seen := map[string]bool{}
	for it := m.MapRange(); it.Next(); {
		kv := it.KeyValue()
		f := Field{Position: at(kv.Key.GetToken())}
		if _, plain := kv.Key.(ast.ScalarNode); kv.Key.IsMergeKey() || !plain {
			bad(f.Position, "yaml_unsupported", "write the values out", "merge keys and keys that are not scalars are not supported")
			continue
		}
		f.Key = kv.Key.GetToken().Value
		if seen[f.Key] {
			bad(f.Position, "key_twice", "keep one of the two", "duplicate key %q", Clip(f.Key))
			continue
		}
		seen[f.Key] = true
		f.Value = fromYAML(kv.Value, bad, depth+1)
		out.Fields = append(out.Fields, f)
	}
	if flow, ok := m.(*ast.MappingNode); len(out.Fields) > 0 && !(ok && flow.IsFlowStyle) {
		out.Position = out.Fields[0].Position // goccy places a block map at its first colon
	}
}

// ReadJSON reads one JSON value, names in their exact case and none twice. It
// returns nil where it cannot be read, which is reported to bad. Error codes:
// json_invalid, key_twice.
func ReadJSON(text []byte, bad Report) *Node {
	text = Unmarked(text)
	r := jsonReader{text, jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowInvalidUTF8(true))}
	n, err := r.value()
	if err != nil {
		r.report(err, bad)
		return nil
	}
	if _, err := r.dec.ReadToken(); err != io.EOF {
		bad(r.next(), "json_invalid", "keep one value in the file", "there is data after the end")
		return nil
	}
	return n
}

type jsonReader struct {
	text []byte
	dec  *jsontext.Decoder
}

// report tells why the text cannot be read.
func (r jsonReader) report(err error, bad Report) {
	p := r.next()
	if se := (*jsontext.SyntacticError)(nil); errors.As(err, &se) {
		p, err = r.position(int(se.ByteOffset)), se.Err
		if errors.Is(err, jsontext.ErrDuplicateName) {
			bad(p, "key_twice", "keep one of the two", "duplicate key %q", Clip(se.JSONPointer.LastToken()))
			return
		}
	}
	bad(p, "json_invalid", "fix the JSON here", "invalid JSON: %s", Clip(err.Error()))
}

// next is the position of what is read next.
func (r jsonReader) next() Position {
	off := int(r.dec.InputOffset())
	for off < len(r.text) && bytes.IndexByte([]byte(" \t\r\n,:"), r.text[off]) >= 0 {
		off++
	}
	return r.position(off)
}

func (r jsonReader) position(off int) Position {
	before := r.text[:min(off, len(r.text))]
	return Position{1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')}
}

func (r jsonReader) value() (*Node, error) {
	out := &Node{Position: r.next()}
	t, err := r.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case '"':
		out.Kind, out.Text = Text, t.String()
	case '0':
		out.Kind, out.Text = Integer, t.String()
		if bytes.ContainsAny([]byte(out.Text), ".eE") {
			out.Kind = Float
		}
	case 't', 'f':
		out.Kind, out.Text = Bool, t.String()
	case '[':
		out.Kind = List
		err = r.inside(out)
	case '{':
		out.Kind = Map
		err = r.inside(out)
	}
	return out, err
}

// inside reads the rest of a list or an object.
func (r jsonReader) inside(out *Node) error {
	if r.dec.StackDepth() > maxDepth {
		return errors.New("the nesting is too deep")
	}
	for kind := r.dec.PeekKind(); kind != ']' && kind != '}'; kind = r.dec.PeekKind() {
		f := Field{Position: r.next()}
		if out.Kind == Map {
			key, err := r.dec.ReadToken()
			if err != nil {
				return err
			}
			f.Key = key.String()
		}
		var err error
		if f.Value, err = r.value(); err != nil {
			return err
		}
		if out.Kind == Map {
			out.Fields = append(out.Fields, f)
		} else {
			out.List = append(out.List, f.Value)
		}
	}
	_, err := r.dec.ReadToken() // the closing bracket
	return err
}
