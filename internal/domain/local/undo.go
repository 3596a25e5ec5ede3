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

// Declared is what the declaration of a domain may say beside its own.
type Declared struct {
	Shared   `yaml:",inline"`
	Delivery string `yaml:"delivery"` // of its actions: inline (the default) or deferred
}

// Shared says who may use files that a declaration names.
type Shared struct {
	Users  []string `yaml:"users"`
	Groups []string `yaml:"groups"`
}

// Share limits the kit's tools to those whose the declared files are: the
// machine's own user, or whoever is named. Without declared files each user
// has files of their own. Call it before tools are added.
func (k *Kit) Share(s Shared, files ...string) {
	if strings.Join(files, "") != "" || len(s.Users)+len(s.Groups) > 0 {
		k.audience = tool.OwnedBy(s.Users, s.Groups)
	}
}

// Deliver has the kit's actions delivered as declared, and shares its tools
// (Share); call it before they are added. Actions that go on by themselves stay
// inline. Errors: Invalid, delivery_unknown.
func (k *Kit) Deliver(d Declared, files ...string) error {
	k.Share(d.Shared, files...)
	switch tool.Delivery(d.Delivery) {
	case "", tool.Inline:
	case tool.Deferred:
		k.delivery = tool.Deferred
	default:
		return fault.New(fault.Invalid, "delivery_unknown", "delivery: %.40q is no delivery", d.Delivery).
			WithHint("write inline, so that the agent waits for what becomes of an action, or deferred, so that actions are done when its turn ends")
	}
	return nil
}

// Undo lets what one of the kit's actions did be taken back by its key.
func Undo[R Reverter](k *Kit, short string, of func(user string) R) {
	if t := k.tools[k.Name(short)]; t != nil {
		k.tools[k.Name(short)] = &undoable{layer{t}, func(user string) Reverter { return of(user) }}
	}
}

// Batch lets one of the kit's actions take several calls at once; fn is as
// tool.Batcher says.
func (k *Kit) Batch(short string, fn func(ctx context.Context, ins []tool.Invocation) []tool.Outcome) {
	if t := k.tools[k.Name(short)]; t != nil {
		k.tools[k.Name(short)] = &batching{layer{t}, fn}
	}
}

// Reverter is a user's service whose changes can be taken back.
type Reverter interface {
	// Revert takes back the change under a key, and says so. Repeated, it says
	// the same. What was changed by others since is left as it is; the error is
	// a Conflict then.
	Revert(ctx context.Context, key string) (told string, err error)
}

// undoable is an action that can be taken back.
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

// batching is an action that takes several calls at once.
type batching struct {
	layer
	all func(ctx context.Context, ins []tool.Invocation) []tool.Outcome
}

func (b *batching) CallAll(ctx context.Context, ins []tool.Invocation) []tool.Outcome {
	return b.all(ctx, ins)
}

// UndoKey is the key under which the taking back of a change is kept.
func UndoKey(key string) string { return "undo " + key }

// Former is what a change of a file has replaced: by it the change can be
// taken back.
type Former struct {
	Before string `json:"before,omitzero"` // the text that is not there any more
	After  string `json:"after,omitzero"`  // the text that is there instead
	What   string `json:"what,omitzero"`   // what it is called
}

// Bounds of what is kept to take changes back.
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

// KeepFormer keeps what a change of a file is about to replace, durably. Call
// it before the change, under the file's lock: what is kept of a change that
// is not made then does no harm.
func KeepFormer(path, key string, f Former) error {
	b, err := json.Marshal(f)
	if err != nil || len(b) > maxFormer {
		return err // a change that large is not taken back
	}
	if err := Replace(formerOf(path, key), b); err != nil {
		return Fault(path, err)
	}
	return pruneFormers(formers(path))
}

// FormerOf returns what a change of a file has replaced, if that is known.
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

// pruneFormers forgets the oldest where there are too many.
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

// Reverse takes back one replacement in a text made of pieces: the one piece
// that is After becomes Before (nothing: it goes), and where the change took
// a piece away, put puts it in. Errors: Conflict, changed_since.
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

// Record is a file of a user's in which each change is marked with its key and
// what was told of it, and so is each taking back. It is a Journal and a
// Reverter.
type Record struct {
	Path string
	Max  int64                                                                           // bytes of the file
	Done func(file []byte, key string) (string, bool)                                    // what was said of the change under a key, if it is marked
	Back func(file []byte, was Former, mark string) (now []byte, said string, err error) // takes a change back, and marks that under its key
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

// Change makes changes, all or none, each once for its key, and returns what was
// told of each the first time. change makes one in the file's text, and marks it.
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

// NotApplied refuses to take back what was not done, or what nobody remembers.
func NotApplied() error {
	return fault.New(fault.NotFound, "undo_unknown", "what was done, or what was there before it, is not remembered any more").WithHint("undo it by hand")
}
