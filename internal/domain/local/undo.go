package local

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/tool"
)

// Shared says who may use what the settings name.
type Shared struct {
	Users, Groups []string
}

// Share limits the kit's tools to those who may use what the settings name: the machine's own user, or
// the users and groups that are named. Call it before adding tools.
func (k *Kit) Share(s Shared) { k.audience = tool.OwnedBy(s.Users, s.Groups) }

// Undo makes one of the kit's actions undoable, by the key of the call.
func Undo[R Reverter](k *Kit, short string, of func(user string) R) {
	if t := k.tools[k.Name(short)]; t != nil {
		k.tools[k.Name(short)] = &undoable{layer{t}, func(user string) Reverter { return of(user) }}
	}
}

// Batch lets one of the kit's actions make several calls at once. See tool.Batcher.
func (k *Kit) Batch(short string, fn func(ctx context.Context, ins []tool.Invocation) []tool.Outcome) {
	if t := k.tools[k.Name(short)]; t != nil {
		k.tools[k.Name(short)] = &batching{layer{t}, fn}
	}
}

// Reverter undoes changes of a user.
type Reverter interface {
	// Revert undoes the change under a key, and says so. Repeated, it returns the same text. It does
	// not undo a change if others have changed the same place since; the error is then a Conflict.
	Revert(ctx context.Context, key string) (told string, err error)
}

// undoable is an action that can be undone.
type undoable struct {
	layer
	of func(user string) Reverter
}

func (u *undoable) Undo(ctx context.Context, in tool.Invocation, _ tool.Result) (tool.Result, error) {
	told, err := u.of(in.User).Revert(ctx, Key(in))
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Text(told), nil
}

// batching is an action that makes several calls at once.
type batching struct {
	layer
	all func(ctx context.Context, ins []tool.Invocation) []tool.Outcome
}

func (b *batching) CallAll(ctx context.Context, ins []tool.Invocation) []tool.Outcome {
	return b.all(ctx, ins)
}

// UndoKey returns the key under which the undoing of a change is recorded.
func UndoKey(key string) string { return "undo " + key }

// Former is what a change of a file has replaced. It is needed to undo the change.
type Former struct {
	Before string `json:"before,omitzero"` // the text that was replaced
	After  string `json:"after,omitzero"`  // the new text
	What   string `json:"what,omitzero"`   // what it is called
}

// Limits of what is kept for undoing changes.
const (
	maxFormers = 500 // of a file
	maxFormer  = 1 << 20
)

func formers(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".undo")
}

func formerOf(path, key string) string {
	return filepath.Join(formers(path), id.Derive("undo", key).String()+".json")
}

// KeepFormer stores durably what a change of a file is about to replace. Call it before the change, under
// the file's lock. If the change is then not made, this does no harm.
func KeepFormer(path, key string, f Former) error {
	b, err := json.Marshal(f)
	if err != nil || len(b) > maxFormer {
		return err // such a large change cannot be undone
	}
	if err := Replace(formerOf(path, key), b); err != nil {
		return Fault(path, err)
	}
	return pruneFormers(formers(path))
}

// Keeper returns a function that keeps a note for undoing a change of something that is not a file, in the
// place of a file that is not written.
func Keeper(path string) func(key, note string) error {
	return func(key, note string) error { return KeepFormer(path, key, Former{Before: note}) }
}

// Kept returns a function that reads such notes.
func Kept(path string) func(key string) (note string, ok bool, err error) {
	return func(key string) (string, bool, error) {
		f, ok, err := FormerOf(path, key)
		return f.Before, ok, err
	}
}

// FormerOf returns what a change of a file has replaced, if it is known.
func FormerOf(path, key string) (Former, bool, error) {
	var f Former
	b, err := ReadFile(formerOf(path, key), maxFormer)
	if err != nil || b == nil {
		return f, false, err
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return f, false, fault.New(fault.Invalid, "undo_invalid", "what %s was before cannot be read: %w", filepath.Base(path), err).WithHint("undo it by hand")
	}
	return f, true, nil
}

// pruneFormers removes the oldest if there are too many.
func pruneFormers(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil || len(list) <= maxFormers {
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
	for _, x := range all[:max(0, len(all)-maxFormers)] {
		if err := gone(os.Remove(filepath.Join(dir, x.name))); err != nil {
			return err
		}
	}
	return nil
}

// Reverse undoes one replacement in a text made of pieces. The piece that equals After becomes Before, or
// is removed if Before is empty. If the change removed a piece, put inserts it again. Error code:
// changed_since.
func (f Former) Reverse(pieces []string, put func(pieces []string, before string) []string) ([]string, error) {
	if f.After == "" {
		return put(pieces, f.Before), nil
	}
	i := slices.Index(pieces, f.After)
	if i < 0 {
		return nil, fault.New(fault.Conflict, "changed_since", "%.200s was changed since, or is not there any more", cmp.Or(f.What, "it")).
			WithHint("undo it by hand")
	}
	out := slices.Clone(pieces)
	if f.Before == "" {
		return slices.Delete(out, i, i+1), nil
	}
	out[i] = f.Before
	return out, nil
}

// Record is a user's file in which each change, and each undoing of one, is marked with its key and with
// the text that was returned for it. It is a Journal and a Reverter.
type Record struct {
	Path string
	Max  int64                                                                           // bytes of the file
	Done func(file []byte, key string) (string, bool)                                    // the text of the change under a key, if it is marked
	Back func(file []byte, was Former, mark string) (now []byte, said string, err error) // undoes a change, and marks that
}

// Applied implements Journal.
func (r Record) Applied(_ context.Context, key string) (string, bool, error) {
	data, err := ReadFile(r.Path, r.Max)
	if err != nil {
		return "", false, err
	}
	told, ok := r.Done(data, key)
	return told, ok, nil
}

// Change makes changes, all or none, each once for its key, and returns the text of each. change makes one
// in the file's content and marks it.
func (r Record) Change(ctx context.Context, keys []string, change func(i int, file []byte) (now []byte, was Former, said string, err error)) ([]string, error) {
	told := make([]string, len(keys))
	err := Update(ctx, r.Path, r.Max, func(old []byte) ([]byte, error) {
		now := old
		for i, key := range keys {
			if before, ok := r.Done(now, key); ok {
				told[i] = before
				continue
			}
			next, was, said, err := change(i, now)
			if err == nil {
				err = KeepFormer(r.Path, key, was)
			}
			if err != nil {
				return nil, err
			}
			now, told[i] = next, said
		}
		if bytes.Equal(now, old) {
			return nil, nil
		}
		return now, nil
	})
	return told, err
}

// Revert implements Reverter.
func (r Record) Revert(ctx context.Context, key string) (said string, err error) {
	err = Update(ctx, r.Path, r.Max, func(old []byte) (now []byte, err error) {
		if before, ok := r.Done(old, UndoKey(key)); ok {
			said = before
			return nil, nil
		}
		was, ok, err := FormerOf(r.Path, key)
		if err != nil {
			return nil, err
		}
		if _, applied := r.Done(old, key); !ok || !applied {
			return nil, NotApplied()
		}
		now, said, err = r.Back(old, was, UndoKey(key))
		return now, err
	})
	return said, err
}

// NotApplied returns the error for undoing a change that was not made or is no longer known.
func NotApplied() error {
	return fault.New(fault.NotFound, "undo_unknown", "what was done, or what was there before it, is not remembered any more").WithHint("undo it by hand")
}
