package remote

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	sdk "go.opentelemetry.io/otel/sdk/log"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/service"
)

const (
	exportTimeout = 10 * time.Second
	exportPause   = 30 * time.Second // after a failure, until the endpoint is tried again
	maxWaiting    = 1 << 16          // log lines that wait to be sent
)

// DialLog returns a handler that sends log lines to an OTLP endpoint over
// HTTP (https://opentelemetry.io/docs/specs/otlp/), in batches; close sends
// what is left. The address is that of the collector, with or without
// /v1/logs. Lines that the endpoint does not accept go to instead, or are
// counted in log if it is nil.
func DialLog(address string, key service.Key, instead slog.Handler, log *slog.Logger) (slog.Handler, func() error, error) {
	if !strings.HasSuffix(address, "/v1/logs") {
		address = strings.TrimSuffix(address, "/") + "/v1/logs"
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	client := &http.Client{Transport: egress.Bearer(base, key), Timeout: exportTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // the key must not be sent to another host
	opts := []otlploghttp.Option{otlploghttp.WithEndpointURL(address), otlploghttp.WithTimeout(exportTimeout), otlploghttp.WithHTTPClient(client)}
	if instead != nil { // there is a better place to go than back
		opts = append(opts, otlploghttp.WithRetry(otlploghttp.RetryConfig{}))
	}
	exporter, err := otlploghttp.New(context.Background(), opts...)
	if err != nil {
		return nil, nil, fault.New(fault.Invalid, "service_invalid", "%s is not an OTLP endpoint: %w", address, err)
	}
	spill := &fallbackExporter{Exporter: exporter, address: address, instead: instead, log: log}
	provider := sdk.NewLoggerProvider(sdk.WithProcessor(sdk.NewBatchProcessor(spill, sdk.WithExportInterval(time.Second), sdk.WithMaxQueueSize(maxWaiting))))
	end := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err := provider.Shutdown(ctx)
		base.CloseIdleConnections()
		return err
	}
	return otelslog.NewHandler("steward", otelslog.WithLoggerProvider(provider)), end, nil
}

// fallbackExporter is an exporter that keeps what its endpoint does not accept.
type fallbackExporter struct {
	sdk.Exporter
	address string
	instead slog.Handler // nil: lines that are not accepted are only counted
	log     *slog.Logger

	mu    sync.Mutex
	pause time.Time // until when the endpoint is not tried
}

// Export implements sdk.Exporter. It returns no error, because nothing is left to do about one.
func (s *fallbackExporter) Export(ctx context.Context, records []sdk.Record) error {
	s.mu.Lock()
	paused := s.instead != nil && time.Now().Before(s.pause)
	s.mu.Unlock()
	err := errors.New("it failed a moment ago")
	if !paused {
		err = s.Exporter.Export(ctx, records)
	}
	if err == nil {
		return nil
	}
	if !paused {
		s.mu.Lock()
		s.pause = time.Now().Add(exportPause)
		s.mu.Unlock()
		say := "log lines are lost: the remote log rejects them"
		if s.instead != nil {
			say = "the remote log rejects lines; they are written here"
		}
		s.log.Warn(say, "url", s.address, "lines", len(records), "error", err)
	}
	if s.instead == nil {
		return nil
	}
	for i := range records {
		if err := s.instead.Handle(ctx, line(&records[i])); err != nil {
			s.log.Warn("a log line is lost", "error", err)
		}
	}
	return nil
}

// line converts a record back to the line that it was made of.
func line(r *sdk.Record) slog.Record {
	const info = 9 // OpenTelemetry's number of slog.LevelInfo; the steps between levels are the same
	out := slog.NewRecord(r.Timestamp(), slog.Level(int(r.Severity())-info), r.Body().AsString(), 0)
	r.WalkAttributes(func(kv attribute.KeyValue) bool {
		out.AddAttrs(slog.Any(string(kv.Key), kv.Value.AsInterface()))
		return true
	})
	return out
}
