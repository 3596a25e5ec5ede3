package telemetry

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steward/internal/fault"
	"steward/internal/message"
)

// metrics are the instruments that engines count with. What is read when somebody scrapes is added with
// Telemetry.Gauge, mostly by package app.
type metrics struct {
	build *prometheus.GaugeVec

	turnsStarted *prometheus.CounterVec // by origin
	turnsRunning prometheus.Gauge
	turns        *prometheus.CounterVec   // by outcome
	turnSeconds  *prometheus.HistogramVec // by outcome

	toolCalls   *prometheus.CounterVec   // by tool, outcome
	toolSeconds *prometheus.HistogramVec // by tool

	intents *prometheus.CounterVec // by state

	modelCalls   *prometheus.CounterVec   // by provider, model, outcome
	modelTokens  *prometheus.CounterVec   // by provider, model, kind
	modelCost    *prometheus.CounterVec   // by provider, model
	modelSeconds *prometheus.HistogramVec // by provider, model

	commits       *prometheus.CounterVec // by outcome
	commitSeconds prometheus.Histogram
	groupBatches  prometheus.Histogram

	occurrences *prometheus.CounterVec // by state
	updates     *prometheus.CounterVec // by channel, state
	posts       *prometheus.CounterVec // by channel, state

	httpRequests *prometheus.CounterVec // by server, code
	connections  *prometheus.GaugeVec   // by server
}

func newMetrics() metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	long := []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600} // of models, tools and turns
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: long}, labels)
	}
	return metrics{
		build: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "steward_build_info", Help: "1, with the version that runs."}, []string{"version"}),

		turnsStarted: counter("steward_turns_started_total", "Turns that began or were resumed, by what began them.", "origin"),
		turnsRunning: prometheus.NewGauge(prometheus.GaugeOpts{Name: "steward_turns_running", Help: "Turns that run now."}),
		turns:        counter("steward_turns_total", "Turns that ended, by outcome.", "outcome"),
		turnSeconds:  histogram("steward_turn_seconds", "Durations of turns, with the time that they wait for people.", "outcome"),

		toolCalls:   counter("steward_tool_calls_total", "Tool calls, by tool and outcome.", "tool", "outcome"),
		toolSeconds: histogram("steward_tool_call_seconds", "Durations of tool calls, with the time that they wait for approvals.", "tool"),

		intents: counter("steward_intent_transitions_total", "Times that an action reached a state.", "state"),

		modelCalls:   counter("steward_model_calls_total", "Calls of models: answered, or the kind of error.", "provider", "model", "outcome"),
		modelTokens:  counter("steward_model_tokens_total", "Tokens of models, by kind: input, output, cache_read and cache_write, which are parts of the input, and reasoning, which is a part of the output.", "provider", "model", "kind"),
		modelCost:    counter("steward_model_cost_dollars_total", "Cost of models with a known price, in US dollars.", "provider", "model"),
		modelSeconds: histogram("steward_model_call_seconds", "Durations of calls of models.", "provider", "model"),

		commits: counter("steward_store_commits_total", "Batches, by outcome: committed, refused by a precondition, or failed.", "outcome"),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "steward_store_commit_seconds",
			Help: "Durations of commits, from the queue to the disk.", Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30}}),
		groupBatches: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "steward_store_group_batches",
			Help: "Batches that are committed together.", Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}}),

		occurrences: counter("steward_job_occurrences_total", "Occurrences of jobs, by the state that they reached: due (to run), done, failed, missed or skipped.", "state"),
		updates:     counter("steward_channel_updates_total", "Updates of messengers, by the state that they reached.", "channel", "state"),
		posts:       counter("steward_channel_posts_total", "Posts to messengers, by the state that they reached.", "channel", "state"),

		httpRequests: counter("steward_http_requests_total", "Requests over HTTP, by server and class of the status.", "server", "code"),
		connections:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "steward_connections", Help: "Requests and connections that are open now, by server."}, []string{"server"}),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.build, m.turnsStarted, m.turnsRunning, m.turns, m.turnSeconds, m.toolCalls, m.toolSeconds, m.intents,
		m.modelCalls, m.modelTokens, m.modelCost, m.modelSeconds, m.commits, m.commitSeconds, m.groupBatches, m.occurrences, m.updates, m.posts,
		m.httpRequests, m.connections}
}

// originOf returns what began a turn, of "tool:NAME", "agent:PATH" and the like only the kind.
func originOf(origin string) string {
	kind, _, _ := strings.Cut(origin, ":")
	switch kind {
	case "":
		return "user"
	case "tool", "agent", "alarm", "job", "channel":
		return kind
	}
	return other
}

// toolLabel returns the label of a tool. origin is its Spec.Origin.
func (t *Telemetry) toolLabel(tool, origin string) string {
	switch {
	case tool == "":
		return "unknown" // a model has made the name up
	case strings.HasPrefix(origin, "agent:"):
		return "agent.ask" // agents that are designed for a request have names of their own
	}
	return t.tools.admit(tool)
}

// ConfiguredModels makes models ("provider/model") count under their names from the beginning.
func (t *Telemetry) ConfiguredModels(list ...string) {
	if t == nil {
		return
	}
	for _, full := range list {
		t.models.admit(full)
	}
}

// modelLabels returns the labels of a model. Names of models that have never answered may be anything that
// somebody has written.
func (t *Telemetry) modelLabels(full string, answered bool) (provider, model string) {
	if answered {
		full = t.models.admit(full)
	} else {
		full = t.models.find(full)
	}
	provider, model, ok := strings.Cut(full, "/")
	if !ok {
		return other, other
	}
	return provider, model
}

func (t *Telemetry) countModel(full string, took time.Duration, u message.Usage, cost float64, err error) (outcome string) {
	outcome = "answered"
	if err != nil {
		outcome = string(fault.Of(err).Kind)
	}
	provider, model := t.modelLabels(full, err == nil)
	t.modelCalls.WithLabelValues(provider, model, outcome).Inc()
	t.modelSeconds.WithLabelValues(provider, model).Observe(took.Seconds())
	for kind, n := range map[string]int64{"input": u.Input, "output": u.Output, "cache_read": u.CacheRead, "cache_write": u.CacheWrite, "reasoning": u.Reasoning} {
		if n > 0 {
			t.modelTokens.WithLabelValues(provider, model, kind).Add(float64(n))
		}
	}
	if cost > 0 {
		t.modelCost.WithLabelValues(provider, model).Add(cost)
	}
	return outcome
}

// Intent counts an intent that has reached a state.
func (t *Telemetry) Intent(state string) {
	if t != nil {
		t.intents.WithLabelValues(state).Inc()
	}
}

// Commit counts a batch that waited and was committed for a time. refused: a precondition did not hold.
func (t *Telemetry) Commit(took time.Duration, refused bool, err error) {
	if t == nil {
		return
	}
	outcome := "committed"
	if err != nil {
		outcome = "failed"
		if refused {
			outcome = "refused"
		}
	}
	t.commits.WithLabelValues(outcome).Inc()
	t.commitSeconds.Observe(took.Seconds())
}

// Group counts a group of batches that are committed together.
func (t *Telemetry) Group(batches int) {
	if t != nil {
		t.groupBatches.Observe(float64(batches))
	}
}

// Occurrences counts n occurrences of jobs that have reached a state.
func (t *Telemetry) Occurrences(state string, n int) {
	if t != nil && n > 0 {
		t.occurrences.WithLabelValues(state).Add(float64(n))
	}
}

// Update counts an update that has reached a state. channel is the name of an account in the settings.
func (t *Telemetry) Update(channel, state string) {
	if t != nil {
		t.updates.WithLabelValues(channel, state).Inc()
	}
}

// Post counts a post that has reached a state.
func (t *Telemetry) Post(channel, state string) {
	if t != nil {
		t.posts.WithLabelValues(channel, state).Inc()
	}
}
