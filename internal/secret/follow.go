package secret

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"steward/internal/catalog/watch"
)

// settleTime is how long the folder of the secrets must be unchanged before it is read.
// It is short, since each secret is replaced in one step.
const settleTime = time.Millisecond

// Follower adds new secrets to a masker.
type Follower struct {
	cancel context.CancelFunc
	run    sync.WaitGroup
}

// Follow adds all secrets to m, and until Close each secret that any process
// stores with Set. It looks for them every poll; zero: when the system reports a change. Errors are logged.
func (s *Store) Follow(m *Masker, poll time.Duration, log *slog.Logger) *Follower {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		log.Debug("the folder of the secrets cannot be created", "error", err) // Set reports this error
	}
	if err := s.Learn(m); err != nil {
		log.Debug("a secret is not masked", "error", err) // reported at the start
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &Follower{cancel: cancel}
	follower := watch.Follower{
		What:  "the secrets",
		Paths: []string{s.dir},
		Dirs:  func() []string { return []string{s.dir} },
		Changed: func() {
			if err := s.Learn(m); err != nil {
				log.Warn("a secret is not masked", "error", err)
			}
		},
		Quiet: settleTime, Poll: poll, Log: log,
	}
	f.run.Go(func() { follower.Run(ctx) })
	return f
}

// Close stops following.
func (f *Follower) Close() error {
	f.cancel()
	f.run.Wait()
	return nil
}
