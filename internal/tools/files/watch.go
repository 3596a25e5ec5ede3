package files

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"steward/internal/fault"
)

// Limits of files that are followed.
const (
	lookEvery  = 5 * time.Second // how often they are looked at
	maxMatches = 500             // files that a pattern may fit
	maxUnquiet = 12              // looks at files that change without pause, before they are reported nevertheless
)

// Changes are files that are new or different.
type Changes struct {
	Files  []string // as the tools name them, sorted
	Cursor string   // what is known now
}

// NameOf returns how the tools name a path of this machine, for a user. A path that is in none of the user's
// folders is returned as it is.
func (o Options) NameOf(ctx context.Context, user, file string) (string, error) {
	mine, err := (&kit{o}).foldersOf(ctx, user)
	if err != nil {
		return "", err
	}
	dir, glob := filepath.Split(file)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for _, f := range mine {
		top := f.Path
		if real, err := filepath.EvalSymlinks(top); err == nil {
			top = real
		}
		if rel, err := filepath.Rel(top, dir); err == nil && filepath.IsLocal(rel) {
			return path.Join(f.Name, filepath.ToSlash(rel), glob), nil
		}
	}
	return file, nil
}

// CanWatch returns an error if a user may not follow files: the path leads to no granted folder, or into what
// belongs to Steward. The pattern is a path as the tools take it, with a glob in its last element.
func (o Options) CanWatch(ctx context.Context, user, pattern string) error {
	_, err := o.look(ctx, user, pattern)
	return err
}

// Watch yields changes of files, until ctx is done. Files are looked at every few seconds, which works in every
// file system; a change is reported once nothing has changed from one look to the next, so that a file that is
// still being written is reported when it is complete. cursor is what was known before; empty: what there is now
// counts as known. So what has changed while nobody looked is reported as one change. A file that disappears is
// forgotten, and reported when it comes again. The rights are those of the time at which it looks.
func (o Options) Watch(ctx context.Context, user, pattern, cursor string) iter.Seq2[Changes, error] {
	return func(yield func(Changes, error) bool) {
		known := stamps{}
		if cursor != "" {
			if err := json.Unmarshal([]byte(cursor), &known); err != nil {
				cursor = ""
			}
		}
		dir, _ := path.Split(pattern)
		last, unquiet := known, 0
		for {
			now, err := o.look(ctx, user, pattern)
			if err != nil {
				yield(Changes{}, err)
				return
			}
			switch {
			case cursor == "":
				known = now
				cursor = now.text()
				if !yield(Changes{Cursor: cursor}, nil) {
					return
				}
			case maps.Equal(now, known):
				unquiet = 0
			case maps.Equal(now, last) || unquiet >= maxUnquiet:
				c := Changes{Cursor: now.text()}
				for _, name := range slices.Sorted(maps.Keys(now)) {
					if known[name] != now[name] {
						c.Files = append(c.Files, dir+name)
					}
				}
				known, unquiet = now, 0
				if !yield(c, nil) {
					return
				}
			default:
				unquiet++
			}
			last = now
			select {
			case <-time.After(lookEvery):
			case <-ctx.Done():
				return
			}
		}
	}
}

// stamps are files by their names in their folder, with what changes when they do.
type stamps map[string]string

func (s stamps) text() string {
	b, err := json.Marshal(s)
	if err != nil {
		return "{}" // it is made of strings
	}
	return string(b)
}

// look returns the files that a pattern fits, for a user. A folder that does not exist has none.
func (o Options) look(ctx context.Context, user, pattern string) (stamps, error) {
	dir, glob := path.Split(pattern)
	mine, err := (&kit{o}).foldersOf(ctx, user)
	if err != nil {
		return nil, err
	}
	p, root, err := mine.open(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), p.rel)
	if errors.Is(err, fs.ErrNotExist) {
		return stamps{}, nil
	}
	if err != nil {
		return nil, p.fault(err)
	}
	out := stamps{}
	for _, e := range entries {
		fits, err := path.Match(glob, e.Name())
		if err != nil {
			return nil, fault.New(fault.Invalid, "pattern_invalid", "%.100q is not a pattern", glob).WithHint("write it as *.pdf")
		}
		info, err := e.Info()
		if !fits || err != nil || !info.Mode().IsRegular() || p.private.Is(info) {
			continue
		}
		if len(out) >= maxMatches {
			return nil, fault.New(fault.TooLarge, "files_too_many", "more than %d files fit %.100q", maxMatches, pattern).WithHint("move old ones away, or use a narrower pattern")
		}
		out[e.Name()] = strconv.FormatInt(info.Size(), 36) + "." + strconv.FormatInt(info.ModTime().UnixNano(), 36)
	}
	return out, nil
}
