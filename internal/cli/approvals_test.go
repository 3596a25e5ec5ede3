package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/client"
	"steward/internal/catalog"
	"steward/internal/cli/command"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
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

// writer returns the environment of a user whose assistant may write notes with approval.
func writer(t *testing.T) (env []string, notes string) {
	t.Helper()
	env, notes = user(t), t.TempDir()
	set := "providers: {ollama: {off: true}}\nfolders: [{name: notes, path: " + notes + ", write: true}]\n"
	if err := os.WriteFile(filepath.Join(homeOf(env), ".config/steward/steward.yaml"), []byte(set), 0o600); err != nil {
		t.Fatal(err)
	}
	return env, notes
}

// eventually waits until a condition holds.
func eventually(check func() bool) {
	for !check() {
		<-time.After(20 * time.Millisecond)
	}
}

// oneQuestion returns the only waiting question, as the command lists it.
func oneQuestion(t *testing.T, env []string) effect.Question {
	t.Helper()
	var list []effect.Question
	eventually(func() bool {
		code, out, errs := in(t, "", env, "approvals", "list", "--json")
		if code != command.ExitOK {
			t.Fatal(errs)
		}
		list = nil
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Fatal(err)
		}
		return len(list) == 1
	})
	return list[0]
}

func holds(path, text string) func() bool {
	return func() bool {
		b, err := os.ReadFile(path)
		return err == nil && string(b) == text
	}
}

func TestApprovalsOnTheCommandLine(t *testing.T) {
	env, notes := writer(t)
	if code, _, errs := in(t, "", env, "approvals", "list"); code != command.ExitOK || errs != "no action waits for your approval\n" {
		t.Errorf("%d %s", code, errs)
	}
	if code, _, errs := in(t, "", env, "grants", "list"); code != command.ExitOK || errs != "there are no standing approvals\n" {
		t.Errorf("%d %s", code, errs)
	}
	cmd, r := serveFor(t, env)
	ok := func(args ...string) string {
		t.Helper()
		code, out, errs := in(t, "", env, args...)
		if code != command.ExitOK {
			t.Fatalf("%v: %d %s", args, code, errs)
		}
		return out + errs
	}
	fails := func(code string, args ...string) {
		t.Helper()
		if got, out, errs := in(t, "", env, args...); got == command.ExitOK || !strings.Contains(errs, code) {
			t.Errorf("%v: %d %s%s, want %s", args, got, out, errs, code)
		}
	}
	ask := func(text string) effect.Question {
		t.Helper()
		acc := beginWith(t, r, text)
		q := oneQuestion(t, env)
		if !strings.Contains(q.Conversation, acc.Conversation) {
			t.Errorf("it is of %s", q.Conversation)
		}
		return q
	}

	q := ask(`Write "hello" to notes/a.txt`)
	for _, want := range []string{"? Write notes/a.txt, 1 line", "It changes a file.", "tool     files.write", `"path":"notes/a.txt"`, "open until ", "id       " + q.Short, "for      local"} {
		if got := ok("approvals", "show", q.Short[:8]); !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	if got := ok("approvals", "list"); !strings.Contains(got, "ID        ASKED") || !strings.Contains(got, q.Short[:8]+"  just now") || !strings.Contains(got, `you  Write notes/a.txt, 1 line (+1)`) {
		t.Errorf("%s", got)
	}
	fails("approval_unattended", "approvals", "approve", q.Short)
	fails("approval_not_found", "approvals", "approve", "ffff", "--yes")
	fails("grant_other", "approvals", "approve", q.Short, "--yes", "--always", "--pattern", "path like other/*")
	fails("grant_invalid", "approvals", "approve", q.Short, "--yes", "--always", "--pattern", "path")
	fails("choose what it covers", "approvals", "approve", q.Short, "--yes", "--always")
	fails("--pattern, --exactly and --for need", "approvals", "approve", q.Short, "--yes", "--pattern", "path any")
	fails("--edit must be", "approvals", "approve", q.Short, "--yes", "--edit", "{")
	fails("--for must be", "approvals", "approve", q.Short, "--yes", "--always", "--for", "-1h")
	if got := ok("approvals", "approve", q.Short[:8], "--yes", "--edit", `{"path":"notes/a.txt","content":"changed"}`); got != "allowed: Write notes/a.txt, 1 line\n" {
		t.Error(got)
	}
	eventually(holds(filepath.Join(notes, "a.txt"), "changed"))

	if q.Summary != "Write notes/a.txt, 1 line" || len(q.Widths) != 3 || q.Widths[1].Name != "write files in notes" || q.Widths[1].Pattern.String() != "content anything, path like notes/*" {
		t.Errorf("%q %+v", q.Summary, q.Widths)
	}

	q = ask(`Write "no" to notes/n.txt`)
	ok("approvals", "deny", q.Short[:8], "--reason", "not today")
	q = ask(`Write "one" to notes/b.txt`)
	ok("approvals", "approve", q.Short, "--yes", "--always", "--pattern", "path like notes/*", "--pattern", "content any", "--for", "48h")
	eventually(holds(filepath.Join(notes, "b.txt"), "one"))
	beginWith(t, r, `Write "two" to notes/c.txt`)
	eventually(holds(filepath.Join(notes, "c.txt"), "two"))
	if _, err := os.Stat(filepath.Join(notes, "n.txt")); err == nil {
		t.Error("what was denied was done")
	}
	var grants []effect.GrantView
	if err := json.Unmarshal([]byte(ok("grants", "list", "--json")), &grants); err != nil || len(grants) != 1 {
		t.Fatal(grants, err)
	}
	g := grants[0].ID.String()
	if got := ok("grants", "list"); !strings.Contains(got, "active  everywhere") || !strings.Contains(got, "files.write: content anything, path like notes/*") {
		t.Error(got)
	}
	if got := ok("grants", "show", g[:8]); !strings.Contains(got, "only     while nothing private and nothing from others has been read") || !strings.Contains(got, "  path     like notes/*") {
		t.Error(got)
	}
	fails("grant_not_found", "grants", "show", "ffff")
	fails("at least one of the flags", "grants", "edit", g)
	fails("grant_wider", "grants", "edit", g, "--pattern", "path any")
	fails("--for must be", "grants", "edit", g, "--for", "-1h")
	if got := ok("grants", "edit", g, "--pattern", `path is "notes/c.txt"`, "--for", "24h"); !strings.Contains(got, `path     is "notes/c.txt"`) {
		t.Error(got)
	}
	if got := ok("grants", "edit", g, "--pattern", "path like notes/*", "--labels", "private", "--forever", "--yes"); !strings.Contains(got, "forever") || !strings.Contains(got, "while nothing from others has been read") {
		t.Error(got)
	}
	if got := ok("grants", "revoke", g[:8]); got != "you will be asked about files.write again ("+g[:8]+")\n" {
		t.Error(got)
	}
	if got := ok("grants", "list", "--all"); !strings.Contains(got, "revoked") {
		t.Error(got)
	}

	// An answer that is given while Steward is down takes effect at the next start.
	q = ask(`Write "late" to notes/d.txt`)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if again := oneQuestion(t, env); again.ID != q.ID || again.Hash != q.Hash {
		t.Errorf("%+v\n%+v", q, again)
	}
	fails("approval_edit_impossible", "approvals", "approve", q.Short, "--yes", "--edit", `{"path":"notes/e.txt","content":"x"}`)
	fails("grant_not_possible", "approvals", "approve", q.Short, "--yes", "--always")
	if got := ok("approvals", "approve", q.Short, "--yes"); got != "allowed: Write notes/d.txt, 1 line; it continues when Steward runs: steward serve, or steward chat\n" {
		t.Error(got)
	}
	fails("approval_", "approvals", "deny", q.Short)
	if _, err := os.Stat(filepath.Join(notes, "d.txt")); err == nil {
		t.Error("it was done by the command")
	}
	serveFor(t, env)
	eventually(holds(filepath.Join(notes, "d.txt"), "late"))
}

// beginWith sends an attended message to a new conversation.
func beginWith(t *testing.T, r *command.Session, text string) client.Accepted {
	t.Helper()
	acc, err := r.Say(t.Context(), client.Message{Content: terminal.Words(text), ID: id.New().String()})
	if err != nil {
		t.Fatal(err)
	}
	return acc
}
