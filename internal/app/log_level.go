package app

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/request"
	"steward/internal/settings"
)

// maxLogged is how many agents may have a level of their own.
const maxLogged = 100

// logLevels are the levels of the log, which may change while the process runs: that of everything, and those of
// agents. Safe for concurrent use.
type logLevels struct {
	all   slog.LevelVar
	usual slog.Level // of the settings

	mu     sync.Mutex
	agents atomic.Pointer[map[string]slog.Level] // never changed; nil: none
}

// newLogLevels returns the levels of the settings.
func newLogLevels(set *settings.Loaded, quiet bool) *logLevels {
	l := &logLevels{}
	if err := l.usual.UnmarshalText([]byte(set.Log.Level)); err != nil {
		l.usual = slog.LevelInfo
	}
	if quiet {
		l.usual = max(l.usual, slog.LevelWarn)
	}
	l.all.Set(l.usual)
	return l
}

// enabled reports whether a line is written, which an agent may have led to.
func (l *logLevels) enabled(ctx context.Context, level slog.Level) bool {
	if level >= l.all.Level() {
		return true
	}
	agents := l.agents.Load()
	if agents == nil {
		return false
	}
	rc, _ := request.From(ctx)
	own, ok := (*agents)[strings.TrimPrefix(rc.Actor, "agent:")]
	return ok && level >= own
}

// LogLevel implements api.LogLevels.
func (l *logLevels) LogLevel() client.LogLevel {
	out := client.LogLevel{Level: levelName(l.all.Level()), Settings: levelName(l.usual), Agents: map[string]string{}}
	if agents := l.agents.Load(); agents != nil {
		for name, level := range *agents {
			out.Agents[name] = levelName(level)
		}
	}
	return out
}

// SetLogLevel implements api.LogLevels.
func (l *logLevels) SetLogLevel(agent, name string) error {
	level := l.usual
	switch name {
	case "":
	case "debug", "info", "warn", "error":
		level.UnmarshalText([]byte(name)) //nolint:errcheck // these are its words
	default:
		return fault.New(fault.Invalid, "log_level_invalid", "there is no level %.40q of the log", name).WithHint("use debug, info, warn or error")
	}
	if agent == "" {
		l.all.Set(level)
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	agents := map[string]slog.Level{}
	if old := l.agents.Load(); old != nil {
		maps.Copy(agents, *old)
	}
	if delete(agents, agent); name != "" {
		agents[agent] = level
	}
	if len(agents) > maxLogged {
		return fault.New(fault.Exhausted, "log_levels_many", "%d agents have levels of their own already", maxLogged).WithHint("end one of them first: steward log level reset --agent NAME")
	}
	l.agents.Store(&agents)
	return nil
}

func levelName(l slog.Level) string { return strings.ToLower(l.String()) }

// leveled is a slog.Handler that writes the lines that the levels let through, with the request and the agent
// that led to them.
type leveled struct {
	slog.Handler
	levels *logLevels
}

// Enabled implements slog.Handler.
func (h leveled) Enabled(ctx context.Context, level slog.Level) bool {
	return h.levels.enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h leveled) Handle(ctx context.Context, r slog.Record) error {
	if rc, ok := request.From(ctx); ok {
		if r.NumAttrs() == 0 || !hasAttr(&r, "request") {
			r.AddAttrs(slog.String("request", rc.ID.String()))
		}
		if agent, ok := strings.CutPrefix(rc.Actor, "agent:"); ok && !hasAttr(&r, "agent") {
			r.AddAttrs(slog.String("agent", agent))
		}
	}
	return h.Handler.Handle(ctx, r)
}

func hasAttr(r *slog.Record, key string) (has bool) {
	r.Attrs(func(a slog.Attr) bool {
		has = has || a.Key == key
		return !has
	})
	return has
}

// WithAttrs implements slog.Handler.
func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(attrs), h.levels}
}

// WithGroup implements slog.Handler.
func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.levels}
}
