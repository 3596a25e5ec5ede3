// Command node is a Steward for the kill test: the real store, provider,
// runtime and WebSocket face, and tools whose effects are counted by a ledger
// outside. Usage: node DATA LISTEN MODEL-URL LEDGER-URL.
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
	"time"

	"steward/internal/face/chat"
	"steward/internal/face/httpauth"
	"steward/internal/llm"
	"steward/internal/policy"
	"steward/internal/provider/openai"
	"steward/internal/runtime"
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
		Aliases:   map[string]llm.Alias{"default": {Models: []string{"openai/chaos"}}},
	})
	if err != nil {
		return err
	}
	tools, err := ledgerTools(ledger)
	if err != nil {
		return err
	}
	node, err := runtime.Open(ctx, runtime.Options{Store: db, Models: models, Tools: tools, Judge: policy.Fixed{}, Log: log})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	guard := httpauth.New(httpauth.Options{Logger: log})
	mux := http.NewServeMux()
	mux.Handle("/ws", guard.Wrap(chat.Handler(chat.Options{Node: node, Logger: log}), nil))
	fmt.Println("ready", ln.Addr())
	return http.Serve(ln, mux)
}

type entry struct {
	Token string `json:"token"`
}

// ledgerTools are one query and three actions: an effect that can be asked
// about, one that the receiver deduplicates, and one with neither.
func ledgerTools(base string) (*tool.Registry, error) {
	l := &ledgerClient{base: base, http: &http.Client{Timeout: 20 * time.Second}}
	r := &tool.Registry{}
	add := func(name, path string, effect tool.Effect, dedupes, asks bool) error {
		t, err := tool.New(tool.Spec{Name: name, Description: "Write a token to the ledger (" + name + ").", Effect: effect, Dedupes: dedupes, Timeout: 20 * time.Second},
			func(ctx context.Context, in tool.Invocation, e entry) (string, error) {
				return l.post(ctx, path, in.Key, e.Token)
			})
		if err == nil && asks {
			t = asked{t, l}
		}
		if err == nil {
			err = r.Add(t)
		}
		return err
	}
	for _, err := range []error{
		add("ledger.look", "/look", tool.Query, false, false),
		add("ledger.ask", "/add", tool.Action, false, true),
		add("ledger.dedup", "/add-once", tool.Action, true, false),
		add("ledger.blind", "/add", tool.Action, false, false),
	} {
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// asked is a tool whose ledger can be asked what has happened.
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

// Unwrap lets the tool's own check be found.
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
