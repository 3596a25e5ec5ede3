package edge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"steward/test/apis"
)

// seat is a person at a terminal in which a program runs. The person waits for as long as it takes
// until something is on the screen; only the limit of the whole test run ends that.
type seat struct {
	t   *testing.T
	cmd *exec.Cmd
	tty *os.File
	vt  *vt.Emulator
}

// sit starts steward in a terminal of 100 by 40 characters.
func (n *Node) sit(t *testing.T, args ...string) *seat {
	t.Helper()
	s := &seat{t: t, cmd: exec.Command(binary, args...), vt: vt.NewEmulator(100, 40)}
	s.cmd.Env, s.cmd.Dir = append(n.Env, "TERM=xterm-256color", "LANG=C.UTF-8"), n.Dir
	var err error
	if s.tty, err = pty.StartWithSize(s.cmd, &pty.Winsize{Cols: 100, Rows: 40}); err != nil {
		t.Fatal(err)
	}
	if end, ok := t.Deadline(); ok { // show the screen before the test run is ended
		stop := time.AfterFunc(time.Until(end)-10*time.Second, func() { s.cmd.Process.Kill() }) //nolint:errcheck // it may have ended
		t.Cleanup(func() { stop.Stop() })
	}
	answered := make(chan struct{})
	go func() { io.Copy(s.tty, s.vt); close(answered) }() //nolint:errcheck // what a terminal answers when it is asked what it is
	t.Cleanup(func() {
		s.cmd.Process.Kill() //nolint:errcheck // it has usually ended
		s.cmd.Wait()         //nolint:errcheck // likewise
		s.tty.Close()
		s.vt.InputPipe().(io.Closer).Close() //nolint:errcheck // a pipe
		<-answered
	})
	return s
}

// sees waits until all of the texts are on the screen.
func (s *seat) sees(texts ...string) {
	s.t.Helper()
	s.until(fmt.Sprintf("%q", texts), func() bool {
		screen := s.screen()
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(screen, text) })
	})
}

// asked waits until the line with the cursor has a question, and answers it.
func (s *seat) asked(question, keys string) {
	s.t.Helper()
	s.until("the question "+question, func() bool {
		lines := strings.Split(s.screen(), "\n")
		at := s.vt.CursorPosition().Y
		return at < len(lines) && strings.Contains(lines[at], question)
	})
	s.types(keys)
}

func (s *seat) types(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.tty, keys); err != nil {
		s.t.Fatal(err)
	}
}

// until reads from the terminal until something is true of the screen.
func (s *seat) until(what string, true func() bool) {
	s.t.Helper()
	for b := make([]byte, 4096); !true(); {
		k, err := s.tty.Read(b)
		s.vt.Write(b[:k]) //nolint:errcheck // an emulator in memory
		if err != nil && !true() {
			s.t.Fatalf("%s never came:\n%s", what, s.screen())
		}
	}
}

// left waits until the program has ended, and returns its exit code.
func (s *seat) left() int {
	s.t.Helper()
	for b := make([]byte, 4096); ; {
		k, err := s.tty.Read(b)
		s.vt.Write(b[:k]) //nolint:errcheck // an emulator in memory
		if err != nil {   // the other side has closed
			break
		}
	}
	s.cmd.Wait() //nolint:errcheck // the exit code says it
	return s.cmd.ProcessState.ExitCode()
}

func (s *seat) screen() string { return s.vt.String() }

// takesTheFolder answers the question that follows the choice of a model, the last one.
func (s *seat) takesTheFolder() {
	s.t.Helper()
	s.asked("Folder in which", "\r")
}

// multiplies asks for a number in the chat, sees it, and leaves.
func (s *seat) multiplies(model string) {
	s.t.Helper()
	s.sees(" · "+model, "Ask something")
	s.types("What is 12.5 times 8?\r")
	s.sees("math.multiply → 100")
	s.types("/quit\r")
	if code := s.left(); code != 0 {
		s.t.Errorf("exit %d:\n%s", code, s.screen())
	}
}

// calculator is a model that knows how to use a tool.
func calculator(asked, result string) (text, call, args string) {
	switch {
	case strings.Contains(asked, "note_number"): // the trial call of setup
		return "", "note_number", `{"number":417}`
	case result != "":
		return "That makes " + result + ".", "", ""
	}
	return "", "math.multiply", `{"a":12.5,"b":8}`
}

// ollama is an Ollama with one model, or with none. It speaks as https://docs.ollama.com/api says.
func ollama(t *testing.T, models ...string) (env []string) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/tags", func(w http.ResponseWriter, _ *http.Request) {
		list := []any{}
		for _, m := range models {
			list = append(list, map[string]any{"name": m, "model": m, "modified_at": "2026-10-04T16:21:07Z", "size": 5225388164, "details": map[string]any{"family": "qwen3"}})
		}
		json.NewEncoder(w).Encode(map[string]any{"models": list}) //nolint:errcheck // the caller may be gone
	})
	mux.HandleFunc("POST /api/show", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"parameters":"num_ctx 16384","details":{"family":"qwen3"},"model_info":{"general.architecture":"qwen3","qwen3.context_length":40960},"capabilities":["completion","tools"]}`)
	})
	mux.HandleFunc("POST /api/chat", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the request was cancelled
		}
		if err := apis.CheckOllama(body); err != nil {
			t.Errorf("%v: %s", err, body)
			http.Error(w, `{"error":"refused"}`, http.StatusBadRequest)
			return
		}
		var in struct {
			Model    string
			Messages []struct{ Role, Content string }
		}
		json.Unmarshal(body, &in) //nolint:errcheck // it was checked
		asked, result := "", ""
		for _, m := range in.Messages {
			switch m.Role {
			case "user":
				asked, result = m.Content, ""
			case "tool":
				result = m.Content
			}
		}
		text, call, args := calculator(asked, result)
		message := map[string]any{"role": "assistant", "content": text}
		if call != "" {
			message["tool_calls"] = []any{map[string]any{"id": "call_k3j9x2qp", "function": map[string]any{"index": 0, "name": strings.ReplaceAll(call, ".", "__"), "arguments": json.RawMessage(args)}}}
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		out := json.NewEncoder(w)
		out.Encode(map[string]any{"model": in.Model, "created_at": "2026-11-21T12:00:00Z", "message": message, "done": false})                                                                                                            //nolint:errcheck // the caller may be gone
		out.Encode(map[string]any{"model": in.Model, "created_at": "2026-11-21T12:00:00Z", "message": map[string]any{"role": "assistant", "content": ""}, "done": true, "done_reason": "stop", "prompt_eval_count": 26, "eval_count": 9}) //nolint:errcheck // likewise
	})
	s := httptest.NewServer(mux)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return []string{"OLLAMA_HOST=" + s.URL}
}

// without removes variables from an environment.
func without(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(names, name)
	})
}

// TestTheFirstRun types what people type who start Steward for the first time, in a home that has
// nothing. At the end of each run, Steward has used a tool.
func TestTheFirstRun(t *testing.T) {
	if c, err := net.Dial("tcp", "127.0.0.1:11434"); err == nil {
		c.Close()
		t.Skip("an Ollama runs on this machine, so it is not one that has nothing")
	}
	const key = "Enter continues without"
	for _, c := range []struct {
		name   string
		env    func(t *testing.T) []string
		types  func(s *seat)
		model  string // that then answers
		file   string // what the settings then have
		stored bool   // whether there is a secret
	}{
		{"with a key", func(t *testing.T) []string { return without(openAI(t, calculator), "OPENAI_API_KEY") }, func(s *seat) {
			s.asked(key, goodKey+"\r")
			s.sees("openai/gpt-5.4 answers and uses tools")
		}, "openai/gpt-5.4", "default: openai/gpt-5.4", true},
		{"with a wrong key", func(t *testing.T) []string { return without(openAI(t, calculator), "OPENAI_API_KEY") }, func(s *seat) {
			s.asked(key, "hello\r")
			s.sees("does not look like a key")
			s.asked(key, "sk-wrong-0123456789abcdef\r")
			s.sees("The key was refused by OpenAI: Incorrect API key provided")
			s.asked(key, "\r")
		}, "offline/steward", "workspace: ~/Steward\n", false},
		{"with a wrong key and then a good one", func(t *testing.T) []string {
			return append(openAI(t, calculator), "OPENAI_API_KEY=sk-wrong-0123456789abcdef")
		}, func(s *seat) {
			s.sees("The key in OPENAI_API_KEY was refused by OpenAI: Incorrect API key provided")
			s.asked(key, "export OPENAI_API_KEY='"+goodKey+"'\r")
			s.sees("openai/gpt-5.4 answers and uses tools")
		}, "openai/gpt-5.4", "default: openai/gpt-5.4", true},
		{"with a refused key in the environment", func(t *testing.T) []string {
			return append(openAI(t, calculator), "OPENAI_API_KEY=sk-wrong-0123456789abcdef")
		}, func(s *seat) {
			s.sees("The key in OPENAI_API_KEY was refused by OpenAI: Incorrect API key provided")
			s.asked(key, "\r")
		}, "offline/steward", "default: offline/steward", false},
		{"with Ollama", func(t *testing.T) []string { return ollama(t, "qwen3:8b") }, func(s *seat) {
			s.sees("ollama/qwen3:8b answers and uses tools")
		}, "ollama/qwen3:8b", "default: ollama/qwen3:8b", false},
		{"with an empty Ollama", func(t *testing.T) []string { return ollama(t) }, func(s *seat) {
			s.sees("it has no model yet", "ollama pull")
			s.asked(key, "\r")
		}, "offline/steward", "workspace: ~/Steward\n", false},
		{"with nothing", func(*testing.T) []string { return nil }, func(s *seat) {
			s.asked(key, "\r")
		}, "offline/steward", "workspace: ~/Steward\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newcomer(t, Options{})
			n.Env = append(without(n.Env, "OLLAMA_HOST"), c.env(t)...)
			s := n.sit(t, "chat")
			c.types(s)
			s.takesTheFolder()
			s.multiplies(c.model)
			b, err := os.ReadFile(filepath.Join(n.Dir, ".config", "steward", "steward.yaml"))
			if err != nil || !strings.Contains(string(b), c.file) || strings.Contains(c.file, "workspace") && strings.Contains(string(b), "default") {
				t.Errorf("%v %s", err, b)
			}
			stored, err := filepath.Glob(filepath.Join(n.Dir, ".local/share/steward/secrets/*"))
			if err != nil || (len(stored) > 0) != c.stored {
				t.Errorf("%v %v", err, stored)
			}
			if c.stored {
				if b, err := os.ReadFile(stored[0]); err != nil || !bytes.Contains(b, []byte(goodKey)) {
					t.Errorf("%v", err)
				}
			}
			again := n.sit(t, "chat") // nothing is asked, and the same model answers
			again.sees(" · "+c.model, "Ask something")
			if screen := again.screen(); strings.Contains(screen, "Set up Steward") {
				t.Errorf("%s", screen)
			}
			again.types("/quit\r")
			again.left()
		})
	}
}
