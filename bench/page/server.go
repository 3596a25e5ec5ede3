package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"steward/bench/process"
	"steward/client"
)

// server is a server under measurement, in its own process.
type server struct {
	url  string
	cmd  *exec.Cmd
	stop func() error
}

// spend returns the CPU time that the server takes while do runs.
func (s *server) spend(do func() error) (time.Duration, error) {
	before, err := process.CPU(s.cmd.Process.Pid)
	if err == nil {
		err = do()
	}
	after, failed := process.CPU(s.cmd.Process.Pid)
	return after - before, errors.Join(err, failed)
}

// settledMemory returns the memory after the server has been at rest for a while.
func (s *server) settledMemory() float64 {
	time.Sleep(5 * time.Second)
	return process.RSS(s.cmd.Process.Pid)
}

type steward struct {
	server
	api *client.Client
}

func (b *bench) startSteward(model string) (*steward, error) {
	// This model's context window is known: 128,000 tokens.
	if err := os.WriteFile(filepath.Join(b.dir, "bench.yaml"), []byte("models: {default: openai/gpt-4o, fast: openai/gpt-4o}\n"), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(b.binary, "serve", "--json", "--quiet", "--config", "bench.yaml")
	cmd.Dir, cmd.Stderr = b.dir, os.Stderr
	data := filepath.Join(b.dir, "data")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "STEWARD_DATA=" + data, "STEWARD_LISTEN=127.0.0.1:0", "STEWARD_LOG_LEVEL=warn",
		"OLLAMA_HOST=127.0.0.1:1", "OPENAI_API_KEY=bench", "OPENAI_BASE_URL=" + model + "/v1"}
	for _, name := range []string{"GODEBUG", "GOGC", "GOMEMLIMIT"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
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
	token := func() (string, error) {
		text, err := os.ReadFile(filepath.Join(data, "token"))
		if errors.Is(err, os.ErrNotExist) {
			text, err = os.ReadFile(filepath.Join(data, "admin.token"))
		}
		return strings.TrimSpace(string(text)), err
	}
	s := &steward{server: server{url: notice.URL, cmd: cmd}, api: client.New(client.Options{URL: notice.URL, Token: token})}
	s.stop = func() error { return errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()) }
	return s, nil
}

// person is somebody who is signed in.
type person struct {
	steward *steward
	cookie  string
}

// signIn signs a browser in, as a new user or (empty) as the machine's own.
func (s *steward) signIn(name string) (*person, error) {
	ctx := context.Background()
	if name != "" {
		if _, err := s.api.AddUser(ctx, name, nil); err != nil {
			return nil, err
		}
	}
	l, err := s.api.NewLink(ctx, name, "15m")
	if err != nil {
		return nil, err
	}
	p := &person{steward: s}
	res, err := p.request(http.MethodPost, "/in", map[string]string{"link": l.Secret})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	for _, c := range res.Cookies() {
		p.cookie = c.Name + "=" + c.Value
	}
	return p, nil
}

// request makes a request as the page does.
func (p *person) request(method, path string, in any) (*http.Response, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(method, p.steward.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	req.Header.Set("Cookie", p.cookie)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 300 {
		text, err := io.ReadAll(res.Body)
		return nil, errors.Join(fmt.Errorf("%s %s: %s: %.300s", method, path, res.Status, text), err, res.Body.Close())
	}
	return res, nil
}

// converse begins a conversation and returns the path of its screen.
func (p *person) converse() (string, error) {
	res, err := p.request(http.MethodPost, "/do/send", map[string]string{"text": "hello"})
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var out struct{ Go string }
	err = json.NewDecoder(res.Body).Decode(&out)
	return out.Go, err
}

func (p *person) say(chat, text string) error {
	res, err := p.request(http.MethodPost, "/do/send", map[string]string{"conversation": strings.TrimPrefix(chat, "/chat/"), "text": text})
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// openIdle opens pages on mixed screens of many people.
func (b *bench) openIdle(s *steward) (list []*page, err error) {
	for i := range b.people {
		p, err := s.signIn(fmt.Sprintf("user%d", i))
		if err != nil {
			return nil, err
		}
		chat, err := p.converse()
		if err != nil {
			return nil, err
		}
		screens := []string{"/", chat, "/plans", "/jobs", "/home", "/approvals"}
		for n := range b.idle / b.people {
			one, err := p.open(screens[n%len(screens)])
			if err != nil {
				return nil, err
			}
			list = append(list, one)
		}
	}
	return list, nil
}

func startBare(model string) (*server, error) {
	c, url, err := process.Start("child-bare", model)
	if err != nil {
		return nil, err
	}
	return &server{url: url, cmd: c.Cmd, stop: c.Stop}, nil
}

func openBare(s *server, times int) (list []*page, err error) {
	for range times {
		p, err := follow(s.url, "/live", "")
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// begin has the bare loop ask the model, and send events of these sizes.
func (s *server) begin(sizes []int) error {
	body, err := json.Marshal(sizes)
	if err != nil {
		return err
	}
	res, err := http.Post(s.url+"/begin", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	return res.Body.Close()
}
