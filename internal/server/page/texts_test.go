package page

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each text of the page has a German one, with the same {values}, and there are no others.
func TestGermanIsComplete(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if list, ok := n.(*ast.CompositeLit); ok && f.Name() == "texts.go" { // those of the modules
				for _, e := range list.Elts {
					if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
						used[literal(t, l)] = true
					}
				}
			}
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); !ok || sel.Sel.Name != "t" {
				return true
			}
			l, ok := call.Args[0].(*ast.BasicLit)
			if !ok && f.Name() == "texts.go" {
				return true
			}
			if !ok {
				t.Errorf("%s: v.t needs a text that is written there", f.Name())
				return true
			}
			used[literal(t, l)] = true
			return true
		})
	}
	for _, code := range []string{"en", "de"} {
		delete(used, code)
	}
	values := regexp.MustCompile(`\{[a-z]+\}`)
	for s := range used {
		d, ok := german()[s]
		if !ok {
			t.Errorf("german.go lacks %q", s)
		}
		a, b := values.FindAllString(s, -1), values.FindAllString(d, -1)
		if slices.Sort(a); !slices.Equal(a, slices.Sorted(slices.Values(b))) && ok {
			t.Errorf("%q and %q have other values", s, d)
		}
	}
	for s := range german() {
		if !used[s] {
			t.Errorf("german.go has %q, which the page does not use", s)
		}
	}
}

func literal(t *testing.T, l *ast.BasicLit) string {
	s, err := strconv.Unquote(l.Value)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
