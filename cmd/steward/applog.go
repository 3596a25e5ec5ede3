package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"steward/internal/settings"
)

// lines returns the log of a Steward that serves with a log for programs, to which everything that
// would be printed on standard error goes; else nil.
func (a *app) lines() *slog.Logger {
	if a.serving && a.set != nil && a.set.Log.Format == "json" {
		return a.logger(a.set, a.stderr)
	}
	return nil
}

// note prints a line for the user, unless --quiet is given.
func (a *app) note(format string, args ...any) {
	if log := a.lines(); log != nil {
		log.Info(strings.TrimPrefix(fmt.Sprintf(format, args...), "steward: "))
	} else if !a.quiet {
		fmt.Fprintln(a.stderr, a.wrapped(fmt.Sprintf(format, args...)))
	}
}

// wrapped breaks the lines of a text between words where standard error is a terminal.
func (a *app) wrapped(text string) string {
	if w := widthOf(a.stderr); w > 0 {
		return ansi.Wordwrap(text, w, "")
	}
	return text
}

// wrapping writes to standard error. Each write is a number of lines, which are broken between words
// where it is a terminal.
type wrapping struct{ app *app }

func (w wrapping) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.app.stderr, w.app.wrapped(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// logger returns a logger for w with the level and format of the settings. A chat
// passes a file or io.Discard, to keep log lines off its screen.
func (a *app) logger(set *settings.Loaded, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(set.Log.Level)); err != nil {
		level = slog.LevelInfo
	}
	if a.quiet {
		level = max(level, slog.LevelWarn)
	}
	opt := &slog.HandlerOptions{Level: level}
	w = hiding{w, a.hidden()}
	var h slog.Handler = slog.NewTextHandler(w, opt)
	if set.Log.Format == "json" {
		h = slog.NewJSONHandler(w, opt)
	}
	return a.collecting(slog.New(h))
}

// collecting makes a log that of the whole process: what the libraries log goes through it, too, so that
// every line has its format and no secrets. It returns the log.
func (a *app) collecting(log *slog.Logger) *slog.Logger {
	if a.process {
		slog.SetDefault(log) // also for package log of the standard library
		collectLogs(log)
	}
	return log
}

// plainLogger prints warnings and errors for the user, one line each. To get the log
// itself, set its level to debug or its format to json.
func (a *app) plainLogger(set *settings.Loaded) *slog.Logger {
	if set.Log.Format == "json" || strings.EqualFold(set.Log.Level, "debug") {
		return a.logger(set, a.stderr)
	}
	return a.collecting(slog.New(plainLog{app: a}))
}

// plainLog is a slog.Handler that writes warnings and errors as notes.
type plainLog struct {
	app   *app
	attrs string
}

func (p plainLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (p plainLog) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	r.Attrs(func(at slog.Attr) bool {
		b.WriteString(", " + at.Key + " " + at.Value.String())
		return true
	})
	p.app.note("steward: %s", p.app.hidden().Mask(r.Message+p.attrs+b.String()))
	return nil
}

func (p plainLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, at := range attrs {
		p.attrs += ", " + at.Key + " " + at.Value.String()
	}
	return p
}

func (p plainLog) WithGroup(string) slog.Handler { return p }
