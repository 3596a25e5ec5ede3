package secret

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"steward/internal/watch"
)

// quiet is how long the folder of the secrets has to be unchanged before it is
// read: next to nothing, as each is put into its place as a whole.
const quiet = time.Millisecond

// Follower tells a masker of secrets as they are kept.
type Follower struct {
	cancel context.CancelFunc
	run    sync.WaitGroup
}

// Follow tells m of all secrets, and from then on of each that Set keeps, by
// whichever process, until Close. What cannot be learned is logged.
func (s *Store) Follow(m *Masker, log *slog.Logger) *Follower {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		log.Debug("the folder of the secrets cannot be made", "error", err) // who keeps one is told
	}
	if err := s.Learn(m); err != nil {
		log.Debug("a secret is not hidden", "error", err) // the start has told of it
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &Follower{cancel: cancel}
	follower := watch.Follower{
		What:  "the secrets",
		Paths: []string{s.dir},
		Dirs:  func() []string { return []string{s.dir} },
		Changed: func() {
			if err := s.Learn(m); err != nil {
				log.Warn("a secret is not hidden", "error", err)
			}
		},
		Quiet: quiet, Log: log,
	}
	f.run.Go(func() { follower.Run(ctx) })
	return f
}

// Close ends it.
func (f *Follower) Close() error {
	f.cancel()
	f.run.Wait()
	return nil
}
