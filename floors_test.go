package steward_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// module is the module's path; what is imported below it counts.
const module = "steward/"

// floor says where a package stands and what beside it it may import.
type floor struct {
	level int
	order int    // in its row of rows: only packages of a lower order are imported
	kin   string // the one package of its family that it may import on its own floor
}

// ordered are the floors whose packages stand in an order and import only what
// stands before them. On the others they do not see each other, but for one shared
// package per family.
var ordered = map[int]bool{0: true, 1: true, 2: true, 4: true, 6: true}

// floors is the table of ARCHITECTURE.md: imports go strictly down.
func floors() map[string]floor {
	table := map[string]floor{}
	for level, names := range map[int][]string{
		0: {"internal/fault", "internal/id", "internal/lifetime", "internal/search/meaning", "internal/search/words", "internal/secret/mask", "internal/tool/sentence"},
		1: {"client", "internal/strict", "internal/resource", "internal/request", "internal/message", "internal/tool", "internal/intent", "internal/record", "internal/lifetime/telemetry"},
		2: {"internal/store", "internal/store/chain", "internal/store/transfer", "internal/store/follow", "internal/store/lease", "internal/policy", "internal/llm/tokens", "internal/llm", "internal/provider/cloud", "internal/conversation/window", "internal/importexport", "internal/search", "internal/catalog/watch", "internal/egress", "internal/extract", "internal/secret/oauth", "internal/tools/local", "internal/service", "internal/tools/dav", "internal/channel", "internal/channel/markup", "internal/channel/rest", "internal/channel/wire", "internal/tools/mailbox", "internal/memory", "internal/memory/graph/rdf", "internal/memory/graph/sparql"},
		4: {"internal/settings", "internal/taint", "internal/kits", "internal/requests", "internal/routing", "internal/explain", "internal/turn", "internal/turn/relay", "internal/work", "internal/planning", "internal/runtime", "proto"},
		6: {"internal/app", "internal/cli/command", "internal/cli/activity", "internal/cli/conversations", "internal/cli/access", "internal/cli/agents", "internal/cli/documents", "internal/cli/node", "internal/cli/talk", "internal/cli", "cmd/steward"},
	} {
		for order, name := range names {
			table[name] = floor{level: level, order: order}
		}
	}
	add := func(level int, kin string, names ...string) {
		for _, name := range names {
			f := floor{level: level}
			if name != kin {
				f.kin = kin
			}
			table[name] = f
		}
	}
	add(3, "", "internal/memory/documents", "internal/goals", "internal/memory/graph", "internal/jobs", "internal/heartbeat", "internal/plan", "internal/agent", "internal/conversation", "internal/effect", "internal/identity", "internal/conversation/worklog", "internal/search/fts", "internal/search/vector", "internal/search/similar")
	add(3, providerKin, providerKin) // see floorOf for the providers themselves
	add(3, "", "internal/provider")  // the contract of the providers: tests alone
	add(3, "internal/store/sqlite", "internal/store/sqlite", "internal/store/backup")
	add(3, "", "internal/store/postgres")
	add(3, "", "internal/store/cluster")
	add(3, "", "internal/catalog")
	add(3, "", "internal/policy/rego")
	add(3, "", "internal/daemon")
	add(3, "", "internal/tree")
	add(3, "", "internal/events")
	add(3, "", "internal/secret")
	add(3, "", "internal/store/audit")
	add(3, "", "internal/service/local")
	add(3, "", "internal/service/remote")
	add(3, "internal/sandbox", "internal/sandbox", "internal/source/mcp", "internal/source/grpc", "internal/source/process",
		"internal/tools/shell", "internal/tools/browser", "internal/tools/skills")
	add(3, "", "internal/tools/files", "internal/tools/math", "internal/tools/clock", "internal/tools/calendar", "internal/tools/task",
		"internal/tools/weather", "internal/tools/web", "internal/tools/notify", "internal/tools/reminder", "internal/tools/job", "internal/tools/goal", "internal/tools/fact", "internal/tools/document", "internal/tools/graph", "internal/tools/mail", "internal/tools/contacts", "internal/tools/home", "internal/tools/message")
	add(5, "internal/server/auth", "internal/server/auth", "internal/server/websocket", "internal/server/openai", "internal/server/api",
		"internal/server/rpc", "internal/server/services", "internal/server/ollama", "internal/server/wyoming", "internal/server/mcp", "internal/server/hooks", "internal/server/page", "internal/server/forward")
	add(5, "", "internal/terminal")
	add(5, "", "internal/messaging")
	return table
}

// providerKin is the package that all providers share.
const providerKin = "internal/provider/wire"

// channels is the folder of the adapters of messengers.
const channels = "internal/channel"

// floorOf returns the floor of a package. Each other folder of the providers is one, and needs no row; so is
// each of the channels.
func floorOf(table map[string]floor, name string) (floor, bool) {
	f, ok := table[name]
	if !ok && path.Dir(name) == channels {
		return floor{level: 3}, true
	}
	if !ok && path.Dir(name) == path.Dir(providerKin) {
		return floor{level: 3, kin: providerKin}, true
	}
	return f, ok
}

// exempt reports whether a package stands on no floor because it serves tests
// or as an example only: the trees test, bench and examples. No other package
// may import it; what it imports is its own affair.
func exempt(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return top == "test" || top == "bench" || top == "examples" || name == "steward"
}

// listing is what go list tells of a package.
type listing struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func TestImportsGoDown(t *testing.T) {
	table := floors()
	seen := 0
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if exempt(name) {
			continue
		}
		if _, ok := floorOf(table, name); !ok {
			t.Errorf("%s stands on no floor: give it its place in floors_test.go and ARCHITECTURE.md", name)
			continue
		}
		seen++
		for _, imp := range p.Imports {
			if why := judge(table, name, imp); why != "" {
				t.Errorf("%s imports %s: %s", name, imp, why)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d packages were looked at", seen)
	}
}

// judge says why one package may not import the other, or "".
func judge(table map[string]floor, name, target string) string {
	imp, own := strings.CutPrefix(target, module)
	from, _ := floorOf(table, name)
	if !own {
		if from.level == 0 && strings.Contains(strings.Split(target, "/")[0], ".") {
			return "floor 0 stands on the standard library alone"
		}
		return ""
	}
	if exempt(imp) {
		return "it is for tests only"
	}
	to, ok := floorOf(table, imp)
	switch {
	case !ok:
		return "it stands on no floor"
	case to.level < from.level:
		return ""
	case to.level > from.level:
		return fmt.Sprintf("that is up, from floor %d to %d", from.level, to.level)
	case ordered[from.level] && to.order < from.order:
		return ""
	case ordered[from.level]:
		return "on this floor it stands later in the order"
	case imp == from.kin:
		return ""
	}
	return "that is sideways; declare the interface that is needed, and let the runtime hand it over"
}

func packages(t *testing.T) []listing {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &said)
	}
	var all []listing
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listing
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// TestRandomCasesAreTheSame in each run: a package whose tests draw random cases
// fixes their seed.
func TestRandomCasesAreTheSame(t *testing.T) {
	for _, p := range packages(t) {
		all := append(p.TestImports, p.XTestImports...)
		if slices.Contains(all, "pgregory.net/rapid") && !slices.Contains(all, "steward/test/seed") {
			t.Errorf("the tests of %s draw random cases: import _ %q there", p.ImportPath, "steward/test/seed")
		}
	}
}

// TestTheJudgeOfImports makes sure that the test above can fail.
func TestTheJudgeOfImports(t *testing.T) {
	table := floors()
	for _, c := range []struct {
		from, to string
		good     bool
	}{
		{"internal/llm", "steward/internal/fault", true},
		{"internal/llm", "steward/internal/message", true},
		{"internal/tool", "steward/internal/message", true},
		{"internal/message", "steward/internal/tool", false},
		{"internal/fault", "steward/internal/id", false},
		{"internal/id", "steward/internal/fault", true},
		{"internal/fault", "fmt", true},
		{"internal/fault", "github.com/x/y", false},
		{"internal/store", "github.com/x/y", true},
		{"internal/store", "steward/internal/store/sqlite", false},
		{"internal/provider/openai", "steward/internal/provider/wire", true},
		{"internal/provider/openai", "steward/internal/provider/gemini", false},
		{"internal/provider/wire", "steward/internal/provider/openai", false},
		{"internal/provider/new", "steward/internal/provider/wire", true},
		{"internal/provider/new", "steward/internal/provider/cloud", true},
		{"internal/provider/new", "steward/internal/provider/gemini", false},
		{"internal/provider/new/deep", "steward/internal/llm", false},
		{"internal/agent", "steward/internal/effect", false},
		{"internal/settings", "steward/internal/runtime", false},
		{"internal/server/websocket", "steward/internal/server/auth", true},
		{"internal/server/websocket", "steward/internal/server/api", false},
		{"internal/terminal", "steward/internal/runtime", true},
		{"internal/runtime", "steward/internal/server/websocket", false},
		{"internal/runtime", "steward/test/storetest", false},
		{"internal/runtime", "steward/test/chaos", false},
		{"internal/runtime", "steward/internal/nowhere", false},
		{"internal/runtime", "steward/proto", false},
		{"internal/server/rpc", "steward/proto", true},
		{"internal/app", "steward/internal/settings", true},
	} {
		if why := judge(table, c.from, c.to); (why == "") != c.good {
			t.Errorf("%s → %s: %q", c.from, c.to, why)
		}
	}
	var levels []int
	for _, f := range table {
		levels = append(levels, f.level)
	}
	if slices.Max(levels) != 6 || slices.Min(levels) != 0 {
		t.Error("the table has lost a floor")
	}
}
