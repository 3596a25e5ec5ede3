package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"steward/internal/fault"
)

// decoder reads nodes into structs with yaml tags, strictly, and tells of all
// that is wrong.
type decoder struct {
	bad     report
	lenient bool     // unknown keys are passed over
	known   []string // keys that are somebody else's, at the top
}

// decode reads n into what into points to; null leaves it as it is.
func (d decoder) decode(n *node, into any) {
	if n == nil {
		return
	}
	d.value(n, reflect.ValueOf(into).Elem(), "")
}

func (d decoder) want(n *node, path, what string) {
	say := what + " is expected, not " + n.says()
	if path != "" {
		say = path + ": " + say
	}
	remedy := "write " + what
	if strings.Contains(what, "text") && (n.kind == kindInteger || n.kind == kindFloat || n.kind == kindBool) {
		remedy = "put it in quotes"
	}
	d.bad(n.place, "value_invalid", remedy, "%s", say)
}

func (d decoder) value(n *node, v reflect.Value, path string) {
	if n.kind == kindNull {
		return
	}
	t := v.Type()
	switch {
	case t == reflect.TypeFor[*node]():
		v.Set(reflect.ValueOf(n))
		return
	case t == reflect.TypeFor[json.RawMessage]():
		v.SetBytes(n.json())
		return
	case t == reflect.TypeFor[time.Duration]():
		d.duration(n, v, path)
		return
	}
	switch t.Kind() {
	case reflect.Interface:
		v.Set(reflect.ValueOf(plain(n.any())))
	case reflect.Pointer:
		p := reflect.New(t.Elem())
		d.value(n, p.Elem(), path)
		v.Set(p)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Map:
		d.dictionary(n, v, path)
	case reflect.Slice:
		d.list(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

// json writes the node as JSON.
func (n *node) json() []byte {
	b, err := json.Marshal(n.any())
	if err != nil {
		return []byte("null") // numbers and texts that were read: cannot fail
	}
	return b
}

// plain turns json.Number into int or float64, for structs that hold any.
func plain(x any) any {
	switch x := x.(type) {
	case json.Number:
		if i, err := x.Int64(); err == nil {
			return int(i)
		}
		f, err := x.Float64()
		if err != nil {
			return x.String()
		}
		return f
	case []any:
		for i := range x {
			x[i] = plain(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = plain(x[k])
		}
	}
	return x
}

func (d decoder) duration(n *node, v reflect.Value, path string) {
	if n.kind == kindInteger && n.text == "0" {
		v.SetInt(0)
		return
	}
	x, err := time.ParseDuration(n.text)
	if d.lenient && n.kind == kindInteger { // seconds to one program, milliseconds to another
		return
	}
	if n.kind != kindText || err != nil {
		d.want(n, path, "a duration such as 30s or 5m")
		return
	}
	if x < 0 {
		d.bad(n.place, "value_invalid", "give a duration that is not negative", "%s: %s is negative", path, n.text)
		return
	}
	v.SetInt(int64(x))
}

func (d decoder) scalar(n *node, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		if n.kind != kindText {
			d.want(n, path, "a text")
			return
		}
		v.SetString(n.text)
	case reflect.Bool:
		if n.kind != kindBool {
			d.want(n, path, "true or false")
			return
		}
		v.SetBool(n.text == "true")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		i, err := strconv.ParseInt(n.text, 10, 64)
		if n.kind != kindInteger || err != nil || v.OverflowInt(i) {
			d.want(n, path, "a whole number")
			return
		}
		v.SetInt(i)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		i, err := strconv.ParseUint(n.text, 10, 64)
		if n.kind != kindInteger || err != nil || v.OverflowUint(i) {
			d.want(n, path, "a whole number, 0 or more")
			return
		}
		v.SetUint(i)
	case reflect.Float32, reflect.Float64:
		f, err := strconv.ParseFloat(n.text, 64)
		if n.kind != kindInteger && n.kind != kindFloat || err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			d.want(n, path, "a number")
			return
		}
		v.SetFloat(f)
	default:
		panic(fmt.Sprintf("catalog: a declaration cannot be read into a %s", v.Type()))
	}
}

// list reads a list; one value alone counts as a list of one.
func (d decoder) list(n *node, v reflect.Value, path string) {
	values := []*node{n}
	if n.kind == kindList {
		values = n.list
	} else if n.kind == kindMap && v.Type().Elem().Kind() != reflect.Struct {
		d.want(n, path, "a list")
		return
	}
	out := reflect.MakeSlice(v.Type(), len(values), len(values))
	for i, e := range values {
		where := path
		if n.kind == kindList {
			where = fmt.Sprintf("%s[%d]", path, i)
		}
		d.value(e, out.Index(i), where)
	}
	v.Set(out)
}

func (d decoder) dictionary(n *node, v reflect.Value, path string) {
	if n.kind != kindMap {
		d.want(n, path, "names and their values")
		return
	}
	out := reflect.MakeMap(v.Type())
	for _, f := range n.fields {
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(f.value, e, join(path, f.key))
		key := reflect.New(v.Type().Key()).Elem()
		key.SetString(f.key)
		out.SetMapIndex(key, e)
	}
	v.Set(out)
}

func (d decoder) structure(n *node, v reflect.Value, path string) {
	if n.kind != kindMap {
		d.want(n, path, "keys and their values")
		return
	}
	fields := fieldsOf(v)
	for _, f := range n.fields {
		if to, ok := fields.by[f.key]; ok {
			inner := d
			inner.known = nil
			inner.value(f.value, to, join(path, f.key))
			continue
		}
		if !d.lenient && !contains(d.known, f.key) {
			d.unknown(f, path, fields.names)
		}
	}
}

func (d decoder) unknown(f field, path string, words []string) {
	where := ""
	if path != "" {
		where = " in " + path
	}
	remedy := "known are " + strings.Join(words, ", ")
	if w := likely(f.key, words); w != "" {
		remedy = fmt.Sprintf("did you mean %q?", w)
	}
	d.bad(f.place, "key_unknown", remedy, "there is no key %q%s", clip(f.key), where)
}

// keyed are the fields of a struct by their keys.
type keyed struct {
	by    map[string]reflect.Value
	names []string // in the order of the struct
}

func fieldsOf(v reflect.Value) keyed {
	k := keyed{by: map[string]reflect.Value{}}
	k.add(v)
	return k
}

func (k *keyed) add(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, opt, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case (opt == "inline" || f.Anonymous && name == "") && f.Type.Kind() == reflect.Struct:
			k.add(v.Field(i))
		default:
			if name == "" {
				name = strings.ToLower(f.Name)
			}
			k.by[name] = v.Field(i)
			k.names = append(k.names, name)
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// likely returns the word that was probably meant, or "".
func likely(word string, words []string) string {
	best, least := "", 0
	for _, w := range words {
		far := fault.Distance(strings.ToLower(word), strings.ToLower(w))
		if far <= max(1, len(w)/3) && (best == "" || far < least) {
			best, least = w, far
		}
	}
	return best
}

// declaration is what an Opener decodes: a part of a file.
type declaration struct {
	file    string
	node    *node
	lenient bool
	known   []string
}

// decode implements the function that Openers are given: all that is wrong is
// in one error, and each fault in problems too.
func (c declaration) decode(problems *[]Problem) func(into any) error {
	return func(into any) error {
		var found []Problem
		decoder{bad: reporter(c.file, &found), lenient: c.lenient, known: c.known}.decode(c.node, into)
		if len(found) == 0 {
			return nil
		}
		*problems = append(*problems, found...)
		lines := make([]string, len(found))
		for i, p := range found {
			lines[i] = p.String()
		}
		return fault.New(fault.Invalid, "agent_invalid", "%s: %w", strings.Join(lines, "\n"), errTold)
	}
}

// errTold marks an error whose problems have been noted already.
var errTold = errors.New("the definition is not right")

// reporter returns a report that notes problems of a file.
func reporter(file string, into *[]Problem) report {
	return func(p place, code, remedy, format string, args ...any) {
		if len(*into) >= mostProblems {
			return
		}
		*into = append(*into, Problem{File: file, Line: p.line, Column: p.column, Code: code,
			Message: visible(fmt.Sprintf(format, args...)), Remedy: visible(remedy)})
	}
}

// mostProblems are told of one file; a file with more is no definition.
const mostProblems = 50

// String writes a problem as compilers do: FILE:LINE:COLUMN: what; remedy.
func (p Problem) String() string {
	s := visible(p.File)
	if p.Line > 0 {
		s += fmt.Sprintf(":%d:%d", p.Line, p.Column)
	}
	s += ": " + p.Message
	if p.Remedy != "" {
		s += "; " + p.Remedy
	}
	return s
}
