package turn

import (
	"slices"
	"time"

	"steward/internal/request"
)

// Retry runs do, which works for a user, until it succeeds, fails with a final error (nil: no error is
// final), or the node closes or lets the user go. It logs each failure and waits after it: one second
// first, then twice as long each time, up to one minute.
func (e *Engine) Retry(user, what string, do func() error, final func(error) bool, about ...any) error {
	life := e.life.Of(user)
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		err := do()
		if err == nil || life.Err() != nil || final != nil && final(err) {
			return err
		}
		e.log.Warn(what, append(slices.Clip(about), "error", err)...)
		select {
		case <-time.After(pause):
		case <-life.Done():
			return request.ErrSuspend
		}
	}
}
