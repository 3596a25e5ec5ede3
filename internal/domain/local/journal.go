package local

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/tool"
)

// Limits of the notes that are kept beside a file.
const (
	maxNotes = 500
	maxNote  = 4 << 20 // bytes of one
)

func notesOf(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".undo")
}

func noteOf(path, key string) string {
	return filepath.Join(notesOf(path), id.Derive("undo", key).String()+".json")
}

// Keep stores durably a note of a change that is about to be made, beside a file, which need not exist. If
// the change is then not made, the note does no harm. Error codes: change_too_large and those of Fault.
func Keep(path, key string, note any) error {
	b, err := json.Marshal(note)
	if err != nil {
		return err
	}
	if len(b) > maxNote {
		return fault.New(fault.TooLarge, "change_too_large", "it is too large to be changed here: it could not be undone").WithHint("change it in another program")
	}
	if err := Replace(noteOf(path, key), b); err != nil {
		return Fault(filepath.Base(path), err)
	}
	return prune(notesOf(path))
}

// Kept reads the note that was kept under a key, and reports whether there is one. Error code: undo_invalid.
func Kept(path, key string, note any) (bool, error) {
	b, err := ReadFile(noteOf(path, key), maxNote)
	if err != nil || b == nil {
		return false, err
	}
	if err := json.Unmarshal(b, note); err != nil {
		return false, fault.New(fault.Invalid, "undo_invalid", "what %s was before cannot be read: %w", filepath.Base(path), err).WithHint("undo it by hand")
	}
	return true, nil
}

// Drop removes the note of a change that was certainly not made.
func Drop(path, key string) error { return gone(os.Remove(noteOf(path, key))) }

// prune removes the oldest notes if there are too many.
func prune(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil || len(list) <= maxNotes {
		return gone(err)
	}
	type aged struct {
		name string
		at   int64
	}
	var all []aged
	for _, d := range list {
		info, err := d.Info()
		if err == nil && strings.HasSuffix(d.Name(), ".json") {
			all = append(all, aged{d.Name(), info.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(all, func(a, b aged) int { return cmp.Compare(a.at, b.at) })
	for _, x := range all[:max(0, len(all)-maxNotes)] {
		if err := gone(os.Remove(filepath.Join(dir, x.name))); err != nil {
			return err
		}
	}
	return nil
}

// NotApplied returns the error for undoing a change that was not made or is no longer known.
func NotApplied() error {
	return tool.NotDone(fault.New(fault.NotFound, "undo_unknown", "what was done, or what was there before it, is not remembered any more").WithHint("undo it by hand"))
}

// ChangedSince returns the error for undoing a change of what others have changed since.
func ChangedSince(what string) error {
	return tool.NotDone(fault.New(fault.Conflict, "changed_since", "%.200s was changed since, or is not there any more", what).WithHint("undo it by hand"))
}

// Unsettled returns the error for a change of which nobody can know whether it was made, because others
// have changed the same place since.
func Unsettled(what string) error {
	return fault.New(fault.Unavailable, "change_unsettled", "%.200s was changed by somebody else: whether Steward has changed it before cannot be told", what).
		WithHint("look at it, and decide anew")
}

// Note is the note of a change of a file.
type Note struct {
	Before string `json:"before,omitzero"` // the text that is replaced
	After  string `json:"after,omitzero"`  // the text in its place
	What   string `json:"what"`            // what it is called
	Told   string `json:"told"`            // what is said of the change
	Was    string `json:"was"`             // the hash of the file before the change
	Is     string `json:"is"`              // and after it
	Done   bool   `json:"done,omitzero"`   // the change was made; else the file tells
}

func hashOf(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

// Record is a user's file whose changes are noted. It implements Changes.
type Record struct {
	Name string // what the file is for people, such as "calendar"
	Path string
	Max  int64                                           // bytes of the file
	Back func(file []byte, n Note) (now []byte, _ error) // undoes a change
}

// Applied implements Changes.
func (r Record) Applied(_ context.Context, key string) (string, bool, error) {
	n, ok, err := r.made(key)
	return n.Told, ok, err
}

// made returns the note of the change under a key, and reports whether the change was made.
func (r Record) made(key string) (n Note, ok bool, err error) {
	if ok, err := Kept(r.Path, key, &n); err != nil || !ok || n.Done {
		return n, ok, err
	}
	file, err := ReadFile(r.Path, r.Max)
	if err != nil {
		return n, false, err
	}
	switch hashOf(file) {
	case n.Is:
		return n, true, nil
	case n.Was:
		return n, false, nil
	}
	return n, false, Unsettled("the " + r.Name)
}

// Change makes changes, all or none, each once for its key, and returns the text of each. change makes one
// in the file's content, and notes it.
func (r Record) Change(ctx context.Context, keys []string, change func(i int, file []byte) (now []byte, n Note, err error)) ([]string, error) {
	told := make([]string, len(keys))
	fresh := map[string]Note{}
	var unsettled error
	err := Update(ctx, r.Path, r.Max, func(old []byte) ([]byte, error) {
		now := old
		for i, key := range keys {
			n, ok, err := r.made(key)
			if err != nil {
				unsettled = err
				return nil, err
			}
			if !ok {
				if now, n, err = change(i, now); err != nil {
					return nil, err
				}
				fresh[key] = n
			}
			told[i] = n.Told
		}
		for key, n := range fresh {
			n.Was, n.Is = hashOf(old), hashOf(now)
			fresh[key] = n
			if err := Keep(r.Path, key, n); err != nil {
				return nil, err
			}
		}
		return now, nil
	}, func() {
		for key, n := range fresh {
			n.Done = true
			_ = Keep(r.Path, key, n) // until the next change, the file itself tells
		}
	})
	if unsettled != nil {
		return told, unsettled
	}
	if err != nil && tool.Certain(err) {
		for key := range fresh {
			err = errors.Join(err, Drop(r.Path, key))
		}
	}
	return told, err
}

// Revert implements Changes.
func (r Record) Revert(ctx context.Context, key string) (string, error) {
	was, ok, err := r.made(key)
	if err != nil || !ok {
		return "", cmp.Or(tool.NotDone(err), NotApplied())
	}
	told, err := r.Change(ctx, []string{"undo " + key}, func(_ int, file []byte) ([]byte, Note, error) {
		now, err := r.Back(file, was)
		return now, Note{Before: was.After, After: was.Before, What: was.What, Told: "The " + r.Name + " is as it was before: " + was.What + "."}, err
	})
	return told[0], err
}
