package secret

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"

	"steward/internal/watch"
)

// Follower tells a masker of secrets as they are kept.
type Follower struct {
	watcher *watch.Watcher // nil: the system tells of nothing
	cancel  context.CancelFunc
	run     sync.WaitGroup
}

// Follow tells m of all secrets, and from then on of each that Set keeps, by
// whichever process, until Close. What cannot be learned later is logged; where
// the system does not tell of changes, that is nothing more.
func (s *Store) Follow(m *Masker, log *slog.Logger) *Follower {
	ctx, cancel := context.WithCancel(context.Background())
	f := &Follower{cancel: cancel}
	var err error
	if f.watcher, err = s.watch(); err != nil {
		log.Warn("secrets that are kept from now on are hidden from the next start on: the system does not notify of them", "error", err)
	}
	if err := s.Learn(m); err != nil { // what came before the watch, too
		log.Debug("a secret is not hidden", "error", err) // the start has told of it
	}
	if f.watcher != nil {
		f.run.Go(func() { s.follow(ctx, f.watcher, m, log) })
	}
	return f
}

// Close ends it.
func (f *Follower) Close() error {
	f.cancel()
	f.run.Wait()
	if f.watcher == nil {
		return nil
	}
	return f.watcher.Close()
}

func (s *Store) watch() (*watch.Watcher, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, unwritable(err)
	}
	w, err := watch.New()
	if err != nil {
		return nil, err
	}
	if err := w.Add(s.dir); err != nil {
		w.Close() //nolint:errcheck // the error before it tells more
		return nil, err
	}
	return w, nil
}

func (s *Store) follow(ctx context.Context, w *watch.Watcher, m *Masker, log *slog.Logger) {
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case ev := <-w.Events:
			name := filepath.Base(ev.Name)
			if !ev.Has(fsnotify.Create) || !namePattern.MatchString(name) {
				continue // Set puts a whole file in its place
			}
			if err = s.learn(name, m); err != nil {
				if _, gone := os.Lstat(ev.Name); gone != nil {
					continue // removed again
				}
			}
		case <-w.Errors:
			err = s.Learn(m)
		}
		if err != nil {
			log.Warn("a secret is not hidden", "error", err)
		}
	}
}
