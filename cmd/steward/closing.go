package main

import (
	"errors"
	"log/slog"
	"time"

	"steward/internal/fault"
)

// part is something that is open, and what closes it.
type part struct {
	name  string
	close func() error
}

// closeWithin closes parts one after the other. When the limit has passed the
// rest are closed all the same, with a tenth of it for each: a part that hangs
// must not keep the process, and with it the data folder, for ever.
func closeWithin(limit time.Duration, log *slog.Logger, parts ...part) error {
	var all error
	until := time.Now().Add(limit)
	for _, p := range parts {
		done := make(chan error, 1)
		go func() { done <- p.close() }()
		select {
		case err := <-done:
			all = errors.Join(all, err)
		case <-time.After(max(time.Until(until), limit/10)):
			log.Error("a part of Steward does not close, and is left behind", "part", p.name)
			all = errors.Join(all, fault.New(fault.Timeout, "closing_hangs", "%s could not be closed in time", p.name).
				WithHint("what was told as stored is; if it happens again, tell what the log says"))
		}
	}
	return all
}
