package watch

import "time"

// maxQuiet bounds the wait for a folder that never rests, in multiples of Quiet.
const maxQuiet = 20

// Debouncer debounces changes of a folder, so that files put into it one by one are
// read once. The folder is at rest when no change was reported for the time
// Quiet, or at the latest after 20 times as long. Not safe for concurrent use.
type Debouncer struct {
	Quiet time.Duration
	C     <-chan time.Time // fires at rest; nil while nothing has changed

	since time.Time
}

// Record records a change.
func (r *Debouncer) Record() {
	if r.C == nil {
		r.since = time.Now()
	}
	if r.C == nil || time.Since(r.since) < maxQuiet*r.Quiet {
		r.C = time.After(r.Quiet)
	}
}

// Done must be called after C has fired.
func (r *Debouncer) Done() { r.C = nil }
