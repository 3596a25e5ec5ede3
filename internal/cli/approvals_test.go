package cli

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"steward/client"
	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/server/auth"
	"steward/internal/terminal"
)

// Waiting yields what waits from a remote server, even after a broken connection.
func TestWhatWaitsIsToldFromElsewhere(t *testing.T) {
	env := user(t)
	dir := agentFolder(t, env)
	cmd, r := serveFor(t, env)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	about := func(what string, in map[string]string) (l catalog.Inspection, err error) {
		return l, r.Call(ctx, "POST /agents/"+what, nil, in, &l)
	}
	n := 0
	for list, err := range terminal.Waiting(ctx, r.Client) {
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for _, l := range list {
			paths = append(paths, l.Path)
		}
		switch got := strings.Join(paths, " "); {
		case n == 0 && got == "chores chores/helper":
			n++
			if l, err := about("deny", map[string]string{"path": "chores/helper"}); err != nil || l.Status != catalog.Denied {
				t.Fatal(l, err)
			}
		case n == 1 && got == "chores":
			n++
			insp, err := about("inspect", map[string]string{"path": "chores"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := about("approve", map[string]string{"path": "chores", "hash": "123"}); !fault.HasCode(err, "agent_changed") {
				t.Error(err)
			}
			if l, err := about("approve", map[string]string{"path": "chores", "hash": insp.Hash}); err != nil || !l.Usable {
				t.Fatal(l, err)
			}
		case n == 2 && got == "":
			n++
			writeAgent(t, dir, "late/agent.yaml", "name: late\ndescription: Comes while it runs.\n")
		case n == 3 && got == "late":
			n++
			cancel()
		}
	}
	if n != 4 {
		t.Errorf("it came to %d", n)
	}
	if cmd.ProcessState != nil {
		t.Error("Steward has ended")
	}

	// A caller without a valid key gets an error.
	stranger := client.New(client.Options{URL: r.URL(), HTTP: &http.Client{Transport: &http.Transport{}}, Fault: auth.FaultOf,
		Token: func() (string, error) { return "sk-steward-none", nil }})
	defer stranger.Close()
	for _, err := range terminal.Waiting(t.Context(), stranger) {
		if fault.Of(err) == nil || !fault.Is(err, fault.Unauthentic) {
			t.Errorf("%v", err)
		}
	}
}
