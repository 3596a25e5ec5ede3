package turn

import (
	"slices"
	"time"

	"steward/internal/request"
)

// Retry runs do until it succeeds, fails with a final error (nil: no error is
// final), or the node closes. It logs each failure and waits after it: one second
// first, then twice as long each time, up to one minute.
func (e *Engine) Retry(what string, do func() error, final func(error) bool, about ...any) error {
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		err := do()
		if err == nil || e.life.Err() != nil || final != nil && final(err) {
			return err
		}
		e.log.Warn(what, append(slices.Clip(about), "error", err)...)
		select {
		case <-time.After(pause):
		case <-e.life.Done():
			return request.ErrSuspend
		}
	}
}
