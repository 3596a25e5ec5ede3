// Package home lets an agent see and control a home through Home Assistant.
//
// # Connection
//
// A Home has one WebSocket connection to Home Assistant (developers.home-assistant.io/docs/api/websocket).
// It is made when a tool or a job (Watch) first needs it and is kept until Close. After authenticating with a long-lived
// token it subscribes to changes, and only then reads the areas, devices, entities and states, so that no
// change falls between reading and listening. A ping detects a connection that died silently. When the
// connection is lost, everything read through it is forgotten, because it may be out of date: tools wait a
// few seconds for the next connection, and otherwise say that the home cannot be reached. They never answer
// from old states. Reconnecting waits longer after each failure. After a refused token it waits at
// least a minute, whoever calls, because Home Assistant can ban an address that keeps failing.
//
// A Home belongs to one process. In a cluster each node has one, and Transport leads all of them through the node that
// has the duty home: so one node at a time holds what goes to Home Assistant, and nodes outside of the home network use
// the home as well. When the duty moves, the connections are lost and made again as above. Nothing in a Home has to exist
// once: jobs that begin with a state (Watch) run where their user is, and keep their cursor in the store.
//
// Only history comes over REST, because it is read rarely and can be long.
//
// # What a model sees
//
// Tools show only entities that Home Assistant exposes to voice assistants ("conversation"). Hidden and
// disabled entities, and those for configuration and diagnostics that nobody exposed, are never shown and cannot be
// controlled. Attributes are those of a short list. A home can have thousands of entities; a result has at
// most maxShown of them, and says how many more there are.
//
// Devices are named in words. A name must lead to exactly one device: otherwise the tool fails and lists the
// candidates, and nothing is changed.
//
// # What can be controlled
//
// control changes what is harmless: lights, plugs, heating, music. access moves what lets people in or
// protects the house: locks, alarms, covers, valves, garage doors, sirens, and whatever might do so
// indirectly, such as a script, a button, or a switch named after a gate (see guardOf). access always asks a
// person, each time: neither policy, nor a standing approval, nor anything written in a message stands in
// for that (tool.Spec.Asks). control refuses such devices before anything is sent, whatever name or group
// leads to them. A service is called with entity ids only, never with an area or a device, so that Home
// Assistant does not resolve it to more than was checked.
//
// Home Assistant has no idempotency keys. An action is therefore sent once. If the connection is lost before
// the answer, its outcome is unknown, and Steward says so.
package home

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Limits.
const (
	maxShown    = 40     // devices in a result
	maxEntities = 20_000 // entities that are kept
	maxTargets  = 50     // devices that one call controls
	maxMessage  = 32 << 20
	maxHistory  = 8 << 20 // bytes of an answer
)

// Options configure a home. URL, Token and Transport are required.
type Options struct {
	local.Options
	URL       string                                // of Home Assistant, such as http://homeassistant.local:8123
	Token     func(context.Context) (string, error) // the long-lived access token
	Transport http.RoundTripper                     // connects only where it is allowed; see egress.Dialer
	Ask       []string                              // entity ids of further devices that are guarded; see guardOf
	For       *tool.Audience                        // who may use the home; nil: everybody
	Log       *slog.Logger                          // nil: nothing is logged

	Timing Timing
}

// Timing says how long a Home waits. Zero values have defaults.
type Timing struct {
	Answer time.Duration // for an answer of Home Assistant; 15 s
	Wait   time.Duration // for a connection, when a tool needs one; 10 s
	Retry  time.Duration // before the first attempt to reconnect; 1 s, doubled up to a minute
	Banned time.Duration // after a refused token; a minute
	Ping   time.Duration // between pings; 30 s
	Reload time.Duration // between readings of everything; 10 min
	Settle time.Duration // after a change of a registry, before everything is read again; 2 s
}

func (t Timing) withDefaults() Timing {
	for _, d := range []struct {
		at   *time.Duration
		zero time.Duration
	}{{&t.Answer, 15 * time.Second}, {&t.Wait, 10 * time.Second}, {&t.Retry, time.Second}, {&t.Banned, time.Minute},
		{&t.Ping, 30 * time.Second}, {&t.Reload, 10 * time.Minute}, {&t.Settle, 2 * time.Second}} {
		if *d.at == 0 {
			*d.at = d.zero
		}
	}
	return t
}

// Home is a connection to Home Assistant and what is known through it. Safe for concurrent use.
type Home struct {
	opt  Options
	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup
	kick chan struct{} // a tool waits: try to connect now

	mu      sync.Mutex
	started bool
	conn    *conn         // nil: not connected
	err     error         // why not, after the last attempt
	trying  bool          // an attempt is under way
	failed  int           // attempts that failed
	changed chan struct{} // closed when conn or err changes

	watchers map[string][]chan state // who follows an entity; see Watch
	watched  int                     // how many they are
	promises
}

// New returns a Home. It connects when it is first needed.
func New(opt Options) *Home {
	opt.Timing = opt.Timing.withDefaults()
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	h := &Home{opt: opt, kick: make(chan struct{}, 1), changed: make(chan struct{})}
	h.life, h.end = context.WithCancel(context.Background())
	return h
}

// Close ends the connection, and waits until nothing of it is left.
func (h *Home) Close() error {
	h.mu.Lock()
	h.started = true // nothing starts any more
	h.end()
	h.mu.Unlock()
	h.work.Wait()
	return nil
}

// Check connects and counts what Home Assistant exposes.
func (h *Home) Check(ctx context.Context) (version string, exposed int, err error) {
	c, err := h.connected(ctx)
	if err != nil {
		return "", 0, err
	}
	return c.version, len(c.devices()), nil
}

// connected returns a connection whose states are known. It has the next one made now, and waits for it for a
// limited time.
func (h *Home) connected(ctx context.Context) (*conn, error) {
	wait, cancel := context.WithTimeout(ctx, h.opt.Timing.Wait)
	defer cancel()
	h.mu.Lock()
	if !h.started {
		h.started = true
		h.work.Go(h.run)
	} else if h.conn == nil || h.conn.ended() {
		select {
		case h.kick <- struct{}{}:
		default:
		}
	}
	enough := h.failed + 1 // an attempt that begins from now on
	if h.trying {
		enough++
	}
	h.mu.Unlock()
	for {
		h.mu.Lock()
		c, err, failed, changed := h.conn, h.err, h.failed, h.changed
		h.mu.Unlock()
		if c != nil && !c.ended() {
			return c, nil
		}
		if failed >= enough || fault.HasCode(err, "home_token_refused") {
			return nil, tool.NotDone(err)
		}
		select {
		case <-changed:
		case <-h.life.Done():
			return nil, tool.NotDone(fault.New(fault.Unavailable, "home_closed", "Steward is stopping").WithHint("try again later"))
		case <-wait.Done():
			if ctx.Err() != nil {
				return nil, tool.NotDone(fault.Of(ctx.Err()))
			}
			if err == nil {
				err = h.unavailable("it did not answer in time")
			}
			return nil, tool.NotDone(err)
		}
	}
}

func (h *Home) unavailable(format string, args ...any) error {
	return fault.New(fault.Unavailable, "home_unavailable", "Home Assistant at "+hostOf(h.opt.URL)+" cannot be reached: "+format, args...).
		WithHint("check that it is running and that home.url is right; steward doctor tries it")
}

// set records a connection, or why there is none.
func (h *Home) set(c *conn, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.trying && err != nil {
		h.failed++
	}
	h.conn, h.err, h.trying = c, err, false
	close(h.changed)
	h.changed = make(chan struct{})
}

// run keeps a connection until the home is closed.
func (h *Home) run() {
	t := h.opt.Timing
	pause := t.Retry
	for h.life.Err() == nil {
		h.mu.Lock()
		h.trying = true
		h.mu.Unlock()
		c, err := h.connect(h.life)
		if err == nil {
			h.set(c, nil)
			h.opt.Log.Info("connected to Home Assistant", "version", c.version)
			pause = t.Retry
			err = c.serve(h.life)
			c.close()
			if h.life.Err() == nil {
				h.opt.Log.Warn("the connection to Home Assistant was lost", "error", err)
			}
			h.set(nil, h.unavailable("the connection was lost: %w", err))
		} else {
			h.set(nil, err)
		}
		wait, kick := pause+rand.N(pause/4+1), h.kick
		if fault.HasCode(err, "home_token_refused") {
			wait, kick = t.Banned, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-kick: // somebody waits; a tool call that waits kicks once
			timer.Stop()
		case <-h.life.Done():
			timer.Stop()
		}
		pause = min(2*pause, time.Minute)
	}
}
