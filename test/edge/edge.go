// Package edge drives the built steward binary in tests: it starts "steward
// serve" on its own data folder, runs commands next to it, and talks to its
// sockets as an external client.
//
// A test package that uses it needs
//
//	func TestMain(m *testing.M) { os.Exit(edge.Main(m)) }
package edge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/test/built"
	"steward/test/leak"
)

var binary string

// Main builds the binary, runs the tests and returns the exit code.
func Main(m *testing.M) int {
	var err error
	if binary, err = built.Program("steward/cmd/steward"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := runTests(m)
	if err := leak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Binary returns the path of the built binary.
func Binary() string { return binary }

// Options configure a Node. With the zero value the node has only the offline
// model.
type Options struct {
	Model    http.Handler // a fake OpenAI server; see Script
	Settings string       // the content of the user's steward.yaml
	Env      []string     // additional environment variables, as NAME=value
	SQLite   bool         // the test is about the files of SQLite, so the store is never another
}

// Node is a data folder and the Steward that serves it between Serve and Stop.
type Node struct {
	T   testing.TB
	Dir string // the home and working folder
	URL string // base URL of the served Steward
	Env []string

	model string
	cmd   *exec.Cmd
	done  chan struct{} // closed when cmd has ended
	err   error         // set before done is closed
	log   lockedBuffer
}

// New prepares a node. Nothing runs until Serve or Run.
func New(t testing.TB, o Options) *Node {
	t.Helper()
	n := &Node{T: t, Dir: t.TempDir()}
	n.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.Dir, "STEWARD_DATA=" + n.Data(), "STEWARD_LISTEN=127.0.0.1:0",
		"OLLAMA_HOST=127.0.0.1:1", "NO_COLOR=1"}
	if o.Model != nil {
		s := httptest.NewServer(o.Model)
		t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
		n.model = s.URL
		n.Env = append(n.Env, "OPENAI_API_KEY=test-key", "OPENAI_BASE_URL="+s.URL+"/v1")
	}
	if !o.SQLite {
		n.Env = append(n.Env, storeOf(t)...)
	}
	n.Env = append(n.Env, o.Env...)
	if o.Settings != "" {
		n.Write(o.Settings, ".config", "steward", "steward.yaml")
	}
	return n
}

// Serve prepares a node and starts it.
func Serve(t testing.TB, o Options) *Node {
	t.Helper()
	n := New(t, o)
	n.Serve()
	return n
}

// Data returns a path in the data folder.
func (n *Node) Data(names ...string) string {
	return filepath.Join(append([]string{n.Dir, "data"}, names...)...)
}

// Write writes an executable file below Dir and returns its path.
func (n *Node) Write(text string, names ...string) string {
	n.T.Helper()
	path := filepath.Join(append([]string{n.Dir}, names...)...)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o700)); err != nil {
		n.T.Fatal(err)
	}
	return path
}

// Serve starts "steward serve --json" with additional arguments and waits until
// it reports its address. It is stopped when the test ends.
func (n *Node) Serve(args ...string) {
	n.T.Helper()
	n.cmd = exec.Command(binary, append([]string{"serve", "--json"}, args...)...)
	n.start()
}

// Work starts "steward worker --json" and waits until it works. It is stopped when the
// test ends.
func (n *Node) Work(args ...string) {
	n.T.Helper()
	n.cmd = exec.Command(binary, append([]string{"worker", "--json"}, args...)...)
	n.start()
}

// ServeUnder is Serve under a program such as "prlimit" or "systemd-run".
func (n *Node) ServeUnder(prefix []string, args ...string) {
	n.T.Helper()
	all := append(append(append([]string{}, prefix[1:]...), binary, "serve", "--json"), args...)
	n.cmd = exec.Command(prefix[0], all...)
	n.start()
}

func (n *Node) start() {
	n.T.Helper()
	n.cmd.Env, n.cmd.Dir, n.cmd.Stderr = n.Env, n.Dir, &n.log
	out, err := n.cmd.StdoutPipe()
	if err == nil {
		err = n.cmd.Start()
	}
	if err != nil {
		n.T.Fatal(err)
	}
	n.done = make(chan struct{})
	var notice struct{ URL string }
	if err := json.NewDecoder(out).Decode(&notice); err != nil {
		n.T.Fatalf("steward serve: %v, %v: %s", err, n.cmd.Wait(), n.log.String())
	}
	cmd, done := n.cmd, n.done
	go func() {
		io.Copy(io.Discard, out) //nolint:errcheck // whatever else it prints
		n.err = cmd.Wait()
		close(done)
	}()
	n.URL = notice.URL
	n.T.Cleanup(n.Stop)
}

// Alive reports whether the served Steward is still running.
func (n *Node) Alive() bool {
	select {
	case <-n.done:
		return false
	default:
		return n.cmd != nil
	}
}

// PID returns the id of the process that Serve started.
func (n *Node) PID() int { return n.cmd.Process.Pid }

// Log returns what the served Steward has written to standard error so far.
func (n *Node) Log() string { return n.log.String() }

// Stop ends the served Steward as Ctrl-C does. A non-zero exit code fails the
// test.
func (n *Node) Stop() {
	n.T.Helper()
	if n.cmd == nil {
		return
	}
	if n.Alive() {
		if err := n.cmd.Process.Signal(os.Interrupt); err != nil {
			n.T.Error(err)
		}
	}
	<-n.done
	if n.err != nil {
		n.T.Errorf("steward serve: %v\n%s", n.err, n.log.String())
	}
	n.cmd = nil
}

// Kill ends the served Steward as kill -9 does.
func (n *Node) Kill() {
	n.T.Helper()
	if n.cmd == nil {
		return
	}
	n.cmd.Process.Kill() //nolint:errcheck // it may have ended
	<-n.done
	n.cmd = nil
}

// Result is the outcome of a command.
type Result struct {
	Out, Err string
	Code     int
}

// Run runs a steward command on the node's data folder with an empty standard
// input.
func (n *Node) Run(args ...string) Result { n.T.Helper(); return n.RunIn("", args...) }

// RunIn is Run with a text as standard input.
func (n *Node) RunIn(stdin string, args ...string) Result {
	n.T.Helper()
	cmd := n.Command(args...)
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		n.T.Fatalf("steward %v: %v", args, err)
	}
	return Result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// Must runs a command that must succeed and returns its standard output.
func (n *Node) Must(args ...string) string {
	n.T.Helper()
	r := n.Run(args...)
	if r.Code != 0 {
		n.T.Fatalf("steward %v: exit %d\n%s%s", args, r.Code, r.Out, r.Err)
	}
	return r.Out
}

// JSON runs a command with --json that must succeed and decodes its output into
// out.
func (n *Node) JSON(out any, args ...string) {
	n.T.Helper()
	text := n.Must(append(args, "--json")...)
	if err := json.Unmarshal([]byte(text), out); err != nil {
		n.T.Fatalf("steward %v: %v: %s", args, err, text)
	}
}

// Key creates an API key for a user.
func (n *Node) Key(user string) (secret string) {
	n.T.Helper()
	var key struct{ Secret string }
	if n.JSON(&key, "keys", "create", "--user", user); key.Secret == "" {
		n.T.Fatal("the key has no secret")
	}
	return key.Secret
}

// Tool is the beginning of a shell script that implements a tool: it reads the
// request, and answer sends a JSON value as the result.
const Tool = `#!/bin/sh
read -r request
id=$(printf '%s' "$request" | sed 's/.*"request_id":"\([^"]*\)".*/\1/')
answer() { printf '{"type":"result","request_id":"%s","status":"success","data":%s}\n' "$id" "$1"; }
`

// Token returns the credential of the machine's own user from the data folder.
func (n *Node) Token() string {
	n.T.Helper()
	b, err := os.ReadFile(n.Data("token"))
	if err != nil {
		n.T.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// HTTP makes a request with the token. A non-nil body is sent as JSON, a []byte
// body unchanged. Headers are pairs of name and value; an empty value removes
// the header.
func (n *Node) HTTP(method, path string, body any, headers ...string) (status int, answer []byte) {
	n.T.Helper()
	var in io.Reader
	if raw, ok := body.([]byte); ok {
		in = bytes.NewReader(raw)
	} else if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			n.T.Fatal(err)
		}
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(n.T.Context(), method, n.URL+path, in)
	if err != nil {
		n.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.Token())
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if req.Header.Del(headers[i]); headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		n.T.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	if err != nil {
		n.T.Fatalf("%s %s: %v", method, path, err)
	}
	return res.StatusCode, answer
}

// Get decodes a JSON answer into out. Any status but 200 fails the test.
func (n *Node) Get(path string, out any) {
	n.T.Helper()
	status, b := n.HTTP(http.MethodGet, path, nil)
	if status != http.StatusOK {
		n.T.Fatalf("GET %s: %d %s", path, status, b)
	}
	if err := json.Unmarshal(b, out); err != nil {
		n.T.Fatalf("GET %s: %v: %s", path, err, b)
	}
}

// Until waits until the condition holds.
func (n *Node) Until(what string, true func() bool) {
	n.T.Helper()
	for told := time.Now(); !true(); time.Sleep(20 * time.Millisecond) {
		if time.Since(told) > time.Minute { // the end of the test run does not say what was waited for
			n.T.Logf("still waiting: %s\n%s", what, n.log.String())
			told = time.Now()
		}
	}
}

// lockedBuffer is a buffer that a test can read while a process writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Command prepares a steward command on the node's data folder.
func (n *Node) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Dir = n.Env, n.Dir
	return cmd
}
