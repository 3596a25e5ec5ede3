package client_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"steward/client"
	"steward/internal/server/api"
)

var route = regexp.MustCompile(`^(GET|POST|PUT|PATCH|DELETE) /`)

// routesIn returns the routes that occur in Go files.
func routesIn(t *testing.T, pattern string) (all []string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal(err, pattern)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && route.MatchString(s) {
					all = append(all, s)
				}
			}
			return true
		})
	}
	return all
}

// The client and the commands call only routes that the API has.
func TestRoutes(t *testing.T) {
	var served []string
	for _, r := range api.Routes() {
		method, path, _ := strings.Cut(r, " ")
		served = append(served, method+" "+strings.TrimPrefix(path, client.Prefix))
	}
	typed := routesIn(t, "*.go")
	if len(typed) < 40 {
		t.Errorf("only %d routes were found", len(typed))
	}
	asked := append(typed, routesIn(t, "../internal/cli/*/*.go")...)
	for _, r := range asked {
		if !slices.Contains(served, r) && r != "POST /agents/" { // the verb is appended
			t.Errorf("the API has no route %s", r)
		}
	}
}
