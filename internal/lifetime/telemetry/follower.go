package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Follower is something that is derived from the log, and how far it has come. A nil *Follower does nothing.
//
// Nobody tells it when the log grows. So it counts as stuck from the moment at which it failed, or at which somebody
// first found it behind: entries that are new do not make it stuck, however long it had nothing to read before.
type Follower struct {
	head func() uint64 // the end of the log

	mu       sync.Mutex
	position uint64
	stuck    time.Time // since when it is known to be behind and has made no progress; zero: it is not
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
		f = &Follower{head: head}
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
	f.position, f.stuck, f.resting = position, time.Time{}, false
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
func (f *Follower) Failed() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stuck.IsZero() {
		f.stuck = time.Now()
	}
}

// lag returns by how many entries it is behind, and for how long it is known to be without progress.
func (f *Follower) lag(now time.Time) (entries uint64, stuck time.Duration) {
	head := f.head()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.resting || head <= f.position:
		f.stuck = time.Time{}
		return 0, 0
	case f.stuck.IsZero():
		f.stuck = now
	}
	return head - f.position, now.Sub(f.stuck)
}

// Stuck returns the names of the followers that are behind the log and have made no progress for longer than a time.
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
