package rego

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"
	"github.com/open-policy-agent/opa/v1/topdown"

	"steward/internal/fault"
)

// Tested is the outcome of one test of the user's own.
type Tested struct {
	Name     string        `json:"name"`  // test_children_may_not_send
	Where    string        `json:"where"` // file:line
	Passed   bool          `json:"passed"`
	Error    string        `json:"error,omitzero"`     // where it could not be run
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
	src, err := gather(dir, false)
	if err != nil {
		return nil, err
	}
	if len(src.tests) == 0 {
		return nil, fault.New(fault.NotFound, "policy_no_tests", "%s has no tests", dir).
			WithHint("write rules test_NAME in a file that ends in _test.rego; docs/policies.md shows how")
	}
	if _, err := compile(src, settings); err != nil { // told with the better words
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
	store := inmem.NewFromObjectWithOpts(data, inmem.OptRoundTripOnWrite(false))
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return nil, fmt.Errorf("the data of policies: %w", err)
	}
	defer store.Abort(ctx, txn)
	// Failed builtins are errors, as they are when it is decided.
	results, err := tester.NewRunner().SetCompiler(compiler(store, txn)).SetStore(store).SetModules(modules).RaiseBuiltinErrors(true).EnableTracing(true).
		SetTimeout(testTimeout).RunTests(ctx, txn)
	if err != nil {
		return nil, invalid(err)
	}
	var out []Tested
	line := map[string]int{}
	for r := range results {
		t := Tested{Name: r.Name, Where: placeOf(r.Location), Passed: r.Pass(), Took: r.Duration}
		if r.Error != nil {
			t.Error = r.Error.Error()
		}
		if x := failedIn(r); x != nil && !t.Passed {
			t.Failed, t.FailedAt = written(x.Location), placeOf(x.Location)
		}
		line[t.Where] = r.Location.Row
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(x, y Tested) int {
		fileX, _, _ := strings.Cut(x.Where, ":")
		fileY, _, _ := strings.Cut(y.Where, ":")
		return cmp.Or(strings.Compare(fileX, fileY), cmp.Compare(line[x.Where], line[y.Where]))
	})
	return out, ctx.Err()
}

// failedIn is the last condition of a test's own file that did not hold.
func failedIn(r *tester.Result) *ast.Expr {
	for _, e := range slices.Backward(r.Trace) {
		x, ok := e.Node.(*ast.Expr)
		if ok && e.Op == topdown.FailOp && x.Location != nil && x.Location.File == r.Location.File {
			return x
		}
	}
	return nil
}
