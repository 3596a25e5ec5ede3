package service

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"steward/internal/fault"
)

// Backend has the services that the Manager can route to this node or to another one.
type Backend interface {
	KV
	Database
	// Profile returns who the user is, as JSON.
	Profile(ctx context.Context, c Caller) (json.RawMessage, error)
}

// Key reads the secret that opens a service at a URL; "" if it needs none. It is
// called again when the service refuses the secret, since it may have been replaced.
type Key func() (string, error)

// RemoteBackend is a backend at a URL: another Steward's.
type RemoteBackend interface {
	Backend
	Close() error
}

// localBackend is the backend of this node.
type localBackend struct {
	KV
	Database
	profile func(ctx context.Context, user string) (json.RawMessage, error)
}

// Profile implements Backend.
func (n localBackend) Profile(ctx context.Context, c Caller) (json.RawMessage, error) {
	if n.profile == nil {
		return nil, unsupported("the service user")
	}
	return n.profile(ctx, c.User)
}

// Options holds the parts of a Manager. A service whose part is nil is not
// available (service_unsupported).
type Options struct {
	// Bindings returns an agent's services (agent_not_found).
	Bindings func(agent string) (Bindings, error)
	KV       KV
	DB       Database
	Profile  func(ctx context.Context, user string) (json.RawMessage, error)
	// Dial opens a service at a URL.
	Dial func(url string, key Key) (RemoteBackend, error)
	// DialLog opens an OTLP endpoint for log lines. Lines that it does not accept go
	// to instead or, if that is nil, are lost, which is logged.
	DialLog func(url string, key Key, instead slog.Handler, log *slog.Logger) (slog.Handler, func() error, error)
	// Secret returns a secret that an agent declares to need.
	Secret func(agent, name string) (string, bool)
	Log    *slog.Logger // nil: slog.Default()
}

// Manager provides agents with their services. A service is opened at its first
// use, shared by all agents bound to the same one, and closed with the manager,
// in reverse order of opening. As a KV and a Database, the manager routes each
// call to the service bound to the calling agent (Caller.Agent). Safe for
// concurrent use.
type Manager struct {
	opt Options

	mu     sync.Mutex
	far    map[string]*opened
	chosen map[string]Source // by owner and service: where what is stored goes, see settle
	logs   map[string]*slog.Logger
	order  []func() error
	closed bool
}

// opened is a far service, or the error that opening it returned.
type opened struct {
	once sync.Once
	far  RemoteBackend
	err  error
}

// NewManager returns a manager; nothing is opened yet.
func NewManager(opt Options) *Manager {
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	return &Manager{opt: opt, far: map[string]*opened{}, chosen: map[string]Source{}, logs: map[string]*slog.Logger{}}
}

// Close closes all opened services in reverse order. Later calls are refused.
func (m *Manager) Close() error {
	m.mu.Lock()
	order := m.order
	m.order, m.closed = nil, true
	m.mu.Unlock()
	var errs []error
	for _, end := range slices.Backward(order) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// Binding returns where an agent's service comes from.
func (m *Manager) Binding(agent string, n Name) (Binding, error) {
	all, err := m.opt.Bindings(agent)
	if err != nil {
		return Binding{}, err
	}
	b, ok := all[n]
	if !ok {
		return Binding{}, fault.New(fault.NotFound, "service_unknown", "the agent %s has no service %s", agent, n)
	}
	return b, nil
}

// open returns the far service of a binding.
func (m *Manager) open(b Binding) (RemoteBackend, error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, errClosed()
	}
	id := b.Owner + "\x00" + b.URL
	o := m.far[id]
	if o == nil {
		o = &opened{}
		m.far[id] = o
	}
	m.mu.Unlock()
	o.once.Do(func() {
		if _, o.err = m.Key(b); o.err != nil {
			return
		}
		if m.opt.Dial == nil {
			o.err = unsupported("remote services")
			return
		}
		if o.far, o.err = m.opt.Dial(b.URL, func() (string, error) { return m.Key(b) }); o.err == nil {
			o.err = m.onClose(o.far.Close)
		}
	})
	return o.far, o.err
}

// onClose registers f to be called by Close. It calls f at once if the manager
// is already closed.
func (m *Manager) onClose(f func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errors.Join(errClosed(), f())
	}
	m.order = append(m.order, f)
	return nil
}

// Key returns the secret that opens a service at a URL, or "" if it needs none.
// Error code: secret_missing.
func (m *Manager) Key(b Binding) (string, error) {
	if b.Key == "" {
		return "", nil
	}
	if m.opt.Secret != nil {
		if s, ok := m.opt.Secret(b.Owner, b.Key); ok {
			return s, nil
		}
	}
	return "", fault.New(fault.NotFound, "secret_missing", "the secret %s of the agent %s is not set", b.Key, b.Owner).
		WithHint("set the environment variable %s, and list it under secrets in agent.yaml", b.Key)
}

// at calls do with the backend of the caller's service. If a remote one cannot be reached and a fallback
// is configured, it calls do with this node's.
func at[T any](m *Manager, ctx context.Context, c Caller, n Name, do func(Backend, Caller) (T, error)) (T, error) {
	var none T
	b, err := m.Binding(c.Agent, n)
	if err != nil {
		return none, err
	}
	c.Agent = b.Owner
	here := localBackend{m.opt.KV, m.opt.DB, m.opt.Profile}
	if b.Source == Local || m.settled(b, n) == Local {
		return do(here, c)
	}
	f, err := m.open(b)
	if err == nil {
		var v T
		if v, err = do(f, c); err == nil || !isUnreachable(err) {
			m.fixPlace(b, n, Remote)
			return v, err
		}
	}
	if b.Fallback != Local || ctx.Err() != nil || !isUnreachable(err) || m.fixPlace(b, n, Local) != Local {
		return none, err
	}
	m.opt.Log.WarnContext(ctx, "a remote service cannot be reached; using the local one", "agent", b.Owner, "service", string(n), "error", err)
	return do(here, c)
}

// isUnreachable reports whether an error says that a service cannot be reached.
func isUnreachable(err error) bool {
	return fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Timeout)
}

func (m *Manager) settled(b Binding, n Name) Source {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.chosen[b.Owner+"\x00"+string(n)]
}

// fixPlace records where a service that stores data was first reached, and returns
// that place. Data stored at one place would be missing at the other, so the
// first use decides for the lifetime of the manager.
func (m *Manager) fixPlace(b Binding, n Name, s Source) Source {
	if n != State && n != DB {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := b.Owner + "\x00" + string(n)
	if m.chosen[at] == "" {
		m.chosen[at] = s
	}
	return m.chosen[at]
}

// Get implements KV.
func (m *Manager) Get(ctx context.Context, c Caller, key string) (json.RawMessage, error) {
	return at(m, ctx, c, State, func(b Backend, c Caller) (json.RawMessage, error) { return b.Get(ctx, c, key) })
}

// Put implements KV.
func (m *Manager) Put(ctx context.Context, c Caller, key string, value json.RawMessage) error {
	_, err := at(m, ctx, c, State, func(b Backend, c Caller) (any, error) { return nil, b.Put(ctx, c, key, value) })
	return err
}

// Delete implements KV.
func (m *Manager) Delete(ctx context.Context, c Caller, key string) error {
	_, err := at(m, ctx, c, State, func(b Backend, c Caller) (any, error) { return nil, b.Delete(ctx, c, key) })
	return err
}

// List implements KV.
func (m *Manager) List(ctx context.Context, c Caller, prefix, after string, limit int) ([]string, error) {
	return at(m, ctx, c, State, func(b Backend, c Caller) ([]string, error) { return b.List(ctx, c, prefix, after, limit) })
}

// Query implements Database.
func (m *Manager) Query(ctx context.Context, c Caller, statement string, args ...any) (Rows, error) {
	return at(m, ctx, c, DB, func(b Backend, c Caller) (Rows, error) { return b.Query(ctx, c, statement, args...) })
}

// Exec implements Database.
func (m *Manager) Exec(ctx context.Context, c Caller, statements ...Statement) (int64, error) {
	return at(m, ctx, c, DB, func(b Backend, c Caller) (int64, error) { return b.Exec(ctx, c, statements...) })
}

// Profile returns what is known of the user, as JSON.
func (m *Manager) Profile(ctx context.Context, c Caller) (json.RawMessage, error) {
	return at(m, ctx, c, User, func(b Backend, c Caller) (json.RawMessage, error) { return b.Profile(ctx, c) })
}

// Logger returns the logger of an agent. With a fallback, a line that a remote
// endpoint does not accept goes to the node's log.
func (m *Manager) Logger(agent string) (*slog.Logger, error) {
	b, err := m.Binding(agent, Logging)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	l := m.logs[agent]
	m.mu.Unlock()
	if l != nil {
		return l, nil
	}
	handler := m.opt.Log.Handler()
	if b.Source == Remote {
		far, err := m.dialLog(b)
		switch {
		case err == nil:
			handler = far
		case b.Fallback != Local:
			return nil, err
		default:
			m.opt.Log.Warn("a remote log cannot be reached; using the node's own log", "agent", agent, "error", err)
		}
	}
	l = slog.New(levelHandler{handler, levelOf(b.Level)}).With("agent", agent)
	m.mu.Lock()
	defer m.mu.Unlock()
	if other := m.logs[agent]; other != nil {
		return other, nil
	}
	m.logs[agent] = l
	return l, nil
}

func (m *Manager) dialLog(b Binding) (slog.Handler, error) {
	if m.opt.DialLog == nil {
		return nil, unsupported("a remote log")
	}
	if _, err := m.Key(b); err != nil {
		return nil, err
	}
	var instead slog.Handler
	if b.Fallback == Local {
		instead = m.opt.Log.Handler()
	}
	h, end, err := m.opt.DialLog(b.URL, func() (string, error) { return m.Key(b) }, instead, m.opt.Log)
	if err != nil {
		return nil, err
	}
	return h, m.onClose(end)
}

// levelHandler drops lines below a level.
type levelHandler struct {
	slog.Handler
	least slog.Level
}

func (h levelHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.least && h.Handler.Enabled(ctx, l)
}
func (h levelHandler) WithAttrs(a []slog.Attr) slog.Handler {
	return levelHandler{h.Handler.WithAttrs(a), h.least}
}
func (h levelHandler) WithGroup(g string) slog.Handler {
	return levelHandler{h.Handler.WithGroup(g), h.least}
}

func levelOf(word string) slog.Level {
	l := slog.LevelDebug
	if word != "" {
		_ = l.UnmarshalText([]byte(word)) // Resolve has checked it
	}
	return l
}

func unsupported(what string) error {
	return fault.New(fault.Unsupported, "service_unsupported", "%s is not available here", what)
}

func errClosed() error {
	return fault.New(fault.Unavailable, "closing", "Steward is closing").Retrying(fault.RetryBackoff, 0)
}
