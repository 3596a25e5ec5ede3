package rego

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown"

	"steward/internal/fault"
)

// Tested is the outcome of one test of the user's own.
type Tested struct {
	Name     string        `json:"name"`  // test_children_may_not_send
	Where    string        `json:"where"` // file:line
	Passed   bool          `json:"passed"`
	Error    string        `json:"error,omitzero"`     // if it could not be run
	Failed   string        `json:"failed,omitzero"`    // the condition that did not hold
	FailedAt string        `json:"failed_at,omitzero"` // its file:line
	Took     time.Duration `json:"took"`               // nanoseconds
}

// testTimeout bounds one test.
const testTimeout = 10 * time.Second

// Test runs the tests of a folder (rules test_NAME in files *_test.rego)
// together with its policies and the default bundle. Error codes:
// policy_invalid, policy_unreadable, policy_no_tests (NotFound).
func Test(ctx context.Context, dir string, settings map[string]any) ([]Tested, error) {
	src, err := readSources(dir)
	if err != nil {
		return nil, err
	}
	if len(src.tests) == 0 {
		return nil, fault.New(fault.NotFound, "policy_no_tests", "%s has no tests", dir).
			WithHint("write rules test_NAME in a file that ends in _test.rego; docs/guides/policies.md shows how")
	}
	if _, err := compile(src, settings); err != nil { // its errors say more
		return nil, err
	}
	data, err := src.documents(settings)
	if err != nil {
		return nil, err
	}
	names := slices.Concat(src.names, slices.Sorted(maps.Keys(src.tests)))
	text := maps.Clone(src.text)
	maps.Copy(text, src.tests)
	modules, err := parse(names, text)
	if err != nil {
		return nil, err
	}
	tests, err := testRules(modules)
	if err != nil {
		return nil, err
	}
	store := inmem.NewFromObjectWithOpts(data, inmem.OptRoundTripOnWrite(false))
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return nil, fmt.Errorf("the data of policies: %w", err)
	}
	defer store.Abort(ctx, txn)
	p := &program{store: store, txn: txn, compiler: compiler(store, txn)}
	if p.compiler.Compile(modules); p.compiler.Failed() {
		return nil, invalid(p.compiler.Errors)
	}
	out := make([]Tested, 0, len(tests))
	for _, r := range tests {
		t, err := p.test(ctx, r)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, ctx.Err()
}

// testRule is a rule that is a test, and its name.
type testRule struct {
	*ast.Rule
	name string
}

// testRules finds the tests in modules, in the order of files and lines. A test with the same
// name as an earlier one is renamed, so that each is run by itself.
func testRules(modules map[string]*ast.Module) ([]testRule, error) {
	var out []testRule
	var faults []error
	taken := map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		for _, r := range modules[file].Rules {
			ref := r.Head.Ref()
			if !slices.ContainsFunc(ref, isTestName) {
				continue
			}
			if len(ref) != 1 || r.Head.Key != nil || r.Head.Args != nil || r.Default {
				faults = append(faults, at(r.Location, "a test is a rule without arguments or keys: write it as  test_NAME if { … }"))
				continue
			}
			t := testRule{r, string(r.Head.Name)}
			if path := r.Ref().String(); taken[path] {
				r.Head.Name = ast.Var(fmt.Sprintf("%s%s_%d", hidden, t.name, len(out)))
				r.Head.SetRef(ast.Ref{ast.VarTerm(string(r.Head.Name)).SetLocation(r.Location)})
			} else {
				taken[path] = true
			}
			out = append(out, t)
		}
	}
	if faults != nil {
		return nil, invalid(errors.Join(faults...))
	}
	return out, nil
}

// isTestName reports whether a part of a rule's name makes it a test.
func isTestName(t *ast.Term) bool {
	switch v := t.Value.(type) {
	case ast.Var:
		return strings.HasPrefix(string(v), "test_")
	case ast.String:
		return strings.HasPrefix(string(v), "test_")
	}
	return false
}

// test runs one test. It passes if its rule holds with any value except false. A failed
// built-in function is an error, as in a decision.
func (p *program) test(ctx context.Context, r testRule) (Tested, error) {
	out := Tested{Name: r.name, Where: placeOf(r.Location)}
	query, err := p.compiler.QueryCompiler().Compile(ast.NewBody(ast.NewExpr(ast.NewTerm(r.Ref()))))
	if err != nil {
		return out, invalid(err)
	}
	began := time.Now()
	found, events, err := p.traced(ctx, query, nil, testTimeout)
	out.Took = time.Since(began)
	out.Passed = found != nil && err == nil
	if err != nil {
		out.Error = err.Error()
	}
	if x := failedIn(events, r.Location.File); x != nil && !out.Passed {
		out.Failed, out.FailedAt = written(x.Location), placeOf(x.Location)
	}
	return out, nil
}

// failedIn returns the last condition in a test's own file that did not hold.
func failedIn(events []*topdown.Event, file string) *ast.Expr {
	for _, e := range slices.Backward(events) {
		x, ok := e.Node.(*ast.Expr)
		if ok && e.Op == topdown.FailOp && x.Location != nil && x.Location.File == file {
			return x
		}
	}
	return nil
}
