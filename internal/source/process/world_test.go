package process

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"go.uber.org/goleak"

	"steward/internal/id"
	"steward/internal/sandbox"
	"steward/internal/tool"
	"steward/test/leak"
	"steward/test/must"
)

// ample is a limit that no test reaches.
const ample = time.Hour

// TestMain runs the tests, or the program that this binary was started as.
func TestMain(m *testing.M) {
	if code, mine := sandbox.Inside(os.Args); mine {
		os.Exit(code)
	}
	if len(os.Args) > 2 && os.Args[1] == "program" {
		program(os.Args[2])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// asked is a request as a program reads it.
type asked struct {
	ID       string            `json:"request_id"`
	Parent   string            `json:"parent_request_id"`
	Type     string            `json:"type"`
	Action   string            `json:"action"`
	Sender   string            `json:"sender"`
	Target   string            `json:"target"`
	Trace    string            `json:"traceparent"`
	Time     time.Time         `json:"timestamp"`
	Args     map[string]any    `json:"parameters"`
	Metadata map[string]string `json:"metadata"`
}

var writing sync.Mutex

func say(format string, args ...any) {
	writing.Lock()
	defer writing.Unlock()
	fmt.Printf(format+"\n", args...)
}

func (a asked) ok(data string) {
	say(`{"type":"result","request_id":%q,"status":"success","data":%s}`, a.ID, data)
}

func (a asked) runs() { say(`{"type":"status","request_id":%q,"status":"running"}`, a.ID) }

func quoted(s string) string { b, _ := json.Marshal(s); return string(b) }

// program is a tool with a given behaviour.
func program(behaviour string) {
	in := bufio.NewReader(os.Stdin)
	next := func() (a asked, ok bool) {
		line, err := in.ReadString('\n')
		return a, err == nil && json.Unmarshal([]byte(line), &a) == nil
	}
	if behaviour == "deaf" {
		time.Sleep(time.Hour)
	}
	if behaviour == "serve" {
		l := life{id: id.New().String(), released: make(chan struct{})}
		for a, ok := next(); ok; a, ok = next() {
			go l.serve(a)
		}
		return
	}
	a, ok := next()
	if !ok {
		fmt.Fprintln(os.Stderr, "no request")
		os.Exit(9)
	}
	behaviours()[behaviour](a)
}

func behaviours() map[string]func(asked) {
	return map[string]func(asked){
		"echo": func(a asked) { b, _ := json.Marshal(a); a.ok(string(b)) },
		"env":  func(a asked) { b, _ := json.Marshal(os.Environ()); a.ok(string(b)) },
		"keep": func(a asked) {
			path := filepath.Join(os.Getenv("STEWARD_DATA"), "kept")
			old, _ := os.ReadFile(path)
			if err := os.WriteFile(path, append(old, 'x'), 0o600); err != nil {
				old = []byte(err.Error())
			}
			a.ok(quoted(string(old)))
		},
		"progress": func(a asked) {
			say(`{"type":"status","request_id":%q,"status":"acknowledged"}`, a.ID)
			say(`{"type":"status","request_id":%q,"status":"running","progress":0.5,"message":"half with hunter22"}`, a.ID)
			say(`{"request_id":%q,"status":"partial","message":"Some of it.","data":"found","next_actions":["look", {"description":"ask\nagain"}, {"do":1}]}`, a.ID)
		},
		"failure": func(a asked) { say(`{"request_id":%q,"status":"failure"}`, a.ID) },
		"message": func(a asked) { say(`{"type":"response","request_id":%q,"status":"success","message":"Sent."}`, a.ID) },
		"nothing": func(a asked) { say(`{"type":"response","request_id":%q,"status":"success"}`, a.ID) },
		"error": func(a asked) {
			say(`{"type":"error","request_id":%q,"error_code":"SMTP_UNAVAILABLE","message":"no hunter22","recoverable":true,"retry_strategy":"after","retry_after":2}`, a.ID)
		},
		"other shape": func(a asked) {
			say(`{"type":"response","status":"error","request_id":%q,"error":{"code":"VALIDATION_ERROR","message":"no such city"}}`, a.ID)
		},
		"lies": func(a asked) {
			say(`{"type":"result","request_id":"other","status":"success","data":"wrong"}`)
			say(`{"type":"result","status":"success","data":"wrong"}`)
			say(`{"type":"request","request_id":%q,"action":"pay"}`, a.ID)
			say(`debug: {"request_id"`)
			say("")
			a.ok(`"right"`)
		},
		"only lies": func(asked) { say(`{"type":"result","request_id":"other","status":"success","data":"wrong"}`) },
		"half":      func(a asked) { fmt.Printf(`{"type":"result","request_id":%q,"sta`, a.ID) },
		"no newline": func(a asked) {
			fmt.Printf(`{"type":"result","request_id":%q,"status":"success","data":"whole"}`, a.ID)
		},
		"twice": func(a asked) {
			a.ok(`"first"`)
			a.ok(`"second"`)
			say(`{"type":"error","request_id":%q,"error_code":"x"}`, a.ID)
		},
		"answers and stays": func(a asked) { a.ok(`"here"`); os.Stdout.Close(); time.Sleep(time.Hour) },
		"hangs":             func(a asked) { a.runs(); time.Sleep(time.Hour) },
		"forks":             func(a asked) { forks(); a.ok(`"forked"`); time.Sleep(time.Hour) },
		"forks and hangs":   func(a asked) { forks(); a.runs(); time.Sleep(time.Hour) },
		"closes":            func(a asked) { a.runs(); os.Stdout.Close(); time.Sleep(time.Hour) },
		"silent":            func(asked) {},
		"crashes":           func(asked) { fmt.Fprintln(os.Stderr, "my hunter22 is gone"); os.Exit(3) },
		"crashes after":     func(a asked) { a.ok(`"done"`); os.Exit(3) },
		"complains": func(a asked) {
			say(`{"type":"status","request_id":%q,"status":"error","message":"the disk is full"}`, a.ID)
		},
		"flood":  func(asked) { flood(strings.Repeat("x", 64<<10)) },
		"floods": func(asked) { flood(strings.Repeat("x", 99) + "\n") },
		"floods status": func(a asked) {
			flood(fmt.Sprintf(`{"type":"status","request_id":%q,"status":"running"}`, a.ID) + "\n")
		},
		"floods after": func(a asked) { a.ok(`"dry"`); flood(strings.Repeat("x", 99) + "\n") },
		"big":          func(a asked) { a.ok(quoted(strings.Repeat("y", 3<<20))) },
	}
}

func flood(s string) {
	for n := 0; n < 1<<30; n += len(s) {
		if _, err := os.Stdout.WriteString(s); err != nil {
			return
		}
	}
}

func forks() {
	length := os.Getenv("MARK")
	c := exec.Command("sh", "-c", "sleep "+length+" & setsid sleep "+length+" & echo; exec sleep "+length)
	out := must.Get(c.StdoutPipe())
	must.Get(0, c.Start())
	must.Get(out.Read(make([]byte, 1))) // the processes are running
}

// life is one run of a serving program. It has an id because process ids in the sandbox are always the
// same.
type life struct {
	id       string
	released chan struct{}
}

// serve is what the program does for one call.
func (l life) serve(a asked) {
	switch a.Args["do"] {
	case "sleep":
		time.Sleep(time.Duration(a.Args["ms"].(float64)) * time.Millisecond)
	case "wait":
		say(`{"type":"status","request_id":%q,"status":"running"}`, a.ID)
		<-l.released
	case "release":
		close(l.released)
	case "hang":
		say(`{"type":"status","request_id":%q,"status":"running"}`, a.ID)
		return
	case "crash":
		os.Exit(4)
	case "token": // with blanks, so that it is not masked
		spelled := strings.Join(strings.Split(a.Metadata["token"], ""), " ")
		a.ok(quoted(fmt.Sprintf("%s %s|%s|%s", os.Getenv("STEWARD_SERVICES_URL"), os.Getenv("STEWARD_TOKEN"), spelled, a.Metadata["token"])))
		return
	}
	a.ok(fmt.Sprintf(`{"life":%q,"n":%v}`, l.id, quoted(fmt.Sprint(a.Args["n"]))))
}

// decoder reads a declaration as the settings do.
func decoder(text string) func(any) error {
	return func(into any) error { return yaml.UnmarshalWithOptions([]byte(text), into, yaml.Strict()) }
}

func testEnv(t *testing.T) tool.Env {
	return tool.Env{Name: "box", Agent: "lab", Dir: t.TempDir(), Data: filepath.Join(t.TempDir(), "data"),
		Secret: func(name string) (string, bool) { return "hunter22", name == "PASSWORD" }}
}

// behaving returns the declaration of a program with a behaviour.
func behaving(t *testing.T, behaviour, more string) string {
	self := must.Get(os.Executable())
	return fmt.Sprintf("command: [%s, program, %q]\nsecrets: [PASSWORD]\ndescription: Does it.\n%s", self, behaviour, more)
}

func open_(t *testing.T, env tool.Env, decl string) *source {
	t.Helper()
	src := must.Get(Open(env, decoder(decl)))
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	})
	return src.(*source)
}

// only returns the one tool of a source.
func only(t *testing.T, src tool.Source) tool.Tool {
	t.Helper()
	a, err := src.Announce(context.Background())
	if err != nil || len(a.Specs) != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	return src.Tool(a.Specs[0])
}

func invocation(args string) tool.Invocation {
	return tool.Invocation{Args: []byte(args), Request: id.New(), User: "ann", Agent: "lab", Key: "k1", Trace: "00-aa-bb-01"}
}

// noLeak fails a test that leaks goroutines.
func noLeak(t *testing.T, before goleak.Option) {
	t.Helper()
	if err := leak.Find(before); err != nil {
		t.Error(err)
	}
}

// within is a context with a deadline.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// text is what a model sees of a result.
func text(r tool.Result) string {
	b, _ := json.Marshal(r.Content)
	var blocks []struct{ Text string }
	json.Unmarshal(b, &blocks)
	var out []string
	for _, x := range blocks {
		out = append(out, x.Text)
	}
	return strings.Join(out, "\n")
}

// running returns the processes with a text in their command line.
func running(text string) (out []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), text) {
			out = append(out, path+": "+strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return out
}
