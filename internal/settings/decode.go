package settings

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	"steward/internal/strict"
)

// decoder reads one file over the settings so far.
type decoder struct {
	file    string // as messages name it
	dir     string // relative paths start here
	kind    Kind
	home    string
	from    map[string]Source
	own     string  // where the user's own settings are, as messages name it
	bare    *Source // set: the input is one value from this source, as text; nil: a file
	faults  []string
	notices []string
}

func (d *decoder) fault(p strict.Position, format string, args ...any) {
	if d.bare != nil {
		d.faults = append(d.faults, d.bare.Where+": "+fmt.Sprintf(format, args...))
		return
	}
	d.faults = append(d.faults, fmt.Sprintf("%s:%d:%d: %s", d.file, p.Line, p.Column, fmt.Sprintf(format, args...)))
}

// decodeFile reads YAML text into s.
func (d *decoder) decodeFile(text []byte, s *Settings) {
	n := strict.ReadYAML(text, func(p strict.Position, _, remedy, format string, args ...any) {
		d.fault(p, "%s; %s", fmt.Sprintf(format, args...), remedy)
	})
	if n != nil && n.Kind != strict.Null {
		d.structure(n, reflect.ValueOf(s).Elem(), "")
	}
}

// fields returns the keys and values of a mapping.
func (d *decoder) fields(n *strict.Node, path, want string) ([]strict.Field, bool) {
	if n.Kind != strict.Map {
		found := n.String()
		if path == "" && n.Kind == strict.Text {
			found = "a text" // the file may be another one, such as a token
		}
		d.fault(n.Position, "%s: expected %s, found %s", orTop(path), want, found)
	}
	return n.Fields, n.Kind == strict.Map
}

func orTop(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// structure reads a mapping into a struct.
func (d *decoder) structure(n *strict.Node, v reflect.Value, path string) {
	t := v.Type()
	if f, ok := shortField(t); ok && n.Kind != strict.Map {
		d.value(n, v.FieldByIndex(f.Index), join(path, f.Tag.Get("yaml")), rulesOf(f))
		return
	}
	kvs, ok := d.fields(n, path, "keys and their values")
	if !ok {
		return
	}
	for _, kv := range kvs {
		f, ok := fieldByKey(t, kv.Key)
		if !ok {
			d.unknown(kv, path, keysOf(t))
			continue
		}
		r := rulesOf(f)
		full := join(path, kv.Key)
		if d.kind == FromProject && r.project == "" && f.Type.Kind() != reflect.Struct {
			d.refuse(kv.Position, full)
			continue
		}
		d.value(kv.Value, v.FieldByIndex(f.Index), full, r)
	}
}

func (d *decoder) refuse(p strict.Position, path string) {
	d.notices = append(d.notices, fmt.Sprintf(
		"%s:%d:%d: %s is not taken from a project's file; put it into %s, or name this file with --config if you trust it",
		d.file, p.Line, p.Column, path, d.own))
}

func (d *decoder) unknown(f strict.Field, path string, words []string) {
	where := ""
	if path != "" {
		where = " in " + path
	}
	if w := Suggest(f.Key, words); w != "" {
		d.fault(f.Position, "unknown key %q%s; did you mean %q?", strict.Clip(f.Key), where, w)
		return
	}
	d.fault(f.Position, "unknown key %q%s; known are %s", strict.Clip(f.Key), where, strings.Join(words, ", "))
}

// value reads one value of any kind. It ignores a key without a value.
func (d *decoder) value(n *strict.Node, v reflect.Value, path string, r rules) {
	switch {
	case n.Kind == strict.Null:
	case isLeaf(v.Type()):
		d.leaf(n, v, path, r)
	case v.Kind() == reflect.Struct:
		d.structure(n, v, path)
	case v.Kind() == reflect.Map:
		d.dictionary(n, v, path, r)
	default:
		d.list(n, v, path, r)
	}
}

// dictionary reads a mapping whose keys are names.
func (d *decoder) dictionary(n *strict.Node, v reflect.Value, path string, r rules) {
	kvs, ok := d.fields(n, path, "names and their values")
	if !ok {
		return
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for _, kv := range kvs {
		name := kv.Key
		if why := check(r.names, name); why != "" {
			d.fault(kv.Position, "%s: %q %s", path, strict.Clip(name), why)
			continue
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		if old := v.MapIndex(reflect.ValueOf(name)); old.IsValid() {
			elem.Set(old)
		}
		d.value(kv.Value, elem, join(path, name), rules{min: r.min, max: r.max})
		v.SetMapIndex(reflect.ValueOf(name), elem)
	}
}

// list reads a sequence of structs, which replaces the earlier list.
func (d *decoder) list(n *strict.Node, v reflect.Value, path string, r rules) {
	if n.Kind != strict.List {
		d.fault(n.Position, "%s: expected a list, found %s", path, n)
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.List), len(n.List))
	quiet := *d // collects the elements' faults and notices, but not their sources
	quiet.from = map[string]Source{}
	for i, e := range n.List {
		quiet.structure(e, out.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
	d.faults, d.notices = quiet.faults, quiet.notices
	v.Set(out)
	d.record(path, n.Position)
}

// leaf reads a scalar or a list of texts.
func (d *decoder) leaf(n *strict.Node, v reflect.Value, path string, r rules) {
	p := n.Position
	var next reflect.Value
	var why string
	switch {
	case d.bare != nil:
		next, why = parse(d.barePaths(n.Text, v, r), v.Type(), r)
	case v.Kind() == reflect.Slice:
		items, ok := texts(n)
		if !ok {
			d.fault(p, "%s: expected %s, found %s", path, typeName(v.Type()), n)
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
	default:
		text, ok := scalar(n, v.Type())
		if !ok {
			d.fault(p, "%s: expected %s, found %s%s", path, typeName(v.Type()), n, quoteHint(n, v.Type()))
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
			d.file, p.Line, p.Column, path, show(v)))
		return
	}
	v.Set(next)
	d.record(path, p)
}

func (d *decoder) record(path string, p strict.Position) {
	if d.bare != nil {
		d.from[path] = *d.bare
		return
	}
	d.from[path] = Source{Kind: d.kind, Where: fmt.Sprintf("%s:%d", d.file, p.Line)}
}

// barePaths makes the paths in a bare value absolute if the setting holds paths.
func (d *decoder) barePaths(text string, v reflect.Value, r rules) string {
	switch {
	case r.form != "path":
		return text
	case v.Kind() != reflect.Slice:
		return d.resolve(text)
	}
	paths := strings.Split(text, ",")
	for i, p := range paths {
		paths[i] = d.resolve(strings.TrimSpace(p))
	}
	return strings.Join(paths, ",")
}

// resolve makes a path absolute: "~" is the user's home, and relative paths
// start at d.dir.
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

// scalar returns the text of a scalar node if its kind fits the type: the text
// "5" is not a number, and the number 5 is not a text.
func scalar(n *strict.Node, t reflect.Type) (string, bool) {
	switch n.Kind {
	case strict.Text:
		if n.Block {
			return strings.TrimSuffix(n.Text, "\n"), t.Kind() == reflect.String
		}
		return n.Text, t.Kind() == reflect.String || isDuration(t)
	case strict.Integer:
		number := t.Kind() == reflect.Int || t.Kind() == reflect.Int64 || t.Kind() == reflect.Float64 || t.Kind() == reflect.Pointer
		return n.Text, number && !isDuration(t) || isDuration(t) && n.Text == "0"
	case strict.Float:
		return n.Text, t.Kind() == reflect.Float64 || t.Kind() == reflect.Pointer
	case strict.Bool:
		return n.Text, t.Kind() == reflect.Bool
	}
	return "", false
}

// texts returns a list of texts. A single text counts as a list of one.
func texts(n *strict.Node) ([]string, bool) {
	list := []*strict.Node{n}
	if n.Kind == strict.List {
		list = n.List
	}
	var out []string
	for _, e := range list {
		s, ok := scalar(e, reflect.TypeFor[string]())
		if !ok {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

func quoteHint(n *strict.Node, t reflect.Type) string {
	switch {
	case isDuration(t) && n.Kind == strict.Integer:
		return "; give its unit"
	case t.Kind() == reflect.String && (n.Kind == strict.Integer || n.Kind == strict.Float || n.Kind == strict.Bool):
		return "; put it in quotes"
	}
	return ""
}

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
