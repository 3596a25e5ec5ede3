package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Follower is something that is derived from the log, and how far it has come. A nil *Follower does nothing.
type Follower struct {
	head func() uint64 // the end of the log

	mu       sync.Mutex
	position uint64
	since    time.Time // when it last was at the end of the log, or made progress
	failure  error     // of the last try; nil: it worked
	resting  bool      // nobody needs it to follow
}

// Follow adds a follower of the log, whose end head returns.
func (t *Telemetry) Follow(name string, head func() uint64) *Follower {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.followers[name]
	if f == nil {
		f = &Follower{head: head, since: time.Now()}
		t.followers[name] = f
	}
	return f
}

// At tells that it has come to a position.
func (f *Follower) At(position uint64) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.position, f.since, f.failure, f.resting = position, time.Now(), nil, false
}

// Rest tells that it does not follow the log until the next At, because nobody needs it to.
func (f *Follower) Rest() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resting = true
}

// Failed tells that it could not go on.
func (f *Follower) Failed(err error) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure = err
}

// lag returns by how many entries it is behind, and for how long it has made no progress while it was.
func (f *Follower) lag(now time.Time) (entries uint64, stuck time.Duration) {
	head := f.head()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.resting || head <= f.position {
		f.since = now
		return 0, 0
	}
	return head - f.position, now.Sub(f.since)
}

// Stuck returns the names of the followers that are behind and have made no progress for longer than a time,
// although the log goes on.
func (t *Telemetry) Stuck(most time.Duration) []string {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for name, f := range t.followers {
		if entries, stuck := f.lag(time.Now()); entries > 0 && stuck > most {
			out = append(out, name)
		}
	}
	return out
}

// followerGauges is a prometheus.Collector of the followers.
type followerGauges struct{ t *Telemetry }

func (followerGauges) descs() (entries, seconds *prometheus.Desc) {
	return prometheus.NewDesc("steward_follower_lag_entries", "Entries of the log that a follower has not read yet.", []string{"follower"}, nil),
		prometheus.NewDesc("steward_follower_stuck_seconds", "How long a follower that is behind has made no progress.", []string{"follower"}, nil)
}

// Describe implements prometheus.Collector.
func (g followerGauges) Describe(ch chan<- *prometheus.Desc) {
	entries, seconds := g.descs()
	ch <- entries
	ch <- seconds
}

// Collect implements prometheus.Collector.
func (g followerGauges) Collect(ch chan<- prometheus.Metric) {
	lag, stuckFor := g.descs()
	g.t.mu.Lock()
	defer g.t.mu.Unlock()
	for name, f := range g.t.followers {
		entries, stuck := f.lag(time.Now())
		ch <- prometheus.MustNewConstMetric(lag, prometheus.GaugeValue, float64(entries), name)
		ch <- prometheus.MustNewConstMetric(stuckFor, prometheus.GaugeValue, stuck.Seconds(), name)
	}
}
