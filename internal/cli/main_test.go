package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	thermostathome "steward/examples/thermostat/home"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/extract"
	"steward/internal/sandbox"
	"steward/internal/server/auth"
	"steward/test/fresh"
	"steward/test/locked"
)

// TestMain lets this test binary also be the programs of scripts and tests: the
// command steward runs start in a separate process, and the other commands are
// programs that Steward runs.
func TestMain(m *testing.M) {
	if code, mine := sandbox.Inside(os.Args); mine {
		os.Exit(code)
	}
	if code, mine := extract.Inside(os.Args, os.Stdin, os.Stdout); mine {
		os.Exit(code)
	}
	testscript.Main(m, map[string]func(){"steward": func() { Main("unknown") }, "mcpserver": mcpServer, "clerk": clerk, "desk": desk, "thermostat": thermostat})
}

// thermostat is the server of docs/guides/headless.md.
func thermostat() {
	if err := thermostathome.Serve(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			vars, err := fresh.Home(filepath.Join(e.WorkDir, "home"))
			e.Vars = append(e.Vars, vars...)
			e.Values[environ{}] = e.Vars
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"here": here, "await": await, "setid": setID, "occupy": occupy, "hang-up": hangUp, "poke": poke,
		},
		RequireUniqueNames: true,
	})
}

// environ is the key of a script's first environment.
type environ struct{}

// here steward ARGS… runs the program in this process, without standard input and in
// the environment that the script began with. It costs a fraction of exec, with which
// a script runs the program in a process of its own.
func here(ts *testscript.TestScript, neg bool, args []string) {
	var errs locked.Buffer // the log writes to it as well
	a := &program{Program: command.Program{Stdin: strings.NewReader(""), Stdout: ts.Stdout(), App: app.App{Stderr: &errs, Environ: ts.Value(environ{}).([]string), Dir: ts.MkAbs("."), Version: "test"}}}
	code := a.run(context.Background(), args[1:])
	io.WriteString(ts.Stderr(), errs.String()) //nolint:errcheck // a buffer in memory
	if (code != command.ExitOK) != neg {
		ts.Fatalf("unexpected exit code %d", code)
	}
}

// await FILE waits until a file exists.
func await(ts *testscript.TestScript, _ bool, args []string) {
	file := ts.MkAbs(args[0])
	for {
		if _, err := os.Stat(file); err == nil {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

// setid VAR MEMBER sets a variable to a member of the JSON object on the last
// standard output or, if that is a list, of its first element.
func setID(ts *testscript.TestScript, _ bool, args []string) {
	text := strings.TrimSpace(ts.ReadFile("stdout"))
	var one map[string]any
	var list []map[string]any
	if json.Unmarshal([]byte(text), &list) == nil && len(list) > 0 {
		one = list[0]
	} else if err := json.Unmarshal([]byte(text), &one); err != nil {
		ts.Fatalf("no JSON: %v\n%s", err, text)
	}
	value, ok := one[args[1]].(string)
	if !ok {
		ts.Fatalf("no %s in %s", args[1], text)
	}
	ts.Setenv(args[0], value)
}

// occupy VAR occupies a port until the script ends.
func occupy(ts *testscript.TestScript, _ bool, args []string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { ts.Check(ln.Close()) })
	ts.Setenv(args[0], ln.Addr().String())
}

// hang-up SIGNAL sends a signal to the program in the background.
func hangUp(ts *testscript.TestScript, _ bool, args []string) {
	for _, c := range ts.BackgroundCmds() {
		ts.Check(c.Process.Signal(os.Interrupt))
	}
}

// poke FILE PATH fetches a path of the server whose notice is in FILE, with the
// token in the same folder.
func poke(ts *testscript.TestScript, neg bool, args []string) {
	var n app.Notice
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &n))
	token, err := auth.ReadToken(filepath.Dir(ts.MkAbs(args[0])))
	ts.Check(err)
	res, err := httpGet(n.URL+args[1], token)
	ts.Check(err)
	if good := res < 400; good == neg {
		ts.Fatalf("%s: %d", args[1], res)
	}
}

// in runs the program in this process.
func in(t *testing.T, stdin string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out bytes.Buffer
	var err locked.Buffer
	a := &program{Program: command.Program{Stdin: strings.NewReader(stdin), Stdout: &out, JoinFor: time.Millisecond, App: app.App{Stderr: &err, Environ: env, Dir: t.TempDir(), Version: "test", ProbeTimeout: time.Hour, ListTimeout: time.Hour}}}
	code = a.run(context.Background(), args)
	return code, out.String(), err.String()
}

// user returns the environment of a fresh user.
func user(t *testing.T, more ...string) []string {
	t.Helper()
	return fresh.User(t, more...)
}

// buildProgram prepares the program in a separate process.
func buildProgram(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("steward")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Dir = env, t.TempDir()
	return cmd
}

func TestExitCodesOfScripts(t *testing.T) {
	for want, args := range map[int][]string{command.ExitOK: {"version"}, command.ExitUsage: {"nonsense"}, command.ExitFailed: {"conversations", "show", "last"}} {
		cmd := buildProgram(t, user(t), args...)
		err := cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Errorf("%v: %d, want %d (%v)", args, code, want, err)
		}
	}
}

func httpGet(url, token string) (int, error) {
	ctx := context.Background()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}
