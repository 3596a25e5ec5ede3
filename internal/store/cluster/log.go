package cluster

import (
	"fmt"
	"log/slog"
)

// serverLog writes what the embedded server reports to the log of the node.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Noticef(format string, v ...any) {
	l.log.Debug("NATS server", "text", fmt.Sprintf(format, v...))
}
func (l serverLog) Debugf(string, ...any) {}
func (l serverLog) Tracef(string, ...any) {}
func (l serverLog) Warnf(format string, v ...any) {
	l.log.Warn("NATS server", "text", fmt.Sprintf(format, v...))
}
func (l serverLog) Errorf(format string, v ...any) {
	l.log.Error("NATS server", "text", fmt.Sprintf(format, v...))
}
func (l serverLog) Fatalf(format string, v ...any) {
	l.log.Error("NATS server", "text", fmt.Sprintf(format, v...))
}
