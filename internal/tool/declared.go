package tool

import (
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
)

// Overrides is what the declaration of a server says about its tools, by names and globs,
// overriding what the server says itself.
type Overrides struct {
	Effects map[string]Effect `yaml:"effects" json:"effects,omitempty"`
	// Tidy says which earlier results a call makes obsolete.
	Tidy map[string][]StrategyDecl `yaml:"tidy" json:"tidy,omitempty"`
	// Log says how the work log and questions describe calls.
	Log map[string]LogDecl `yaml:"log" json:"log,omitempty"`
	// Yields are the labels of results, and Reach says where arguments go, each for all tools or
	// by tool; Targets are the arguments that name recipients or destinations. Undeclared parts are
	// proposed (Spec.Flows) and approved with the tools.
	Yields  any                 `yaml:"yields" json:"yields,omitzero"`
	Reach   any                 `yaml:"reach" json:"reach,omitzero"`
	Targets map[string][]string `yaml:"targets" json:"targets,omitempty"`
	// Users and Groups may use the server. Without any, a server that the settings name belongs
	// to the machine's own user, and one of an agent to everybody.
	Users  []string `yaml:"users" json:"users,omitempty"`
	Groups []string `yaml:"groups" json:"groups,omitempty"`
}

// Check validates the overrides independently of the tools.
func (o Overrides) Check() *fault.Error {
	for _, name := range slices.Sorted(maps.Keys(o.Effects)) {
		if e := o.Effects[name]; e != Query && e != Action {
			return fault.New(fault.Invalid, "tool_effect_invalid", "effects: the effect of %s is %.40q", name, string(e)).
				WithHint("write query (it changes nothing) or action")
		}
	}
	for _, g := range o.Patterns() {
		if _, err := path.Match(g, ""); err != nil {
			return fault.New(fault.Invalid, "tool_pattern_invalid", "%q is not a tool pattern", g).WithHint("write names, or globs such as read_*")
		}
	}
	if _, err := Declare(o.Yields, o.Reach, nil); err != nil {
		return fault.Of(err)
	}
	return nil
}

// Patterns returns the names and globs by which the overrides refer to tools, sorted.
func (o Overrides) Patterns() []string {
	var out []string
	for _, names := range []iter.Seq[string]{maps.Keys(o.Effects), maps.Keys(o.Targets), maps.Keys(o.Tidy), maps.Keys(o.Log)} {
		out = slices.AppendSeq(out, names)
	}
	return slices.Compact(slices.Sorted(slices.Values(out)))
}

// Effect sets the effect of a tool with these names. A query never asks a person.
func (o Overrides) Effect(s *Spec, names ...string) {
	if _, e, ok := BestMatch(o.Effects, names...); ok {
		if s.Effect = e; e == Query {
			s.Asks = false
		}
	}
}

// Apply fills in the rest: who may use the tool, where its data come from and go to (stays: they
// cannot leave this machine), and its strategies. These are the ones from the server (said),
// unless the person declares others.
func (o Overrides) Apply(s *Spec, env Env, said []StrategyDecl, stays bool, names ...string) error {
	d, err := Declare(o.Yields, o.Reach, o.Targets, names...)
	if err != nil {
		return err
	}
	s.Flows(d, stays)
	s.For = env.Audience(o.Users, o.Groups)
	_, tidy, mine := BestMatch(o.Tidy, names...)
	if !mine {
		tidy = said
	}
	source, _, _ := strings.Cut(s.Name, ".")
	if s.Tidy, err = DeclaredTidy(source, tidy, !mine); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	if _, words, ok := BestMatch(o.Log, names...); ok {
		if s.Log, err = words.Spec(); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// LogDecl is a LogSpec as written in a declaration. Only who declares a tool can say it, and it is approved
// with the tool: a server cannot choose the words in which a person is asked about it.
type LogDecl struct {
	Summary    string   `yaml:"summary" json:"summary,omitempty"`       // "Send {subject} to {to}"
	Parameters []string `yaml:"parameters" json:"parameters,omitempty"` // that are kept in the log
	Secret     []string `yaml:"secret" json:"secret,omitempty"`         // that are never shown
	Impact     []string `yaml:"impact" json:"impact,omitempty"`         // that name what is affected
}

const maxSummary = 200 // bytes of a declared summary

// Spec converts the declaration. CheckSpec checks the names in it. Error: Invalid, tool_log_invalid.
func (d LogDecl) Spec() (LogSpec, error) {
	if len(d.Summary) > maxSummary || strings.ContainsFunc(d.Summary, Invisible) {
		return LogSpec{}, fault.New(fault.Invalid, "tool_log_invalid", "log: the summary %.40q is longer than %d bytes, or contains invisible characters", d.Summary, maxSummary).
			WithHint("write one short line, such as: Send {subject} to {to}")
	}
	return LogSpec{Summary: strings.TrimSpace(d.Summary), Parameters: d.Parameters, Secret: d.Secret, Impact: d.Impact}, nil
}

// StrategyDecl is a Strategy as written in a declaration. By is parameters, tools or age. Names
// of tools without a dot are tools of the same source.
type StrategyDecl struct {
	By         string   `yaml:"by" json:"by"`
	Parameters []string `yaml:"parameters" json:"parameters,omitempty"`
	Tools      []string `yaml:"tools" json:"tools,omitempty"`
	MaxAge     string   `yaml:"max_age" json:"max_age,omitempty"` // a duration: "10m"
	Cascade    []string `yaml:"cascade" json:"cascade,omitempty"`
}

const maxStrategies = 16 // of a tool

// DeclaredTidy converts declared strategies. within means that a source declares them about
// itself: then it may name only its own tools, because no server may make the results of another
// one disappear. CheckSpec checks the rest. Error: Invalid, tool_tidy_invalid.
func DeclaredTidy(source string, decls []StrategyDecl, within bool) ([]Strategy, error) {
	bad := func(format string, args ...any) ([]Strategy, error) {
		return nil, fault.New(fault.Invalid, "tool_tidy_invalid", format, args...).
			WithHint("write by: with parameters, tools or age, and its keys")
	}
	if len(decls) > maxStrategies {
		return bad("tidy has %d strategies; the limit is %d", len(decls), maxStrategies)
	}
	var out []Strategy
	for _, d := range decls {
		s := Strategy{Kind: StrategyKind(d.By), Parameters: d.Parameters, Tools: slices.Clone(d.Tools), Cascade: slices.Clone(d.Cascade)}
		if s.Kind == Custom {
			return bad("tidy: by is custom, which only built-in tools can use")
		}
		if d.MaxAge != "" {
			age, err := time.ParseDuration(d.MaxAge)
			if err != nil {
				return bad("tidy: max_age is %.40q, which is not a duration such as 10m", d.MaxAge)
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

// Description describes a strategy for the person who approves it.
func (s Strategy) Description() string {
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

// BestMatch returns the value that a map of names and globs has for a tool with these names. An
// exact name takes precedence over a glob, and among globs the one with the most letters.
func BestMatch[V any](m map[string]V, names ...string) (key string, v V, ok bool) {
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

// PatternMatches reports whether a name or glob matches one of a tool's names.
func PatternMatches(pattern string, names ...string) bool {
	_, _, ok := BestMatch(map[string]bool{pattern: true}, names...)
	return ok
}

// IsGlob reports whether a name is a pattern.
func IsGlob(name string) bool { return strings.ContainsAny(name, `*?[\`) }
