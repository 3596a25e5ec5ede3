package settings

import (
	"fmt"
	"iter"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// Prefix begins the names of Steward's own variables: STEWARD_LISTEN sets
// listen, STEWARD_LIMITS_DAY_COST sets limits.day_cost.
const Prefix = "STEWARD_"

// Vendors returns the names of the providers that need no base_url.
func Vendors() []string { return []string{"openai", "anthropic", "gemini", "ollama"} }

// vendor is a variable of somebody else's that Steward heeds.
type vendor struct{ name, key string }

// vendors returns them, of two for one key the weaker first.
func vendors() []vendor {
	return []vendor{
		{"OPENAI_API_KEY", "providers.openai.key"},
		{"OPENAI_BASE_URL", "providers.openai.base_url"},
		{"ANTHROPIC_API_KEY", "providers.anthropic.key"},
		{"ANTHROPIC_BASE_URL", "providers.anthropic.base_url"},
		{"GOOGLE_API_KEY", "providers.gemini.key"},
		{"GEMINI_API_KEY", "providers.gemini.key"},
		{"GOOGLE_GEMINI_BASE_URL", "providers.gemini.base_url"},
		{"OLLAMA_HOST", "providers.ollama.base_url"},
	}
}

// extra are variables with a name of their own.
func extra() map[string]string {
	return map[string]string{"STEWARD_MODEL": "models.default.use"}
}

// environ applies the environment. An empty variable counts as none.
func (l *loading) environ() {
	for _, v := range vendors() {
		text := strings.TrimSpace(l.env[v.name])
		if text == "" {
			continue
		}
		if v.name == "OLLAMA_HOST" {
			text = ollamaURL(text)
		}
		l.set(v.key, text, Source{FromEnv, v.name})
	}
	known := map[string]string{"STEWARD_CONFIG": ""}
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
			l.stranger(name, known)
		case key != "":
			l.set(key, strings.TrimSpace(l.env[name]), Source{FromEnv, name})
		}
	}
}

// stranger tells of a variable that looks like Steward's and is not. It is no
// fault: container platforms set such names of their own accord.
func (l *loading) stranger(name string, known map[string]string) {
	words := make([]string, 0, len(known))
	for k := range known {
		words = append(words, k)
	}
	slices.Sort(words)
	if w := Likely(name, words); w != "" {
		l.Notices = append(l.Notices, fmt.Sprintf("the variable %s sets nothing; did you mean %s?", name, w))
	}
}

// ollamaURL turns what Ollama's own programs take for OLLAMA_HOST into a URL:
// scheme and port may be missing, and the address may be one to listen on.
// Source: https://docs.ollama.com/faq
func ollamaURL(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "http", text
	}
	rest, path, _ := strings.Cut(rest, "/")
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		host, port = strings.Trim(rest, "[]"), "11434"
		if ok && scheme == "https" {
			port = "443"
		} else if ok && scheme == "http" {
			port = "80"
		}
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	u := url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}
	if path = strings.Trim(path, "/"); path != "" {
		u.Path = "/" + path
	}
	return u.String()
}

// Key describes one setting, for reference and completion.
type Key struct {
	Path    string // "providers.NAME.base_url"
	Type    string
	Default string
	Env     string // the variable that sets it, or ""
	Doc     string
	Project string // "", "no" or "less": what a project's file may do
	Section bool   // it only holds others
}

// Keys returns all settings in the order of the struct.
func Keys() iter.Seq[Key] {
	return func(yield func(Key) bool) {
		d := Defaults()
		keys(reflect.ValueOf(d), "", rules{}, true, yield)
	}
}

func keys(v reflect.Value, path string, outer rules, env bool, yield func(Key) bool) bool {
	for f := range fields(v.Type()) {
		r := rulesOf(f, outer)
		k := Key{Path: join(path, f.Tag.Get("yaml")), Doc: f.Tag.Get("doc"), Project: r.project}
		fv := v.FieldByIndex(f.Index)
		below, more := fv, true
		switch {
		case isLeaf(fv.Type()):
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
		if !keys(below, name, r, fixed, yield) {
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
