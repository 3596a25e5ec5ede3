// Command node is a Steward for the kill test: the real store, provider,
// runtime and WebSocket server, with tools whose effects an external ledger
// counts. Usage: node DATA LISTEN MODEL-URL LEDGER-URL.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"steward/internal/llm"
	"steward/internal/policy"
	"steward/internal/provider/openai"
	"steward/internal/runtime"
	"steward/internal/server/auth"
	"steward/internal/server/websocket"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
)

func main() {
	if err := serve(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

func serve(data, listen, model, ledger string) error {
	ctx := context.Background()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	db, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(data, "steward.db"), Log: log})
	if err != nil {
		return err
	}
	models, err := llm.New(llm.Config{
		Providers: []llm.Provider{openai.New(openai.Options{BaseURL: model, Key: "none"})},
		Aliases:   map[string]llm.Alias{"default": {Models: []string{"openai/chaos"}}, "strong": {Models: []string{"openai/chaos"}}},
	})
	if err != nil {
		return err
	}
	tools, err := ledgerTools(ledger)
	if err != nil {
		return err
	}
	node, err := runtime.Open(ctx, runtime.Options{Store: db, Models: models, Tools: tools, Authorizer: policy.Fixed{}, Log: log})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	talks := websocket.Handler(websocket.Options{Node: node, Approvals: node.Effects, Logger: log})
	mux := http.NewServeMux()
	mux.HandleFunc("/open", func(w http.ResponseWriter, r *http.Request) {
		open, err := node.Requests(r.Context(), "local", false, 10_000)
		if err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		fmt.Fprint(w, len(open))
	})
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		talks.ServeHTTP(w, r.WithContext(auth.With(r.Context(), auth.Caller{User: "local", Admin: true})))
	})
	fmt.Println("ready", ln.Addr())
	return http.Serve(ln, mux)
}

// patience is the timeout of a call. A call that times out would look like one
// that was lost.
const patience = 5 * time.Minute

type entry struct {
	Token string `json:"token"`
}

// ledgerTools returns one query and several kinds of actions, each executed at
// once or queued until the turn ends: with a status check, with deduplication
// by the receiver, and with neither. One more queued action is executed in
// batches.
func ledgerTools(base string) (*tool.Registry, error) {
	l := &ledgerClient{base: base, http: &http.Client{Timeout: patience}}
	r := &tool.Registry{}
	add := func(name, path string, spec tool.Spec, wrap func(tool.Tool) tool.Tool) error {
		spec.Name, spec.Timeout = name, patience
		spec.Description = "Write a token to the ledger (" + name + ")."
		t, err := tool.New(spec, func(ctx context.Context, in tool.Invocation, e entry) (string, error) {
			return l.post(ctx, path, in.Key, e.Token)
		})
		if err == nil && wrap != nil {
			t = wrap(t)
		}
		if err == nil {
			err = r.Add(t)
		}
		return err
	}
	ask := func(t tool.Tool) tool.Tool { return asked{t, l} }
	inline := tool.Spec{Effect: tool.Action}
	later := tool.Spec{Effect: tool.Action, Delivery: tool.Deferred}
	once, laterOnce := inline, later
	once.Dedupes, laterOnce.Dedupes = true, true
	for _, err := range []error{
		add("ledger.look", "/look", tool.Spec{Effect: tool.Query}, nil),
		add("ledger.ask", "/add", inline, ask),
		add("ledger.dedup", "/add-once", once, nil),
		add("ledger.blind", "/add", inline, nil),
		add("later.ask", "/add", later, ask),
		add("later.dedup", "/add-once", laterOnce, nil),
		add("later.blind", "/add", later, nil),
		add("later.batch", "/add-once", laterOnce, func(t tool.Tool) tool.Tool { return batch{t, l} }),
	} {
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// batch is a tool that executes several queued actions at once. Its ledger
// identifies each by its key.
type batch struct {
	tool.Tool
	ledger *ledgerClient
}

// CallAll implements tool.Batcher.
func (b batch) CallAll(ctx context.Context, ins []tool.Invocation) []tool.Outcome {
	out := make([]tool.Outcome, len(ins))
	for i, in := range ins {
		var e entry
		if out[i].Err = json.Unmarshal(in.Args, &e); out[i].Err != nil {
			continue
		}
		var text string
		text, out[i].Err = b.ledger.post(ctx, "/add-once", in.Key, e.Token)
		out[i].Result = tool.Text(text)
	}
	return out
}

// Unwrap gives access to the wrapped tool's own check.
func (b batch) Unwrap() tool.Tool { return b.Tool }

// asked is a tool whose ledger can report whether a call happened.
type asked struct {
	tool.Tool
	ledger *ledgerClient
}

// Settle implements tool.Settler.
func (a asked) Settle(ctx context.Context, in tool.Invocation) (bool, tool.Result, error) {
	text, err := a.ledger.post(ctx, "/happened", in.Key, "")
	if err != nil {
		return false, tool.Result{}, err
	}
	return text != "", tool.Text(text), nil
}

// Unwrap gives access to the wrapped tool's own check.
func (a asked) Unwrap() tool.Tool { return a.Tool }

type ledgerClient struct {
	base string
	http *http.Client
}

func (l *ledgerClient) post(ctx context.Context, path, key, token string) (string, error) {
	body, err := json.Marshal(map[string]string{"key": key, "token": token})
	if err != nil {
		return "", err
	}
	u, err := url.JoinPath(l.base, path)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, "POST", u, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("From", strconv.Itoa(os.Getpid()))
	res, err := l.http.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err
	}
	if res.StatusCode != 200 {
		return "", fmt.Errorf("the ledger answers %s", res.Status)
	}
	return string(b), nil
}
