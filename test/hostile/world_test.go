// Package hostile starts a real Steward and gives it servers and programs that
// do what hostile and broken ones do: it survives them, each call has one
// result, and nothing is left of them.
package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"steward/test/built"
	"steward/test/leak"
)

// The built programs. Each world has a link to rogue of its own, by which it
// finds its processes.
var stewardPath, roguePath string

var worlds atomic.Int64

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if stewardPath, err = built.Program("steward/cmd/steward"); err != nil {
		panic(err)
	}
	if roguePath, err = built.Program("steward/test/hostile/rogue"); err != nil {
		panic(err)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // they wait for time limits rather than compute
		panic(err)
	}
	code := m.Run()
	if err := leak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// patience is how long what has to come is waited for: on no machine is it too
// short for what is right.
const patience = 5 * time.Minute

// steward is a data folder, and the Steward that serves it while it runs.
type steward struct {
	t     *testing.T
	model *model
	dir   string
	rogue string // the rogue program under a name of its own, by which its processes are told from those of other tests
	env   []string
	cmd   *exec.Cmd
	url   string
	said  *bytes.Buffer
	ready time.Duration // how long the last start took
}

func newSteward(t *testing.T) *steward {
	t.Helper()
	s := &steward{t: t, model: newModel(t), dir: t.TempDir()}
	s.rogue = filepath.Join(filepath.Dir(roguePath), fmt.Sprintf("rogue-%d-%d", os.Getpid(), worlds.Add(1)))
	if err := os.Link(roguePath, s.rogue); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(s.rogue) })
	s.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "STEWARD_DATA=" + s.path(), "STEWARD_LISTEN=127.0.0.1:0", "OLLAMA_HOST=127.0.0.1:1",
		"STEWARD_TIMEOUTS_SHUTDOWN=" + (2 * patience).String(),
		"OPENAI_API_KEY=test-key", "OPENAI_BASE_URL=" + s.model.url + "/v1"}
	return s
}

// path is one in the data folder.
func (s *steward) path(names ...string) string {
	return filepath.Join(append([]string{s.dir, "data"}, names...)...)
}

func (s *steward) write(text string, names ...string) string {
	s.t.Helper()
	file := s.path(names...)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o700)); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// serve starts it and waits until it is ready.
func (s *steward) serve() {
	s.t.Helper()
	s.cmd = exec.Command(stewardPath, "serve", "--json")
	s.cmd.Env, s.cmd.Dir = s.env, s.dir
	s.said = &bytes.Buffer{}
	s.cmd.Stderr = s.said
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.end)
	var notice struct{ URL string }
	if err := json.NewDecoder(out).Decode(&notice); err != nil {
		s.t.Fatalf("%v: %s", err, s.said)
	}
	s.ready, s.url = time.Since(began), notice.URL
}

// mine are the headers with the token.
func (s *steward) mine() http.Header {
	s.t.Helper()
	token, err := os.ReadFile(s.path("token"))
	if err != nil {
		s.t.Error(err)
	}
	return http.Header{"Authorization": {"Bearer " + strings.TrimSpace(string(token))}}
}

// end ends it as Ctrl-C does; it does not wait for what hangs for as long as
// it might, and nothing of what it started may be left.
func (s *steward) end() {
	s.t.Helper()
	if s.cmd == nil {
		return
	}
	began := time.Now()
	err := s.cmd.Process.Signal(os.Interrupt)
	if err := errors.Join(err, s.cmd.Wait()); err != nil {
		s.t.Errorf("%v: %s", err, s.said)
	}
	if took := time.Since(began); took > patience {
		s.t.Errorf("it took %v to end", took)
	}
	s.cmd = nil
	if left := s.alive(""); len(left) > 0 {
		s.t.Errorf("when Steward has ended there are still %v", left)
		for pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
		}
	}
}

// command runs another command on the same data folder.
func (s *steward) command(args ...string) (out string, err error) {
	s.t.Helper()
	cmd := exec.Command(stewardPath, args...)
	cmd.Env, cmd.Dir = s.env, s.dir
	b, err := cmd.CombinedOutput()
	return string(b), err
}

// must runs one that has to go well.
func (s *steward) must(args ...string) string {
	s.t.Helper()
	out, err := s.command(args...)
	if err != nil {
		s.t.Fatalf("steward %v: %v\n%s", args, err, out)
	}
	return out
}

// result is what became of a call.
type result struct {
	Name, Status, Text string
}

// answer is what became of a turn.
type answer struct {
	results []result // in the order in which they came
	text    string
	code    string // of an error
}

// one is its only result. Any goroutine may ask for it.
func (a answer) one(t *testing.T) result {
	t.Helper()
	if len(a.results) != 1 {
		t.Errorf("%d results: %+v", len(a.results), a)
		return result{}
	}
	return a.results[0]
}

// ask has the model make calls, round by round, and returns what became of
// them. A call with two results, or with none, is an error.
func (s *steward) ask(agent string, rounds ...[]call) answer {
	s.t.Helper()
	return s.converse(agent, nil, rounds)
}

// narrowed asks in a conversation that has only some of the tools: a provider
// takes so many and no more.
func (s *steward) narrowed(tools []string, rounds ...[]call) answer {
	s.t.Helper()
	return s.converse("", tools, rounds)
}

func (s *steward) converse(agent string, tools []string, rounds [][]call) answer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*patience) // longer than any call may take
	defer cancel()
	content, err := json.Marshal(rounds)
	if err != nil {
		s.t.Fatal(err)
	}
	ws, _, err := websocket.Dial(ctx, s.url+"/ws", &websocket.DialOptions{HTTPHeader: s.mine()})
	if err != nil {
		s.t.Error(err)
		return answer{}
	}
	defer ws.CloseNow()
	ws.SetReadLimit(64 << 20)
	message, err := json.Marshal(map[string]any{"type": "message", "id": "1", "content": string(content), "agent": agent, "tools": tools, "model": "openai/gpt-test"})
	if err == nil {
		err = ws.Write(ctx, websocket.MessageText, message)
	}
	var a answer
	seen := map[string]bool{}
	for err == nil {
		var f struct {
			Type, ID, Name, Status, Result, Code, Message, Text string
			Content                                             json.RawMessage
			Approval                                            *struct {
				ID   string
				Hash string `json:"hash"`
			}
		}
		var b []byte
		if _, b, err = ws.Read(ctx); err != nil {
			break
		}
		if err = json.Unmarshal(b, &f); err != nil {
			break
		}
		switch f.Type {
		case "tool_call":
			if f.Approval != nil && f.Status == "awaiting_approval" {
				yes, _ := json.Marshal(map[string]string{"type": "approve", "approval_id": f.Approval.ID, "hash": f.Approval.Hash})
				err = ws.Write(ctx, websocket.MessageText, yes)
			}
		case "tool_result":
			if seen[f.ID] {
				s.t.Errorf("%s has a second result: %+v", f.Name, f)
			}
			seen[f.ID] = true
			a.results = append(a.results, result{f.Name, f.Status, f.Result})
		case "complete":
			if err := json.Unmarshal(f.Content, &a.text); err != nil {
				s.t.Errorf("%v: %s", err, f.Content)
			}
			return a
		case "error":
			a.code, a.text = f.Code, f.Message
			return a
		}
	}
	s.t.Errorf("%s %s: %v; so far %+v", agent, content, err, a)
	return a
}

// during asks likewise, and does something while the model stops.
func (s *steward) during(meanwhile func(), agent string, rounds ...[]call) answer {
	s.t.Helper()
	asked := make(chan answer, 1)
	go func() { asked <- s.ask(agent, rounds...) }()
	select {
	case <-s.model.reach:
	case a := <-asked:
		s.t.Fatalf("the model has not stopped: %+v", a)
	}
	func() {
		defer func() { s.model.let <- struct{}{} }()
		meanwhile()
	}()
	return <-asked
}

// do has one tool called.
func (s *steward) do(agent, name, do string) answer {
	s.t.Helper()
	return s.ask(agent, []call{{name, map[string]string{"do": do}}})
}
