package watch

import "time"

// mostQuiet is how many quiet times a folder that never rests is waited for.
const mostQuiet = 20

// Rest tells when a folder that changes has come to rest, so that what is put
// into it file by file is read once: when nothing was told for the time Quiet,
// or, where that does not come, after 20 times as long. For one goroutine.
type Rest struct {
	Quiet time.Duration
	C     <-chan time.Time // fires at rest; nil while nothing has changed

	since time.Time
}

// Disturb tells that something has changed.
func (r *Rest) Disturb() {
	if r.C == nil {
		r.since = time.Now()
	}
	if r.C == nil || time.Since(r.since) < mostQuiet*r.Quiet {
		r.C = time.After(r.Quiet)
	}
}

// Done tells that C has fired.
func (r *Rest) Done() { r.C = nil }
