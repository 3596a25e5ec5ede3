//go:build long

package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/test/locked"
)

// tmux is a terminal of a given size that runs a program, as a person sees it.
type tmux struct {
	t      *testing.T
	socket string
}

func newTmux(t *testing.T, width, height int, env []string, args ...string) *tmux {
	t.Helper()
	path, err := exec.LookPath("steward")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "tmux") // a short path, because that of a socket is limited
	if err != nil {
		t.Fatal(err)
	}
	x := &tmux{t, filepath.Join(dir, "s")}
	t.Cleanup(func() {
		x.do("kill-server")
		os.RemoveAll(dir)
	})
	line := []string{"-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), "env", "-i", "TERM=screen-256color", "LANG=C.UTF-8"}
	script := `"$@"; echo "it ended with $?"; exec sleep 600`
	line = append(append(append(line, env...), "sh", "-c", script, "sh", path), args...)
	if out, err := x.do(line...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return x
}

func (x *tmux) do(args ...string) (string, error) {
	cmd := exec.Command("tmux", append([]string{"-u", "-S", x.socket}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// screen returns the text on the screen and in the scrollback.
func (x *tmux) screen() string {
	x.t.Helper()
	out, err := x.do("capture-pane", "-p", "-S", "-1000")
	if err != nil {
		x.t.Fatalf("%v: %s", err, out)
	}
	return out
}

// wait waits until all of the texts are on the screen, and returns the screen.
// Earlier text counts as well: see done.
func (x *tmux) wait(texts ...string) string {
	x.t.Helper()
	return x.until(func(screen string) (missing string) {
		for _, w := range texts {
			if !strings.Contains(screen, w) {
				missing = w
			}
		}
		return missing
	})
}

// until waits until nothing is missing, and returns the screen.
func (x *tmux) until(missing func(screen string) string) string {
	x.t.Helper()
	told := time.Now()
	for {
		screen := x.screen()
		what := missing(screen)
		if what == "" {
			return screen
		}
		if time.Since(told) > time.Minute { // the end of the test run shows no screen
			x.t.Logf("%q has not come yet:\n%s", what, screen)
			told = time.Now()
		}
		<-time.After(50 * time.Millisecond)
	}
}

// done waits until all of the texts are on the screen, in order and below the last
// input, and the chat shows that nothing is being sent and no turn runs. Input before
// that would go to the running turn.
func (x *tmux) done(said string, texts ...string) string {
	x.t.Helper()
	return x.until(func(screen string) string {
		rest := screen[max(strings.LastIndex(screen, said), 0):]
		for _, w := range append([]string{said}, texts...) {
			var ok bool
			if _, rest, ok = strings.Cut(rest, w); !ok {
				return w
			}
		}
		for _, w := range []string{"sending: ", "Esc stops"} {
			if strings.Contains(rest, w) { // text above may be from before the first frame
				return "rest"
			}
		}
		return ""
	})
}

// ended waits until the program has ended successfully.
func (x *tmux) ended() {
	x.t.Helper()
	x.wait("it ended with 0")
}

func (x *tmux) keys(keys ...string) {
	x.t.Helper()
	if out, err := x.do(append([]string{"send-keys"}, keys...)...); err != nil {
		x.t.Fatalf("%v: %s", err, out)
	}
}

func (x *tmux) say(text string) { x.keys("-l", text); x.keys("Enter") }

func TestTheChatOnAScreen(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {40, 12}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) { onScreen(t, size[0], size[1]) })
	}
}

func onScreen(t *testing.T, width, height int) {
	v := newVendor(t)
	env := v.env(t)
	notes := t.TempDir()
	if err := os.WriteFile(filepath.Join(homeOf(env), ".config/steward/steward.yaml"),
		[]byte("providers: {ollama: {off: true}}\nfolders: [{name: notes, path: "+notes+", write: true}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	x := newTmux(t, width, height, env, "chat")
	x.wait("serving at http://127.0.0.1:", "Ask something, or /help")
	x.say("show markdown")
	screen := x.done("› show markdown", "• one", "• two", "The end.", "openai/gpt-5.4")
	if strings.Count(screen, "• one") != 1 || strings.Contains(screen, "**") {
		t.Errorf("drawn twice, or not at all:\n%s", screen)
	}
	x.say("write a.txt")
	x.wait("? Write notes/a.txt, 1 line", "content  ! invisible characters:", "text<U+202E>", "Allow it? y/n/c/p/e/r/d")
	x.answer("y")
	x.done("allowed: Write notes/a.txt, 1 line", "✓ Write notes/a.txt, 1 l", "· files.write", "The tool said:", "openai/gpt-5.4")
	if _, err := os.Stat(filepath.Join(notes, "a.txt")); err != nil {
		t.Error(err)
	}
	x.say("please hang")
	<-v.asked
	x.wait("Hanging about", "Esc stops")
	x.keys("Escape")
	<-v.gone
	x.wait("stopped · ")
	x.say("/model")
	x.wait("openai/newer", "type to filter")
	x.keys("Escape")
	// A terminal takes Escape and a key right behind it for Alt and the key.
	x.until(func(screen string) string {
		if strings.Contains(screen, "type to filter") {
			return "the end of the list"
		}
		return ""
	})
	x.say("/tools")
	x.wait("[action]", "text.hash")

	// A second chat joins, and both show the same.
	y := newTmux(t, width, height, env, "chat", "--continue")
	y.wait("joined the Steward at", "› please hang")
	y.say("from the other side")
	x.done("› from the other side", "You said: from the other side", "openai/gpt-5.4")
	y.done("› from the other side", "You said: from the other side", "openai/gpt-5.4")
	y.say("/title Both")
	y.wait("the title is now: Both")
	y.keys("C-d")
	y.ended()
	x.keys("C-c") // a single Ctrl-C does not end the chat
	x.say("/quit")
	x.ended()
	screen = x.screen()
	if strings.Contains(screen, "model: ▏") {
		t.Errorf("the list has left something behind:\n%s", screen)
	}
	for line := range strings.SplitSeq(screen, "\n") {
		if len([]rune(line)) > width {
			t.Errorf("too wide: %q", line)
		}
	}
}

func TestDoctorOnAScreen(t *testing.T) {
	env := user(t)
	x := newTmux(t, 100, 40, env, "doctor")
	x.wait("ok    terminal   screen-256color, 100 by 40")
	x = newTmux(t, 100, 40, append(env, "LC_ALL=C"), "doctor")
	x.wait("warn  terminal", "is not UTF-8")
	x = newTmux(t, 30, 40, env, "doctor")
	x.wait("warn  terminal", "make it at")
}

func TestAPersonIsAskedAtTheTerminal(t *testing.T) {
	env := user(t)
	agentFolder(t, env)
	x := newTmux(t, 100, 40, env, "agents", "approve", "chores")
	x.wait("May chores be used as it is shown? [y/N]")
	x.keys("y", "Enter")
	x.wait("chores is approved", "it ended with 0")
	x = newTmux(t, 100, 40, env, "agents", "approve", "--all")
	x.wait("May chores/helper be used as it is shown? [y/N]")
	x.keys("n", "Enter")
	x.wait("chores/helper is not approved", "it ended with 1")
}

func TestDeletingAsks(t *testing.T) {
	env := user(t)
	if code, _, errs := in(t, "", env, "ask", "-q", "What is 6 times 7?"); code != command.ExitOK {
		t.Fatal(errs)
	}
	x := newTmux(t, 80, 24, env, "conversations", "delete", "last")
	x.wait("What is 6 times 7?", "delete? [y/N]")
	x.say("n")
	x.wait("nothing was deleted", "it ended with 1")
	x = newTmux(t, 80, 24, env, "conversations", "delete", "last")
	x.wait("delete? [y/N]")
	x.say("y")
	x.wait("deleted ", "it ended with 0")
}

// A chat and another one that joined it show the same versions of the messages.
func TestVersionsOnAScreen(t *testing.T) {
	env := user(t)
	x := newTmux(t, 80, 50, env, "chat")
	x.wait("Ask something")
	x.say("What is 6 times 7?")
	x.done("› What is 6 times 7?", "Multiply (a 6, b 7): 42.", "offline provider: rules")
	y := newTmux(t, 120, 50, env, "chat", "--continue")
	y.wait("joined the Steward at", "› What is 6 times 7?")
	y.say("/again")
	y.done("another answer:", "this answer (2 of 2)")
	x.wait("this answer (2 of 2)")
	y.say("/edit What is 6 times 8?")
	y.done("› What is 6 times 8?", "Multiply (a 6, b 8): 48.", "your message (2 of 2)")
	x.wait("› What is 6 times 8?", "your message (2 of 2)")
	y.say("/branches")
	y.wait("  1  4 messages  What is 6 times 7?", "  2  4 messages  └─ Multiply", "* 3  4 messages  What is 6 times 8?")
	y.say("/switch 1")
	y.wait("the conversation continues from here:", "your message (1 of 2), this answer (1 of 2)")
	y.say("/pin")
	y.wait("pinned: your last message")
	y.say("/log")
	y.wait("Multiply 6 by 7")
	y.say("/compact")
	y.wait("nothing to summarise")
	y.say(`Hash "x"`)
	y.done(`› Hash "x"`, "Hash (text x):", "offline provider: rules")
	x.done(`› Hash "x"`, "Hash (text x):", "offline provider: rules")
	y.say("/rewind withdraw")
	y.wait("back before: Hash", "The later messages are kept")
	y.keys("C-u")
	y.say("/rewind")
	y.wait("back before: What is 6 times 7?")
	y.keys("C-u")
	y.say("/rewind")
	y.wait("you have not sent that many messages here")
	x.say("/next")
	x.wait("there is no other version after this one")
	y.keys("C-d")
	y.ended()
	x.keys("C-d")
	x.ended()
	if code, out, errs := in(t, "", env, "branch", "list"); code != command.ExitOK || strings.Count(out, "\n") != 5 || !strings.Contains(out, "rewound") {
		t.Errorf("%d %s %s", code, out, errs)
	}
}

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
	x.wait("chores  pending", "! these tools change things", "── tool state.put", "chores/helper  pending", "To be allowed:", "? Allow these 2 as they are? y/n")
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
	x.wait("? chores/helper (an agent) has changed since you approved it.")
	x.answer("y")
	x.wait("Changed since you approved it:", "+Be ‹U+202E›evil.", "! PROMPT.md contains invisible characters", "? Allow chores/helper as it is")
	y.wait("? chores/helper (an agent) is not as you approved it any", "more. Look at what has changed? y/n")
	y.answer("d")
	y.wait("✗ chores/helper is denied")
	x.wait("chores/helper was decided elsewhere")
	for _, z := range []*tmux{y, x} {
		z.say("/quit")
		z.ended()
	}
	if code, out, _ := in(t, "", env, "agents", "list"); code != command.ExitOK || !strings.Contains(out, "  helper  denied") || !strings.Contains(out, "mcp:wiki  approved") {
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
	if code, _, errs := in(t, "", env, "agents", "approve", "late", "--yes"); code != command.ExitOK {
		t.Fatal(errs)
	}
	writeAgent(t, dir, "late/agent.yaml", "name: late\ndescription: Is another one.\n")
	x.wait("steward: late has changed since its approval, and waits for your approval: steward agents approve late")
	n, err := app.ReadNotice(filepath.Join(homeOf(env), ".local/share/steward"))
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

// at runs the program in this process, with typed input from a terminal.
func at(t *testing.T, typed string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	person, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(person.Close(), tty.Close()); err != nil {
			t.Error(err)
		}
	}()
	if _, err := person.WriteString(typed); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	var errs locked.Buffer
	a := &program{Program: command.Program{Stdin: tty, Stdout: &out, App: app.App{Stderr: &errs, Environ: env, Dir: t.TempDir(), Version: "test"}}}
	code = a.run(context.Background(), args)
	return code, out.String(), errs.String()
}

// The code of an error is for searching and for programs: at a terminal it stays in the background.
func TestCodesAreDimmed(t *testing.T) {
	wrong := fault.New(fault.NotFound, "agent_not_found", "there is no agent \x1b[31mx").WithHint("steward agents list")
	for term, want := range map[string]string{
		"xterm": "steward: there is no agent ␛[31mx \x1b[2m[agent_not_found]\x1b[22m\r\n  steward agents list\r\n",
		"dumb":  "steward: there is no agent ␛[31mx [agent_not_found]\r\n  steward agents list\r\n",
	} {
		person, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		a := &program{Program: command.Program{App: app.App{Stderr: app.Screened(tty), Environ: []string{"TERM=" + term}}}}
		a.Explain(wrong, "steward")
		if _, err := tty.WriteString("\x00"); err != nil {
			t.Fatal(err)
		}
		said, err := bufio.NewReader(person).ReadString(0)
		if said = strings.TrimSuffix(said, "\x00"); err != nil || said != want {
			t.Errorf("%s: %q, %v; want %q", term, said, err, want)
		}
		if err := errors.Join(tty.Close(), person.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestMCPServersAreAskedFor(t *testing.T) {
	env := user(t, "WIKI_TOKEN="+wikiToken)
	add := []string{"mcp", "add", "wiki", "--env", "TOKEN=${WIKI_TOKEN}", "--", "mcpserver"}
	kept := "it is stored but not used: steward mcp test wiki tests it, steward agents approve mcp:wiki approves it, steward mcp remove wiki removes it\n"
	state := func(want string) {
		t.Helper()
		if code, out, errs := in(t, "", env, "mcp", "list"); code != command.ExitOK || !strings.Contains(out, "mcp:wiki  "+want) {
			t.Errorf("%d %s %s", code, out, errs)
		}
	}
	// A yes from a pipe does not count.
	code, out, errs := in(t, "y\n", env, add...)
	if code != command.ExitFailed || !strings.Contains(out, "── tool wiki.save\n") {
		t.Errorf("%d %s", code, out)
	}
	hears(t, "at a pipe", errs, "approving mcp:wiki requires a terminal to ask at", "add --yes", "[approval_unattended]", kept)
	state("pending")
	for _, no := range []string{"n\n", "\n", "yes?\n", "\x04"} {
		code, _, errs = at(t, no, env, "agents", "approve", "mcp:wiki")
		if code != command.ExitFailed || !strings.Contains(errs, "May mcp:wiki be used as it is shown? [y/N] mcp:wiki is not approved\n") {
			t.Errorf("%q: %d %s", no, code, errs)
		}
		state("pending")
	}
	code, _, errs = at(t, "Y\n", env, "agents", "approve", "mcp:wiki")
	if code != command.ExitOK || !strings.HasSuffix(errs, "mcp:wiki is approved\n") {
		t.Errorf("%d %s", code, errs)
	}
	state("approved")
	if code, _, errs := in(t, "", env, "mcp", "remove", "wiki"); code != command.ExitOK {
		t.Errorf("%d %s", code, errs)
	}
	// A server that was approved before and is unchanged needs approval again
	// when it is added again. A no leaves its status unchanged.
	code, out, errs = at(t, "n\n", env, add...)
	if code != command.ExitFailed {
		t.Errorf("%d %s", code, out)
	}
	hears(t, "no", errs, "mcp:wiki is not approved\n", kept)
	code, _, errs = at(t, "y\n", env, "agents", "approve", "mcp:wiki")
	if code != command.ExitOK {
		t.Errorf("%d %s", code, errs)
	}
	// A server with another command is a different one.
	text := strings.Replace(fileText(t, mcpFileOf(env)), `"mcpserver"`, `"mcpserver", "args": ["--all"]`, 1)
	putFile(t, mcpFileOf(env), text)
	state("changed")
	_, out, _ = at(t, "n\n", env, "agents", "approve", "mcp:wiki")
	hears(t, "what has changed", out, "Changed since you approved it:\n", `+`, "--all")
}
