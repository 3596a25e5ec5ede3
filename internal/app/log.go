package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc/grpclog"

	"steward/internal/settings"
)

// Lines returns the log of a Steward that serves with a log for programs, to which everything that
// would be printed on standard error goes; else nil.
func (a *App) Lines() *slog.Logger {
	if a.Serving && a.Set != nil && a.Set.Log.Format == "json" {
		return a.Logger(a.Set, a.Stderr)
	}
	return nil
}

// Note prints a line for the user, unless --quiet is given.
func (a *App) Note(format string, args ...any) {
	if log := a.Lines(); log != nil {
		log.Info(strings.TrimPrefix(fmt.Sprintf(format, args...), "steward: "))
	} else if !a.Quiet {
		fmt.Fprintln(a.Stderr, a.Wrapped(fmt.Sprintf(format, args...)))
	}
}

// Wrapped breaks the lines of a text between words where standard error is a terminal.
func (a *App) Wrapped(text string) string {
	if w := WidthOf(a.Stderr); w > 0 {
		return ansi.Wordwrap(text, w, "")
	}
	return text
}

// Wrapping writes to standard error. Each write is a number of lines, which are broken between words
// where it is a terminal.
type Wrapping struct{ App *App }

func (w Wrapping) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.App.Stderr, w.App.Wrapped(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Logger returns a logger for w with the level and format of the settings. A chat
// passes a file or io.Discard, to keep log lines off its screen.
func (a *App) Logger(set *settings.Loaded, w io.Writer) *slog.Logger {
	if a.levels == nil {
		a.levels = newLogLevels(set, a.Quiet)
	}
	opt := &slog.HandlerOptions{Level: slog.LevelDebug} // leveled decides
	w = maskingWriter{w, a.Hidden()}
	var h slog.Handler = slog.NewTextHandler(w, opt)
	if set.Log.Format == "json" {
		h = slog.NewJSONHandler(w, opt)
	}
	return a.collecting(slog.New(leveled{h, a.levels}))
}

// collecting makes a log that of the whole process: what the libraries log goes through it, too, so that
// every line has its format and no secrets. It returns the log.
func (a *App) collecting(log *slog.Logger) *slog.Logger {
	if a.Process {
		slog.SetDefault(log) // also for package log of the standard library
		collectLogs(log)
	}
	return log
}

// PlainLogger prints warnings and errors for the user, one line each. To get the log
// itself, set its level to debug or its format to json.
func (a *App) PlainLogger(set *settings.Loaded) *slog.Logger {
	if set.Log.Format == "json" || strings.EqualFold(set.Log.Level, "debug") {
		return a.Logger(set, a.Stderr)
	}
	return a.collecting(slog.New(plainLog{app: a}))
}

// plainLog is a slog.Handler that writes warnings and errors as notes.
type plainLog struct {
	app   *App
	attrs string
}

func (p plainLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (p plainLog) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	r.Attrs(func(at slog.Attr) bool {
		b.WriteString(", " + at.Key + " " + at.Value.String())
		return true
	})
	p.app.Note("steward: %s", p.app.Hidden().Mask(r.Message+p.attrs+b.String()))
	return nil
}

func (p plainLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, at := range attrs {
		p.attrs += ", " + at.Key + " " + at.Value.String()
	}
	return p
}

func (p plainLog) WithGroup(string) slog.Handler { return p }

// collectLogs sends to a log what the libraries with loggers of their own would write to stderr. The
// standard library's log is slog's default.
func collectLogs(log *slog.Logger) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("sending to an OpenTelemetry collector failed", "error", err) }))
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	grpclog.SetLoggerV2(grpcLog{log})
}

// grpcLog is a grpclog.LoggerV2. Callers learn of most errors from their calls too, so warnings are details.
type grpcLog struct{ log *slog.Logger }

func (grpcLog) Info(...any)                           {}
func (grpcLog) Infoln(...any)                         {}
func (grpcLog) Infof(string, ...any)                  {}
func (l grpcLog) Warning(args ...any)                 { l.log.Debug(fmt.Sprint(args...)) }
func (l grpcLog) Warningln(args ...any)               { l.log.Debug(fmt.Sprint(args...)) }
func (l grpcLog) Warningf(format string, args ...any) { l.log.Debug(fmt.Sprintf(format, args...)) }
func (l grpcLog) Error(args ...any)                   { l.log.Warn(fmt.Sprint(args...)) }
func (l grpcLog) Errorln(args ...any)                 { l.log.Warn(fmt.Sprint(args...)) }
func (l grpcLog) Errorf(format string, args ...any)   { l.log.Warn(fmt.Sprintf(format, args...)) }
func (l grpcLog) Fatal(args ...any)                   { l.log.Error(fmt.Sprint(args...)) }
func (l grpcLog) Fatalln(args ...any)                 { l.log.Error(fmt.Sprint(args...)) }
func (l grpcLog) Fatalf(format string, args ...any)   { l.log.Error(fmt.Sprintf(format, args...)) }
func (grpcLog) V(int) bool                            { return false }
