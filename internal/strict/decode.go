package strict

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Decoder decodes nodes strictly into structs with yaml tags and reports all
// faults. A single value counts as a list of one, and null leaves the target
// unchanged. Error codes: value_invalid, key_unknown.
type Decoder struct {
	Bad     Report
	Lenient bool     // unknown keys are ignored
	Known   []string // keys that are somebody else's, at the top
}

// Decode reads n into what into points to.
func (d Decoder) Decode(n *Node, into any) {
	if n != nil {
		d.value(n, reflect.ValueOf(into).Elem(), "")
	}
}

func (d Decoder) want(n *Node, path, what string) {
	say := what + " is expected, not " + n.String()
	if path != "" {
		say = path + ": " + say
	}
	remedy := "write " + what
	if strings.Contains(what, "text") && (n.Kind == Integer || n.Kind == Float || n.Kind == Bool) {
		remedy = "put it in quotes"
	}
	d.Bad(n.Position, "value_invalid", remedy, "%s", say)
}

func (d Decoder) value(n *Node, v reflect.Value, path string) {
	if n.Kind == Null {
		return
	}
	t := v.Type()
	switch {
	case t == reflect.TypeFor[*Node]():
		v.Set(reflect.ValueOf(n))
		return
	case t == reflect.TypeFor[json.RawMessage]():
		v.SetBytes(n.JSON())
		return
	case t == reflect.TypeFor[time.Duration]():
		d.duration(n, v, path)
		return
	}
	switch t.Kind() {
	case reflect.Interface:
		v.Set(reflect.ValueOf(plain(n.Value())))
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

func (d Decoder) duration(n *Node, v reflect.Value, path string) {
	if n.Kind == Integer && n.Text == "0" {
		v.SetInt(0)
		return
	}
	x, err := time.ParseDuration(n.Text)
	if d.Lenient && n.Kind == Integer { // seconds to one program, milliseconds to another
		return
	}
	if n.Kind != Text || err != nil {
		d.want(n, path, "a duration such as 30s or 5m")
		return
	}
	if x < 0 {
		d.Bad(n.Position, "value_invalid", "give a duration that is not negative", "%s: %s is negative", path, n.Text)
		return
	}
	v.SetInt(int64(x))
}

func (d Decoder) scalar(n *Node, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		if n.Kind != Text {
			d.want(n, path, "a text")
			return
		}
		v.SetString(n.Text)
	case reflect.Bool:
		if n.Kind != Bool {
			d.want(n, path, "true or false")
			return
		}
		v.SetBool(n.Text == "true")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		i, err := strconv.ParseInt(n.Text, 10, 64)
		if n.Kind != Integer || err != nil || v.OverflowInt(i) {
			d.want(n, path, "a whole number")
			return
		}
		v.SetInt(i)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		i, err := strconv.ParseUint(n.Text, 10, 64)
		if n.Kind != Integer || err != nil || v.OverflowUint(i) {
			d.want(n, path, "a whole number, 0 or more")
			return
		}
		v.SetUint(i)
	case reflect.Float32, reflect.Float64:
		f, err := strconv.ParseFloat(n.Text, 64)
		if n.Kind != Integer && n.Kind != Float || err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			d.want(n, path, "a number")
			return
		}
		v.SetFloat(f)
	default:
		panic(fmt.Sprintf("strict: cannot decode a value into a %s", v.Type()))
	}
}

// list reads a list; one value alone counts as a list of one.
func (d Decoder) list(n *Node, v reflect.Value, path string) {
	values := []*Node{n}
	if n.Kind == List {
		values = n.List
	} else if n.Kind == Map && v.Type().Elem().Kind() != reflect.Struct {
		d.want(n, path, "a list")
		return
	}
	out := reflect.MakeSlice(v.Type(), len(values), len(values))
	for i, e := range values {
		where := path
		if n.Kind == List {
			where = fmt.Sprintf("%s[%d]", path, i)
		}
		d.value(e, out.Index(i), where)
	}
	v.Set(out)
}

func (d Decoder) dictionary(n *Node, v reflect.Value, path string) {
	if n.Kind != Map {
		d.want(n, path, "names and their values")
		return
	}
	out := reflect.MakeMap(v.Type())
	for _, f := range n.Fields {
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(f.Value, e, Join(path, f.Key))
		key := reflect.New(v.Type().Key()).Elem()
		key.SetString(f.Key)
		out.SetMapIndex(key, e)
	}
	v.Set(out)
}

func (d Decoder) structure(n *Node, v reflect.Value, path string) {
	if n.Kind != Map {
		d.want(n, path, "keys and their values")
		return
	}
	fields := fieldsOf(v)
	for _, f := range n.Fields {
		if to, ok := fields.by[f.Key]; ok {
			inner := d
			inner.Known = nil
			inner.value(f.Value, to, Join(path, f.Key))
			continue
		}
		if !d.Lenient && !slices.Contains(d.Known, f.Key) {
			d.unknown(f, path, fields.names)
		}
	}
}

func (d Decoder) unknown(f Field, path string, words []string) {
	where := ""
	if path != "" {
		where = " in " + path
	}
	remedy := "known are " + strings.Join(words, ", ")
	if w := Suggest(f.Key, words); w != "" {
		remedy = fmt.Sprintf("did you mean %q?", w)
	}
	d.Bad(f.Position, "key_unknown", remedy, "unknown key %q%s", Clip(f.Key), where)
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
