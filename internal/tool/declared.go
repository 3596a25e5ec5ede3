package tool

import (
	"path"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
)

// StrategyDecl is a Strategy as a declaration writes it. By is parameters,
// tools or age; names of tools without a dot are those of the same source.
type StrategyDecl struct {
	By         string   `yaml:"by" json:"by"`
	Parameters []string `yaml:"parameters" json:"parameters,omitempty"`
	Tools      []string `yaml:"tools" json:"tools,omitempty"`
	MaxAge     string   `yaml:"max_age" json:"max_age,omitempty"` // a duration: "10m"
	Cascade    []string `yaml:"cascade" json:"cascade,omitempty"`
}

const maxStrategies = 16 // of a tool

// DeclaredTidy makes strategies of declared ones. Within says that a source
// says it of itself: then it may name only its own tools, as no server may make
// the results of another one disappear. CheckSpec checks the rest. Error:
// Invalid, tool_tidy_invalid.
func DeclaredTidy(source string, decls []StrategyDecl, within bool) ([]Strategy, error) {
	bad := func(format string, args ...any) ([]Strategy, error) {
		return nil, fault.New(fault.Invalid, "tool_tidy_invalid", format, args...).
			WithHint("write by: parameters, tools or age, and what belongs to it")
	}
	if len(decls) > maxStrategies {
		return bad("tidy has %d strategies; at most %d are taken", len(decls), maxStrategies)
	}
	var out []Strategy
	for _, d := range decls {
		s := Strategy{Kind: StrategyKind(d.By), Parameters: d.Parameters, Tools: slices.Clone(d.Tools), Cascade: slices.Clone(d.Cascade)}
		if s.Kind == Custom {
			return bad("tidy: by is custom, which only tools that are built in can be")
		}
		if d.MaxAge != "" {
			age, err := time.ParseDuration(d.MaxAge)
			if err != nil {
				return bad("tidy: max_age is %.40q, which is no duration such as 10m", d.MaxAge)
			}
			s.MaxAge = age
		}
		for _, names := range [][]string{s.Tools, s.Cascade} {
			for i, name := range names {
				if !strings.Contains(name, ".") {
					names[i] = source + "." + name
				} else if within && !strings.HasPrefix(name, source+".") {
					return bad("tidy names %.80q, which is a tool of another source", name)
				}
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// Told says a strategy in words, for the person who approves it.
func (s Strategy) Told() string {
	text := "earlier results of its own calls"
	switch s.Kind {
	case ByTool:
		text = "earlier results of " + strings.Join(s.Tools, ", ")
	case ByAge:
		text = "its results that are older than " + s.MaxAge.String()
	}
	if len(s.Parameters) > 0 {
		text += " with the same " + strings.Join(s.Parameters, ", ")
	}
	if len(s.Cascade) > 0 {
		text += ", and with them results of " + strings.Join(s.Cascade, ", ")
	}
	return text
}

// Matched returns the value that a map of names and globs has for a tool by
// its names: an exact name before a glob, and of the globs the one with the
// most letters.
func Matched[V any](m map[string]V, names ...string) (key string, v V, ok bool) {
	letters := func(glob string) int { return len(glob) - strings.Count(glob, "*") - strings.Count(glob, "?") }
	for _, name := range names {
		if v, ok := m[name]; ok {
			return name, v, true
		}
	}
	for glob := range m {
		hit := slices.ContainsFunc(names, func(n string) bool { yes, err := path.Match(glob, n); return yes && err == nil })
		if hit && (!ok || letters(glob) > letters(key) || letters(glob) == letters(key) && glob < key) {
			key, ok = glob, true
		}
	}
	return key, m[key], ok
}

// Means reports whether a name or glob means a tool, by one of its names.
func Means(pattern string, names ...string) bool {
	_, _, ok := Matched(map[string]bool{pattern: true}, names...)
	return ok
}

// IsGlob reports whether a name stands for several.
func IsGlob(name string) bool { return strings.ContainsAny(name, `*?[\`) }
