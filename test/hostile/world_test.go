// Package hostile starts a real Steward and gives it servers and programs that
// do what hostile and broken ones do: it survives them, each call has one
// result, and nothing is left of them.
package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"steward/internal/provider/providertest"
)

// The built programs.
var stewardPath, roguePath string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "steward-hostile-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	stewardPath, roguePath = filepath.Join(dir, "steward"), filepath.Join(dir, "rogue")
	build := exec.Command("go", "build", "-o", dir+"/", "./cmd/steward", "./test/hostile/rogue")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v\n%s", err, out))
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// call is a call that the model is to make.
type call struct {
	Name string `json:"name"`
	Args any    `json:"args"`
}

// model speaks OpenAI's protocol: it calls what the user's message names, a
// list of calls as JSON, and says that it has when there are results. It sees
// to it that each call has one. Where the message names several lists, they
// are called one after the other.
type model struct {
	t     *testing.T
	url   string
	after atomic.Int32  // how many rounds of calls are made before it stops once; zero: never
	reach chan struct{} // gets a token when it has stopped
	let   chan struct{} // and it goes on with one of this

	mu   sync.Mutex
	told []string // the results that it was told, in their order
}

// pauses has the model stop once, after some rounds of calls.
func (m *model) pauses(rounds int32) { m.after.Store(rounds + 1) }

func newModel(t *testing.T) *model {
	m := &model{t: t, reach: make(chan struct{}), let: make(chan struct{})}
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	m.url = s.URL
	return m
}

type chatMessage struct {
	Role    string
	Content string
	Calls   []struct{ ID string } `json:"tool_calls"`
	Call    string                `json:"tool_call_id"`
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"gpt-test","object":"model","created":1}]}`)
		return
	}
	var in struct{ Messages []chatMessage }
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // its sender was stopped
	}
	if err := errors.Join(providertest.CheckOpenAI(body), json.Unmarshal(body, &in)); err != nil {
		m.t.Errorf("%v: %s", err, body)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	last := len(in.Messages)
	for last > 0 && in.Messages[last-1].Role == "tool" {
		last--
	}
	m.mu.Lock()
	for _, msg := range in.Messages[last:] {
		m.told = append(m.told, msg.Content)
	}
	m.mu.Unlock()
	calls := m.next(in.Messages)
	if len(calls) > 0 && m.after.Load() > 0 && m.after.Add(-1) == 0 {
		m.reach <- struct{}{}
		<-m.let
	}
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(delta map[string]any, finish any) {
		b, err := json.Marshal(map[string]any{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test",
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
		if err != nil {
			m.t.Error(err)
		}
		fmt.Fprintf(w, "data: %s\n\n", b)
	}
	finish := "stop"
	for i, c := range calls {
		args, err := json.Marshal(c.Args)
		if err != nil {
			m.t.Error(err)
		}
		say(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": fmt.Sprintf("call_%d_%d", len(in.Messages), i), "type": "function",
			"function": map[string]any{"name": strings.ReplaceAll(c.Name, ".", "__"), "arguments": string(args)}}}}, nil)
		finish = "tool_calls"
	}
	if len(calls) == 0 {
		say(map[string]any{"content": "done"}, nil)
	}
	say(map[string]any{}, finish)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// next returns the calls to make now, and sees that those before have one
// result each.
func (m *model) next(list []chatMessage) []call {
	var rounds [][]call
	round, results := 0, map[string]int{}
	for _, msg := range list {
		switch msg.Role {
		case "user":
			rounds, round = nil, 0
			if err := json.Unmarshal([]byte(msg.Content), &rounds); err != nil {
				m.t.Errorf("%v: %s", err, msg.Content)
			}
		case "assistant":
			round++
			for _, c := range msg.Calls {
				results[c.ID] += 0
			}
		case "tool":
			results[msg.Call]++
		}
	}
	for id, n := range results {
		if n != 1 {
			m.t.Errorf("the call %s has %d results", id, n)
		}
	}
	if round >= len(rounds) {
		return nil
	}
	return rounds[round]
}

// steward is a data folder, and the Steward that serves it while it runs.
type steward struct {
	t     *testing.T
	model *model
	dir   string
	env   []string
	cmd   *exec.Cmd
	url   string
	said  *bytes.Buffer
	ready time.Duration // how long the last start took
}

func newSteward(t *testing.T) *steward {
	t.Helper()
	s := &steward{t: t, model: newModel(t), dir: t.TempDir()}
	s.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "STEWARD_DATA=" + s.path(), "STEWARD_LISTEN=127.0.0.1:0", "OLLAMA_HOST=127.0.0.1:1",
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

// end ends it as Ctrl-C does; nothing of what it started may be left.
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
	if took := time.Since(began); took > 10*time.Second {
		s.t.Errorf("it took %v to end", took)
	}
	s.cmd = nil
	if left := alive(s.t, ""); len(left) > 0 {
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

func (a answer) one(t *testing.T) result {
	t.Helper()
	if len(a.results) != 1 {
		t.Fatalf("%d results: %+v", len(a.results), a)
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
	ctx, cancel := context.WithTimeout(s.t.Context(), 50*time.Second)
	defer cancel()
	content, err := json.Marshal(rounds)
	if err != nil {
		s.t.Fatal(err)
	}
	ws, _, err := websocket.Dial(ctx, s.url+"/ws", nil)
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

// do has one tool called.
func (s *steward) do(agent, name, do string) answer {
	s.t.Helper()
	return s.ask(agent, []call{{name, map[string]string{"do": do}}})
}

// quick calls one of Steward's own tools from outside, and returns how long
// that took.
func (s *steward) quick(client *http.Client) (time.Duration, error) {
	began := time.Now()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/tool.Tool/ExecuteTool",
		strings.NewReader(`{"function":{"name":"math.multiply","arguments":"{\"a\":6,\"b\":7}"}}`))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	b, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err == nil && !bytes.Contains(b, []byte(`"42"`)) {
		err = fmt.Errorf("%s", b)
	}
	return time.Since(began), err
}

// resident is how much memory the Steward holds, in bytes.
func (s *steward) resident() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Error(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				s.t.Error(err)
			}
			return kib << 10
		}
	}
	return 0
}

// watched is what was seen of a Steward over a time.
type watched struct {
	rise  int64           // of its memory, at most
	times []time.Duration // of calls of an ordinary tool
}

// median and longest of the times.
func (w *watched) latency() (median, longest time.Duration) {
	slices.Sort(w.times)
	return w.times[len(w.times)/2], w.times[len(w.times)-1]
}

// watch watches its memory, and calls an ordinary tool all the while, until
// it is stopped.
func (s *steward) watch() (stop func() *watched) {
	s.t.Helper()
	w := &watched{}
	client := &http.Client{Transport: &http.Transport{}}
	for range 5 { // connected, and warm
		if _, err := s.quick(client); err != nil {
			s.t.Fatal(err)
		}
	}
	before := s.resident()
	end := make(chan struct{})
	var all sync.WaitGroup
	every := func(pause time.Duration, look func()) {
		all.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for {
				look()
				select {
				case <-tick.C:
				case <-end:
					return
				}
			}
		})
	}
	every(3*time.Millisecond, func() { w.rise = max(w.rise, s.resident()-before) })
	every(20*time.Millisecond, func() {
		took, err := s.quick(client)
		if err != nil {
			s.t.Errorf("an ordinary tool: %v", err)
		}
		w.times = append(w.times, took)
	})
	return func() *watched {
		close(end)
		all.Wait()
		client.CloseIdleConnections()
		return w
	}
}

// alive returns the rogues that run, with their command lines; of one name, or
// all.
func alive(t *testing.T, name string) map[int]string {
	t.Helper()
	rogue, err := os.Stat(roguePath)
	if err != nil {
		t.Fatal(err)
	}
	list, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]string{}
	for _, exe := range list {
		info, err := os.Stat(exe)
		if err != nil || !os.SameFile(info, rogue) {
			continue // it has ended, or is another's
		}
		dir := filepath.Dir(exe)
		b, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		pid, bad := strconv.Atoi(filepath.Base(dir))
		if line := strings.Fields(strings.ReplaceAll(string(b), "\x00", " ")); err == nil && bad == nil && len(line) > 2 && (name == "" || line[2] == name) {
			found[pid] = strings.Join(line[1:], " ")
		}
	}
	return found
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, within time.Duration, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(within); !is(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("within %v it is not so that %s", within, what)
		}
	}
}

// inCall returns the ids of a rogue's processes that say that they are in the
// middle of a call.
func inCall(t *testing.T, name string) []int {
	t.Helper()
	var out []int
	for pid := range alive(t, name) {
		names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if b, err := os.ReadFile(n); err == nil && string(b) == "in a call\n" {
				out = append(out, pid)
				break
			}
		}
	}
	return out
}
