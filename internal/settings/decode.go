package settings

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// place is where something stands in a file.
type place struct{ line, column int }

func at(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{1, 1}
	}
	return place{t.Position.Line, t.Position.Column}
}

// decoder reads one file over the settings so far.
type decoder struct {
	file    string // as it is named to the person
	dir     string // what relative paths start from
	kind    Kind
	home    string
	from    map[string]Source
	faults  []string
	notices []string
}

func (d *decoder) fault(p place, format string, args ...any) {
	d.faults = append(d.faults, fmt.Sprintf("%s:%d:%d: %s", d.file, p.line, p.column, fmt.Sprintf(format, args...)))
}

// decodeFile reads YAML text into s.
func (d *decoder) decodeFile(text []byte, s *Settings) {
	if why, p := tooDeep(text); why != "" {
		d.fault(p, "%s", why)
		return
	}
	f, err := parser.ParseBytes(text, 0)
	if err != nil {
		var ye yaml.Error
		if errors.As(err, &ye) {
			d.fault(at(ye.GetToken()), "%s", ye.GetMessage())
			return
		}
		d.fault(place{1, 1}, "this is no YAML: %v", err)
		return
	}
	var body ast.Node
	for _, doc := range f.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			d.fault(at(doc.Body.GetToken()), "a second document begins here; keep all settings in one")
			return
		}
		body = doc.Body
	}
	if body == nil || body.Type() == ast.CommentType || body.Type() == ast.NullType {
		return
	}
	d.structure(body, reflect.ValueOf(s).Elem(), "", rules{})
}

// tooDeep refuses nesting that no settings need, before a recursive parser
// sees it.
func tooDeep(text []byte) (string, place) {
	const most = 64
	depth, line, column := 0, 1, 0
	for _, c := range text {
		column++
		switch c {
		case '\n':
			line, column = line+1, 0
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if depth > most || column > 100*most {
			return "this is nested too deeply, or the line is too long, for settings", place{line, column}
		}
	}
	return "", place{}
}

// entries returns the keys and values of a mapping.
func (d *decoder) entries(n ast.Node, path, want string) ([]*ast.MappingValueNode, bool) {
	m, ok := n.(ast.MapNode)
	if !ok {
		d.fault(at(n.GetToken()), "%s: expected %s, found %s", orTop(path), want, found(n))
		return nil, false
	}
	var out []*ast.MappingValueNode
	for it := m.MapRange(); it.Next(); {
		kv := it.KeyValue()
		if kv.Key.IsMergeKey() {
			d.fault(at(kv.Key.GetToken()), "%s: merge keys are not understood here; write the values out", orTop(path))
			continue
		}
		out = append(out, kv)
	}
	return out, true
}

func orTop(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// structure reads a mapping into a struct.
func (d *decoder) structure(n ast.Node, v reflect.Value, path string, outer rules) {
	t := v.Type()
	if f, ok := shortField(t); ok && !isMapping(n) {
		d.value(n, v.FieldByIndex(f.Index), join(path, f.Tag.Get("yaml")), rulesOf(f, outer))
		return
	}
	kvs, ok := d.entries(n, path, "keys and their values")
	if !ok {
		return
	}
	for _, kv := range kvs {
		key := kv.Key.GetToken().Value
		f, ok := fieldByKey(t, key)
		if !ok {
			d.unknown(kv.Key, key, path, keysOf(t))
			continue
		}
		r := rulesOf(f, outer)
		full := join(path, key)
		if d.kind == FromProject && r.project == "no" {
			d.refuse(at(kv.Key.GetToken()), full)
			continue
		}
		d.value(kv.Value, v.FieldByIndex(f.Index), full, r)
	}
}

func (d *decoder) refuse(p place, path string) {
	d.notices = append(d.notices, fmt.Sprintf(
		"%s:%d:%d: %s is not taken from a project's file; put it into your own settings, or name this file with --config if you trust it",
		d.file, p.line, p.column, path))
}

func (d *decoder) unknown(n ast.Node, key, path string, words []string) {
	where := ""
	if path != "" {
		where = " in " + path
	}
	if w := Likely(key, words); w != "" {
		d.fault(at(n.GetToken()), "unknown key %q%s; did you mean %q?", clip(key), where, w)
		return
	}
	d.fault(at(n.GetToken()), "unknown key %q%s; known are %s", clip(key), where, strings.Join(words, ", "))
}

// value reads one value, whatever it is.
func (d *decoder) value(n ast.Node, v reflect.Value, path string, r rules) {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		d.fault(at(n.GetToken()), "%s: anchors, aliases and tags are not understood here; write the value out", path)
		return
	case *ast.NullNode:
		return // a key without a value says nothing
	}
	switch {
	case isLeaf(v.Type()):
		d.leaf(n, v, path, r)
	case v.Kind() == reflect.Struct:
		d.structure(n, v, path, r)
	case v.Kind() == reflect.Map:
		d.dictionary(n, v, path, r)
	default:
		d.list(n, v, path, r)
	}
}

// dictionary reads a mapping whose keys are names.
func (d *decoder) dictionary(n ast.Node, v reflect.Value, path string, r rules) {
	kvs, ok := d.entries(n, path, "names and their values")
	if !ok {
		return
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for _, kv := range kvs {
		name := kv.Key.GetToken().Value
		if why := check(r.names, name); why != "" {
			d.fault(at(kv.Key.GetToken()), "%s: %q %s", path, clip(name), why)
			continue
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		if old := v.MapIndex(reflect.ValueOf(name)); old.IsValid() {
			elem.Set(old)
		}
		d.value(kv.Value, elem, join(path, name), rules{project: r.project, min: r.min, max: r.max})
		v.SetMapIndex(reflect.ValueOf(name), elem)
	}
}

// list reads a sequence of structs; it replaces what was there before.
func (d *decoder) list(n ast.Node, v reflect.Value, path string, r rules) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fault(at(n.GetToken()), "%s: expected a list, found %s", path, found(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	quiet := *d // the elements' own sources are of no interest, their faults are
	quiet.from = map[string]Source{}
	for i, e := range seq.Values {
		quiet.structure(e, out.Index(i), fmt.Sprintf("%s[%d]", path, i), rules{project: r.project})
	}
	d.faults, d.notices = quiet.faults, quiet.notices
	v.Set(out)
	d.record(path, at(n.GetToken()))
}

// leaf reads a scalar or a list of texts.
func (d *decoder) leaf(n ast.Node, v reflect.Value, path string, r rules) {
	p := at(n.GetToken())
	var next reflect.Value
	var why string
	if v.Kind() == reflect.Slice {
		items, ok := texts(n)
		if !ok {
			d.fault(p, "%s: expected %s, found %s", path, typeName(v.Type()), found(n))
			return
		}
		if r.form == "path" {
			for i := range items {
				items[i] = d.resolve(items[i])
			}
		}
		var list []string
		list, why = parseList(items, r)
		next = reflect.ValueOf(list)
	} else {
		text, ok := scalar(n, v.Type())
		if !ok {
			d.fault(p, "%s: expected %s, found %s%s", path, typeName(v.Type()), found(n), quoteHint(n, v.Type()))
			return
		}
		if r.form == "path" {
			text = d.resolve(text)
		}
		next, why = parse(text, v.Type(), r)
	}
	if why != "" {
		d.fault(p, "%s: %s", path, why)
		return
	}
	if d.kind == FromProject && r.project == "less" && looser(next, v) {
		d.notices = append(d.notices, fmt.Sprintf(
			"%s:%d:%d: %s stays at %s: a project's file can only lower it; name this file with --config if you trust it",
			d.file, p.line, p.column, path, show(v)))
		return
	}
	v.Set(next)
	d.record(path, p)
}

func (d *decoder) record(path string, p place) {
	d.from[path] = Source{Kind: d.kind, Where: fmt.Sprintf("%s:%d", d.file, p.line)}
}

// resolve makes a path of a file absolute: "~" is the user's home, and
// relative ones start at the file.
func (d *decoder) resolve(path string) string { return resolve(path, d.dir, d.home) }

func resolve(path, dir, home string) string {
	switch {
	case path == "":
		return ""
	case home != "" && path == "~":
		return home
	case home != "" && strings.HasPrefix(path, "~/"):
		return filepath.Join(home, path[2:])
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// scalar returns the text of a scalar node if it is of the kind that the type
// wants: the text "5" is no number, and the number 5 is no text.
func scalar(n ast.Node, t reflect.Type) (string, bool) {
	text := n.GetToken().Value
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, t.Kind() == reflect.String || isDuration(t)
	case *ast.LiteralNode:
		return strings.TrimSuffix(n.Value.Value, "\n"), t.Kind() == reflect.String
	case *ast.IntegerNode:
		number := t.Kind() == reflect.Int || t.Kind() == reflect.Int64 || t.Kind() == reflect.Float64 || t.Kind() == reflect.Pointer
		return fmt.Sprint(n.Value), number && !isDuration(t) || isDuration(t) && text == "0"
	case *ast.FloatNode:
		return text, t.Kind() == reflect.Float64 || t.Kind() == reflect.Pointer
	case *ast.BoolNode:
		return fmt.Sprint(n.Value), t.Kind() == reflect.Bool
	}
	return "", false
}

// texts returns a list of texts; one alone counts as a list of one.
func texts(n ast.Node) ([]string, bool) {
	text := reflect.TypeFor[string]()
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		s, ok := scalar(n, text)
		return []string{s}, ok
	}
	var out []string
	for _, e := range seq.Values {
		s, ok := scalar(e, text)
		if !ok {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

func quoteHint(n ast.Node, t reflect.Type) string {
	switch {
	case isDuration(t) && n.Type() == ast.IntegerType:
		return "; give its unit"
	case t.Kind() == reflect.String && (n.Type() == ast.IntegerType || n.Type() == ast.FloatType || n.Type() == ast.BoolType):
		return "; put it in quotes"
	}
	return ""
}

// found names what stands there.
func found(n ast.Node) string {
	text := clip(n.GetToken().Value)
	switch n.Type() {
	case ast.StringType, ast.LiteralType:
		return fmt.Sprintf("the text %q", text)
	case ast.IntegerType, ast.FloatType, ast.InfinityType, ast.NanType:
		return "the number " + text
	case ast.BoolType:
		return text
	case ast.SequenceType:
		return "a list"
	case ast.MappingType, ast.MappingValueType:
		return "keys and values"
	case ast.NullType:
		return "nothing"
	}
	return "something else"
}

func isMapping(n ast.Node) bool { _, ok := n.(ast.MapNode); return ok }

func join(path, key string) string {
	if strings.ContainsAny(key, ". []") {
		key = "[" + key + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func shortField(t reflect.Type) (reflect.StructField, bool) {
	for f := range fields(t) {
		if f.Tag.Get("short") != "" {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func fieldByKey(t reflect.Type, key string) (reflect.StructField, bool) {
	for f := range fields(t) {
		if f.Tag.Get("yaml") == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func keysOf(t reflect.Type) []string {
	var out []string
	for f := range fields(t) {
		out = append(out, f.Tag.Get("yaml"))
	}
	return out
}

func fields(t reflect.Type) func(func(reflect.StructField) bool) {
	return slices.Values(reflect.VisibleFields(t))
}

func sortedKeys(m reflect.Value) []string {
	var out []string
	for _, k := range m.MapKeys() {
		out = append(out, k.String())
	}
	sort.Strings(out)
	return out
}
