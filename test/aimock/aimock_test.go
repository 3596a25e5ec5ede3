//go:build long

// Package aimock_test holds the providers against aimock, a provider double
// that somebody else has written: all of them against one server, with every
// request held against its vendor's rules on the way.
package aimock_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/gemini"
	"steward/internal/provider/ollama"
	"steward/internal/provider/openai"
	"steward/test/apis"
)

// vendor is a provider at the double.
type vendor struct {
	name    string
	model   llm.Model
	reasons bool // the double tells reasoning in this vendor's form
	lengths bool // and that an answer was cut by length
	pieces  bool // a call comes in several pieces
}

// start runs aimock and a proxy before it that checks, and returns the four
// providers.
func start(t *testing.T) []vendor {
	t.Helper()
	const cli = "node_modules/@copilotkit/aimock/dist/cli.js"
	if _, err := os.Stat(cli); err != nil {
		t.Fatalf("aimock is not installed: run `make test`, or `npm ci` in test/aimock (%v)", err)
	}
	cmd := exec.Command("node", cli, "--port", "0", "--fixtures", "fixtures.json", "--strict", "--chunk-size", "7", "--log-level", "info")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatalf("node does not run: %v; Node 20.15 or later is needed", err)
	}
	var reading sync.WaitGroup
	t.Cleanup(func() {
		cmd.Process.Kill()
		reading.Wait()
		cmd.Wait()
	})
	address := make(chan string, 1)
	reading.Go(func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if _, at, ok := strings.Cut(lines.Text(), "listening on "); ok {
				address <- strings.TrimSpace(at)
			}
		}
		close(address)
	})
	at, ok := <-address
	if !ok {
		t.Fatalf("aimock did not start: %s", errs.String())
	}
	return vendors(proxy(t, at))
}

func vendors(base string) []vendor {
	const key = "test-key"
	return []vendor{
		{"openai", openai.New(openai.Options{BaseURL: base + "/v1", Key: key}).Model("gpt-5"), true, true, true},
		{"anthropic", anthropic.New(anthropic.Options{BaseURL: base, Key: key}).Model("claude-opus-4-6"), true, true, true},
		{"gemini", gemini.New(gemini.Options{BaseURL: base, Key: key}).Model("gemini-2.5-flash"), true, true, false},
		{"ollama", ollama.New(ollama.Options{Host: base}).Model("llama3.2"), false, false, false},
	}
}

// proxy stands before the double and checks every request.
func proxy(t *testing.T, at string) string {
	target, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // of answers that are to break off
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("a request broke off: %v", err)
			return
		}
		if err := check(r.URL.Path, body); err != nil {
			t.Errorf("%s: %v\n%s", r.URL.Path, err, body)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func check(path string, body []byte) error {
	switch {
	case path == "/v1/chat/completions":
		return apis.CheckOpenAI(body)
	case path == "/v1/messages":
		return apis.CheckAnthropic(body)
	case strings.HasPrefix(path, "/v1beta/models/"):
		return apis.CheckGemini(body)
	case path == "/api/chat":
		return apis.CheckOllama(body)
	}
	return fmt.Errorf("nobody should ask for %s", path)
}

// talk is a conversation that goes on.
type talk struct {
	*llm.Transcript
	last *llm.Reply
}

func say(t *talk, text string) {
	m := &message.Message{ID: id.New(), Role: message.User, Blocks: []message.Block{&message.Text{Text: text}}}
	if t.Transcript == nil {
		t.Transcript = llm.NewTranscript(m)
	} else {
		t.Append(m)
	}
}

// answer asks a model and runs its calls until it has answered.
func (k *talk) answer(t *testing.T, m llm.Model) string {
	t.Helper()
	for range 3 {
		reply, err := k.step(m)
		if err != nil {
			t.Fatal(err)
		}
		k.last = reply
		msg := &message.Message{ID: id.New(), Role: message.Assistant, Blocks: reply.Blocks, Stop: reply.Stop, Model: reply.Model, Meta: reply.Meta}
		k.Append(msg)
		calls := msg.Calls()
		if (reply.Stop == message.StopTools) != (len(calls) > 0) {
			t.Errorf("stop is %q with %d calls", reply.Stop, len(calls))
		}
		if len(calls) == 0 {
			return msg.Text()
		}
		for _, c := range calls {
			k.Append(&message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{&message.ToolResult{
				Call: c.Ref, CallID: c.CallID, Name: c.Name, Status: message.OK, Content: []message.Block{&message.Text{Text: "done: " + c.Name}},
			}}})
		}
	}
	t.Fatal("no answer after three steps")
	return ""
}

func (k *talk) step(m llm.Model) (reply *llm.Reply, err error) {
	r := &llm.Request{System: "Be brief.", Transcript: k.Transcript, Tools: apis.Tools()}
	for ev, e := range m.Stream(context.Background(), r) {
		if e != nil {
			err = e
		}
		if ev.Kind == llm.Done {
			reply = ev.Reply
		}
	}
	return reply, err
}

// called are all calls of the conversation, as lines of name and arguments.
func (k *talk) called() string {
	var b strings.Builder
	for _, m := range k.Messages() {
		for _, c := range m.Calls() {
			fmt.Fprintf(&b, "%s %s\n", c.Name, strings.ReplaceAll(string(c.Args), " ", ""))
		}
	}
	return b.String()
}

const (
	greeting = "Hello! 世界 👋 \"How\" can I help?\nToday."
	multiply = "math.multiply {\"a\":6,\"b\":7}\n"
	three    = multiply + "time.now {\"zone\":\"Europe/Berlin\"}\ntext.hash {\"text\":\"héllo\\\"wörld\\\"\"}\n"
)

func TestEveryProvider(t *testing.T) {
	for _, v := range start(t) {
		t.Run(v.name, func(t *testing.T) {
			for _, c := range []struct{ ask, answer, calls string }{
				{"hello", greeting, ""},
				{"multiply", "It is 42.", multiply},
				{"three things", "All three are done.", three},
				{"say and do", "It is noon.", "time.now {}\n"},
				{"think", "Because.", ""},
				{"a city", `{"city":"Paris","population":2102650}`, ""},
			} {
				k := &talk{}
				say(k, c.ask)
				if got := k.answer(t, v.model); got != c.answer {
					t.Errorf("%s: %q, want %q", c.ask, got, c.answer)
				}
				if got := k.called(); got != c.calls {
					t.Errorf("%s: called\n%swant\n%s", c.ask, got, c.calls)
				}
				if k.last.Stop != message.StopEnd || !strings.HasPrefix(k.last.Model, v.name+"/") {
					t.Errorf("%s: stop %q, model %q", c.ask, k.last.Stop, k.last.Model)
				}
				if c.ask == "think" && v.reasons != thought(k.last) {
					t.Errorf("reasoning is %v in %+v", !v.reasons, k.last.Blocks)
				}
			}
			k := &talk{}
			say(k, "a long story")
			if reply, err := k.step(v.model); err != nil || (reply.Stop == message.StopLength) != v.lengths {
				t.Errorf("a long story: %+v, %v", reply, err)
			}
		})
	}
}

func thought(r *llm.Reply) bool {
	for _, b := range r.Blocks {
		if r, ok := b.(*message.Reasoning); ok && r.Text == "Why is it so? Let me think." {
			return true
		}
	}
	return false
}

func TestFailuresAlike(t *testing.T) {
	for _, v := range start(t) {
		t.Run(v.name, func(t *testing.T) {
			for ask, code := range map[string]string{
				"wrong key": "auth_failed", "no such model": "model_not_found", "too fast": "rate_limited", "crash": "provider_error",
				"busy": "overloaded", "bad wish": "request_refused", "cut off": "stream_broken", "cut the call": "stream_broken",
			} {
				k := &talk{}
				say(k, ask)
				reply, err := k.step(v.model)
				if ask == "cut the call" && !v.pieces {
					if err != nil || reply.Stop != message.StopTools || len(reply.Blocks) != 1 {
						t.Errorf("a call that comes whole: %+v, %v", reply, err)
					}
					continue
				}
				if reply != nil || !fault.HasCode(err, code) {
					t.Errorf("%s: %+v, %v; want %s", ask, reply, err, code)
					continue
				}
				if f := fault.Of(err); code == "rate_limited" && (f.Retry != fault.RetryAfter || f.After != 7*time.Second) {
					t.Errorf("retry %q after %s", f.Retry, f.After)
				}
			}
		})
	}
}

// TestHandedOn: a conversation of one provider goes on at each of the others,
// and comes back.
func TestHandedOn(t *testing.T) {
	all := start(t)
	for _, from := range all {
		for _, to := range all {
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				k := &talk{}
				for _, turn := range []struct {
					at          vendor
					ask, answer string
				}{
					{from, "think", "Because."}, {from, "multiply", "It is 42."}, {from, "three things", "All three are done."},
					{to, "say and do", "It is noon."}, {to, "multiply", "It is 42."}, {to, "three things", "All three are done."},
					{from, "hello", greeting},
				} {
					say(k, turn.ask)
					if got := k.answer(t, turn.at.model); got != turn.answer {
						t.Errorf("%s asked %q: %q", turn.at.name, turn.ask, got)
					}
				}
			})
		}
	}
}
