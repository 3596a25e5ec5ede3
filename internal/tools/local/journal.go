package local

import (
	"cmp"
	"context"
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

// SaveNote stores durably a note of a change that is about to be made, beside a file, which need not exist. If
// the change is then not made, the note does no harm. Error codes: change_too_large and those of Fault.
func SaveNote(path, key string, note any) error {
	b, err := json.Marshal(note)
	if err != nil {
		return err
	}
	if len(b) > maxNote {
		return fault.New(fault.TooLarge, "change_too_large", "it is too large to be changed here, because the change could not be undone").WithHint("change it in another program")
	}
	if err := Replace(noteOf(path, key), b); err != nil {
		return Fault(filepath.Base(path), err)
	}
	return prune(notesOf(path))
}

// LoadNote reads the note that was kept under a key, and reports whether there is one. Error code: undo_invalid.
func LoadNote(path, key string, note any) (bool, error) {
	b, err := ReadFile(noteOf(path, key), maxNote)
	if err != nil || b == nil {
		return false, err
	}
	if err := json.Unmarshal(b, note); err != nil {
		return false, fault.New(fault.Invalid, "undo_invalid", "the earlier state of %s cannot be read: %w", filepath.Base(path), err).WithHint("undo it yourself")
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
	list = slices.DeleteFunc(ByAge(list), func(e os.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".json") })
	for _, e := range list[:max(0, len(list)-maxNotes)] {
		if err := gone(os.Remove(filepath.Join(dir, e.Name()))); err != nil {
			return err
		}
	}
	return nil
}

// ByAge returns what is in a folder, the oldest first. Files that no longer exist come first.
func ByAge(list []os.DirEntry) []os.DirEntry {
	at := map[string]int64{}
	for _, e := range list {
		if info, err := e.Info(); err == nil {
			at[e.Name()] = info.ModTime().UnixNano()
		}
	}
	slices.SortFunc(list, func(a, b os.DirEntry) int { return cmp.Compare(at[a.Name()], at[b.Name()]) })
	return list
}

// NotApplied returns the error for undoing a change that was not made or is no longer known.
func NotApplied() error {
	return tool.NotDone(fault.New(fault.NotFound, "undo_unknown", "the record of this change is no longer stored").WithHint("undo it yourself"))
}

// ChangedSince returns the error for undoing a change of what others have changed since.
func ChangedSince(what string) error {
	return tool.NotDone(fault.New(fault.Conflict, "changed_since", "%.200s has changed since, or no longer exists", what).WithHint("undo it yourself"))
}

// OutcomeUnknown returns the error for a change whose outcome is unknown, because others
// have changed the same place since.
func OutcomeUnknown(what string) error {
	return fault.New(fault.Unavailable, "change_unsettled", "%.200s was changed by another program; it is unknown whether Steward's change was made", what).
		WithHint("read it, and decide again")
}

// Note is the note of a change of a part of a file.
type Note struct {
	Before string `json:"before,omitzero"` // the part as it was
	After  string `json:"after,omitzero"`  // the part as it is to be
	What   string `json:"what"`            // what it is called
	Reply  string `json:"told"`            // the reply about the change
	Done   bool   `json:"done,omitzero"`   // the change was made; else the file tells
}

// Record is a user's file whose changes are noted. It implements Changes.
type Record struct {
	Name   string // what the file is for people, such as "calendar"
	Path   string
	Max    int64                                             // bytes of the file
	Part   func(text string, n Note) string                  // what a text has of the part that a change is about
	Splice func(file string, n Note, part string) (_ string) // puts it in its place in the file
}

// Read returns the content of the file.
func (r Record) Read() (string, error) {
	data, err := ReadFile(r.Path, r.Max)
	return string(data), err
}

// Applied implements Changes.
func (r Record) Applied(_ context.Context, key string) (string, bool, error) {
	var n Note
	if ok, err := LoadNote(r.Path, key, &n); err != nil || !ok || n.Done {
		return n.Reply, ok, err
	}
	file, err := r.Read()
	if err != nil {
		return "", false, err
	}
	switch r.Part(file, n) {
	case r.Part(n.After, n):
		return n.Reply, true, nil
	case r.Part(n.Before, n):
		return n.Reply, false, nil
	}
	return "", false, OutcomeUnknown(n.What)
}

// Change makes changes, all or none, each once for its key, and returns the text of each. change notes one that
// is to be made in the file.
func (r Record) Change(ctx context.Context, keys []string, change func(i int, file string) (Note, error)) ([]string, error) {
	reply := make([]string, len(keys))
	fresh := map[string]Note{}
	var unsettled error
	err := Update(ctx, r.Path, r.Max, func(old []byte) ([]byte, error) {
		now := string(old)
		for i, key := range keys {
			var ok bool
			if reply[i], ok, unsettled = r.Applied(ctx, key); ok || unsettled != nil {
				if ok {
					continue
				}
				return nil, unsettled
			}
			n, err := change(i, now)
			if err == nil {
				err = SaveNote(r.Path, key, n)
			}
			if err != nil {
				return nil, err
			}
			now, reply[i], fresh[key] = r.Splice(now, n, n.After), n.Reply, n
		}
		return []byte(now), nil
	}, func() {
		for key, n := range fresh {
			n.Done = true
			_ = SaveNote(r.Path, key, n) // until the next change, the file itself tells
		}
	})
	if unsettled != nil {
		return reply, unsettled
	}
	if err != nil && tool.CertainlyNotDone(err) {
		for key := range fresh {
			err = errors.Join(err, Drop(r.Path, key))
		}
	}
	return reply, err
}

// Revert implements Changes.
func (r Record) Revert(ctx context.Context, key string) (string, error) {
	var n Note
	ok, err := LoadNote(r.Path, key, &n)
	if err != nil || !ok {
		return "", cmp.Or(tool.NotDone(err), NotApplied())
	}
	return "The " + r.Name + " is restored: " + n.What + ".", Update(ctx, r.Path, r.Max, func(file []byte) ([]byte, error) {
		switch r.Part(string(file), n) {
		case r.Part(n.After, n):
			return []byte(r.Splice(string(file), n, n.Before)), nil
		case r.Part(n.Before, n): // it was undone before
			return file, nil
		}
		return nil, ChangedSince(n.What)
	}, nil)
}
