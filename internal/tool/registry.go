package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"sync"

	"steward/internal/fault"
)

// Registry holds tools by name and compiles each schema once. The zero value is empty and ready to
// use. Safe for concurrent use.
type Registry struct {
	mu    sync.RWMutex
	tools map[string]*entry
	names []string // sorted; replaced, never written to
}

// entry is a registered tool. It is itself a Tool, with a settled Spec.
type entry struct {
	Tool
	spec Spec
	v    *Validator
}

func (e *entry) Spec() Spec   { return e.spec }
func (e *entry) Unwrap() Tool { return e.Tool }

// Check implements Checker for tools that do not check themselves.
func (e *entry) Check(args []byte) error {
	if c, ok := e.Tool.(Checker); ok {
		return c.Check(args)
	}
	return e.v.Validate(args)
}

// Call passes the call on. If the arguments were not checked before, it checks them first.
func (e *entry) Call(ctx context.Context, in Invocation) (Result, error) {
	if _, own := e.Tool.(Checker); !own {
		if err := e.v.admit(&in); err != nil {
			return Result{}, err
		}
	}
	return e.Tool.Call(ctx, in)
}

// Add registers a tool. Error codes: tool_conflict (Conflict) if the name is taken, also in its
// wire form; those of CheckSpec (Invalid); and tool_tidy_invalid for a custom strategy of a tool
// that is not an Optimizer. Since an agent calls few of its tools, a schema is compiled at the first
// call, which then reports what CheckSpec would find wrong deep within it.
func (r *Registry) Add(t Tool) error {
	if t == nil {
		return fault.New(fault.Invalid, "tool_missing", "there is no tool to register")
	}
	spec, v, err := settled(t.Spec())
	if err != nil {
		return err
	}
	custom := func(s Strategy) bool { return s.Kind == Custom }
	if _, ok := OptimizerOf(t); !ok && slices.ContainsFunc(spec.Tidy, custom) {
		return fault.New(fault.Invalid, "tool_tidy_invalid", "the tool %s has a custom strategy but is not an Optimizer", spec.Name).
			WithHint("implement tool.Optimizer, or declare a strategy of another kind").Detail("tool", spec.Name)
	}
	return r.enter(&entry{Tool: t, spec: spec, v: v})
}

// AddFrom registers tools of another registry as they are, compiled. Error codes: tool_unknown,
// tool_conflict; the tools before the failing one stay registered.
func (r *Registry) AddFrom(o *Registry, names ...string) error {
	for _, name := range names {
		o.mu.RLock()
		e, ok := o.tools[name]
		o.mu.RUnlock()
		if !ok {
			return unknownTool(name, o.Names())
		}
		if err := r.enter(e); err != nil {
			return err
		}
	}
	return nil
}

// enter adds a tool under its name, if the name is free.
func (r *Registry) enter(e *entry) error {
	name := e.spec.Name
	r.mu.Lock()
	defer r.mu.Unlock()
	// Wire names are reversible, so two names collide only if they are equal.
	if _, taken := r.tools[name]; taken {
		return fault.New(fault.Conflict, "tool_conflict", "there is already a tool named %s", name).
			WithHint("give one of the two another category or name").Detail("tool", name)
	}
	if r.tools == nil {
		r.tools = map[string]*entry{}
	}
	r.tools[name] = e
	at, _ := slices.BinarySearch(r.names, name)
	r.names = slices.Insert(slices.Clone(r.names), at, name)
	return nil
}

// Remove removes a tool and reports whether it was registered.
func (r *Registry) Remove(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.tools[name]; !ok {
		return false
	}
	delete(r.tools, name)
	r.names = slices.DeleteFunc(slices.Clone(r.names), func(n string) bool { return n == name })
	return true
}

// Get returns the tool of that name. The returned tool is also a Checker, and SettlerOf finds the
// tool's Settler through it.
func (r *Registry) Get(name string) (Tool, bool) {
	r.mu.RLock()
	e, ok := r.tools[name]
	r.mu.RUnlock()
	if !ok {
		return nil, false
	}
	return e, true
}

// Names returns the names of all tools, sorted. Do not modify the slice.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.names
}

// Specs returns the specs of all tools, sorted by name.
func (r *Registry) Specs() []Spec {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]Spec, len(r.names))
	for i, n := range r.names {
		out[i] = r.tools[n].spec
	}
	return out
}

// Select returns the specs of the tools that match the patterns, sorted by name. A pattern is a name,
// or a glob in which '*' matches any characters including dots, such as math.* or *.list. A pattern
// that begins with '!' removes its matches. The patterns are applied in order, beginning with no tools,
// or with all tools if the first pattern begins with '!'. Without patterns, all tools are selected. A
// name that is neither registered nor an alias is an error (NotFound, tool_unknown); a glob may match
// nothing.
func (r *Registry) Select(patterns ...string) ([]Spec, error) {
	if len(patterns) == 0 || strings.HasPrefix(patterns[0], "!") {
		patterns = append([]string{"*"}, patterns...)
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	chosen := map[string]bool{}
	for _, p := range patterns {
		glob, out := strings.CutPrefix(p, "!")
		found, err := r.match(glob)
		if real, ok := aliases[glob]; ok && len(found) == 0 {
			found, err = r.match(real)
		}
		if err != nil && !(out && fault.HasCode(err, "tool_unknown")) {
			return nil, err
		}
		for _, n := range found {
			chosen[n] = !out
		}
	}
	specs := []Spec{}
	for _, n := range r.names {
		if chosen[n] {
			specs = append(specs, r.tools[n].spec)
		}
	}
	return specs, nil
}

// match returns the names of the tools that a name or a glob matches. The caller holds mu.
func (r *Registry) match(glob string) ([]string, error) {
	if !IsGlob(glob) {
		if _, ok := r.tools[glob]; ok {
			return []string{glob}, nil
		}
		for _, n := range r.names {
			if r.tools[n].spec.FullName == glob {
				return []string{n}, nil
			}
		}
		return nil, unknownTool(glob, r.names)
	}
	var found []string
	for _, n := range r.names {
		ok, err := path.Match(glob, n)
		if full := r.tools[n].spec.FullName; !ok && err == nil && full != "" {
			ok, err = path.Match(glob, full)
		}
		if err != nil {
			return nil, fault.New(fault.Invalid, "tool_pattern_invalid", "%q is not a tool pattern", glob).
				WithHint("write a name, or a glob such as math.*")
		}
		if ok {
			found = append(found, n)
		}
	}
	return found, nil
}

func unknownTool(name string, names []string) error {
	e := fault.New(fault.NotFound, "tool_unknown", "there is no tool named %s", Clip(name, 80)).Detail("tool", name)
	if near := SimilarNames(name, names, 3); len(near) > 0 {
		return e.WithHint("did you mean %s?", strings.Join(near, " or "))
	}
	return e.WithHint("use one of the listed tools")
}

// CheckSpec validates a spec and returns it settled (Delivery and Version filled in), with the
// validator of its arguments. A spec without a version gets one derived from what a model and an
// authorizer are shown. Errors are Invalid, with the codes tool_name_invalid,
// tool_description_missing, tool_effect_invalid, tool_delivery_invalid, tool_limits_invalid,
// tool_schema_invalid, tool_tidy_invalid, tool_log_invalid.
func CheckSpec(s Spec) (Spec, *Validator, error) {
	s, v, err := settled(s)
	if err == nil {
		_, err = v.compiled()
	}
	return s, v, err
}

// settled is CheckSpec without compiling the schema. It checks only the top level of the schema.
func settled(s Spec) (Spec, *Validator, error) {
	name := s.Name
	if strings.HasSuffix(s.FullName, "."+name) { // its category is left out
		name = s.FullName
	}
	if err := checkName(name); err != nil {
		return s, nil, err
	}
	bad := func(code, format string, args ...any) (Spec, *Validator, error) {
		return s, nil, fault.New(fault.Invalid, code, "the tool %s %s", s.Name, fault.New("", "", format, args...).Message).
			Detail("tool", s.Name)
	}
	if strings.TrimSpace(s.Description) == "" {
		return bad("tool_description_missing", "has no description, which models need to choose it")
	}
	if s.Effect != Query && s.Effect != Action {
		return bad("tool_effect_invalid", "has the effect %q: it must be query or action", s.Effect)
	}
	switch {
	case s.Effect == Query && s.Delivery != "":
		return bad("tool_delivery_invalid", "is a query, but only actions have a delivery")
	case s.Effect == Action && s.Delivery == "":
		s.Delivery = Inline
	case s.Effect == Action && s.Delivery != Inline && s.Delivery != Deferred:
		return bad("tool_delivery_invalid", "has the delivery %q: it must be inline or deferred", s.Delivery)
	}
	if s.Timeout < 0 || s.Concurrency < 0 || s.ResultCap < 0 {
		return bad("tool_limits_invalid", "has a negative limit")
	}
	has, err := s.parameters()
	if err != nil {
		return bad("tool_schema_invalid", "cannot be called: %w", err)
	}
	if err := checkTidy(&s, has); err != nil {
		return s, nil, err
	}
	if err := checkLog(&s, has); err != nil {
		return s, nil, err
	}
	if s.Version == "" {
		sum := sha256.Sum256([]byte(s.Name + "\x00" + s.Description + "\x00" + string(s.Effect) + "\x00" + string(s.Input)))
		s.Version = hex.EncodeToString(sum[:6])
	}
	return s, &Validator{later: sync.OnceValues(func() (*Validator, error) {
		v, err := NewValidator(s.Input)
		if err != nil {
			_, _, err = bad("tool_schema_invalid", "cannot be called: %w", err)
		}
		return v, err
	})}, nil
}

// parameters returns a function that reports whether the schema has a property, or leaves open
// which properties it has.
func (s Spec) parameters() (has func(name string) bool, err error) {
	var schema struct {
		Type       string
		Properties map[string]json.RawMessage
	}
	if err := json.Unmarshal(s.Input, &schema); err != nil {
		return nil, badSchema("%w", err)
	}
	if schema.Type != "object" {
		return nil, badSchema(`its type is not "object"`)
	}
	return func(name string) bool {
		return name != "" && (len(schema.Properties) == 0 || schema.Properties[name] != nil)
	}, nil
}

// maxWireName is the limit of the strictest provider.
const maxWireName = 64

func checkName(name string) error {
	bad := func(why string) error {
		return fault.New(fault.Invalid, "tool_name_invalid", "%q is not a tool name: %s", Clip(name, 80), why).
			WithHint("use category.name, with a-z, 0-9 and '_'")
	}
	words := strings.Split(name, ".")
	if len(words) < 2 {
		return bad("it has no category")
	}
	for _, w := range words {
		if w == "" {
			return bad("it has an empty word")
		}
		for _, c := range []byte(w) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
				return bad("it has a character beyond a-z, 0-9, '_' and '.'")
			}
		}
	}
	wire := WireName(name)
	switch {
	case len(wire) > maxWireName:
		return bad("it is longer than 64 bytes when each dot is written as two underscores")
	case strings.Contains(name, "__") || FromWire(wire) != name:
		return bad("two underscores stand for a dot where dots are not allowed")
	}
	return nil
}
