package app

import (
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc/grpclog"
)

// collectLogs sends to a log what the libraries with loggers of their own would write to stderr. The
// standard library's log is slog's default.
func collectLogs(log *slog.Logger) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("sending the remote log failed", "error", err) }))
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
