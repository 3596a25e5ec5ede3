package ollama_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/server/auth"
	"steward/internal/server/ollama"
	"steward/internal/turn"
)

// node is a node whose model and turns answer with given events.
type node struct {
	events []llm.Event
	err    error
	frames func(acc turn.Accepted) []turn.Frame
	embed  func(model string, texts []string) (llm.Vectors, error)
	wait   chan struct{} // when set, the model waits for it

	mu    sync.Mutex
	asked *llm.Request
	turns []turn.Input
}

func (n *node) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		n.mu.Lock()
		n.asked = r
		n.mu.Unlock()
		if n.wait != nil {
			select {
			case <-n.wait:
			case <-ctx.Done():
				yield(llm.Event{}, ctx.Err())
				return
			}
		}
		for _, ev := range n.events {
			if !yield(ev, nil) {
				return
			}
		}
		if n.err != nil {
			yield(llm.Event{}, n.err)
		}
	}
}

func (n *node) Aliases() []string { return []string{"default", "fast"} }

func (n *node) Agents(context.Context) []kits.AgentView {
	return []kits.AgentView{{Path: "assistant"}, {Path: "home/lights"}}
}

func (n *node) Resolve(name string) (llm.Resolved, error) {
	return llm.Resolved{Name: name, Models: []string{"test/one"}, Model: n}, nil
}

func (n *node) Window([]string) int { return 8192 }

func (n *node) FitRequest(_ context.Context, _ []string, _ *llm.Request, msgs []*message.Message, _ bool) ([]*message.Message, error) {
	return msgs, nil
}

func (n *node) Embed(_ context.Context, model string, texts []string) (llm.Vectors, error) {
	if n.embed == nil {
		return llm.Vectors{}, fault.New(fault.Unsupported, "no_embeddings", "test/one cannot embed").WithHint("set the alias embed")
	}
	return n.embed(model, texts)
}

func (n *node) ReadAttached(context.Context, string, string, []message.Block) error { return nil }

var turnID = id.ID{15: 1, 8: 0x80, 6: 0x70}

func (n *node) Send(_ context.Context, user string, t turn.Input) (turn.Accepted, error) {
	if user != "ana" {
		return turn.Accepted{}, fault.New(fault.Denied, "wrong_user", "%s has sent it", user)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turns = append(n.turns, t)
	return turn.Accepted{Conversation: id.New(), Interaction: turnID, Seq: 7}, nil
}

func (n *node) Watch(_ context.Context, _ string, conv id.ID, from turn.Cursor) iter.Seq2[turn.Frame, error] {
	return func(yield func(turn.Frame, error) bool) {
		for _, f := range n.frames(turn.Accepted{Conversation: conv, Interaction: turnID, Seq: from.Seq}) {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// serve runs the server on a socket as Steward does, for the user ana and the peers of a list.
func serve(t *testing.T, n *node, o ollama.Options, peers ...string) string {
	t.Helper()
	if len(peers) == 0 {
		peers = []string{"127.0.0.0/8"}
	}
	allowed, err := auth.ParsePeers(peers)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	o.Node, o.Logger = n, log
	guard := auth.New(auth.Options{AnyIP: true, Logger: log})
	s := &http.Server{Handler: guard.WrapUser("ana", ollama.Handler(o), ollama.WriteError)}
	go s.Serve(auth.Peers{Allowed: allowed, Log: log}.Listen(ln))
	t.Cleanup(func() { s.Close() })
	return "http://" + ln.Addr().String()
}

// do sends a request and returns the status, the type and the lines of the answer.
func do(t *testing.T, method, url, body string, headers ...string) (status int, kind string, lines []string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for in := bufio.NewScanner(res.Body); in.Scan(); {
		lines = append(lines, tidy(in.Text()))
	}
	io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Header.Get("Content-Type"), lines
}

var (
	times     = regexp.MustCompile(`"(created_at|modified_at)":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"`)
	durations = regexp.MustCompile(`"(total_duration|prompt_eval_duration|eval_duration)":\d+`)
	digests   = regexp.MustCompile(`"digest":"[0-9a-f]{64}"`)
	ids       = regexp.MustCompile(`"id":"call_[0-9a-f]{8}"`)
)

// tidy replaces the values that differ from run to run, and checks their form.
func tidy(s string) string {
	s = times.ReplaceAllString(s, `"$1":"T"`)
	s = durations.ReplaceAllString(s, `"$1":0`)
	s = digests.ReplaceAllString(s, `"digest":"D"`)
	return ids.ReplaceAllString(s, `"id":"ID"`)
}

func text(s string) *message.Text { return &message.Text{Text: s} }

func delta(kind llm.Kind, s string) llm.Event { return llm.Event{Kind: kind, Text: s} }

func done(stop message.Stop, blocks ...message.Block) llm.Event {
	return llm.Event{Kind: llm.Done, Reply: &llm.Reply{Model: "test/one", Blocks: blocks, Stop: stop, Usage: message.Usage{Input: 20, Output: 7}}}
}

// errorOf returns the text of an error in Ollama's form, which has nothing else.
func errorOf(t *testing.T, lines []string) string {
	t.Helper()
	var v map[string]string
	if len(lines) != 1 || json.Unmarshal([]byte(lines[0]), &v) != nil || len(v) != 1 || v["error"] == "" {
		t.Fatalf("not Ollama's form: %q", lines)
	}
	return v["error"]
}
