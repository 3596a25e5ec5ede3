package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/server/auth"
	"steward/internal/server/ollama"
	"steward/internal/server/wyoming"
	"steward/internal/settings"
)

// Voice is the servers of the protocols without a credential: Ollama's API and Wyoming. Each is there if the settings
// turn it on.
type Voice struct {
	Ollama, Wyoming string // the addresses they listen on; "": off

	closers []func() error
}

// Door is what the settings say about a server without a credential.
type Door struct {
	Title  string
	Listen string // its address

	prefix string // of its settings
	user   string
	peers  []string
}

// Doors returns the servers without a credential that the settings turn on.
func Doors(set *settings.Loaded) (on []Door) {
	for _, d := range []Door{ollamaDoor(set), wyomingDoor(set)} {
		if d.Listen != "" {
			on = append(on, d)
		}
	}
	return on
}

func ollamaDoor(set *settings.Loaded) Door {
	return Door{"Ollama's API", set.Ollama.Listen, "ollama.", set.Ollama.User, set.Ollama.Peers}
}

func wyomingDoor(set *settings.Loaded) Door {
	return Door{"Wyoming", set.Wyoming.Listen, "wyoming.", set.Wyoming.User, set.Wyoming.Peers}
}

// Peers returns who may connect, or an error if the settings do not say who may speak, or as whom. Without peers it
// is the programs of this machine.
func (d Door) Peers() ([]netip.Prefix, error) {
	if d.user == "" {
		return nil, fault.New(fault.Invalid, "voice_user_missing", "%slisten is set, but %suser is not", d.prefix, d.prefix).
			WithHint("name the user as whom everybody there speaks, such as %suser: %s in the settings", d.prefix, identity.Local)
	}
	if len(d.peers) == 0 && auth.BeyondLoopback(d.Listen) {
		return nil, fault.New(fault.Invalid, "voice_peers_missing", "%slisten is %s, which other machines reach, but %speers is empty", d.prefix, d.Listen, d.prefix).
			WithHint("list the addresses that may use it, such as that of Home Assistant: the protocol has no credential")
	}
	if len(d.peers) == 0 {
		return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}, nil
	}
	return auth.ParsePeers(d.peers)
}

// open listens for the peers of a server, who all speak as its user.
func (d Door) open(ctx context.Context, outside Outside, keys *identity.Registry, log *slog.Logger) (net.Listener, error) {
	peers, err := d.Peers()
	if err != nil {
		return nil, err
	}
	known, err := keys.Accounts(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(known, func(a identity.Account) bool { return a.User == d.user }) {
		return nil, fault.New(fault.Invalid, "voice_user_unknown", "%suser: there is no user %.80q", d.prefix, d.user).
			WithHint("add the user with steward users add, or name another one")
	}
	ln, err := outside.listen(d.Listen)
	if err != nil {
		return nil, d.cannotListen(err)
	}
	return auth.Peers{Allowed: peers, Log: log}.Listen(ln), nil
}

func (d Door) cannotListen(err error) error {
	return fault.New(fault.Unavailable, "listen_failed", "%slisten: cannot listen on %s: %w", d.prefix, d.Listen, err).
		WithHint("stop the program that listens there, or use another address")
}

// Free returns an error if the address cannot be listened on.
func (d Door) Free() error {
	ln, err := net.Listen("tcp", d.Listen)
	if err != nil {
		return d.cannotListen(err)
	}
	return ln.Close()
}

// ListenVoice opens those of the servers without a credential that the settings turn on.
func (a *App) ListenVoice(ctx context.Context, set *settings.Loaded, l *Local, log *slog.Logger) (*Voice, error) {
	v := &Voice{}
	if set.Ollama.Listen != "" {
		if err := v.serveOllama(ctx, a, set, l, log); err != nil {
			return nil, err
		}
	}
	if set.Wyoming.Listen != "" {
		if err := v.serveWyoming(ctx, a, set, l, log); err != nil {
			return nil, errors.Join(err, v.Close())
		}
	}
	return v, nil
}

func (v *Voice) serveOllama(ctx context.Context, a *App, set *settings.Loaded, l *Local, log *slog.Logger) error {
	o := set.Ollama
	ln, err := ollamaDoor(set).open(ctx, a.Outside, l.Keys, log)
	if err != nil {
		return err
	}
	guard := auth.New(auth.Options{AnyIP: true, Hosts: hosts(set.Hosts, o.Listen), Origins: set.Origins, People: l.Keys, Intake: l.intake, Logger: log, Places: l.placesBelow(ollamaInside)})
	h := guard.WrapUser(o.User, ollama.Handler(ollama.Options{Node: l.node, Logger: log}), ollama.WriteError)
	s := auth.Timeouts{}.Server(masking(a.Hidden(), h))
	s.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	go func() {
		if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Error("serving Ollama's API failed", "error", err)
		}
	}()
	v.Ollama = ln.Addr().String()
	v.closers = append(v.closers, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), max(set.Timeouts.Shutdown, time.Second))
		defer cancel()
		if s.Shutdown(ctx) != nil {
			return s.Close()
		}
		return nil
	})
	return nil
}

func (v *Voice) serveWyoming(ctx context.Context, a *App, set *settings.Loaded, l *Local, log *slog.Logger) error {
	o := set.Wyoming
	ln, err := wyomingDoor(set).open(ctx, a.Outside, l.Keys, log)
	if err != nil {
		return err
	}
	s := l.wyoming(a, set, auth.New(auth.Options{People: l.Keys, Intake: l.intake, Logger: log}), o.User, log)
	at := ln.Addr()
	if l.cluster != nil {
		ln = l.cluster.where(ln, o.User, log)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		err := s.Serve(serving, ln)
		if err != nil {
			log.Error("serving the Wyoming protocol failed", "error", err)
		}
		ended <- err
	}()
	v.Wyoming = at.String()
	silence := func() error { return nil }
	if !o.Hidden {
		if silence, err = announce(wyomingService, o.Listen, at, log); err != nil {
			log.Warn("the Wyoming server is not announced", "error", err)
		}
	}
	v.closers = append(v.closers, func() error {
		err := silence()
		stop()
		return errors.Join(err, <-ended)
	})
	return nil
}

// wyoming returns a Wyoming server for a user.
func (l *Local) wyoming(a *App, set *settings.Loaded, guard *auth.Guard, user string, log *slog.Logger) *wyoming.Server {
	return wyoming.New(wyoming.Options{Node: l.node, Agent: set.Wyoming.Agent, Model: set.Wyoming.Model, Version: a.VersionText(), Logger: log, Mask: a.Hidden().Mask,
		Enter: func(ctx context.Context) (auth.Caller, func(), error) { return guard.EnterAs(ctx, user) }})
}

// Close closes the servers.
func (v *Voice) Close() error {
	var all error
	for _, c := range slices.Backward(v.closers) {
		all = errors.Join(all, c())
	}
	return all
}
