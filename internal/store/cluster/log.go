package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// serverLog writes what the embedded server reports to the log of the node.
type serverLog struct {
	log   *slog.Logger
	fatal *atomic.Pointer[string] // the first reason why it cannot run
}

// Noticef implements server.Logger.
func (l serverLog) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }

// Warnf implements server.Logger.
func (l serverLog) Warnf(format string, v ...any) {
	if !strings.HasPrefix(format, "TLS certificate chain and hostname") { // keys are compared instead: see identity
		l.write(slog.LevelWarn, format, v)
	}
}

// Errorf implements server.Logger.
func (l serverLog) Errorf(format string, v ...any) { l.write(slog.LevelError, format, v) }

// Fatalf implements server.Logger.
func (l serverLog) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.fatal.CompareAndSwap(nil, &text)
	l.write(slog.LevelError, format, v)
}

// Debugf implements server.Logger.
func (serverLog) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (serverLog) Tracef(string, ...any) {}

func (l serverLog) write(level slog.Level, format string, v []any) {
	l.log.Log(context.Background(), level, "NATS server", "text", fmt.Sprintf(format, v...))
}
