package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/cli/command"
)

func TestANewAgent(t *testing.T) {
	env := user(t)
	dir := filepath.Join(homeOf(env), ".local/share/steward/agents")
	code, out, errs := in(t, "", env, "agents", "new", "greeter")
	if code != command.ExitOK || out != "" || !strings.Contains(errs, "steward agents approve greeter, then steward agents test greeter") {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	// The new agent works unchanged.
	if code, out, errs := in(t, "", env, "agents", "approve", "greeter", "--yes"); code != command.ExitOK || strings.Contains(out, "  ! ") {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	if code, out, errs := in(t, "", env, "agents", "test"); code != command.ExitOK || out != "ok   greeter  Greet Ada\n" || errs != "1 example passed\n" {
		t.Errorf("%d %s %s", code, out, errs)
	}
	if code, out, errs := in(t, "", env, "agents", "new", "greeter/polite", "--json"); code != command.ExitOK || !strings.Contains(out, `"path": "greeter/polite"`) {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	b, err := os.ReadFile(filepath.Join(dir, "greeter/agents/polite/agent.yaml"))
	if err != nil || !strings.HasPrefix(string(b), "name: polite\n") {
		t.Errorf("%s %v", b, err)
	}
	b, err = os.ReadFile(filepath.Join(dir, "greeter/agents/polite/README.md"))
	if err != nil || !strings.Contains(string(b), "steward agents test greeter/polite") {
		t.Errorf("%s %v", b, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "greeter/tools/greet.sh")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v %v", info, err)
	}
	for want, args := range map[string][]string{
		"agent_exists":                       {"greeter"},
		"is not a valid name of an agent":    {"Greeter"},
		"there is no agent nobody":           {"nobody/x"},
		"steward agents approve other, then": {"other", "--in", filepath.Join(t.TempDir(), "new", "folder")},
	} {
		if _, _, errs := in(t, "", env, append([]string{"agents", "new"}, args...)...); !strings.Contains(errs, want) {
			t.Errorf("%v: %s", args, errs)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("something is left behind: %v %v", entries, err)
	}
}
