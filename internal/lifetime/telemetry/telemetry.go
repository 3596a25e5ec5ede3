// Package telemetry counts what a node does, times it, and says which step led to which: the metrics that
// Prometheus scrapes, and the traces that OpenTelemetry collects.
//
// A Telemetry belongs to one node. Its engines tell it what happens as it happens: a turn has begun, a tool
// was called, a batch was committed. What exists anyway, such as the questions that wait in the store, is
// not counted twice: a function that was registered with Gauge is asked when somebody scrapes. A nil
// *Telemetry is valid and does nothing, so engines need not ask whether there is one.
//
// # Metrics
//
// All instruments are in one registry of the node's own (metrics.go lists them). Labels take few values.
// Neither a user nor a text of a user or a model ever becomes one: a tool counts under its name only if it
// exists, and agents that are asked count together; a model counts under its name once it is configured or
// has answered. What is beyond a bound counts as "other".
//
// # Traces
//
// A turn is a span (invoke_agent). The model calls (chat) and tool calls (execute_tool) below it are spans
// within it, and so are the turns of agents that it asks. The names are those of OpenTelemetry's semantic
// conventions for generative AI. The ID of a trace is the ID of the request that began it, so a person who
// knows the request finds the trace; the incoming traceparent of a caller takes precedence. Work that goes
// on after its request was answered, or after a restart, begins a trace of its own, with a link to the
// request that it belongs to: both have IDs from which the link is computed, so none is stored.
//
// What people and models say is in no span, unless TraceOptions.Content is set.
//
// Without TraceOptions there is no tracer, nothing is allocated for spans, and a traceparent that arrives is
// passed on as it came.
package telemetry

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"
)

// Telemetry holds the metrics and the tracer of a node. Safe for concurrent use.
type Telemetry struct {
	registry *prometheus.Registry
	metrics
	tools, models names

	log     *slog.Logger // details of turns and calls, for the level debug
	tracer  trace.Tracer // nil: nothing is traced
	content bool         // spans have what was said

	mu        sync.Mutex
	followers map[string]*Follower
}

// New returns the telemetry of a node of a version. It traces nothing until Trace is called. At the level debug,
// the log (nil: none) has a line for each turn and call that ends.
func New(version string, log *slog.Logger) *Telemetry {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &Telemetry{log: log, registry: prometheus.NewRegistry(), metrics: newMetrics(), followers: map[string]*Follower{},
		tools: names{most: maxTools}, models: names{most: maxModels}}
	t.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	t.registry.MustRegister(t.all()...)
	t.build.WithLabelValues(version).Set(1)
	t.registry.MustRegister(followerGauges{t})
	return t
}

// maxScrapes is how many scrapes are answered at the same time.
const maxScrapes = 4

// Handler returns the server of the metrics, in the formats of Prometheus.
func (t *Telemetry) Handler() http.Handler {
	if t == nil {
		return http.NotFoundHandler()
	}
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Timeout: 10 * time.Second,
		ErrorHandling: promhttp.ContinueOnError})
}

// Names returns the names of all metrics that Handler has now.
func (t *Telemetry) Names() ([]string, error) {
	families, err := t.registry.Gather()
	var out []string
	for _, f := range families {
		out = append(out, f.GetName())
	}
	return out, err
}

// Sample is one value of a gauge, with the values of its labels.
type Sample struct {
	Labels []string
	Value  float64
}

// Gauge adds a gauge whose values read returns. It is called when somebody scrapes, must return in bounded
// time, and returns a bounded number of samples.
func (t *Telemetry) Gauge(name, help string, labels []string, read func() []Sample) {
	if t == nil {
		return
	}
	t.registry.MustRegister(&gauges{prometheus.NewDesc(name, help, labels, nil), read})
}

// gauges is a prometheus.Collector over a function.
type gauges struct {
	desc *prometheus.Desc
	read func() []Sample
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) { ch <- g.desc }

// Collect implements prometheus.Collector.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	for _, s := range g.read() {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, s.Value, s.Labels...)
	}
}

// The bounds of labels. What is beyond them counts as other.
const (
	maxTools  = 500
	maxModels = 200
	other     = "other"
)

// names admits a bounded number of names as values of a label.
type names struct {
	most  int
	known sync.Map // string → struct{}
	mu    sync.Mutex
	count int
}

// admit makes a name one of those that count under it, and returns it; other, if there are too many.
func (n *names) admit(name string) string {
	if _, ok := n.known.Load(name); ok {
		return name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.known.Load(name); ok {
		return name
	}
	if n.count >= n.most {
		return other
	}
	n.count++
	n.known.Store(name, struct{}{})
	return name
}

// find returns a name that was admitted before; otherwise other.
func (n *names) find(name string) string {
	if _, ok := n.known.Load(name); ok {
		return name
	}
	return other
}
