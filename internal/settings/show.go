package settings

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Value is one effective setting.
type Value struct {
	Key    string `json:"key"`
	Value  string `json:"value"` // secrets are masked
	Source Source `json:"source"`
}

// Values returns every effective setting with its source, in the order of the
// struct; names within a map are sorted. Unset parts of named entries are
// left out.
func (l *Loaded) Values() []Value {
	var out []Value
	l.values(reflect.ValueOf(l.Settings), "", true, &out)
	return out
}

func (l *Loaded) values(v reflect.Value, path string, all bool, out *[]Value) {
	switch {
	case v.Kind() == reflect.Slice && !isLeaf(v.Type()):
		*out = append(*out, l.one(path, showList(v)))
	case isLeaf(v.Type()):
		if _, set := l.from[path]; set || all {
			*out = append(*out, l.one(path, show(v)))
		}
	case v.Kind() == reflect.Map:
		for _, name := range sortedKeys(v) {
			l.values(v.MapIndex(reflect.ValueOf(name)), join(path, name), false, out)
		}
	default:
		for f := range fields(v.Type()) {
			l.values(v.FieldByIndex(f.Index), join(path, f.Tag.Get("yaml")), all, out)
		}
	}
}

func (l *Loaded) one(path, value string) Value {
	return Value{Key: path, Value: value, Source: l.SourceOf(path)}
}

// SourceOf returns where the value of a key comes from.
func (l *Loaded) SourceOf(key string) Source {
	if s, ok := l.from[key]; ok {
		return s
	}
	return Source{Kind: FromDefault}
}

// show writes a leaf as a person would.
func show(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return showDuration(x)
	case Secret:
		return x.String()
	case []string:
		return strings.Join(x, ", ")
	case *float64:
		if x == nil {
			return ""
		}
		return fmt.Sprint(*x)
	case *int64:
		if x == nil {
			return ""
		}
		return fmt.Sprint(*x)
	}
	return fmt.Sprint(v.Interface())
}

// showDuration drops the zero parts at the end: 10m, not 10m0s.
func showDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func showList(v reflect.Value) string {
	var parts []string
	for i := range v.Len() {
		f, ok := v.Index(i).Interface().(Folder)
		if !ok {
			parts = append(parts, fmt.Sprint(v.Index(i).Interface()))
			continue
		}
		mode := "read"
		if f.Write {
			mode = "read, write"
		}
		parts = append(parts, fmt.Sprintf("%s=%s (%s)", f.Name, f.Path, mode))
	}
	return strings.Join(parts, "; ")
}
