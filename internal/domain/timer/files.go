package timer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"steward/internal/domain/local"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/tool"
)

// files stores each timer of a user in a file whose name derives from the key.
type files struct{ dir string }

const (
	ending  = ".json"
	maxFile = 1 << 16
	keep    = 7 * 24 * time.Hour // how long an ended timer is kept
)

func (f files) path(key string) string {
	return filepath.Join(f.dir, id.Derive("timer", key).String()+ending)
}

func decode(path string, data []byte) (Timer, error) {
	var t Timer
	if err := json.Unmarshal(data, &t); err != nil {
		return t, fault.New(fault.Invalid, "timer_invalid", "the timer in %s cannot be read: %w", filepath.Base(path), err).
			WithHint("mend the file or take it away")
	}
	return t, nil
}

// Accept stores a new timer, unless there is already one with its key. It returns the stored one.
func (f files) Accept(ctx context.Context, t Timer) (Timer, error) {
	if err := f.prune(t.Set); err != nil {
		return t, tool.NotDone(err)
	}
	path := f.path(t.Key)
	kept := t
	err := local.Update(ctx, path, maxFile, func(old []byte) ([]byte, error) {
		if old != nil {
			var err error
			kept, err = decode(path, old)
			return nil, err
		}
		return json.Marshal(t)
	})
	return kept, err
}

// Finish ends a timer if it is running, and returns it. by is the key of a call that cancels it.
func (f files) Finish(ctx context.Context, key string, s State, by string) (Timer, error) {
	path := f.path(key)
	var t Timer
	err := local.Update(ctx, path, maxFile, func(old []byte) ([]byte, error) {
		if old == nil {
			return nil, fault.New(fault.NotFound, "timer_not_found", "the timer is not there any more")
		}
		var err error
		if t, err = decode(path, old); err != nil || t.State != Running {
			return nil, err
		}
		t.State, t.By = s, by
		return json.Marshal(t)
	})
	return t, err
}

// Get returns the timer with a key, if there is one.
func (f files) Get(_ context.Context, key string) (Timer, bool, error) {
	path := f.path(key)
	data, err := local.ReadFile(path, maxFile)
	if err != nil || data == nil {
		return Timer{}, false, err
	}
	t, err := decode(path, data)
	return t, err == nil, err
}

// All returns the timers, sorted by their end. Files that are not timers are ignored.
func (f files) All(ctx context.Context) ([]Timer, error) {
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, local.Fault(f.dir, err)
	}
	var out []Timer
	for _, d := range entries {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !isTimer(d) {
			continue
		}
		path := filepath.Join(f.dir, d.Name())
		data, err := local.ReadFile(path, maxFile)
		if err != nil {
			return nil, err
		}
		if t, err := decode(path, data); err == nil && t.Key != "" {
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(a, b Timer) int { return cmp.Or(a.Ends.Compare(b.Ends), cmp.Compare(a.Key, b.Key)) })
	return out, nil
}

func isTimer(d fs.DirEntry) bool {
	return !d.IsDir() && strings.HasSuffix(d.Name(), ending) && !strings.HasPrefix(d.Name(), ".")
}

// prune removes timers that ended long ago, with their lock files.
func (f files) prune(now time.Time) error {
	all, err := f.All(context.Background())
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.State == Running || now.Sub(t.Ends) < keep {
			continue
		}
		path := f.path(t.Key)
		for _, p := range []string{path, filepath.Join(f.dir, "."+filepath.Base(path)+".lock")} {
			if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return local.Fault(p, err)
			}
		}
	}
	return nil
}
