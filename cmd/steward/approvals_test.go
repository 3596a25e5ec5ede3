package main

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/client"
	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/server/httpauth"
	"steward/internal/server/terminal"
)

// answer presses a key after the keyboard was idle.
func (x *tmux) answer(key string) {
	x.t.Helper()
	<-time.After(700 * time.Millisecond)
	x.keys(key)
}

func TestTheChatAsksAboutAgents(t *testing.T) {
	env := user(t, "WIKI_TOKEN="+wikiToken)
	dir := agentFolder(t, env)
	x := newTmux(t, 80, 24, env, "chat")
	x.wait("? chores (an agent with 1 below it) waits for your approval. Look at it? y/n")
	x.answer("y")
	x.wait("chores  pending", "! change something", "── tool state.put", "chores/helper  pending", "To be allowed:", "? Allow these 2 as they are? y/n")
	x.answer("y")
	x.wait("✓ chores is allowed, with the 1 below it")
	x.say("/agents")
	x.wait("broken", "invalid", "chores/helper  approved")

	// Two open chats ask about a new source, and an approval in one counts in both.
	y := newTmux(t, 60, 20, env, "chat")
	y.wait("joined the Steward at")
	putFile(t, mcpFileOf(env), `{"mcpServers":{"Wiki":{"command":"mcpserver","env":{"TOKEN":"${WIKI_TOKEN}"}}}}`)
	x.wait("? mcp:wiki (an MCP server) waits for your approval. Look at it? y/n")
	y.wait("? mcp:wiki (an MCP server) waits for your approval.")
	x.answer("n")
	x.wait("not now: mcp:wiki; /approve mcp:wiki asks again")
	y.answer("y")
	screen := y.wait("mcp:wiki  pending", "runs unconfined", "── tool wiki.search", "effect: query", "? Allow mcp:wiki as it is (2 tools, 1 warning)? y/n")
	if strings.Contains(screen, wikiToken) {
		t.Errorf("it tells a secret:\n%s", screen)
	}
	y.answer("y")
	y.wait("✓ mcp:wiki is allowed")
	x.say("/agents")
	x.wait("mcp:wiki       approved")

	// A changed byte is shown as a diff.
	writeAgent(t, dir, "chores/agents/helper/PROMPT.md", "Be \u202eevil.\n")
	x.wait("? chores/helper (an agent) is not as you approved it any more.")
	x.answer("y")
	x.wait("Otherwise than you approved:", "+Be ‹U+202E›evil.", "! PROMPT.md holds characters that are not seen", "? Allow chores/helper as it is")
	y.wait("? chores/helper (an agent) is not as you approved it any", "more. Look at what has changed? y/n")
	y.answer("d")
	y.wait("✗ chores/helper is denied")
	x.wait("chores/helper was decided about elsewhere")
	for _, z := range []*tmux{y, x} {
		z.say("/quit")
		z.ended()
	}
	if code, out, _ := in(t, "", env, "agents", "list"); code != exitOK || !strings.Contains(out, "  helper  denied") || !strings.Contains(out, "mcp:wiki  approved") {
		t.Errorf("%d %s", code, out)
	}
}

func TestServeOnATerminalOnlyTells(t *testing.T) {
	env := user(t)
	dir := agentFolder(t, env)
	x := newTmux(t, 130, 30, env, "serve")
	x.wait("2 agents wait for your approval: steward agents list")
	writeAgent(t, dir, "late/agent.yaml", "name: late\ndescription: Comes while it runs.\n")
	x.wait("steward: late waits for your approval: steward agents approve late")
	if code, _, errs := in(t, "", env, "agents", "approve", "late", "--yes"); code != exitOK {
		t.Fatal(errs)
	}
	writeAgent(t, dir, "late/agent.yaml", "name: late\ndescription: Is another one.\n")
	x.wait("steward: late is not as it was approved any more, and waits for your approval: steward agents approve late")
	n, err := readNotice(filepath.Join(homeOf(env), ".local/share/steward"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n.PID, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	x.ended()
	if screen := x.screen(); strings.Contains(screen, "chores waits") {
		t.Errorf("it told twice what waited at the start:\n%s", screen)
	}
}

// Waiting yields what waits from a remote server, even after a broken connection.
func TestWhatWaitsIsToldFromElsewhere(t *testing.T) {
	env := user(t)
	dir := agentFolder(t, env)
	cmd, r := serveFor(t, env)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
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
	stranger := client.New(client.Options{URL: r.URL(), HTTP: &http.Client{Transport: &http.Transport{}}, Fault: httpauth.FaultOf,
		Token: func() (string, error) { return "sk-steward-none", nil }})
	defer stranger.Close()
	for _, err := range terminal.Waiting(t.Context(), stranger) {
		if fault.Of(err) == nil || !fault.Is(err, fault.Unauthentic) {
			t.Errorf("%v", err)
		}
	}
}
