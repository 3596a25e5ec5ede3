package rego

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"steward/internal/fault"
	"steward/internal/policy"
)

// packageName is the package whose rules decide. hidden is the prefix of the rules that replace
// those of the package in queries.
const (
	packageName = "steward"
	hidden      = "steward__"
)

// decidingPath is the path of that package, and settingsPath where the settings are.
var (
	decidingPath = ast.Ref{ast.DefaultRootDocument, ast.StringTerm(packageName)}
	settingsPath = ast.Ref{ast.DefaultRootDocument, ast.StringTerm("settings")}
)

// program is one version of the policies, ready to decide. Immutable.
type program struct {
	version  string
	sources  *sources
	compiler *ast.Compiler
	store    storage.Store
	txn      storage.Transaction // a read transaction, for the program's whole life
	points   map[policy.Point]*point
}

// point holds the prepared rules of one decision point.
type point struct {
	query   ast.Body  // nil: nothing allows anything here
	term    *ast.Term // its name
	reads   fields
	members []member // the fields read
	known   decisionCache
}

// compile prepares policies. It reports all their faults at once (policy_invalid).
func compile(src *sources, settings map[string]any) (*program, error) {
	data, err := src.documents(settings)
	if err != nil {
		return nil, err
	}
	p := &program{sources: src, points: map[policy.Point]*point{}}
	if p.version, err = src.version(data); err != nil {
		return nil, err
	}
	modules, err := parse(src.names, src.text)
	if err != nil {
		return nil, err
	}
	for _, m := range modules {
		if err := double(m); err != nil {
			return nil, err
		}
	}
	p.store = inmem.NewFromObjectWithOpts(data, inmem.OptRoundTripOnWrite(false), inmem.OptReturnASTValuesOnRead(true))
	if p.txn, err = p.store.NewTransaction(context.Background()); err != nil {
		return nil, fmt.Errorf("the data of policies: %w", err)
	}
	p.compiler = compiler(p.store, p.txn)
	if p.compiler.Compile(modules); p.compiler.Failed() {
		return nil, invalid(p.compiler.Errors)
	}
	if err := p.known(); err != nil {
		return nil, err
	}
	for _, at := range policy.Points() {
		if p.points[at], err = p.point(at); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// parse reads the files of policies.
func parse(names []string, text map[string]string) (map[string]*ast.Module, error) {
	caps := capabilities()
	modules := map[string]*ast.Module{}
	var faults []error
	for _, name := range names {
		m, err := ast.ParseModuleWithOpts(name, text[name], ast.ParserOptions{RegoVersion: ast.RegoV1, Capabilities: caps})
		if err != nil {
			faults = append(faults, err)
			continue
		}
		modules[name] = m
	}
	if faults != nil {
		return nil, invalid(errors.Join(faults...))
	}
	return modules, nil
}

// compiler returns a compiler with the settings that policies need: strict, and without built-in
// functions that reach outside. A rule must not have the path of data.
func compiler(store storage.Store, txn storage.Transaction) *ast.Compiler {
	c := ast.NewCompiler().WithCapabilities(capabilities()).WithDefaultRegoVersion(ast.RegoV1).WithStrict(true).
		WithPathConflictsCheck(storage.NonEmpty(context.Background(), store, txn))
	return c.SetErrorLimit(maxFaults)
}

// maxFaults is how many faults are reported at once.
const maxFaults = 20

// unsafe are the names, or prefixes of names, of the built-in functions that policies do not
// have: those that reach the network, the clock, randomness, keys or the program itself.
var unsafe = []string{"http.", "net.", "opa.", "rego.", "rand.", "uuid.", "time.now_ns", "io.jwt.", "crypto.x509.", "providers.", "trace"}

// capabilities returns the features that policies may use.
func capabilities() *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion()
	c.Builtins = slices.DeleteFunc(c.Builtins, func(b *ast.Builtin) bool {
		return b.Nondeterministic || slices.ContainsFunc(unsafe, func(u string) bool {
			return b.Name == u || strings.HasSuffix(u, ".") && strings.HasPrefix(b.Name, u)
		})
	})
	c.AllowNet = []string{}
	return c
}

// verdicts are the rules that decide, and obligations those that accompany a decision.
var (
	verdicts    = []string{"deny", "ask", "allow"}
	obligations = []string{"mask", "approvers", "cap"}
)

// double gives each deciding rule a twin that is queried in its place. The twin yields the rule's
// position besides the reason, so it is known at no cost which rules decided. Obligations may be
// sets or single values; their twins are sets.
func double(m *ast.Module) error {
	if m.Package.Path.HasPrefix(settingsPath) {
		return invalid(at(m.Package.Location, "the package settings is reserved"))
	}
	if !m.Package.Path.Equal(decidingPath) {
		return nil
	}
	var twins []*ast.Rule
	var faults []error
	for _, r := range m.Rules {
		name := string(r.Head.Ref()[0].Value.(ast.Var)) // a head begins with its name
		if strings.HasPrefix(name, hidden) {
			faults = append(faults, at(r.Location, "names that begin with %s are reserved", hidden))
		}
		switch {
		case slices.Contains(verdicts, name) && (len(r.Head.Ref()) != 1 || r.Head.Key == nil || r.Head.Value != nil || r.Head.Args != nil || r.Default):
			faults = append(faults, at(r.Location, "%s has no reason: write it as  %s contains \"why\" if { … }", name, name))
		case slices.Contains(verdicts, name):
			twins = append(twins, tracedCopy(r, name))
		}
	}
	if faults != nil {
		return invalid(errors.Join(faults...))
	}
	m.Rules = append(m.Rules, twins...)
	return nil
}

// tracedCopy returns a copy of a rule under its hidden name that yields [where, why].
func tracedCopy(r *ast.Rule, name string) *ast.Rule {
	t := r.Copy()
	t.Module = r.Module
	where := ast.StringTerm(placeOf(r.Location)).SetLocation(r.Location)
	t.Head.Name = ast.Var(hidden + name)
	t.Head.SetRef(ast.Ref{ast.VarTerm(hidden + name).SetLocation(r.Location)})
	t.Head.Key = ast.ArrayTerm(where, t.Head.Key).SetLocation(r.Location)
	return t
}

func placeOf(l *ast.Location) string { return fmt.Sprintf("%s:%d", l.File, max(l.Row, 1)) }

func at(l *ast.Location, format string, args ...any) error {
	return fmt.Errorf("%s: "+format, append([]any{placeOf(l)}, args...)...)
}

// invalid returns the error for policies that cannot be used: each fault with its file and line.
func invalid(err error) error {
	var list ast.Errors
	lines := []string{}
	remedy := "fix the policy, then run steward policy check"
	each := []error{err}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		each = many.Unwrap()
	}
	for _, e := range each {
		var one *ast.Error
		switch {
		case errors.As(e, &list):
		case errors.As(e, &one):
			list = ast.Errors{one}
		default:
			lines = append(lines, e.Error())
			continue
		}
		for _, e := range list {
			line := e.Message
			if e.Location != nil {
				line = placeOf(e.Location) + ": " + line
			}
			lines = append(lines, line)
			remedy = cmp.Or(remedyFor(e.Message), remedy)
		}
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	return fault.New(fault.Invalid, "policy_invalid", "invalid policies: %s", strings.Join(lines, "\n  ")).
		WithHint("%s", remedy).Detail("faults", lines)
}

// remedyFor returns the remedy for common faults of people who are new to Rego.
func remedyFor(message string) string {
	switch {
	case strings.Contains(message, "undefined function"):
		return "policies have no network, no clock and no chance: what they may go by is in input (steward policy show --input)"
	case strings.Contains(message, "multiple default rules"):
		return "only Steward sets a default: add to the rule instead, as in  trusted if { … }"
	case strings.Contains(message, "conflicting rules"), strings.Contains(message, "conflicting rule"):
		return "Steward's own rules are added to, not replaced: write  deny contains \"why\" if { … }, or  trusted if { … }"
	case strings.Contains(message, "is unsafe"):
		return "the name is not defined: check its spelling, and write texts in quotes"
	case strings.Contains(message, "`if` keyword is required"), strings.Contains(message, "`contains` keyword is required"):
		return "this is the syntax of Rego before version 1: write  deny contains \"why\" if { … }"
	}
	return ""
}
