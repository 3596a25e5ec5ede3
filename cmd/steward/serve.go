package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/server/api"
	"steward/internal/server/auth"
	"steward/internal/server/openai"
	"steward/internal/server/rpc"
	"steward/internal/server/services"
	"steward/internal/server/websocket"
	"steward/internal/settings"
	"steward/internal/terminal"
)

func (a *app) serveCommand() *cobra.Command {
	var listen string
	c := &cobra.Command{
		Use: "serve", Short: "Serve the chat and the APIs over HTTP", GroupID: "talk", Args: cobra.NoArgs,
		Long: "Serve the WebSocket chat at /ws (docs/reference/websocket.md), OpenAI's API at /v1 (docs/reference/openai.md),\n" +
			"Steward's own at /api/v1 (docs/reference/api.md) and over gRPC (docs/reference/rpc.md). Your own programs send\n" +
			"what steward token prints; create keys for other people (steward keys create). The first Ctrl-C\n" +
			"stops Steward gracefully, the second one at once.",
		Example: "  steward serve\n  steward serve --listen 0.0.0.0:7420 --data /srv/steward",
		RunE: func(c *cobra.Command, _ []string) error {
			if listen != "" {
				a.flags = append(a.flags, settings.Flag{Key: "listen", Value: listen, Name: "--listen"})
			}
			return a.serve(c.Context())
		},
	}
	c.Flags().StringVar(&listen, "listen", "", "`HOST:PORT` to listen on; port 0 picks a free one")
	return c
}

func (a *app) serve(ctx context.Context) error {
	a.serving = true
	heedMemory(a.getenv, "/")
	set, err := a.settings()
	if err != nil {
		return err
	}
	log := a.logger(set, a.stderr)
	l, err := a.openLocal(ctx, set, log)
	if err != nil {
		if n, other := readNotice(set.Data); other == nil && fault.HasCode(err, "data_in_use") {
			return fault.Of(err).WithHint("it serves at %s: use it, stop it, or name another folder with --data", n.URL)
		}
		return err
	}
	s, err := a.listen(ctx, set, l, set.Listen, log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if err := a.welcome(set, s, l); err != nil {
		return errors.Join(err, s.Close(), l.Close())
	}
	defer a.tellAlong(ctx, l)()
	select {
	case <-ctx.Done():
		a.note("steward: stopping; running turns are suspended and resume at the next start (Ctrl-C stops at once)")
	case err = <-s.failed:
	}
	return errors.Join(err, s.Close(), l.Close())
}

// welcome prints where Steward serves and what to do next.
func (a *app) welcome(set *settings.Loaded, s *server, l *local) error {
	if a.json {
		return a.printJSON(notice{URL: s.url, PID: os.Getpid(), Version: a.versionText()})
	}
	model := strings.Join(l.found.aliases["default"].Models, ", then ")
	var b strings.Builder
	fmt.Fprintf(&b, "Steward serves at %s\n", s.url)
	if !a.quiet {
		fmt.Fprintf(&b, "  model   %s\n", model)
		fmt.Fprintf(&b, "  chat    steward chat   (WebSocket: %s/ws)\n", strings.Replace(s.url, "http", "ws", 1))
		fmt.Fprintf(&b, "  try     curl -s %s/v1/chat/completions -H 'Content-Type: application/json' \\\n"+
			"            -H \"Authorization: Bearer $(%s)\" \\\n"+
			"            -d '{\"model\":\"default\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello, who are you?\"}]}'\n", s.url, "cat "+shellWord(auth.TokenFile(set.Data)))
		if auth.BeyondLoopback(set.Listen) {
			b.WriteString("  Other machines reach it, and what they send is not encrypted. Give each person a key:\n" +
				"  steward keys create --user NAME\n")
		}
		if say := l.waitingAgents(); say != "" {
			b.WriteString("  " + say + "\n")
		}
		if l.found.offlineOnly() {
			b.WriteString("  The offline provider answers: rules, not a language model. For a real one: steward setup\n")
		}
	}
	return a.print(b.String())
}

// token returns a function that returns the token of the machine's own user in a data
// folder. Every request calls it, so it reads the file only after a change. It also hides the
// token in everything that Steward writes. It is safe for concurrent use.
func (a *app) token(data string) func() (string, error) {
	var mu sync.Mutex
	var known string
	var of os.FileInfo // the file that known was read from; nil: none
	return func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		// If the file is replaced between Lstat and the read, the next call reads it again.
		now, err := os.Lstat(auth.TokenFile(data))
		if err == nil && of != nil && os.SameFile(of, now) && of.Mode() == now.Mode() && of.ModTime().Equal(now.ModTime()) {
			return known, nil
		}
		of = nil
		if known, err = auth.ReadToken(data); err != nil {
			return "", err
		}
		of = now
		a.hide(known, "token")
		return known, nil
	}
}

// shellWord quotes a text as one word of a POSIX shell.
func shellWord(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// server serves a node over HTTP.
type server struct {
	url    string
	http   *http.Server
	chat   *websocket.Server
	grace  time.Duration
	beyond time.Duration // how long closing may take beyond the grace; zero: 10 s
	file   string        // the notice
	log    *slog.Logger
	failed chan error
	deaf   func() // ends that new mail is noticed
}

// listen opens the servers at an address.
func (a *app) listen(ctx context.Context, set *settings.Loaded, l *local, address string, log *slog.Logger) (*server, error) {
	if _, err := auth.MakeToken(set.Data); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, cannotListen(address, err)
	}
	s := &server{url: urlOf(ln.Addr()), grace: set.Timeouts.Shutdown, file: noticeFile(set.Data), log: log, failed: make(chan error, 1)}
	guard := auth.New(auth.Options{Keys: l.keys, Token: a.token(set.Data), AnyHost: auth.BeyondLoopback(address), People: l.keys,
		Hosts: hosts(set.Hosts, address), Origins: set.Origins, Open: set.Open, Intake: l.intake, Logger: log})
	s.chat = l.chat
	health := api.Health(l.store.Ready)
	calls := rpc.New(rpc.Options{Node: l.node, Events: l.node, Work: l.node, Guard: guard, Ready: l.store.Ready, Logger: log})
	mux := http.NewServeMux()
	mux.Handle(websocket.Path, guard.Wrap(s.chat, nil))
	mux.Handle("/v1/", guard.Wrap(openai.Handler(openai.Options{Node: l.node, Logger: log}), openai.WriteError))
	mux.Handle("/api/v1/", guard.Wrap(api.Handler(l.apiOptions(set)), nil))
	mux.Handle(services.Prefix+"/", guard.Wrap(l.services.handler(), nil))
	mux.Handle("/healthz", health)
	mux.Handle("/readyz", health)
	if err := calls.Mount(mux); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		auth.WriteError(w, r, log, fault.New(fault.NotFound, "unknown_url", "there is no %.200s", r.URL.Path).
			WithHint("Steward has /ws, /v1, /api/v1, /tool.Tool, /search.Search, /event.Event, /services/v1, /healthz and /readyz"))
	})
	s.http = auth.Patience{Talks: rpc.Talks}.Server(masking(a.hidden(), mux))
	s.http.ErrorLog, s.http.Protocols = slog.NewLogLogger(log.Handler(), slog.LevelDebug), new(http.Protocols)
	s.http.Protocols.SetHTTP1(true)
	s.http.Protocols.SetUnencryptedHTTP2(true) // for gRPC
	s.http.RegisterOnShutdown(calls.Close)
	if err := s.announce(a.versionText()); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	if s.deaf, err = l.watchMail(set); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	go func() {
		if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}()
	return s, nil
}

// hosts adds the host of the listening address to the names under which Steward may be
// called, unless it stands for all addresses.
func hosts(named []string, address string) []string {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		return named
	}
	return append(append([]string{}, named...), host)
}

// urlOf returns the URL at which this machine reaches a listener.
func urlOf(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "http://" + addr.String()
	}
	if host == "::" || host == "0.0.0.0" {
		host = "127.0.0.1" // a listener on all addresses reports "::" even for IPv4
	}
	return "http://" + net.JoinHostPort(host, port)
}

func cannotListen(address string, err error) error {
	host, _, _ := net.SplitHostPort(address)
	free := net.JoinHostPort(cmp.Or(host, "127.0.0.1"), "0")
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fault.New(fault.Unavailable, "port_in_use", "another program listens on %s", address).
			WithHint("stop it, or take another port: steward serve --listen %s takes a free one", free)
	case errors.Is(err, syscall.EACCES):
		return fault.New(fault.Denied, "port_denied", "you may not listen on %s", address).
			WithHint("take a port above 1023: steward serve --listen %s takes a free one", free)
	}
	return fault.New(fault.Invalid, "listen_failed", "%s cannot be listened on: %w", address, err).
		WithHint("give an address of this machine with --listen HOST:PORT")
}

// announce writes the notice by which commands find the server.
func (s *server) announce(version string) error {
	b, err := json.Marshal(notice{URL: s.url, PID: os.Getpid(), Version: version})
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.file+".new", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(s.file+".new", s.file)
}

// Close accepts no more requests and waits, for a limited time, for those in progress.
func (s *server) Close() error {
	if s.deaf != nil {
		s.deaf()
	}
	err := os.Remove(s.file)
	grace := max(s.grace, time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	// Long requests end when the node suspends their turns. Cutting off those that
	// do not end by themselves loses nothing.
	talks := func() error {
		s.chat.Shutdown(ctx) //nolint:errcheck // says that it has cut some off
		return nil
	}
	requests := func() error {
		if s.http.Shutdown(ctx) != nil {
			return s.http.Close()
		}
		return nil
	}
	return errors.Join(err, closeWithin(grace+cmp.Or(s.beyond, 10*time.Second), s.log, part{"the chat", talks}, part{"the APIs", requests}))
}

// tellAlong reports new pending approvals on a terminal until the returned function is
// called.
func (a *app) tellAlong(ctx context.Context, l *local) (stop func()) {
	if a.json || a.quiet || !isTerminal(a.stderr) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() {
		if err := tellWaiting(ctx, l, a.stderr); err != nil {
			l.log.Warn("what waits for an approval cannot be told", "error", err)
		}
	})
	return func() {
		cancel()
		telling.Wait()
	}
}

// tellWaiting reports new pending approvals until ctx is done. Those that exist at the
// beginning have been reported already.
func tellWaiting(ctx context.Context, l *local, w io.Writer) error {
	known := map[string]bool{}
	first := true
	for list, err := range terminal.Waiting(ctx, l.own.Client) {
		if err != nil {
			return err
		}
		for _, x := range list {
			if !known[x.Question()] && !first {
				if _, err := fmt.Fprintf(w, "steward: %s %s: steward agents approve %s\n", plainLine(x.Path), waitsHow(x), plainLine(x.Path)); err != nil {
					return err
				}
			}
			known[x.Question()] = true
		}
		first = false
	}
	return nil
}

func waitsHow(l catalog.Listing) string {
	if n := len(l.Waiting); n > 0 {
		return fmt.Sprintf("offers %s, off until you approve", counted(n, "tool that is new or changed", "tools that are new or changed"))
	}
	if l.Changed {
		return "is not as it was approved any more, and waits for your approval"
	}
	return "waits for your approval"
}
