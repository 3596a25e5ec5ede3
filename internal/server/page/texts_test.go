package page

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// TestEveryTextIsTranslated compares the texts that are written in the code with german.go.
func TestEveryTextIsTranslated(t *testing.T) {
	used := map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		p, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(p, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || f.Sel.Name != "t" {
				return true
			}
			if lit, ok := call.Args[0].(*ast.BasicLit); ok {
				s, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				used[s] = true
			}
			return true
		})
	}
	var client map[string]string
	if err := json.Unmarshal([]byte((&visit{lang: "en"}).clientTexts()), &client); err != nil {
		t.Fatal(err)
	}
	for s := range client {
		used[s] = true
	}
	german := german()
	gap := regexp.MustCompile(`\{\w+\}`)
	for s := range used {
		d, ok := german[s]
		if !ok {
			t.Errorf("german.go lacks %q", s)
		} else if !slices.Equal(gap.FindAllString(s, -1), gap.FindAllString(d, -1)) {
			t.Errorf("%q and %q have other gaps, or in another order", s, d)
		}
	}
	for s := range german {
		if !used[s] {
			t.Errorf("nothing says %q any more: take it out of german.go", s)
		}
	}
}

// TestGermanSaysDu finds texts that speak to the person as "Sie", or that use another word for a conversation.
func TestGermanSaysDu(t *testing.T) {
	formal := regexp.MustCompile(`\b(Ihr|Ihre|Ihren|Ihrem|Ihrer|Ihres|Ihnen)\b|[\pL,„(] Sie\b|\p{Ll}(en|n) Sie\b|Unterhaltung`)
	for english, german := range german() {
		if formal.MatchString(german) {
			t.Errorf("%q is %q: say du, and Gespräch", english, german)
		}
	}
}
