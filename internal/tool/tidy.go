package tool

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/message"
)

// StrategyKind says how a call makes earlier results obsolete.
type StrategyKind string

// The kinds of strategies. In all of them, only successful calls count, and only successful
// results become obsolete.
const (
	// ByParameters: a call makes those earlier results of its own tool obsolete whose calls had
	// the same values in Parameters. Example: reading a file again.
	ByParameters StrategyKind = "parameters"
	// ByTool: a call makes the earlier results of Tools obsolete. If Parameters are named, only
	// those with the same values in them. Example: writing a file after it was read.
	ByTool StrategyKind = "tools"
	// ByAge: results of this tool are obsolete once they are older than MaxAge.
	ByAge StrategyKind = "age"
	// Custom: the tool is an Optimizer, and decides about its own results and those of Tools.
	Custom StrategyKind = "custom"
)

// Strategy is a rule by which a tool keeps a conversation tidy.
type Strategy struct {
	Kind       StrategyKind
	Parameters []string      // names of top-level arguments
	Tools      []string      // names of the tools whose results become obsolete
	MaxAge     time.Duration // ByAge
	Cascade    []string      // tools whose earlier results become obsolete, too, when the rule makes a result obsolete
}

// Optimizer is a tool that decides itself which earlier results a call makes obsolete (Strategy
// Custom). OptimizerOf finds it in a wrapped tool, as SettlerOf does a Settler.
type Optimizer interface {
	// Obsolete gets a call that has succeeded, and the results that are still valid of this
	// tool's own calls and of its declared targets', oldest first (the newest MaxShown of them).
	// It returns those that are obsolete now. It must be quick, because it runs between the call
	// and the recording of its result. Naming a result that it was not shown is refused and
	// logged. After an error, a panic, or no answer within 100 ms, nothing becomes obsolete, and
	// that is logged. It must not modify its arguments.
	Obsolete(ctx context.Context, call PastCall, earlier []PastCall) ([]Obsolete, error)
}

// MaxShown is the most earlier results that an Optimizer is shown.
const MaxShown = 256

// PastCall is a past call with its result.
type PastCall struct {
	Ref    message.Ref
	Name   string
	Args   []byte // as the model wrote them
	At     time.Time
	Result *message.ToolResult // do not modify
}

// Obsolete names a result by its call, and says why it no longer holds.
type Obsolete struct {
	Ref    message.Ref
	Reason string // for the model and a person: half a sentence
}

// OptimizerOf returns the Optimizer that t is, or that it wraps (by a method
// Unwrap() Tool).
func OptimizerOf(t Tool) (Optimizer, bool) { return unwrapped[Optimizer](t) }

// LogSpec says how the work log describes calls of a tool.
type LogSpec struct {
	// Summary says what a call does, in words for a person, whatever its outcome. Values of
	// arguments are inserted in braces: "Write {path}", or "List {path|all folders}" for an
	// optional one. {seconds:duration}, {text:lines}, {path:folder} and {url:host} insert what is
	// derived from a value. A part in square brackets is left out if none of the arguments in it
	// is given: "Add the task {title}[, due {due}]". Empty: derived from the tool's name.
	Summary string
	// Does says what a call does, after "It", where a person is asked whether it may: "changes a
	// file". Empty: derived from the spec.
	Does string
	// Previewed are the arguments that the tool's preview shows in full; see Previewer.
	Previewed []string
	// Parameters are the arguments to keep in the log. Empty: all short ones.
	Parameters []string
	// Secret are the arguments that are never shown, besides those whose name or value indicates
	// a secret.
	Secret []string
	// Impact are the arguments that name what the call affects: a path, a recipient, an entity.
	Impact []string
}

// checkTidy validates the strategies of a spec whose schema has been compiled. A parameter that
// the tool does not have would be missing in every call, so that all calls would match.
func checkTidy(s *Spec, has func(string) bool) *fault.Error {
	bad := func(i int, format string, args ...any) *fault.Error {
		return fault.New(fault.Invalid, "tool_tidy_invalid", "the tool %s has a strategy (number %d) that %s",
			s.Name, i+1, fault.New("", "", format, args...).Message).Detail("tool", s.Name)
	}
	for i, st := range s.Tidy {
		switch {
		case st.Kind == ByParameters && len(st.Parameters) == 0:
			return bad(i, "is by parameters but names none")
		case st.Kind == ByTool && len(st.Tools) == 0:
			return bad(i, "is by tools but names none")
		case st.Kind == ByAge && st.MaxAge <= 0:
			return bad(i, "is by age but has no MaxAge")
		case !slices.Contains([]StrategyKind{ByParameters, ByTool, ByAge, Custom}, st.Kind):
			return bad(i, "has the kind %.40q: it must be parameters, tools, age or custom", string(st.Kind))
		}
		for _, p := range st.Parameters {
			if !has(p) {
				return bad(i, "uses the parameter %.80q, which the tool does not have", p)
			}
		}
		for _, n := range slices.Concat(st.Tools, st.Cascade) {
			if err := checkName(n); err != nil {
				return bad(i, "has an invalid tool name: %w", err)
			}
		}
	}
	return nil
}

// checkLog validates a spec's LogSpec: it may name only existing arguments.
func checkLog(s *Spec, has func(string) bool) *fault.Error {
	bad := func(format string, args ...any) *fault.Error {
		return fault.New(fault.Invalid, "tool_log_invalid", "the work log text of the tool %s %s",
			s.Name, fault.New("", "", format, args...).Message).Detail("tool", s.Name)
	}
	templates, names := []string{s.Log.Summary}, slices.Concat(s.Log.Parameters, s.Log.Secret, s.Log.Impact, s.Log.Previewed)
	for _, w := range s.Widths {
		templates = append(templates, w.Name)
		names = slices.Concat(names, w.Any, w.Folder, w.Host, slices.Sorted(maps.Keys(w.Like)))
	}
	for _, t := range templates {
		if err := checkTemplate(t, has, bad); err != nil {
			return err
		}
	}
	for _, p := range names {
		if !has(p) {
			return bad("names %.80q, which is not one of its parameters", p)
		}
	}
	return nil
}

// checkTemplate validates the braces of a template.
func checkTemplate(template string, has func(string) bool, bad func(string, ...any) *fault.Error) *fault.Error {
	for rest := template; ; {
		before, after, open := strings.Cut(rest, "{")
		switch {
		case strings.Contains(before, "}"):
			return bad("has a closing brace without an opening one")
		case !open:
			return nil
		}
		name, next, closed := strings.Cut(after, "}")
		name, _, _ = strings.Cut(name, "|")
		for _, as := range derivations {
			name = strings.TrimSuffix(name, as)
		}
		switch {
		case !closed:
			return bad("has an unclosed brace")
		case !has(name):
			return bad("names {%.80s}, which is not one of its parameters", name)
		}
		rest = next
	}
}
