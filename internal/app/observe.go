package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/effect"
	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/lifetime/disk"
	"steward/internal/lifetime/telemetry"
	"steward/internal/llm"
	"steward/internal/record"
	"steward/internal/server/api"
	"steward/internal/server/hooks"
	"steward/internal/server/mcp"
	"steward/internal/server/services"
	"steward/internal/server/websocket"
	"steward/internal/settings"
	"steward/internal/store"
	"steward/internal/store/sqlite"
)

// The paths at which a Steward is observed.
const (
	metricsPath  = "/metrics"
	profilesPath = "/debug/pprof/"
)

// openTelemetry begins to count and, if the settings say where to, to trace. stop sends what is left; it is nil if
// nothing is traced.
func (a *App) openTelemetry(set *settings.Loaded, log *slog.Logger) (stop func(context.Context) error, err error) {
	a.telemetry = nil
	if !a.Serving && set.Traces.Endpoint == "" {
		return nil, nil
	}
	a.telemetry = telemetry.New(a.VersionText(), log)
	if set.Traces.Endpoint == "" {
		return nil, nil
	}
	key := secretOf(a.Resolver(set), set.Traces.Key)
	base := http.DefaultTransport.(*http.Transport).Clone()
	client := &http.Client{Timeout: tracesTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the key must not be sent to another host
		Transport: egress.Bearer(base, func() (string, error) {
			if key == nil {
				return "", nil
			}
			return key(context.Background())
		})}
	end, err := a.telemetry.Trace(telemetry.TraceOptions{Endpoint: set.Traces.Endpoint, Client: client, Content: set.Traces.Content, Version: a.VersionText()})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, tracesTimeout)
		defer cancel()
		err := end(ctx)
		base.CloseIdleConnections()
		return err
	}, nil
}

// tracesTimeout bounds a request to the collector.
const tracesTimeout = 5 * time.Second

// countedWithin is for how long what was counted in the store is shown again, so that scrapes cost little however
// often somebody scrapes.
const countedWithin = time.Second

// gauges adds what is read when somebody scrapes.
func (l *Local) gauges() {
	t := l.telemetry
	if t == nil {
		return
	}
	inStates := func(name, help, typ string, states ...string) (read func() []telemetry.Sample) {
		read = briefly(func() (out []telemetry.Sample) {
			for _, state := range states {
				if n, err := l.inState(typ, state); err == nil {
					out = append(out, telemetry.Sample{Labels: []string{state}, Value: float64(n)})
				}
			}
			return out
		})
		t.Gauge(name, help, []string{"state"}, read)
		return read
	}
	var open []string
	for _, s := range intent.States() {
		if m := s.Mark(); m != "" {
			open = append(open, m)
		}
	}
	intents := inStates("steward_intents", "Actions that are not settled, by state, at most 10,000 in each.", effect.TypeIntent, open...)
	inStates("steward_requests", "Requests that are not closed, by state, at most 10,000 in each.", record.TypeRequest, record.RequestOpen, record.RequestAnswered)
	inStates("steward_job_occurrences", "Occurrences of jobs that are not over, by state.", record.TypeOccurrence, record.OccurrenceDue, record.OccurrenceRunning, record.OccurrenceWaiting)
	single := func(name, help string, read func() float64) {
		t.Gauge(name, help, nil, func() []telemetry.Sample { return []telemetry.Sample{{Value: read()}} })
	}
	t.Gauge("steward_approvals_waiting", "Questions that wait for a person.", nil, func() (out []telemetry.Sample) {
		for _, s := range intents() {
			if s.Labels[0] == string(intent.Awaiting) {
				out = append(out, telemetry.Sample{Value: s.Value})
			}
		}
		return out
	})
	t.Gauge("steward_queue_length", "What waits: batches for the store, tool calls that hold a slot (tools), conversations in memory, conversations that are to be read for facts.", []string{"queue"}, func() []telemetry.Sample {
		calls, conversations := l.node.Turns.Load()
		return []telemetry.Sample{{Labels: []string{"store"}, Value: float64(l.Store.Queued())}, {Labels: []string{"tools"}, Value: float64(calls)},
			{Labels: []string{"conversations"}, Value: float64(conversations)}, {Labels: []string{"facts"}, Value: float64(l.node.FactsWaiting())}}
	})
	single("steward_store_log_entries", "The number of the newest entry of the log.", func() float64 { return float64(l.Store.Head()) })
	t.Gauge("steward_store_bytes", "Size of the database.", nil, briefly(func() []telemetry.Sample {
		ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
		defer cancel()
		n, err := l.Store.Size(ctx)
		if err != nil {
			return nil
		}
		return []telemetry.Sample{{Value: float64(n)}}
	}))
	t.Gauge("steward_disk_free_bytes", "Space left on the disk of the data folder.", nil, func() []telemetry.Sample {
		free, err := disk.Free(l.data)
		if err != nil {
			return nil
		}
		return []telemetry.Sample{{Value: float64(free)}}
	})
	single("steward_ready", "1 if /readyz says so, else 0.", func() float64 {
		if l.ready(context.Background()) != nil {
			return 0
		}
		return 1
	})
	l.channelGauges()
}

// channelGauges adds what is read of the channels.
func (l *Local) channelGauges() {
	type states = map[string]int
	list := briefly(func() (out []telemetry.Sample) {
		all, err := l.Messages.Channels(context.Background())
		if err != nil {
			return nil
		}
		for _, c := range all {
			connected := 0
			if !c.Connected.IsZero() && c.Error == "" {
				connected = 1
			}
			counted := states{"inbox": c.Received, "outbox": c.Unsent, "unsettled": c.Unsettled}
			if c.Running { // otherwise another node of the cluster connects it
				counted["connected"] = connected
			}
			for state, n := range counted {
				out = append(out, telemetry.Sample{Labels: []string{c.Account, state}, Value: float64(n)})
			}
		}
		return out
	})
	for name, help := range map[string]string{
		"inbox":     "Updates of messengers that are not answered yet.",
		"outbox":    "Posts that are not sent yet.",
		"unsettled": "Updates that were not answered, and posts that failed or whose outcome is unknown.",
		"connected": "1 if the messenger is connected. In a cluster, only the node that connects it says so.",
	} {
		l.telemetry.Gauge("steward_channel_"+name, help, []string{"channel"}, func() (out []telemetry.Sample) {
			for _, s := range list() {
				if s.Labels[1] == name {
					out = append(out, telemetry.Sample{Labels: s.Labels[:1], Value: s.Value})
				}
			}
			return out
		})
	}
}

// briefly returns what read returned last, for a short time.
func briefly(read func() []telemetry.Sample) func() []telemetry.Sample {
	var mu sync.Mutex
	var last []telemetry.Sample
	var at time.Time
	return func() []telemetry.Sample {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(at) > countedWithin {
			last, at = read(), time.Now()
		}
		return last
	}
}

// inState counts the resources of a type that are in a state, up to one page of them.
func (l *Local) inState(typ, state string) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	page, err := l.Store.Query(ctx, store.ForNode(""), store.Query{Type: typ, State: state, NoBody: true, Limit: store.MaxLimit})
	return len(page.Items), err
}

const (
	readyWithin = 5 * time.Second
	leastFree   = 64 << 20 // bytes; with less, the store may not be able to write soon
)

// errClosing is why a Steward that ends is not ready.
var errClosing error = fault.New(fault.Unavailable, "closing", "Steward is shutting down")

// ready returns nil if this Steward can do its work; otherwise all reasons why it cannot, joined. If it was
// ready a moment ago, it does not look again, because everybody may ask.
func (l *Local) ready(ctx context.Context) error {
	if l.closing.Load() {
		return errors.Join(errClosing)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*readyWithin)
	defer cancel()
	l.readiness.Lock()
	defer l.readiness.Unlock()
	if time.Since(l.readyAt) < countedWithin {
		return nil
	}
	err := l.look(ctx)
	if err == nil {
		l.readyAt = time.Now()
	}
	return err
}

func (l *Local) look(ctx context.Context) error {
	var all []error
	if err := l.Store.Ready(ctx); err != nil {
		all = append(all, err)
	} else if err := sqlite.Writable(Database(l.data)); err != nil { // the indexes are there, wherever the store is
		all = append(all, err)
	}
	if free, err := disk.Free(l.data); err == nil && free < leastFree {
		all = append(all, fault.New(fault.NoSpace, "disk_low", "%d MB are left on the disk of the data folder", free>>20).Detail("free_bytes", free))
	}
	if stuck := l.telemetry.Stuck(l.stuckAfter); len(stuck) > 0 {
		slices.Sort(stuck)
		all = append(all, fault.New(fault.Unavailable, "follower_stuck", "%s has fallen behind the log and makes no progress", strings.Join(stuck, ", ")).Detail("followers", stuck))
	}
	if l.cluster != nil {
		all = append(all, l.cluster.Ready())
	}
	if _, err := l.Found.Models.Resolve(llm.DefaultAlias); err != nil {
		all = append(all, fault.New(fault.Unavailable, "model_missing", "no model is set up"))
	}
	return errors.Join(all...)
}

// health returns the server of /healthz and /readyz.
func (l *Local) health() http.Handler { return api.Health(l.ready) }

// profiles returns the server of profiles (net/http/pprof).
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(profilesPath, pprof.Index)
	mux.HandleFunc(profilesPath+"cmdline", pprof.Cmdline)
	mux.HandleFunc(profilesPath+"profile", pprof.Profile)
	mux.HandleFunc(profilesPath+"symbol", pprof.Symbol)
	mux.HandleFunc(profilesPath+"trace", pprof.Trace)
	return mux
}

// Observer serves the metrics at an address of its own. A nil one does nothing.
type Observer struct {
	Address string
	http    *http.Server
}

// ListenMetrics opens the server of metrics.listen; nil: there is none.
func (a *App) ListenMetrics(set *settings.Loaded, l *Local, log *slog.Logger) (*Observer, error) {
	if set.Metrics.Listen == "" {
		return nil, nil
	}
	ln, err := a.Outside.listen(set.Metrics.Listen)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "listen_failed", "metrics.listen: cannot listen on %s: %w", set.Metrics.Listen, err).
			WithHint("stop the program that listens there, or use another address")
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+metricsPath, l.telemetry.Handler())
	mux.Handle("/healthz", l.health())
	mux.Handle("/readyz", l.health())
	o := &Observer{Address: ln.Addr().String(), http: &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}}
	log.Info("metrics are served", "url", "http://"+o.Address+metricsPath)
	go func() {
		if err := o.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the metrics are not served any more", "error", err)
		}
	}()
	return o, nil
}

// Close ends the server.
func (o *Observer) Close() error {
	if o == nil {
		return nil
	}
	return o.http.Close()
}

// serverOf returns the server that answers a request, for the metrics.
func serverOf(r *http.Request) string {
	for _, s := range []struct{ path, name string }{{websocket.Path, "websocket"}, {"/api/", "api"}, {"/v1/", "v1"}, {mcp.Path, "mcp"}, {services.Prefix, "services"},
		{hooks.Prefix, "hooks"}, {ChannelsPath, "channels"}, {"/healthz", "health"}, {"/readyz", "health"}, {metricsPath, "metrics"}, {profilesPath, "profiles"}} {
		if strings.HasPrefix(r.URL.Path, s.path) {
			return s.name
		}
	}
	if kind := r.Header.Get("Content-Type"); strings.HasPrefix(kind, "application/grpc") || strings.HasPrefix(kind, "application/connect") {
		return "rpc"
	}
	return "page"
}
