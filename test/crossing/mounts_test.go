package crossing

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// TestMounts checks that each handler that Steward mounts has a table. A server
// without a table would not be tested.
func TestMounts(t *testing.T) {
	known := []string{`"/"`, `"/api/v1/"`, `"/healthz"`, `"/readyz"`, `"/v1/"`, `"GET " + metricsPath`, `ChannelsPath`, `hooks.Prefix`, `mcp.Path`, `profilesPath`, `services.Prefix + "/"`, `websocket.Path`}
	// The metrics and the profiles have nobody's data, and test/edge asks who may read them.
	// And those of rpc, which mounts itself. What is posted to channels is signed by each channel's own token, and belongs to whoever the sender is paired with.
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "../../internal/app/server.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var mounted []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Handle" || sel.Sel.Name == "HandleFunc") {
			var b strings.Builder
			if err := printer.Fprint(&b, fset, call.Args[0]); err != nil {
				t.Fatal(err)
			}
			mounted = append(mounted, b.String())
		}
		return true
	})
	slices.Sort(mounted)
	if !slices.Equal(mounted, known) {
		t.Errorf("the server mounts %v, and the tables here are about %v: give what is new a table, made of what it serves", mounted, known)
	}
}
