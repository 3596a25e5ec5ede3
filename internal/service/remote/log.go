package remote

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	sdk "go.opentelemetry.io/otel/sdk/log"

	"steward/internal/fault"
)

// DialLog returns a handler that sends log lines to an OTLP endpoint over
// HTTP (https://opentelemetry.io/docs/specs/otlp/), in batches; close sends
// what is left. The address is that of the collector, with or without
// /v1/logs.
func DialLog(address, key string) (slog.Handler, func() error, error) {
	if !strings.HasSuffix(address, "/v1/logs") {
		address = strings.TrimSuffix(address, "/") + "/v1/logs"
	}
	opts := []otlploghttp.Option{otlploghttp.WithEndpointURL(address), otlploghttp.WithTimeout(10 * time.Second)}
	if key != "" {
		opts = append(opts, otlploghttp.WithHeaders(map[string]string{"Authorization": "Bearer " + key}))
	}
	exporter, err := otlploghttp.New(context.Background(), opts...)
	if err != nil {
		return nil, nil, fault.New(fault.Invalid, "service_invalid", "%s is no OTLP endpoint: %w", address, err)
	}
	provider := sdk.NewLoggerProvider(sdk.WithProcessor(sdk.NewBatchProcessor(exporter, sdk.WithExportInterval(time.Second))))
	end := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return provider.Shutdown(ctx)
	}
	return otelslog.NewHandler("steward", otelslog.WithLoggerProvider(provider)), end, nil
}
