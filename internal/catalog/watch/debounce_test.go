package watch

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Debouncer{Quiet: time.Second}
		if r.C != nil {
			t.Error("it is at rest before anything has changed")
		}
		began := time.Now()
		after := func(want time.Duration, every time.Duration) {
			t.Helper()
			began = time.Now()
			r.Record()
			for {
				select {
				case <-r.C:
					if got := time.Since(began); got != want {
						t.Errorf("it rests after %v, not %v", got, want)
					}
					r.Done()
					return
				case <-time.After(every):
					r.Record()
				}
			}
		}
		after(time.Second, time.Hour)
		after(20500*time.Millisecond, 500*time.Millisecond) // a folder that never rests
		after(time.Second, time.Hour)
	})
}
