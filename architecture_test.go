package steward_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitectureIsTrue: each file that ARCHITECTURE.md names is there, each
// package stands among its rooms, and there are no more rooms than a reader
// can know. A family, which is a folder with those below it, is one room.
func TestArchitectureIsTrue(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`((?:internal/)?[a-z/]+\\.go)`").FindAllSubmatch(text, -1) {
		file := string(m[1])
		if !strings.HasPrefix(file, "cmd/") {
			file = "internal/" + strings.TrimPrefix(file, "internal/")
		}
		if _, err := os.Stat(file); err != nil && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("ARCHITECTURE.md names %s: %v", m[1], err)
		}
	}
	_, table, _ := strings.Cut(string(text), "## Rooms")
	rooms, listed := map[string]bool{}, map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| [0-9] \| (.*?) \|`).FindAllStringSubmatch(table, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			front, members, family := strings.Cut(strings.TrimSuffix(name[1], "}"), "{")
			listed[strings.TrimSuffix(front, "/")] = true
			for _, member := range strings.Split(members, ", ") {
				if family {
					listed[front+member] = true
				}
			}
			if room, _, nested := strings.Cut(front, "/"); nested && room != "cmd" {
				rooms[room] = true
			} else {
				rooms[front] = true
			}
		}
	}
	if len(rooms) > 56 {
		t.Errorf("%d rooms: at most 56", len(rooms))
	}
	for name := range floors() {
		name = strings.TrimPrefix(name, "internal/")
		if !listed[name] && !strings.HasPrefix(name, "proto/") && !strings.HasSuffix(name, "test") {
			t.Errorf("%s is missing among the rooms of ARCHITECTURE.md", name)
		}
	}
}

// TestArchitectureLinksToCode: each function and type that ARCHITECTURE.md links
// to is declared in the file of the link, and each way has at most 12 stations.
func TestArchitectureLinksToCode(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile("\\[`([A-Za-z.]+)`\\]\\((internal/[a-z/_]+\\.go)\\)").FindAllStringSubmatch(string(text), -1)
	if len(links) < 30 {
		t.Errorf("only %d links", len(links))
	}
	for _, m := range links {
		if !slices.Contains(declared(t, m[2]), m[1]) {
			t.Errorf("%s does not declare %s", m[2], m[1])
		}
	}
	for _, way := range []string{"## The way of a message", "## The way of a tool call"} {
		_, rest, found := strings.Cut(string(text), way)
		table, _, _ := strings.Cut(rest, "\n## ")
		if n := len(regexp.MustCompile(`(?m)^\| \d+ \|`).FindAllString(table, -1)); !found || n < 8 || n > 12 {
			t.Errorf("%s: %d stations", way, n)
		}
	}
}

// declared returns the names of what a file declares at its top: F, T, and T.M for
// methods, also those of interfaces.
func declared(t *testing.T, name string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return nil
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				recv := d.Recv.List[0].Type
				if star, ok := recv.(*ast.StarExpr); ok {
					recv = star.X
				}
				if own, ok := recv.(*ast.Ident); ok {
					name = own.Name + "." + name
				}
			}
			names = append(names, name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
					if face, ok := spec.Type.(*ast.InterfaceType); ok {
						for _, m := range face.Methods.List {
							for _, n := range m.Names {
								names = append(names, spec.Name.Name+"."+n.Name)
							}
						}
					}
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}
