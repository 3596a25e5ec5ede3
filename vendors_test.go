package steward_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The folder of the providers, and the file with their table.
const (
	providerFolder = "internal/provider/"
	vendorTable    = "internal/app/vendors.go"
)

// vendorFolders returns the names of the providers: the folders that export a Vendor.
func vendorFolders(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob(providerFolder + "*/vendor.go")
	if err != nil || len(files) < 5 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, f := range files {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	return names
}

// telling are the names of vendors that mean nothing else. No text outside of their packages may be one.
var telling = []string{"anthropic", "gemini", "ollama", "openai"}

// TestVendorsStandInOneTable: outside of their packages, vendors of models are named in one table only, so that
// a provider is a folder and a line.
func TestVendorsStandInOneTable(t *testing.T) {
	vendors := vendorFolders(t)
	table, err := os.ReadFile(vendorTable)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vendors {
		if strings.Count(string(table), "\t"+v+".Vendor(),\n") != 1 {
			t.Errorf("%s does not list %s once", vendorTable, v)
		}
	}
	for _, top := range []string{"client", "cmd", "internal"} {
		if err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
			own := strings.HasPrefix(file, providerFolder) || strings.HasSuffix(file, "_test.go") || file == vendorTable
			if err != nil || d.IsDir() || own || !strings.HasSuffix(file, ".go") {
				return err
			}
			text, err := os.ReadFile(file)
			if err == nil {
				for _, why := range vendorsNamed(t, vendors, file, text) {
					t.Error(why)
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// vendorsNamed says where a file imports a vendor or has its name as a text.
func vendorsNamed(t *testing.T, vendors []string, file string, text []byte) (all []string) {
	t.Helper()
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		name, err := strconv.Unquote(lit.Value)
		if err != nil {
			t.Fatal(err)
		}
		name, imported := strings.CutPrefix(name, module+providerFolder)
		switch {
		case imported && !slices.Contains(vendors, name), !imported && !slices.Contains(telling, name):
		case imported && strings.HasPrefix(file, "internal/server/"+name+"/"): // it serves the same protocol
		case !imported && strings.HasPrefix(file, "internal/importexport/"): // there they are formats of files
		default:
			all = append(all, set.Position(lit.Pos()).String()+" names "+name+": let it come from the table of vendors")
		}
		return true
	})
	return all
}

// TestTheSearchForVendors makes sure that the test above can fail.
func TestTheSearchForVendors(t *testing.T) {
	for _, c := range []struct {
		file, text string
		want       int
	}{
		{"internal/runtime/x.go", `package x; import _ "steward/internal/provider/gemini"`, 1},
		{"internal/runtime/x.go", `package x; import _ "steward/internal/provider/wire"`, 0},
		{"internal/server/openai/x.go", `package x; import _ "steward/internal/provider/openai"`, 0},
		{"internal/server/openai/x.go", `package x; import _ "steward/internal/provider/gemini"`, 1},
		{"internal/server/ollama/x.go", `package x; import _ "steward/internal/provider/ollama"`, 0},
		{"internal/settings/x.go", `package x; func f(s string) bool { return s == "ollama" }`, 1},
		{"internal/settings/x.go", `package x; func f(s string) bool { return s == "an ollama" }`, 0},
		{"internal/importexport/x.go", `package x; const Ollama = "ollama"`, 0},
	} {
		if got := vendorsNamed(t, []string{"gemini", "ollama", "openai"}, c.file, []byte(c.text)); len(got) != c.want {
			t.Errorf("%s: %s: %q", c.file, c.text, got)
		}
	}
}
