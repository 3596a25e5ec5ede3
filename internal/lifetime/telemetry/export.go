package telemetry

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/request"
)

// TraceOptions say where spans are sent and what they have.
type TraceOptions struct {
	Endpoint string        // of an OTLP collector over HTTP, with or without /v1/traces
	Client   *http.Client  // nil: one of its own
	Content  bool          // spans have what people and models say, and arguments and results of tools
	Every    time.Duration // how often spans are sent; zero: 5 s
	Version  string        // of Steward
}

// Bounds of what waits to be sent, and of what is sent at once. Beyond them spans are dropped. A span with content may
// have 100 KB (maxContent), so that fewer of them wait, and a message to the collector stays below its usual limit of
// 20 MB.
const (
	maxSpans, maxBatch               = 8192, 512
	maxContentSpans, maxContentBatch = 1024, 128

	exportTimeout = 10 * time.Second
)

// Trace begins to trace. stop sends what is left, for a limited time. It is called before anything is counted.
func (t *Telemetry) Trace(o TraceOptions) (stop func(context.Context) error, err error) {
	address := o.Endpoint
	if !strings.HasSuffix(address, "/v1/traces") {
		address = strings.TrimSuffix(address, "/") + "/v1/traces"
	}
	opts := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(address), otlptracehttp.WithTimeout(exportTimeout)}
	if o.Client != nil {
		opts = append(opts, otlptracehttp.WithHTTPClient(o.Client))
	}
	exporter, err := otlptracehttp.New(context.Background(), opts...)
	if err != nil {
		return nil, fault.New(fault.Invalid, "traces_invalid", "%s is not an OTLP endpoint: %w", o.Endpoint, err).WithHint("set traces.endpoint to the address of a collector, such as http://127.0.0.1:4318")
	}
	if o.Every == 0 {
		o.Every = 5 * time.Second
	}
	most, batch := maxSpans, maxBatch
	if o.Content {
		most, batch = maxContentSpans, maxContentBatch
	}
	about := resource.NewSchemaless(semconv.ServiceName("steward"), semconv.ServiceVersion(o.Version))
	provider := sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithIDGenerator(requestIDs{}), sdk.WithSampler(sdk.ParentBased(sdk.AlwaysSample())),
		sdk.WithBatcher(exporter, sdk.WithBatchTimeout(o.Every), sdk.WithMaxQueueSize(most), sdk.WithMaxExportBatchSize(batch)))
	t.tracer, t.content = provider.Tracer("steward"), o.Content
	return provider.Shutdown, nil
}

// identity is the key of the ID of a request that begins a trace.
type identity struct{}

// requestIDs makes the IDs of traces and spans. A trace that a request begins has the ID of the request, and
// its first span the last 8 bytes of it (request.Context.Trace says the same); others are random.
type requestIDs struct{}

// NewIDs implements sdk.IDGenerator.
func (r requestIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if own, ok := ctx.Value(identity{}).(id.ID); ok && !own.Zero() {
		return trace.TraceID(own), spanID(own)
	}
	return trace.TraceID(id.New()), r.NewSpanID(ctx, trace.TraceID{})
}

// NewSpanID implements sdk.IDGenerator.
func (requestIDs) NewSpanID(context.Context, trace.TraceID) (out trace.SpanID) {
	for binary.BigEndian.Uint64(out[:]) == 0 {
		rand.Read(out[:]) // never fails (crypto/rand)
	}
	return out
}

func spanID(own id.ID) (out trace.SpanID) {
	copy(out[:], own[8:])
	return out
}

// traceID returns the ID of the trace that the root of a request begins.
func traceID(rc request.Context) trace.TraceID {
	if rc.Root.Zero() {
		return trace.TraceID(rc.ID)
	}
	return trace.TraceID(rc.Root)
}
