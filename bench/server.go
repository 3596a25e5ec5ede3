package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"steward/bench/bare"
	"steward/bench/fakemodel"
	"steward/bench/process"
)

// server is a chat server under measurement, in its own process.
type server struct {
	name, folder, url, token string
	pid                      int
	stop                     func() error
	more                     func() (time.Duration, error) // the CPU time of what works for it; nil: nothing does
}

func (b *bench) openBare(folder string) (*server, error) {
	p, url, err := process.Start("child-bare", folder, b.model+"/v1", b.head)
	if err != nil {
		return nil, err
	}
	return &server{name: "bare", folder: folder, url: url, pid: p.Process.Pid, stop: p.Stop}, nil
}

func (b *bench) openSteward(folder string, more ...string) (*server, error) {
	cmd := exec.Command(b.binary, "serve", "--json", "--quiet")
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	data := filepath.Join(folder, "data")
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "STEWARD_DATA=" + data, "STEWARD_LISTEN=127.0.0.1:0", "STEWARD_LOG_LEVEL=warn",
		"OLLAMA_HOST=127.0.0.1:1", "OPENAI_API_KEY=none", "OPENAI_BASE_URL=" + b.model + "/v1"}, append(more, profiling()...)...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	var notice struct{ URL string }
	if err := json.NewDecoder(out).Decode(&notice); err != nil {
		return nil, errors.Join(err, cmd.Wait())
	}
	go io.Copy(io.Discard, out) //nolint:errcheck // it prints nothing more
	s := &server{name: "Steward", folder: data, url: notice.URL, pid: cmd.Process.Pid}
	if secret, err := os.ReadFile(filepath.Join(data, "token")); err == nil {
		s.token = strings.TrimSpace(string(secret))
	}
	s.stop = func() error { return errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()) }
	return s, nil
}

// learnHead has Steward ask the model once. Its system prompt and tools are those that the bare loop
// sends too: both servers send requests of the same size.
func (b *bench) learnHead() error {
	folder := filepath.Join(b.dir, "head")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	s, err := b.openSteward(folder)
	if err != nil {
		return err
	}
	_, err = s.run(1, 1)
	if err = errors.Join(err, s.stop()); err != nil {
		return err
	}
	res, err := http.Get(b.model + fakemodel.FirstPath)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var first struct {
		Messages []json.RawMessage
		Tools    json.RawMessage
	}
	if err := json.NewDecoder(res.Body).Decode(&first); err != nil {
		return err
	}
	if len(first.Messages) != 2 || len(first.Tools) == 0 {
		return fmt.Errorf("the first request has %d messages and %d bytes of tools, not a system prompt, a message and tools", len(first.Messages), len(first.Tools))
	}
	head := fmt.Sprintf(`{"model":"bench","stream":true,"stream_options":{"include_usage":true},"tools":%s,"messages":[%s,`, first.Tools, first.Messages[0])
	b.head = filepath.Join(folder, "head.json")
	fmt.Printf("Both servers send the model the same system prompt and tools: %.1f KB.\n", float64(len(head))/1024)
	return os.WriteFile(b.head, []byte(head), 0o600)
}

// profiling returns the Go runtime's settings from the environment.
func profiling() (env []string) {
	for _, name := range []string{"GODEBUG", "GOGC", "GOMEMLIMIT"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// bareServer serves the bare loop: one conversation per connection, one frame
// per token.
func bareServer(folder, model, headFile string) (http.Handler, func(), error) {
	head, err := os.ReadFile(headFile)
	if err != nil {
		return nil, nil, err
	}
	l, err := bare.Open(filepath.Join(folder, "bare.db"), model, string(head))
	if err != nil {
		return nil, nil, err
	}
	next := make(chan int64, 1)
	next <- 1
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		n := <-next
		next <- n + 1
		c := l.NewChat(n)
		for {
			_, b, err := ws.Read(r.Context())
			if err != nil {
				return
			}
			var in struct{ Content string }
			if err := json.Unmarshal(b, &in); err != nil {
				return
			}
			answer, err := c.Turn(r.Context(), in.Content, func(piece string) {
				ws.Write(r.Context(), websocket.MessageText, frame("token", piece)) //nolint:errcheck // the next read tells
			})
			if err != nil {
				return
			}
			if err := ws.Write(r.Context(), websocket.MessageText, frame("complete", answer)); err != nil {
				return
			}
		}
	})
	return handler, func() { errors.Join(l.Checkpoint(), l.Close()) }, nil
}

func frame(kind, content string) []byte {
	b := append([]byte(`{"type":"`), kind...)
	b = append(b, `","content":`...)
	b = strconv.AppendQuote(b, content)
	return append(b, '}')
}

// cpu returns the CPU time of a server with what works for it.
func (s *server) cpu() (time.Duration, error) {
	own, err := process.CPU(s.pid)
	if err != nil || s.more == nil {
		return own, err
	}
	more, err := s.more()
	return own + more, err
}

// size returns the total size in bytes of the files below a folder.
func size(folder string) (total float64, err error) {
	err = filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			total += float64(info.Size())
		}
		return err
	})
	return total, err
}

// start measures what a command costs that only prints information about the
// program.
func (b *bench) start() error {
	fmt.Printf("\nA command that only tells about itself, CPU ms, median of %d:\n\n", b.starts)
	for _, args := range [][]string{{"--help"}, {"version"}, {"__complete", "ask", "--mo"}} {
		var times []float64
		for range b.starts {
			cmd := exec.Command(b.binary, args...)
			cmd.Dir, cmd.Env = b.dir, []string{"HOME=" + b.dir, "PATH=" + os.Getenv("PATH")}
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%v: %w\n%s", args, err, out)
			}
			use := cmd.ProcessState.SysUsage().(*syscall.Rusage)
			times = append(times, float64(use.Utime.Nano()+use.Stime.Nano())/1e6)
		}
		fmt.Printf("- `steward %s`: %.0f\n", strings.Join(args, " "), median(times))
	}
	return nil
}
