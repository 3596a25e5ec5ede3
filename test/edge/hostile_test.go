//go:build long

package edge_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"steward/test/edge"
)

const (
	most = 512 << 20       // memory that Steward may use, in bytes
	soon = 5 * time.Second // time limit for /readyz on an otherwise busy machine

	// returns is how many bytes above the start it may hold once idle again.
	// Most of them belong to SQLite: its allocator (modernc.org/memory) keeps
	// freed memory for reuse, up to the most that it ever had.
	returns = 160 << 20
)

// Hostile models answer many clients at once, over the WebSocket and the OpenAI
// server, in three vendors' protocols. Steward stays ready within 512 MiB, each
// turn ends or is parked, and the memory is given back. By default the test is
// short; HOSTILE_TIME=10m makes it long (make test-long). HOSTILE_SEED repeats
// the models' answers, but not their timing.
func TestHostileReplies(t *testing.T) {
	t.Parallel()
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv("HOSTILE_TIME"), "10s"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("HOSTILE_SEED"), "1"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("HOSTILE_SEED=%d, for %v", seed, lasts)
	model := &hostile{t: t, seed: seed, asks: map[string]uint64{}, did: map[string]int{}}
	n := edge.New(t, edge.Options{Model: model})
	var base string
	for _, v := range n.Env {
		if url, ok := strings.CutPrefix(v, "OPENAI_BASE_URL="); ok {
			base = strings.TrimSuffix(url, "/v1")
		}
	}
	n.Env = append(n.Env, "OPENAI_BASE_URL="+base+"/openai/v1", "ANTHROPIC_API_KEY=test-key", "ANTHROPIC_BASE_URL="+base+"/anthropic",
		"GEMINI_API_KEY=test-key", "GOOGLE_GEMINI_BASE_URL="+base+"/gemini")
	n.Write("hello", "docs", "hello.txt")
	n.Write(fmt.Sprintf("models: {default: {use: [openai/gpt-test]}}\nlimits: {time: 5s}\nfolders: [{name: docs, path: %q, write: true}]\n", filepath.Join(n.Dir, "docs")), ".config", "steward", "steward.yaml")
	if prefix := confined(t); prefix != nil {
		n.ServeUnder(prefix)
	} else { // as an operator would run it there
		n.Env = append(n.Env, "GOMEMLIMIT=320MiB")
		n.Serve()
	}
	for range 5 {
		fine(n)
	}
	before := memory(t, n, "VmRSS")
	c := &crowd{n: n, token: n.Token(), seed: seed, model: model, ends: map[string]int{}}
	c.run(lasts)
	n.Until("no turn is left", func() bool { return len(c.open()) == 0 })
	fine(n)
	had := peak(t, n)
	after := c.idle(before+returns, lasts > time.Minute)
	t.Logf("%d turns, %d replies; memory before %d MiB, at most %d MiB, after %d MiB; the slowest of %d /readyz took %v",
		c.turns.Load(), model.total(), before>>20, had>>20, after>>20, c.asked, c.slowest)
	if had > most {
		t.Errorf("it took more than %d MiB", most>>20)
	}
	t.Logf("the turns ended so: %v", c.ends)
	t.Logf("the models answered so: %v", model.did)
}

// fine makes one good turn with each model.
func fine(n *edge.Node) {
	n.T.Helper()
	ws := n.Dial()
	defer ws.Close()
	for _, d := range dialects() {
		if a := ws.Turn(map[string]any{"content": "hello", "model": d.model}, nil); a.Text != "Done." {
			n.T.Errorf("%s: a good turn ends with %q %.200q", d.name, a.Code, a.Text)
		}
	}
}

// confined creates a control group with a memory limit and returns the command
// prefix that starts a program in it. It returns nil where that is impossible;
// the test then relies on the peak alone.
func confined(t *testing.T) []string {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(own)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		root, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		switch {
		case len(f) == 3 && f[1] == "":
			root, file = "/sys/fs/cgroup", "memory.max"
		case len(f) != 3 || f[1] != "memory":
			continue
		}
		dir := filepath.Join(root, f[2], fmt.Sprintf("steward-hostile-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		})
		if f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0); err == nil {
			_, err = fmt.Fprint(f, most)
			if err = errors.Join(err, f.Close()); err == nil {
				t.Logf("%s says %d MiB", filepath.Join(dir, file), most>>20)
				return []string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(dir, "cgroup.procs")}
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Log(err)
		}
	}
	t.Log("no control group can be made here: the peak is watched")
	return nil
}

func (h *hostile) total() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.did {
		n += k
	}
	return n
}

// crowd is the set of clients and observers.
type crowd struct {
	n     *edge.Node
	token string
	seed  uint64
	model *hostile
	turns atomic.Int64

	mu      sync.Mutex
	ends    map[string]int // turns by outcome
	asked   int            // requests to /readyz
	slowest time.Duration
}

// run lets the clients work for a while and waits until all their turns are
// over.
func (c *crowd) run(lasts time.Duration) {
	t := c.n.T
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	looking, looked := context.WithCancel(t.Context())
	var clients, watchers sync.WaitGroup
	watchers.Go(func() { c.watch(looking) })
	watchers.Go(func() { c.browse(looking) })
	for i, talk := range []func(*rand.Rand, int) (string, error){c.chat, c.chat, c.chat, c.chat, c.chat, c.complete, c.complete, c.complete, c.agent, c.agent} {
		r := rand.New(rand.NewPCG(c.seed, uint64(i)+1<<32))
		clients.Go(func() {
			for ctx.Err() == nil && c.n.Alive() {
				end, err := talk(r, int(c.turns.Add(1)))
				if err != nil {
					t.Error(err)
					return
				}
				c.mu.Lock()
				c.ends[end]++
				c.mu.Unlock()
			}
		})
	}
	clients.Wait()
	looked()
	watchers.Wait()
	if !c.n.Alive() {
		t.Fatalf("Steward has ended: %.20000s", c.n.Log())
	}
}

// watch polls whether Steward is ready.
func (c *crowd) watch(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for ; ctx.Err() == nil; <-tick.C {
		began := time.Now()
		status, b, err := c.do(ctx, "GET", "/readyz", nil)
		took := time.Since(began)
		if ctx.Err() != nil {
			return
		}
		if err != nil || status != http.StatusOK || took > soon {
			c.n.T.Errorf("/readyz: %d %.200s %v after %v", status, b, err, took)
		}
		c.asked, c.slowest = c.asked+1, max(c.slowest, took)
		if !c.n.Alive() {
			return
		}
	}
}

// browse reads everything that is listed, as the web page does.
func (c *crowd) browse(ctx context.Context) {
	for i := 0; ctx.Err() == nil && c.n.Alive(); i++ {
		var list struct{ Conversations []struct{ ID string } }
		status, b, err := c.do(ctx, "GET", "/api/v1/conversations?limit=20", nil)
		if err == nil && status == http.StatusOK {
			err = json.Unmarshal(b, &list)
		}
		for k, path := range []string{"/messages?reverse=true&limit=5", "/export?format=markdown", "/changes", ""} {
			if err == nil && len(list.Conversations) > 0 {
				id := list.Conversations[(i+k)%len(list.Conversations)].ID
				status, b, err = c.do(ctx, "GET", "/api/v1/conversations/"+id+path, nil)
			}
			if ctx.Err() == nil && (err != nil || status != http.StatusOK) {
				c.n.T.Errorf("%s: %d %.300s %v", path, status, b, err)
				return
			}
		}
		if status, b, err = c.do(ctx, "GET", "/api/v1/search?q=hostile&limit=5", nil); ctx.Err() == nil && (err != nil || status != http.StatusOK) {
			c.n.T.Errorf("search: %d %.300s %v", status, b, err)
		}
	}
}

// do makes a request and reads the whole answer.
func (c *crowd) do(ctx context.Context, method, path string, body any) (int, []byte, error) {
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.n.URL+path, in)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, b, err
}

func said(turn int) string { return fmt.Sprintf("This is hostile turn %d.", turn) }

// complete asks a model through the OpenAI server, with the client's own tools.
func (c *crowd) complete(r *rand.Rand, turn int) (string, error) {
	list := dialects()
	body := map[string]any{"model": list[r.IntN(len(list))].model, "stream": r.IntN(2) == 0,
		"messages": []any{map[string]any{"role": "user", "content": said(turn)}}}
	if r.IntN(2) == 0 {
		body["tools"] = []any{map[string]any{"type": "function", "function": map[string]any{"name": "math__multiply", "parameters": map[string]any{"type": "object"}}}}
	} else if r.IntN(3) == 0 {
		body["response_format"] = map[string]any{"type": "json_object"}
	}
	return c.completion(body)
}

// agent asks an agent, which has tools, through the OpenAI server.
func (c *crowd) agent(r *rand.Rand, turn int) (string, error) {
	return c.completion(map[string]any{"model": "agent:assistant", "stream": r.IntN(2) == 0, "messages": []any{map[string]any{"role": "user", "content": said(turn)}}})
}

func (c *crowd) completion(body map[string]any) (string, error) {
	ctx, cancel := context.WithTimeout(c.n.T.Context(), 10*time.Second) // a plain model may be silent for longer
	defer cancel()
	status, b, err := c.do(ctx, "POST", "/v1/chat/completions", body)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "given up", nil
	case err != nil:
		return "", err
	}
	var e struct{ Error struct{ Code string } }
	line := b[bytes.LastIndex(bytes.TrimSpace(b), []byte("\n"))+1:]
	if at := bytes.Index(b, []byte(`{"error":{"message"`)); at >= 0 {
		line = b[at:]
	}
	if json.NewDecoder(bytes.NewReader(line)).Decode(&e) == nil && e.Error.Code != "" {
		return e.Error.Code, nil
	}
	if status != http.StatusOK {
		return "", fmt.Errorf("completion: %d %.500s", status, b)
	}
	return "ok", nil
}

// chat makes a few turns of a conversation over a WebSocket. In some of them it
// hangs up, stops the turn, or reads nothing for a while.
func (c *crowd) chat(r *rand.Rand, turn int) (end string, err error) {
	ctx := c.n.T.Context()
	ws, _, err := websocket.Dial(ctx, c.n.URL+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + c.token}}})
	if err != nil {
		return "", err
	}
	defer ws.CloseNow() //nolint:errcheck // it may be closed
	ws.SetReadLimit(256 << 20)
	list, conv := dialects(), ""
	for again := 1 + r.IntN(3); again > 0; again-- {
		message := map[string]any{"type": "message", "content": said(turn), "model": list[r.IntN(len(list))].model}
		if conv != "" {
			turn = int(c.turns.Add(1))
			message["conversation_id"], message["content"] = conv, said(turn)
		}
		how := r.IntN(12)
		if conv, end, err = c.follow(ctx, ws, message, r, how); err != nil || how == 0 {
			return end, err
		}
	}
	return end, nil
}

func (c *crowd) follow(ctx context.Context, ws *websocket.Conn, message map[string]any, r *rand.Rand, how int) (conv, end string, err error) {
	send := func(v map[string]any) error {
		b, err := json.Marshal(v)
		return errors.Join(err, ws.Write(ctx, websocket.MessageText, b))
	}
	if err := send(message); err != nil {
		return "", "", err
	}
	asked := map[string]bool{}
	for {
		_, b, err := ws.Read(ctx)
		var f edge.Frame
		if err == nil {
			err = json.Unmarshal(b, &f)
		}
		if err != nil {
			return "", "", fmt.Errorf("%v: %w: %.200s", message["content"], err, b)
		}
		switch {
		case f.Type == "accepted":
			conv = f.Conversation
			switch how {
			case 0:
				return conv, "hung up", nil
			case 1:
				err = send(map[string]any{"type": "stop", "conversation_id": conv})
			}
		case f.Approval != nil && f.Status == "awaiting_approval" && !asked[f.Approval.Hash]:
			asked[f.Approval.Hash] = true
			err = send(map[string]any{"id": "word", "type": []string{"approve", "deny"}[r.IntN(2)], "approval_id": f.Approval.ID, "hash": f.Approval.Hash})
		case f.Type == "notice" && bytes.Contains(b, []byte(`"waiting":true`)): // the model asks for a pause, perhaps of a day
			err = send(map[string]any{"type": "stop", "conversation_id": conv})
		case f.Type == "complete":
			return conv, f.Stop, nil
		case f.Type == "error" && f.Re == "":
			return conv, f.Code, nil
		}
		if err != nil {
			return "", "", err
		}
	}
}

// open returns the requests that are neither finished nor parked. It cancels
// those that wait for a model, as a person would.
func (c *crowd) open() []string {
	var list struct {
		Requests []struct{ ID, State, Status string }
	}
	c.n.Get("/api/v1/requests", &list)
	var out []string
	for _, r := range list.Requests {
		if !slices.Contains([]string{r.State, r.Status}, "parked") {
			out = append(out, r.ID)
		}
		if r.Status == "waiting for its model" {
			c.n.HTTP("DELETE", "/api/v1/requests/"+r.ID, nil)
		}
	}
	return out
}

// idle returns the memory that Steward holds. If wait is true, it first waits
// until Steward holds at most enough bytes.
func (c *crowd) idle(enough int, wait bool) int {
	now := memory(c.n.T.(*testing.T), c.n, "VmRSS")
	for ; wait && now > enough; now = memory(c.n.T.(*testing.T), c.n, "VmRSS") {
		time.Sleep(time.Second)
	}
	return now
}
