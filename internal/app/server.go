package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/secret"
	"steward/internal/server/api"
	"steward/internal/server/auth"
	"steward/internal/server/hooks"
	"steward/internal/server/mcp"
	"steward/internal/server/openai"
	"steward/internal/server/page"
	"steward/internal/server/rpc"
	"steward/internal/server/services"
	"steward/internal/server/websocket"
	"steward/internal/settings"
	"steward/internal/store/cluster"
)

// Token returns a function that returns the token of the machine's own user in a data
// folder. Every request calls it, so it reads the file only after a change. It also hides the
// token in everything that Steward writes. It is safe for concurrent use.
func (a *App) Token(data string) func() (string, error) {
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
		a.Hide(known, "token")
		return known, nil
	}
}

// Server serves a node over HTTP.
type Server struct {
	URL    string
	http   *http.Server
	chat   *websocket.Server
	grace  time.Duration
	beyond time.Duration // how long closing may take beyond the grace; zero: 10 s
	file   string        // the notice
	log    *slog.Logger
	Failed chan error
	drain  func()       // says that Steward is ending, and waits until those who ask know it
	leave  func() error // leaves the cluster

	stopDuties func() // that this node has without a cluster; nil: there are none
}

// handlers are what a node serves, at its own address and to the other nodes of its cluster.
type handlers struct {
	handler http.Handler
	ends    []func() // end streams, which would last as long as their clients
}

// handlers returns what a node serves that listens at an address; empty: it is reached through the other nodes.
func (a *App) handlers(set *settings.Loaded, l *Local, address string, log *slog.Logger) (*handlers, error) {
	guard := auth.New(auth.Options{Keys: l.Keys, Token: a.Token(set.Data), AnyHost: auth.BeyondLoopback(address), People: l.Keys, Places: l.places(),
		Hosts: hosts(set.Hosts, address), Origins: set.Origins, Open: set.Open, Intake: l.intake, Limited: l.Keys.AuthenticateOnly, Logger: log})
	health := l.health()
	calls := rpc.New(rpc.Options{Node: l.node, Events: l.node, Work: l.node, Guard: guard, Ready: l.Store.Ready, Logger: log})
	tools := mcp.New(mcp.Options{Node: l.node, Approvals: l.node.Effects, Tree: l.node.Resources(), Examples: l.examples, Version: a.VersionText(), Logger: log})
	mux := http.NewServeMux()
	mux.Handle(mcp.Path, guard.Wrap(tools, nil))
	mux.Handle(websocket.Path, guard.Wrap(l.chat, nil))
	mux.Handle("/v1/", guard.Wrap(openai.Handler(openai.Options{Node: l.node, Logger: log}), openai.WriteError))
	mux.Handle("/api/v1/", guard.Wrap(api.Handler(l.apiOptions(set)), nil))
	mux.Handle(services.Prefix+"/", guard.Wrap(l.services.handler(), nil))
	mux.Handle(hooks.Prefix, hooks.Handler(hooks.Options{Jobs: l.alarms, Secret: secret.NewStore(secret.Folder(set.Data)).Get, Logger: log}))
	mux.Handle(ChannelsPath, l.atDuty(cluster.Channels, l.channelEvents()))
	mux.Handle("/healthz", health)
	mux.Handle("/readyz", health)
	mux.Handle("GET "+metricsPath, guard.Only(identity.OnlyMetrics, l.telemetry.Handler()))
	mux.Handle(profilesPath, guard.Only("", profiles()))
	if err := calls.Mount(mux); err != nil {
		return nil, err
	}
	closing := make(chan struct{})
	front, err := page.Handler(page.Options{Node: l.node, API: api.Handler(l.apiOptions(set)), People: l.Keys, Version: a.VersionText(), Cluster: l.NodeName(), Logger: log, Closing: closing})
	if err != nil {
		return nil, err
	}
	mux.Handle("/", guard.Browser(l.Keys, front, page.Fail(log)))
	l.forOthers(a, set, mux, guard, log)
	return &handlers{handler: a.telemetry.Servers(serverOf, masking(a.Hidden(), mux)), ends: []func(){calls.Close, tools.Close, sync.OnceFunc(func() { close(closing) })}}, nil
}

// server returns an HTTP server of a handler.
func (h *handlers) server(handler http.Handler, log *slog.Logger) *http.Server {
	s := auth.Timeouts{MayPause: rpc.MayPause}.Server(handler)
	s.ErrorLog, s.Protocols = slog.NewLogLogger(log.Handler(), slog.LevelDebug), new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true) // for gRPC
	for _, end := range h.ends {
		s.RegisterOnShutdown(end)
	}
	return s
}

// Listen opens the servers at an address.
func (a *App) Listen(ctx context.Context, set *settings.Loaded, l *Local, address string, log *slog.Logger) (*Server, error) {
	if _, err := auth.MakeToken(set.Data); err != nil {
		return nil, err
	}
	ln, err := a.Outside.listen(address)
	if err != nil {
		return nil, CannotListen(address, err)
	}
	s := &Server{URL: urlOf(ln.Addr()), grace: set.Timeouts.Shutdown, drain: func() { l.closing.Store(true); time.Sleep(set.Timeouts.Drain) }, file: NoticeFile(set.Data), log: log, Failed: make(chan error, 1), chat: l.chat, leave: l.leaveCluster}
	serves, err := a.handlers(set, l, address, log)
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	s.http = serves.server(auth.Untrusted(serves.handler), log)
	if err := s.announce(a.VersionText()); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	s.stopDuties, err = l.takeDuties(ctx, set)
	if err == nil {
		err = l.startCluster(set, serves, log)
	}
	if err != nil {
		return nil, errors.Join(err, ln.Close(), os.Remove(s.file))
	}
	go func() {
		if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.Failed <- err
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

// CannotListen explains why an address cannot be listened on, and what to do.
func CannotListen(address string, err error) error {
	host, _, _ := net.SplitHostPort(address)
	free := net.JoinHostPort(cmp.Or(host, "127.0.0.1"), "0")
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fault.New(fault.Unavailable, "port_in_use", "another program listens on %s", address).
			WithHint("stop it, or use another port: steward serve --listen %s picks a free one", free)
	case errors.Is(err, syscall.EACCES):
		return fault.New(fault.Denied, "port_denied", "no permission to listen on %s", address).
			WithHint("use a port above 1023: steward serve --listen %s picks a free one", free)
	}
	return fault.New(fault.Invalid, "listen_failed", "cannot listen on %s: %w", address, err).
		WithHint("give an address of this machine with --listen HOST:PORT")
}

// announce writes the notice by which commands find the server.
func (s *Server) announce(version string) error {
	b, err := json.Marshal(Notice{URL: s.URL, PID: os.Getpid(), Version: version})
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.file+".new", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(s.file+".new", s.file)
}

// Close accepts no more requests and waits, for a limited time, for those in progress.
func (s *Server) Close() error {
	if s.drain != nil {
		s.drain()
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
	leave := func() error {
		if s.leave != nil {
			return s.leave()
		}
		return nil
	}
	duties := func() error {
		if s.stopDuties != nil {
			s.stopDuties()
		}
		return nil
	}
	requests := func() error {
		if s.http.Shutdown(ctx) != nil {
			return s.http.Close()
		}
		return nil
	}
	return errors.Join(err, closeWithin(grace+cmp.Or(s.beyond, 10*time.Second), s.log, part{"the cluster", leave}, part{"the channels", duties}, part{"the chat", talks}, part{"the APIs", requests}))
}

// Notice is the content of the file by which commands find the Steward that serves the
// data folder.
type Notice struct {
	URL     string `json:"url"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
}

// NoticeFile is the file by which commands find the Steward that serves a data folder.
func NoticeFile(data string) string { return filepath.Join(data, "server.json") }

// ReadNotice reads the notice of a data folder.
func ReadNotice(data string) (Notice, error) {
	var n Notice
	b, err := os.ReadFile(NoticeFile(data))
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(b, &n); err != nil || n.URL == "" {
		return n, fmt.Errorf("%s is damaged", NoticeFile(data))
	}
	return n, nil
}

// examples returns what people say to an agent, from its definition.
func (l *Local) examples(agent string) []string {
	var out []string
	for _, a := range l.Catalog.Listings() {
		if a.Path == agent && a.Usable {
			for _, e := range a.Examples {
				out = append(out, e.Say)
			}
		}
	}
	return out
}

// apiOptions returns the options of the API of a node.
func (l *Local) apiOptions(set *settings.Loaded) api.Options {
	return api.Options{Backups: l.backups, Levels: l.levels, Audit: l.audit, Node: l.node, Agents: l.Catalog, Authorizer: l.Judge, Logger: l.Log, People: l.Keys, Own: ownProfile(set), Resources: l.node.Resources(), Jobs: l.jobService(set), Channels: accounts{l.Messages, l}, Heartbeat: l.heartbeatService(set), Goals: l.goals, Memory: l.memory, Documents: l.papers, Graph: l.graph, Home: l.home, Setup: l.setup, Cluster: l.clusterAPI()}
}

// linkFor is how long the link can be used that is printed at a start.
const linkFor = 12 * time.Hour

// SignInLink returns an address that opens the page at a server, signed in as the machine's own user, once.
func (l *Local) SignInLink(ctx context.Context, url string) (string, error) {
	secret, err := l.Keys.NewLink(ctx, identity.Local, identity.Local, linkFor)
	return page.SignInLink(url, secret), err
}
