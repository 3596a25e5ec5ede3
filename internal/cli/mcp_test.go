package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/app"
	"steward/internal/catalog"
	"steward/internal/cli/agents"
	"steward/internal/cli/command"
	"steward/internal/tool"
	"steward/test/locked"
)

// wikiToken is a secret of the user that gives access to the servers of these tests.
const wikiToken = "sesame-open-the-door"

// mcpServer is the program mcpserver: a server over its standard input and
// output. If the variable MCP_PID names a file, it locks the file.
func mcpServer() {
	if file := os.Getenv("MCP_PID"); file != "" {
		// The lock ends with this process. The process id is useless outside its namespace.
		fd, err := syscall.Open(file, syscall.O_CREAT|syscall.O_WRONLY|syscall.O_CLOEXEC, 0o600)
		if err = errors.Join(err, syscall.Flock(fd, syscall.LOCK_EX)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	switch os.Getenv("MCP_MODE") {
	case "die":
		fmt.Fprintln(os.Stderr, "there is no index for", os.Getenv("TOKEN"))
		os.Exit(3)
	case "hang":
		select {}
	}
	if err := wiki(os.Getenv("TOKEN")).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		os.Exit(1)
	}
}

// wiki offers its tools to callers with the token.
func wiki(token string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "wiki", Version: "1"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}}})
	if token != wikiToken {
		return s
	}
	object := json.RawMessage(`{"type":"object"}`)
	say := func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "found"}}}, nil
	}
	s.AddTool(&mcp.Tool{Name: "search", Description: "Searches the wiki.", InputSchema: object, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, say)
	s.AddTool(&mcp.Tool{Name: "save", Description: "Saves a page.", InputSchema: object}, say)
	return s
}

// wikiAt serves the wiki over streamable HTTP, to callers with the token.
func wikiAt(t *testing.T) string {
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return wiki(wikiToken) }, nil)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+wikiToken {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/mcp"
}

func mcpFileOf(env []string) string {
	return filepath.Join(homeOf(env), ".local/share/steward/mcp.json")
}

func fileText(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func putFile(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// hears checks the output of a command.
func hears(t *testing.T, what string, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s: %q is missing in\n%s", what, want, text)
		}
	}
}

func TestMCPServersAreAddedUsedAndRemoved(t *testing.T) {
	url := wikiAt(t)
	for _, where := range []string{"alone", "beside a Steward that runs"} {
		t.Run(where, func(t *testing.T) {
			env := user(t, "WIKI_TOKEN="+wikiToken)
			if where != "alone" {
				serveFor(t, env)
			}
			keepServers(t, env, url)
		})
	}
}

func keepServers(t *testing.T, env []string, url string) {
	file := mcpFileOf(env)
	var said []string
	run := func(args ...string) (int, string, string) {
		code, out, errs := in(t, "", env, append([]string{"mcp"}, args...)...)
		said = append(said, out, errs)
		return code, out, errs
	}
	code, _, errs := run("list")
	if code != command.ExitOK || errs != "there are no MCP servers; steward mcp add NAME -- COMMAND adds one\n" {
		t.Errorf("%d %q", code, errs)
	}
	pid := filepath.Join(t.TempDir(), "pid")
	code, out, errs := run("add", "Team Wiki", "--env", "TOKEN=${WIKI_TOKEN}", "--env", "MCP_PID="+pid, "--yes", "--tool", "team_wiki.save=off", "--", "mcpserver", "--lang", "en")
	if code != command.ExitOK {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	hears(t, "add", errs, "added to "+file+"\n", "mcp:team_wiki is approved\n")
	hears(t, "add", out, "── tool team_wiki.search\n   effect: query\n", "── tool team_wiki.save\n   effect: action\n   asks: before each call\n",
		"! team_wiki runs unconfined, with the files and the network that you have: mcpserver --lang en\n")
	if strings.Contains(out, "team_wiki.search can be taken") {
		t.Error(out)
	}
	hears(t, "the file", fileText(t, file), `"TOKEN": "${WIKI_TOKEN}"`, `"--lang"`)

	code, out, errs = run("add", "far", "--url", url, "--header", "Authorization: Bearer ${WIKI_TOKEN}", "--yes", "--tool", "far.save=ask", "--tool", "far.search=action")
	if code != command.ExitOK {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	_, out, _ = run("list")
	hears(t, "list", out, "mcp:far        approved  2      from "+file+"\n", "mcp:team_wiki  approved  1")
	code, out, _ = run("list", "--json")
	var list []catalog.Listing
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != command.ExitOK || len(list) != 2 || !list[1].Settings["team_wiki.save"].Off ||
		!*list[0].Settings["far.save"].Asks || list[0].Settings["far.search"].Effect != "action" || !list[0].Usable {
		t.Errorf("%d %v %s %s", code, err, out, errs)
	}
	code, out, errs = run("test", "Team Wiki")
	if code != command.ExitOK {
		t.Errorf("%d %s", code, errs)
	}
	hears(t, "test", out, "── declaration\n", "── tool team_wiki.search\n", "   description: Searches the wiki.\n")
	hears(t, "test", errs, "mcp:team_wiki answered in ", "; it is approved\n")
	if code, out, _ := run("test", "mcp:far", "--json"); code != command.ExitOK || !strings.Contains(out, `"far.search"`) {
		t.Errorf("%d %s", code, out)
	}

	// An existing server is left unchanged.
	before := fileText(t, file)
	if code, _, errs := run("add", "teamWiki", "--", "mcpserver"); code != command.ExitFailed || !strings.Contains(errs, "[mcp_server_conflict]") || fileText(t, file) != before {
		t.Errorf("%d %s", code, errs)
	}
	if code, _, errs := run("add", "far", "--url", url); code != command.ExitFailed || !strings.Contains(errs, "[mcp_server_exists]") || fileText(t, file) != before {
		t.Errorf("%d %s", code, errs)
	}
	if code, _, errs := run("remove", "nobody"); code != command.ExitFailed || !strings.Contains(errs, "[mcp_server_unknown]") || fileText(t, file) != before {
		t.Errorf("%d %s", code, errs)
	}
	for _, name := range []string{"Team Wiki", "mcp:far"} {
		if code, out, errs := run("remove", name); code != command.ExitOK || out != name+" is removed\n" {
			t.Errorf("%d %q %s", code, out, errs)
		}
	}
	if text := fileText(t, file); strings.Contains(text, "mcpserver") || strings.Contains(text, url) {
		t.Errorf("they are still there: %s", text)
	}
	if code, _, errs := run("list"); code != command.ExitOK || !strings.HasPrefix(errs, "there are no MCP servers") {
		t.Errorf("%d %s", code, errs)
	}
	if all := strings.Join(said, "\n") + before; strings.Contains(all, wikiToken) {
		t.Error("the secret is told")
	}
	ended(t, pid)
}

// ended waits until the process that has locked a file is gone.
func ended(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
}

func TestMCPServersThatAreWrong(t *testing.T) {
	env := user(t, "WIKI_TOKEN="+wikiToken)
	file := mcpFileOf(env)
	had := "{\n  \"mcpServers\": {\n    \"old\": {\"command\": \"x\", \"note\": \"kept\"}\n  },\n  \"other\": [1, 2]\n}\n"
	for _, c := range []struct {
		had  string // the file's content; empty: an ordinary one
		args []string
		code int
		want []string
	}{
		{args: []string{"add"}, code: command.ExitUsage, want: []string{"NAME is missing: write steward mcp add NAME"}},
		{args: []string{"add", "x"}, code: command.ExitUsage, want: []string{"give a command after the name, or --url"}},
		{args: []string{"add", "x", "--url", "http://h/", "--", "mcpserver"}, code: command.ExitUsage, want: []string{"give a command after the name, or --url"}},
		{args: []string{"add", "x", "--env", "A", "--", "mcpserver"}, code: command.ExitUsage, want: []string{`--env must be NAME=VALUE, not "A"`}},
		{args: []string{"add", "x", "--env", "=v", "--", "mcpserver"}, code: command.ExitUsage, want: []string{"--env must be"}},
		{args: []string{"add", "x", "--url", "http://h/", "--header", "no colon"}, code: command.ExitUsage, want: []string{`--header must be NAME:VALUE`}},
		{args: []string{"add", "x", "--tool", "a=b", "--", "mcpserver"}, code: command.ExitUsage, want: []string{"--tool must be NAME=query"}},
		{args: []string{"add", "x", "--env", "A B=c", "--", "mcpserver"}, code: command.ExitFailed, want: []string{"[mcp_decl_invalid]", `"A B"`}},
		{args: []string{"add", "x", "--url", "ftp://h/"}, code: command.ExitFailed, want: []string{"[mcp_decl_invalid]", "http://"}},
		{args: []string{"add", "x", "--url", "http://me:secret@h/"}, code: command.ExitFailed, want: []string{"[mcp_decl_invalid]", "headers"}},
		{args: []string{"add", "x", "--url", "http://h/", "--sandbox"}, code: command.ExitFailed, want: []string{"[mcp_decl_invalid]", "sandbox"}},
		{args: []string{"add", "x", "--", "bin/server"}, code: command.ExitFailed, want: []string{"[mcp_decl_invalid]", "relative", "absolute path"}},
		{args: []string{"add", "", "--", "mcpserver"}, code: command.ExitFailed, want: []string{"[name_invalid]"}},
		{args: []string{"add", "1st", "--", "mcpserver"}, code: command.ExitFailed, want: []string{"[name_invalid]", "beginning with a letter"}},
		{args: []string{"add", "w\u0456ki", "--", "mcpserver"}, code: command.ExitFailed, want: []string{"[name_invalid]", "U+0456"}},
		{args: []string{"add", "wi\u200bki", "--", "mcpserver"}, code: command.ExitFailed, want: []string{"[name_invalid]", "U+200B"}},
		{args: []string{"add", strings.Repeat("long", 11), "--", "mcpserver"}, code: command.ExitFailed, want: []string{"[name_invalid]", "40"}},
		{args: []string{"add", "OLD", "--", "mcpserver"}, code: command.ExitFailed, want: []string{"[mcp_server_conflict]"}},
		{had: "{ // mine\n  \"mcpServers\": {}\n}\n", args: []string{"add", "x", "--", "mcpserver"}, code: command.ExitFailed, want: []string{"[mcp_servers_invalid]", "comments", file}},
		{had: "{ // mine\n  \"mcpServers\": {\"x\": {}}\n}\n", args: []string{"remove", "x"}, code: command.ExitFailed, want: []string{"[mcp_servers_invalid]"}},
		{had: `{"mcpServers": {"a": `, args: []string{"add", "x", "--", "mcpserver"}, code: command.ExitFailed, want: []string{"[mcp_servers_invalid]", file, `{"mcpServers"`}},
		{had: `{"mcpServers": []}`, args: []string{"add", "x", "--", "mcpserver"}, code: command.ExitFailed, want: []string{"[mcp_servers_invalid]", file}},
		{args: []string{"test", "nobody"}, code: command.ExitFailed, want: []string{"[agent_not_found]", "mcp:nobody"}},
		{args: []string{"test", "\u202e"}, code: command.ExitFailed, want: []string{"[name_invalid]"}},
		{args: []string{"test"}, code: command.ExitUsage, want: []string{"NAME is missing: write steward mcp test NAME"}},
		{args: []string{"remove", "nobody"}, code: command.ExitFailed, want: []string{"[mcp_server_unknown]", "nobody"}},
	} {
		if c.had == "" {
			c.had = had
		}
		putFile(t, file, c.had)
		code, out, errs := in(t, "", env, append([]string{"mcp"}, c.args...)...)
		if code != c.code {
			t.Errorf("%q: %d %s %s", c.args, code, out, errs)
		}
		hears(t, fmt.Sprintf("%q", c.args), errs, c.want...)
		if now := fileText(t, file); now != c.had {
			t.Errorf("%q has changed the file: %s", c.args, now)
		}
	}
	code, _, errs := in(t, "", env, "mcp")
	if code != command.ExitOK || errs != "" {
		t.Errorf("%d %s", code, errs)
	}
	// Adding a server keeps the rest of the file.
	putFile(t, file, had)
	if code, _, errs := in(t, "", env, "mcp", "add", "wiki", "--env", "TOKEN=${WIKI_TOKEN}", "--yes", "--", "mcpserver"); code != command.ExitOK {
		t.Errorf("%d %s", code, errs)
	}
	hears(t, "the file", fileText(t, file), `"note": "kept"`, `"other"`, `"wiki"`)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// TestABrokenFileOfServersIsTold: a file that cannot be read must not look like an
// empty one.
func TestABrokenFileOfServersIsTold(t *testing.T) {
	env := user(t)
	for _, text := range []string{`{"mcpServers": {"a": `, `{"mcpServers": []}`, `[]`, `{"mcpServers": {"1st": {"command": "x"}}}`} {
		putFile(t, mcpFileOf(env), text)
		for _, group := range []string{"mcp", "agents"} {
			code, out, errs := in(t, "", env, group, "list")
			if code != command.ExitOK || !strings.Contains(out, "invalid") || !strings.Contains(out, mcpFileOf(env)+":1:") {
				t.Errorf("%s: steward %s list: %d %s %s", text, group, code, out, errs)
			}
		}
	}
}

func TestMCPServersThatDoNotStart(t *testing.T) {
	env := user(t, "WIKI_TOKEN="+wikiToken)
	kept := "it is stored but not used"
	for name, c := range map[string]struct{ args, want []string }{
		"gone":    {[]string{"--", "no-such-program"}, []string{"[program_not_found]", "no-such-program"}},
		"dies":    {[]string{"--env", "MCP_MODE=die", "--env", "TOKEN=${WIKI_TOKEN}", "--", "mcpserver"}, []string{"[mcp_start_failed]", "there is no index for •••", "run it yourself"}},
		"nothing": {[]string{"--url", "http://127.0.0.1:9/mcp"}, []string{"cannot list the tools of mcp:nothing", "refused"}},
		"closed":  {[]string{"--url", wikiAt(t), "--header", "Authorization: Bearer wrong"}, []string{"[mcp_unauthorized]", "401", "header"}},
		"secret":  {[]string{"--env", "TOKEN=${NOT_SET}", "--", "mcpserver"}, []string{"[mcp_secret_missing]", "NOT_SET"}},
		"math":    {[]string{"--", "mcpserver"}, []string{"[agent_invalid]", "Steward's own"}},
		"page":    {[]string{"--url", notMCP(t)}, []string{"cannot list the tools of mcp:page"}},
	} {
		code, out, errs := in(t, "", env, append([]string{"mcp", "add", name, "--yes"}, c.args...)...)
		if code != command.ExitFailed || strings.Contains(out+errs, wikiToken) {
			t.Errorf("%s: %d %s %s", name, code, out, errs)
		}
		hears(t, name, errs, append(c.want, kept)...)
		if code, _, errs := in(t, "", env, "mcp", "test", name); name != "math" && (code != command.ExitFailed || !strings.Contains(errs, c.want[0])) {
			t.Errorf("test %s: %d %s", name, code, errs)
		}
		if code, _, errs := in(t, "", env, "mcp", "remove", name); code != command.ExitOK {
			t.Errorf("remove %s: %d %s", name, code, errs)
		}
	}
}

// notMCP is a web server that does not speak MCP.
func notMCP(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>Hello</html>") }))
	t.Cleanup(s.Close)
	return s.URL
}

// TestAnMCPServerThatHangsCanBeLeft: Ctrl-C ends the wait and the server.
func TestAnMCPServerThatHangsCanBeLeft(t *testing.T) {
	for _, where := range []string{"alone", "beside a Steward that runs"} {
		t.Run(where, func(t *testing.T) {
			env := user(t)
			if where != "alone" {
				serveFor(t, env)
			}
			pid := filepath.Join(t.TempDir(), "pid")
			signals := make(chan os.Signal, 1)
			var out bytes.Buffer
			var errs locked.Buffer
			a := &program{Program: command.Program{Stdin: strings.NewReader(""), Stdout: &out, App: app.App{Stderr: &errs, Environ: env, Dir: t.TempDir()}}, signals: signals, exit: func(int) { t.Error("ended at once") }}
			go func() {
				for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
					if _, err := os.Stat(pid); err == nil {
						break
					}
				}
				signals <- os.Interrupt
			}()
			code := a.run(context.Background(), []string{"mcp", "add", "hangs", "--yes", "--env", "MCP_MODE=hang", "--env", "MCP_PID=" + pid, "--", "mcpserver"})
			if code != command.ExitInterrupted || strings.Contains(errs.String(), "cannot list the tools") { // which is reported only without an interrupt
				t.Errorf("%d %s", code, &errs)
			}
			hears(t, "left", errs.String(), "it is stored but not used", "steward: interrupted\n")
			if where == "alone" {
				ended(t, pid)
			}
			if code, _, errs := in(t, "", env, "mcp", "remove", "hangs"); code != command.ExitOK {
				t.Errorf("%d %s", code, errs)
			}
			if code, _, errs := in(t, "", env, "mcp", "list"); code != command.ExitOK || !strings.HasPrefix(errs, "there are no MCP servers") {
				t.Errorf("%d %s", code, errs)
			}
			ended(t, pid)
		})
	}
}

// TestNamesOfServers: the path of a server ends with the word that begins the names
// of its tools.
func TestNamesOfServers(t *testing.T) {
	for _, name := range []string{"docs", "Team Wiki", "HTTPServer", "brave-search", "@scope/pkg", "GitHub", "x2Y", "a__b"} {
		path, err := agents.MCPSource(name)
		word, other := tool.Word(name)
		if err != nil || other != nil || path != "mcp:"+word {
			t.Errorf("%s: %s, %s, %v, %v", name, path, word, err, other)
		}
	}
}

// A known server needs its name alone, and says which secrets it needs.
func TestAKnownServerIsAdded(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "npx"), []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	env := user(t)
	code, _, errs := in(t, "", env, "mcp", "add", "github")
	if code == command.ExitOK || !strings.Contains(errs, "github needs GITHUB_PERSONAL_ACCESS_TOKEN: a personal access token") || !strings.Contains(errs, "steward secrets set GITHUB_PERSONAL_ACCESS_TOKEN") {
		t.Errorf("%d %s", code, errs)
	}
	code, _, errs = in(t, "", env, "mcp", "add", "filesystem", "--folder", bin, "--yes")
	if code == command.ExitOK || !strings.Contains(errs, "it is stored but not used") { // this npx starts nothing
		t.Errorf("%d %s", code, errs)
	}
	_, out, _ := in(t, "", env, "mcp", "list")
	if !strings.Contains(out, "filesystem") || strings.Contains(out, "github") {
		t.Error(out)
	}
	code, _, errs = in(t, "", env, "mcp", "add", "nothing")
	if code != command.ExitUsage || !strings.Contains(errs, "these need neither: github, filesystem") {
		t.Errorf("%d %s", code, errs)
	}
}
