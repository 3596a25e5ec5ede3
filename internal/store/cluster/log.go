package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// serverLog writes what the embedded server reports to the log of the node.
type serverLog struct {
	log   *slog.Logger
	fatal atomic.Pointer[string] // the first reason why it cannot run

	mu   sync.Mutex
	last map[string]time.Time // when a text was written, by its kind
}

// often is how often the same text is written, such as that a peer cannot be reached. The server repeats it each second, for
// several connections.
const often = time.Minute

// maxKinds bounds the kinds of texts that are remembered. The server has some hundred.
const maxKinds = 1000

// kindOf returns what the texts of a format have in common. The server writes into the format which connection it is about
// ("10.0.0.2:6222 - rid:8 - "), and each attempt to connect is another one.
func kindOf(format string) string {
	kind := make([]byte, 0, len(format))
	for _, c := range []byte(format) {
		if c >= '0' && c <= '9' {
			c = '0'
			if n := len(kind); n > 0 && kind[n-1] == c {
				continue
			}
		}
		kind = append(kind, c)
	}
	return string(kind)
}

// Noticef implements server.Logger.
func (l *serverLog) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }

// Warnf implements server.Logger.
func (l *serverLog) Warnf(format string, v ...any) {
	if !strings.HasPrefix(format, "TLS certificate chain and hostname") { // keys are compared instead: see identity
		l.write(slog.LevelWarn, format, v)
	}
}

// Errorf implements server.Logger.
func (l *serverLog) Errorf(format string, v ...any) { l.write(slog.LevelError, format, v) }

// Fatalf implements server.Logger.
func (l *serverLog) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.fatal.CompareAndSwap(nil, &text)
	l.write(slog.LevelError, format, v)
}

// Debugf implements server.Logger.
func (*serverLog) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (*serverLog) Tracef(string, ...any) {}

func (l *serverLog) write(level slog.Level, format string, v []any) {
	l.mu.Lock()
	if now, kind := time.Now(), kindOf(format); now.Sub(l.last[kind]) < often {
		level = slog.LevelDebug
	} else {
		if len(l.last) == maxKinds {
			clear(l.last)
		}
		l.last[kind] = now
	}
	l.mu.Unlock()
	l.log.Log(context.Background(), level, "NATS server", "text", fmt.Sprintf(format, v...))
}
