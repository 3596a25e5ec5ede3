package cli

import (
	"os"
	"path/filepath"
	"testing"

	"steward/internal/sandbox"
	"steward/test/must"
)

// Commands that only look at a server start it too. It must not see Steward's places then either.
func TestAServerThatIsLookedAtSeesNothingOfStewards(t *testing.T) {
	if err := sandbox.Available(); err != nil {
		t.Skip(err)
	}
	env, data, outside := user(t), t.TempDir(), t.TempDir()
	told, file := filepath.Join(outside, "told"), filepath.Join(outside, "mcp.json")
	must.Do(t, os.WriteFile(filepath.Join(data, "token"), nil, 0o600))
	must.Do(t, os.WriteFile(file, []byte(`{"mcpServers":{"x":{"command":"sh","args":["-c","ls -A `+data+` > `+told+`; touch `+data+`/made"]}}}`), 0o600))
	in(t, "", env, "mcp", "test", "x", "--mcp", file, "--data", data) // it fails: the server says nothing
	if got, err := os.ReadFile(told); err != nil || len(got) > 0 {
		t.Errorf("the server sees %q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(data, "made")); err == nil {
		t.Error("the server could write there")
	}
}
