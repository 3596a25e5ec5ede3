package settings

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
)

// Prefix begins the names of Steward's own variables: STEWARD_LISTEN sets
// listen, STEWARD_LIMITS_DAY_COST sets limits.day_cost.
const Prefix = "STEWARD_"

// extra returns the variables whose names do not follow from their keys.
func extra() map[string]string {
	return map[string]string{"STEWARD_MODEL": "models.default.use"}
}

// environ applies the environment. It ignores empty variables.
func (l *loading) environ() {
	for v := range l.vendors.All() {
		path := join("providers", v.Name)
		for _, name := range v.KeyEnv {
			if text := strings.TrimSpace(l.env[name]); text != "" && !l.stored(v.Name) {
				l.set(path+".key", text, Source{FromEnv, name})
			}
		}
		if text := strings.TrimSpace(l.env[v.URLEnv]); text != "" {
			if v.ReadURL != nil {
				text = v.ReadURL(text)
			}
			l.set(path+".base_url", text, Source{FromEnv, v.URLEnv})
		}
	}
	known := map[string]string{"STEWARD_CONFIG": "", "STEWARD_KEY": ""} // the latter is what the documentation calls a key for --key-env
	for k := range Keys() {
		if k.Env != "" && known[k.Env] == "" {
			known[k.Env] = k.Path
		}
	}
	for name, key := range extra() {
		known[name] = key
	}
	var names []string
	for name := range l.env {
		if strings.HasPrefix(name, Prefix) && strings.TrimSpace(l.env[name]) != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		key, ok := known[name]
		switch {
		case !ok:
			l.noticeUnknown(name, known)
		case key != "":
			l.set(key, strings.TrimSpace(l.env[name]), Source{FromEnv, name})
		}
	}
}

// stored reports whether the user has stored the key of a provider with Steward. Such a key is more
// specific than the vendor's variable, which other programs read as well.
func (l *loading) stored(name string) bool {
	return strings.HasPrefix(l.Providers[name].Key.Reveal(), "store:")
}

// noticeUnknown adds a notice if an unknown STEWARD_ variable resembles a known one.
// It is not a fault, because container platforms set such names themselves.
func (l *loading) noticeUnknown(name string, known map[string]string) {
	words := make([]string, 0, len(known))
	for k := range known {
		words = append(words, k)
	}
	slices.Sort(words)
	if w := Suggest(name, words); w != "" {
		l.Notices = append(l.Notices, fmt.Sprintf("unknown environment variable %s; did you mean %s?", name, w))
	}
}

// Key describes one setting, for reference and completion.
type Key struct {
	Path    string // "providers.NAME.base_url"
	Type    string
	Default string
	Env     string // the variable that sets it, or ""
	Doc     string
	Project string   // "", "yes" or "less": what a project's file may do
	Section bool     // it only groups other settings
	Choices []string // the words that it takes; none: others
}

// Keys returns all settings in the order of the struct.
func Keys() iter.Seq[Key] {
	return func(yield func(Key) bool) {
		d := Defaults()
		keys(reflect.ValueOf(d), "", true, yield)
	}
}

func keys(v reflect.Value, path string, env bool, yield func(Key) bool) bool {
	for f := range fields(v.Type()) {
		r := rulesOf(f)
		k := Key{Path: join(path, f.Tag.Get("yaml")), Doc: f.Tag.Get("doc"), Project: r.project}
		fv := v.FieldByIndex(f.Index)
		below, more := fv, true
		switch {
		case isLeaf(fv.Type()):
			if r.oneof != "" {
				k.Choices = strings.Split(r.oneof, ",")
			}
			k.Type, k.Default, more = typeOf(fv.Type(), r), show(fv), false
			if env {
				k.Env = envName(k.Path)
			}
		case fv.Kind() == reflect.Struct:
			k.Section = true
		default:
			k.Section = true
			elem := fv.Type().Elem()
			below = reflect.Zero(elem)
			if isLeaf(elem) {
				k.Section, k.Path, k.Type, more = false, k.Path+".NAME", typeOf(elem, r), false
			}
		}
		if !yield(k) {
			return false
		}
		if !more {
			continue
		}
		name, fixed := k.Path, env
		switch fv.Kind() {
		case reflect.Map:
			name, fixed = k.Path+".NAME", false
		case reflect.Slice:
			name, fixed = k.Path+"[]", false
		}
		if !keys(below, name, fixed, yield) {
			return false
		}
	}
	return true
}

func typeOf(t reflect.Type, r rules) string {
	if r.oneof != "" {
		return strings.ReplaceAll(r.oneof, ",", ", ")
	}
	s := typeName(t)
	if r.min != "" && r.max != "" {
		s += ", " + r.min + " to " + r.max
	} else if r.min != "" {
		s += ", " + r.min + " or more"
	}
	return s
}

func envName(path string) string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}
