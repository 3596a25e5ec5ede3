// Command long measures what operations on one long conversation cost the
// shipped binary: the CPU time of "steward serve" for each request of its HTTP
// API and WebSocket. It uses conversations of several lengths to show which
// costs grow with the length.
//
//	go run ./bench/long -sizes 1000,10000,100000
package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	_ "modernc.org/sqlite"

	"steward/bench/process"
	"steward/test/built"
)

func main() {
	sizes := flag.String("sizes", "1000,10000,100000", "lengths of the conversation, in messages")
	binary := flag.String("binary", "", "a built steward; empty: it is built")
	flag.Parse()
	if err := run(*sizes, *binary); err != nil {
		fmt.Fprintln(os.Stderr, "bench/long:", err)
		os.Exit(1)
	}
}

func run(sizes, binary string) error {
	dir, err := os.MkdirTemp("", "steward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if binary == "" {
		binary = filepath.Join(dir, "steward")
		if err := built.Build("steward/cmd/steward", binary); err != nil {
			return err
		}
	}
	var heads []string
	var order []string
	cells := map[string][]string{}
	for i, s := range strings.Split(sizes, ",") {
		size, err := strconv.Atoi(s)
		if err != nil {
			return err
		}
		heads = append(heads, s)
		b := &bench{binary: binary, dir: filepath.Join(dir, s), size: size}
		b.tell = func(what, value string) {
			fmt.Fprintf(os.Stderr, "%s messages: %s: %s\n", s, what, value)
			if cells[what] == nil {
				order = append(order, what)
			}
			for len(cells[what]) < i {
				cells[what] = append(cells[what], "")
			}
			cells[what] = append(cells[what], value)
		}
		if err := b.run(); err != nil {
			return fmt.Errorf("with %d messages: %w", size, err)
		}
	}
	fmt.Printf("| CPU ms of the server, median | %s |\n|---|%s\n", strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
	for _, what := range order {
		fmt.Printf("| %s | %s |\n", what, strings.Join(cells[what], " | "))
	}
	return nil
}

// bench is a server with one conversation.
type bench struct {
	binary, dir string
	size        int
	tell        func(what, value string)

	pid   int
	url   string
	token string
	conv  string
	ws    *websocket.Conn
}

func (b *bench) run() error {
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
	}
	model := httptest.NewServer(http.HandlerFunc(answer))
	defer model.Close()
	// This model's context window is known: 128,000 tokens.
	if err := os.WriteFile(filepath.Join(b.dir, "bench.yaml"), []byte("models: {default: openai/gpt-4o, fast: openai/gpt-4o}\n"), 0o600); err != nil {
		return err
	}
	cmd := exec.Command(b.binary, "serve", "--json", "--config", "bench.yaml")
	cmd.Dir, cmd.Stderr = b.dir, os.Stderr
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "STEWARD_DATA=" + filepath.Join(b.dir, "data"), "STEWARD_LISTEN=127.0.0.1:0",
		"OLLAMA_HOST=127.0.0.1:1", "OPENAI_API_KEY=bench", "OPENAI_BASE_URL=" + model.URL + "/v1"}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	defer cmd.Wait() //nolint:errcheck // it is stopped
	defer cmd.Process.Signal(os.Interrupt)
	var notice struct{ URL string }
	if err := json.NewDecoder(out).Decode(&notice); err != nil {
		return err
	}
	go io.Copy(io.Discard, out) //nolint:errcheck // whatever else it prints
	b.pid, b.url = cmd.Process.Pid, notice.URL
	for _, name := range []string{"token", "admin.token"} {
		if t, err := os.ReadFile(filepath.Join(b.dir, "data", name)); err == nil && b.token == "" {
			b.token = strings.TrimSpace(string(t))
		}
	}
	return b.measure()
}

// answer is a model that always gives the same answer.
func answer(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"gpt-4o","object":"model","created":1}]}`)
		return
	}
	io.Copy(io.Discard, r.Body) //nolint:errcheck // what is asked does not matter
	w.Header().Set("Content-Type", "text/event-stream")
	for _, c := range []string{`{"delta":{"role":"assistant","content":"It is so."},"finish_reason":null}`, `{"delta":{},"finish_reason":"stop"}`} {
		fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,%s]}\n\n", c[1:])
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// history returns the conversation as OpenAI's messages: questions, calls,
// results and answers.
func history(size int) []byte {
	out := bytes.NewBufferString("[")
	say := func(n int, words int) string {
		return fmt.Sprintf("number %d ", n) + strings.Repeat("the quick brown fox jumps over the lazy dog near the river ", words)
	}
	for i := range size {
		var m map[string]any
		switch i % 4 {
		case 0:
			m = map[string]any{"role": "user", "content": say(i, 2)}
		case 1:
			m = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": fmt.Sprint("call_", i), "type": "function",
				"function": map[string]any{"name": "notes__read", "arguments": fmt.Sprintf(`{"path":"file%d"}`, i%200)}}}}
		case 2:
			m = map[string]any{"role": "tool", "tool_call_id": fmt.Sprint("call_", i-1), "content": say(i, 8)}
		default:
			m = map[string]any{"role": "assistant", "content": say(i, 4)}
		}
		b, err := json.Marshal(m)
		if err != nil {
			panic(err) // strings can always be marshalled
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(b)
	}
	out.WriteByte(']')
	return out.Bytes()
}

// rounds is how often an operation is repeated; the median is reported.
const rounds = 5

func (b *bench) measure() error {
	if err := b.imports(); err != nil {
		return err
	}
	newest, err := b.newest()
	if err != nil {
		return err
	}
	if len(newest) < 40 {
		return fmt.Errorf("only %d messages are on the newest page", len(newest))
	}
	oldest, err := b.page("")
	if err != nil {
		return err
	}
	at := func(i int) string { return newest[i] }
	steps := []struct {
		what string
		do   func(round int) error
	}{
		{"a page of 100 messages, newest first", func(int) error { return b.do("GET", "/messages?reverse=true&limit=100", nil) }},
		{"search again", func(int) error { return b.get("/api/v1/search?q=river&conversation="+b.conv, nil) }},
		{"mark an old message", func(i int) error { return b.mark(oldest[4*i+3], "archived") }},
		{"mark one of the newest messages", func(i int) error { return b.mark(at(4*i+4), "archived") }},
		{"mark it active again", func(i int) error { return b.mark(at(4*i+4), "active") }},
		{"pin one of the newest messages", func(i int) error {
			return b.do("POST", "/messages/pin", map[string]any{"messages": []string{at(4*i + 4)}})
		}},
		{"unpin it", func(i int) error {
			return b.do("POST", "/messages/pin", map[string]any{"messages": []string{at(4*i + 4)}, "pinned": false})
		}},
		{"siblings of the newest message", func(int) error { return b.do("GET", "/messages/"+at(0)+"/siblings", nil) }},
		{"a message that does not exist", func(int) error { return b.absent("/messages/01890000-0000-7000-8000-000000000001/siblings") }},
		{"GET branches for the first time", func(int) error { return b.do("GET", "/branches", nil) }},
		{"GET branches, 1 branch", func(int) error { return b.do("GET", "/branches", nil) }},
		{"a new branch near the end", func(i int) error {
			return b.do("POST", "/branches", map[string]any{"message": at(4*i + 4)})
		}},
		{"switch to the first branch", func(int) error { return b.main() }},
		{"GET branches, 6 branches", func(int) error { return b.do("GET", "/branches", nil) }},
		{"insert a message near the end", func(i int) error {
			if err := b.main(); err != nil {
				return err
			}
			return b.do("POST", "/messages/insert", map[string]any{"after": at(4*i + 4), "text": "An afterthought."})
		}},
		{"remove a message near the end", func(i int) error {
			if err := b.main(); err != nil {
				return err
			}
			return b.do("POST", "/messages/remove", map[string]any{"messages": []string{at(4*i + 4)}})
		}},
		{"GET branches, 16 branches", func(int) error { return b.do("GET", "/branches", nil) }},
		{"switch to the first branch again", func(int) error { return b.main() }},
	}
	for _, s := range steps {
		times := rounds
		if strings.HasPrefix(s.what, "GET branches for the first time") {
			times = 1
		}
		if err := b.time(s.what, times, s.do); err != nil {
			return err
		}
	}
	if err := b.tidying(); err != nil {
		return err
	}
	return b.turns()
}

// tidying measures operations on everything that the model is shown.
func (b *bench) tidying() error {
	before, err := b.head()
	if err != nil {
		return err
	}
	for _, s := range []struct {
		what string
		do   func() error
	}{
		{"optimise", func() error { return b.tidy("optimize") }},
		{"list what was changed", func() error { return b.do("GET", "/changes", nil) }},
		{"restore", func() error { return b.tidy("restore") }},
	} {
		if err := b.time(s.what, 1, func(int) error { return s.do() }); err != nil {
			return err
		}
		after, err := b.head()
		if err != nil {
			return err
		}
		if s.what == "optimise" {
			b.tell("log entries of optimise", fmt.Sprint(after-before))
		}
	}
	if err := b.forget(); err != nil {
		return err
	}
	if err := b.time("compaction, the first", 1, func(int) error { return b.tidy("compact") }); err != nil {
		return err
	}
	peak := process.PeakRSS(b.pid)
	b.tell("peak memory of optimising and compacting, MB", fmt.Sprintf("%.0f", peak))
	return nil
}

func (b *bench) tidy(how string) error {
	in := map[string]any{"how": how}
	if how == "optimize" {
		in["tools"] = []string{"math.add"}
	}
	return b.do("POST", "/tidy", in)
}

// head returns the position of the log's newest entry, read from the database.
func (b *bench) head() (int64, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.dir, "data", "steward.db")+"?mode=ro")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	var n int64
	return n, db.QueryRow("SELECT max(seq) FROM log").Scan(&n)
}

// forget makes the kernel reset the peak memory.
func (b *bench) forget() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", b.pid), []byte("5"), 0)
}

// turns measures the operations that end in a model call, and compactions.
func (b *bench) turns() error {
	if err := b.dial(); err != nil {
		return err
	}
	defer b.ws.CloseNow() //nolint:errcheck // the server may have hung up
	first := func(int) error { return b.turn(map[string]any{"content": "And now?"}) }
	if err := b.time("the first turn, which fits the view to the window", 1, first); err != nil {
		return err
	}
	for _, s := range []struct {
		what string
		turn func() (map[string]any, error)
	}{
		{"a further turn", func() (map[string]any, error) { return map[string]any{"content": "And then?"}, nil }},
		{"edit the last message of the user", func() (map[string]any, error) {
			list, err := b.newest()
			return map[string]any{"content": "Or rather?", "replace": list[1]}, err
		}},
		{"have the last answer given anew", func() (map[string]any, error) {
			list, err := b.newest()
			return map[string]any{"regenerate": list[0]}, err
		}},
	} {
		err := b.time(s.what, rounds, func(int) error {
			t, err := s.turn()
			if err != nil {
				return err
			}
			return b.turn(t)
		})
		if err != nil {
			return err
		}
	}
	for _, s := range []struct{ what, how string }{{"take the compaction back", "whole"}, {"compaction of the fitted view", "compact"}} {
		if err := b.time(s.what, 1, func(int) error { return b.tidy(s.how) }); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) imports() error {
	body := history(b.size)
	b.tell("the imported file, MB", fmt.Sprintf("%.1f", float64(len(body))/(1<<20)))
	before := process.RSS(b.pid)
	b.tell("memory at rest before, MB", fmt.Sprintf("%.0f", before))
	var got struct{ Imported []struct{ ID string } }
	err := b.once("import", func() error { return b.request("POST", "/api/v1/import", body, &got) })
	if err != nil {
		return err
	}
	if len(got.Imported) != 1 {
		return fmt.Errorf("%d conversations were imported", len(got.Imported))
	}
	b.conv = got.Imported[0].ID
	peak := process.PeakRSS(b.pid)
	b.tell("peak memory of the import, MB", fmt.Sprintf("%.0f", peak))
	if err := b.once("the first search after it", func() error { return b.get("/api/v1/search?q=river", nil) }); err != nil {
		return err
	}
	return b.once("indexing the rest, in the background", func() error {
		for {
			var page struct{ Behind int }
			if err := b.get("/api/v1/search?q=river", &page); err != nil || page.Behind == 0 {
				return err
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}
