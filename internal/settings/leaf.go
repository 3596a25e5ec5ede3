package settings

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"steward/internal/strict"
)

// rules are the constraints on a field's values, read from its tags.
type rules struct {
	form, names, oneof, min, max string
	project                      string // "", "yes" or "less"
}

func rulesOf(f reflect.StructField) rules {
	get := f.Tag.Get
	r := rules{form: get("form"), names: get("names"), oneof: get("oneof"), min: get("min"), max: get("max"), project: get("project")}
	return r
}

// isLeaf reports whether a type is a scalar or a list of texts, which is set as a whole.
func isLeaf(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return false
	case reflect.Slice:
		return t.Elem().Kind() == reflect.String
	}
	return true
}

func isDuration(t reflect.Type) bool { return t == reflect.TypeFor[time.Duration]() }

// typeName describes the values of a leaf for a person.
func typeName(t reflect.Type) string {
	switch {
	case isDuration(t):
		return "a duration such as 30s or 5m"
	case t.Kind() == reflect.Slice:
		return "a list of texts"
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "a text"
}

// parse reads a leaf from text. The second result is what is wrong, worded as
// the end of the sentence "KEY: …", or "" if the text is valid.
func parse(text string, t reflect.Type, r rules) (reflect.Value, string) {
	v := reflect.New(t).Elem()
	switch {
	case isDuration(t):
		d, err := time.ParseDuration(text)
		if err != nil {
			return v, fmt.Sprintf("%q is not a duration; write one with its unit, such as 500ms, 30s or 5m", strict.Clip(text))
		}
		lo, hi := bound(r.min, time.ParseDuration, math.MinInt64), bound(r.max, time.ParseDuration, math.MaxInt64)
		if d < lo || d > hi {
			return v, outside(text, r)
		}
		v.SetInt(int64(d))
		return v, ""
	case t.Kind() == reflect.Pointer:
		p, why := parse(text, t.Elem(), r)
		if why == "" {
			v.Set(reflect.New(t.Elem()))
			v.Elem().Set(p)
		}
		return v, why
	case t.Kind() == reflect.Slice:
		var items []string
		for s := range strings.SplitSeq(text, ",") {
			items = append(items, strings.TrimSpace(s))
		}
		list, why := parseList(items, r)
		if why == "" {
			v.Set(reflect.ValueOf(list))
		}
		return v, why
	}
	return v, parseScalar(text, v, r)
}

func parseScalar(text string, v reflect.Value, r rules) string {
	switch v.Kind() {
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Sprintf("%q is not true or false", strict.Clip(text))
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			return fmt.Sprintf("%q is not a whole number", strict.Clip(text))
		}
		integer := func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }
		if n < bound(r.min, integer, math.MinInt64) || n > bound(r.max, integer, math.MaxInt64) {
			return outside(text, r)
		}
		v.SetInt(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Sprintf("%q is not a number", strict.Clip(text))
		}
		float := func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }
		if f < bound(r.min, float, -math.MaxFloat64) || f > bound(r.max, float, math.MaxFloat64) {
			return outside(text, r)
		}
		v.SetFloat(f)
	default:
		if why := checkText(text, r); why != "" {
			return why
		}
		v.SetString(text)
	}
	return ""
}

// checkText applies the rules of a text. An empty text is valid: it clears a value.
func checkText(text string, r rules) string {
	if text == "" {
		return ""
	}
	if r.oneof != "" {
		words := strings.Split(r.oneof, ",")
		for _, w := range words {
			if w == text {
				return ""
			}
		}
		say := fmt.Sprintf("%q is invalid; choose one of %s", strict.Clip(text), strings.Join(words, ", "))
		if w := Suggest(text, words); w != "" {
			say = fmt.Sprintf("%q is invalid; did you mean %q? (one of %s)", strict.Clip(text), w, strings.Join(words, ", "))
		}
		return say
	}
	if why := check(r.form, text); why != "" {
		return fmt.Sprintf("%q %s", strict.Clip(text), why)
	}
	return ""
}

func parseList(items []string, r rules) ([]string, string) {
	var out []string
	for _, s := range items {
		if s == "" {
			continue
		}
		if why := checkText(s, r); why != "" {
			return nil, why
		}
		out = append(out, s)
	}
	return out, ""
}

// bound parses a bound from a tag. It panics on an invalid tag, which is a bug
// in this package.
func bound[T any](s string, read func(string) (T, error), none T) T {
	if s == "" {
		return none
	}
	v, err := read(s)
	if err != nil {
		panic("settings: bound " + s + ": " + err.Error())
	}
	return v
}

func outside(text string, r rules) string {
	switch {
	case r.max == "":
		return fmt.Sprintf("%s is too small; give %s or more", strict.Clip(text), r.min)
	case r.min == "":
		return fmt.Sprintf("%s is too large; give %s or less", strict.Clip(text), r.max)
	}
	return fmt.Sprintf("%s is out of range; give one from %s to %s", strict.Clip(text), r.min, r.max)
}

// looser reports whether the limit next allows more than the limit now. 0 means
// unlimited.
func looser(next, now reflect.Value) bool {
	var a, b float64
	switch now.Kind() {
	case reflect.Float64:
		a, b = next.Float(), now.Float()
	default:
		a, b = float64(next.Int()), float64(now.Int())
	}
	if b == 0 {
		return false
	}
	return a == 0 || a > b
}
