package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/local"
	"steward/test/localtest"
)

// What a kit's action wraps keeps all that it can do, as it is approved too.
func TestUndoAndBatchOfAnApprovedTool(t *testing.T) {
	k := local.NewKit(localtest.Env(t, "x"), "domain:test")
	broken := errors.New("broken")
	local.Change(k, tool.Spec{Name: "act", Description: "Acts."}, func(_ context.Context, user string) (service, error) {
		if user == "bob" {
			return service{broken}, nil
		}
		return service{}, nil
	}, func(context.Context, tool.Invocation, struct{}, service) (string, error) { return "done", nil }, tool.Text)
	k.Wrap(func(l local.Layer) tool.Tool { return batching{l} })
	src, err := k.Source()
	if err != nil {
		t.Fatal(err)
	}
	a, err := src.Announce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tl := src.Tool(a.Specs[0])
	u, canUndo := tool.UndoerOf(tl)
	b, canBatch := tool.BatcherOf(tl)
	_, canSettle := tool.SettlerOf(tl)
	if !canUndo || !canBatch || !canSettle {
		t.Fatal(canUndo, canBatch, canSettle)
	}
	if res, err := u.Undo(t.Context(), tool.Invocation{User: "ann", Key: "k"}, tool.Result{}); err != nil || localtest.TextOf(res) != "back k" {
		t.Error(res, err)
	}
	if _, err := u.Undo(t.Context(), tool.Invocation{User: "bob", Key: "k"}, tool.Result{}); !errors.Is(err, broken) {
		t.Error(err)
	}
	if n := len(b.CallAll(t.Context(), make([]tool.Invocation, 3))); n != 3 {
		t.Error(n)
	}
	if err := tl.(tool.Checker).Check([]byte(`{"x":1}`)); !fault.HasCode(err, "args_invalid") {
		t.Error(err)
	}
	if res, err := tl.Call(t.Context(), tool.Invocation{Args: []byte("{}")}); err != nil || localtest.TextOf(res) != "done" {
		t.Error(res, err)
	}
	gone := a.Specs[0]
	gone.Description = "Otherwise."
	if _, ok := tool.UndoerOf(src.Tool(gone)); ok {
		t.Error("what was not approved can be taken back")
	}
}

// batching makes several calls at once.
type batching struct{ local.Layer }

func (batching) CallAll(_ context.Context, ins []tool.Invocation) []tool.Outcome {
	return make([]tool.Outcome, len(ins))
}

// service can take back what has a key.
type service struct{ fails error }

func (s service) Applied(context.Context, string) (string, bool, error) { return "", false, s.fails }

func (s service) Revert(_ context.Context, key string) (string, error) { return "back " + key, s.fails }

func TestNotes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	var got string
	if ok, err := local.LoadNote(path, "k", &got); ok || err != nil {
		t.Error(ok, err)
	}
	want := "a\r\nb\x00é"
	for range 2 {
		if err := local.SaveNote(path, "k", want); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := local.LoadNote(path, "k", &got); got != want || !ok || err != nil {
		t.Error(got, ok, err)
	}
	if err := local.SaveNote(path, "large", strings.Repeat("x", 5<<20)); !fault.HasCode(err, "change_too_large") {
		t.Error(err)
	}
	dir := filepath.Join(filepath.Dir(path), ".list.undo")
	old := time.Now().Add(-time.Hour)
	for i := range 520 {
		name := filepath.Join(dir, fmt.Sprintf("old-%d.json", i))
		if err := os.WriteFile(name, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := local.SaveNote(path, "new", want); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 500 {
		t.Errorf("%d are kept, %v", len(list), err)
	}
	for _, key := range []string{"k", "new"} { // the newest are
		if ok, err := local.LoadNote(path, key, &got); !ok || err != nil {
			t.Errorf("%s: %v %v", key, ok, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.WriteFile(f, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := local.LoadNote(path, "new", &got); !fault.HasCode(err, "undo_invalid") {
		t.Error(err)
	}
	if err := local.SaveNote(filepath.Join(path, "x"), "k", want); err != nil { // path is no file yet
		t.Error(err)
	}
	if err := local.SaveNote("/dev/null/x", "k", want); err == nil {
		t.Error("kept in no folder")
	}
}

// record is a file whose changes are about the whole of it.
func record(path string, most int64) local.Record {
	return local.Record{Name: "list", Path: path, Max: most, Part: func(text string, _ local.Note) string { return text },
		Splice: func(_ string, _ local.Note, part string) string { return part }}
}

// After a crash the file tells whether a change was made, unless somebody else has changed it.
func TestAChangeThatACrashEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	r := record(path, 100)
	change := func() (string, error) {
		reply, err := r.Change(t.Context(), []string{"k"}, func(_ int, file string) (local.Note, error) {
			return local.Note{Before: file, After: file + "new", What: "it", Reply: "added"}, nil
		})
		return reply[0], err
	}
	put := func(content string, done bool) { // the file and the note as a crash leaves them
		t.Helper()
		var n local.Note
		if ok, err := local.LoadNote(path, "k", &n); !ok || err != nil {
			t.Fatal(ok, err)
		}
		n.Done = done
		if err := errors.Join(local.SaveNote(path, "k", n), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		content string
		done    bool
		applied bool
		after   string
	}{{"oldnew", false, true, "oldnew"}, {"old", false, false, "oldnew"}, {"others", true, true, "others"}} {
		if reply, err := change(); reply != "added" || err != nil {
			t.Fatal(reply, err)
		}
		put(c.content, c.done)
		if reply, ok, err := r.Applied(t.Context(), "k"); ok != c.applied || reply != "added" || err != nil {
			t.Errorf("%d: %q %v %v", i, reply, ok, err)
		}
		reply, err := change()
		if b, readErr := os.ReadFile(path); reply != "added" || err != nil || string(b) != c.after || readErr != nil {
			t.Errorf("%d: %q %v, %q %v", i, reply, err, b, readErr)
		}
	}
	put("others", false)
	if _, _, err := r.Applied(t.Context(), "k"); !fault.HasCode(err, "change_unsettled") || tool.CertainlyNotDone(err) {
		t.Error(err)
	}
	if _, err := change(); !fault.HasCode(err, "change_unsettled") || tool.CertainlyNotDone(err) {
		t.Error(err)
	}
	if _, err := r.Revert(t.Context(), "k"); !fault.HasCode(err, "changed_since") || !tool.CertainlyNotDone(err) {
		t.Error(err)
	}
}

// A change that was refused can be made later, whatever has become of the file.
func TestAChangeThatFailedLeavesNoNote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	r := record(path, 5)
	add := func(text string) error {
		_, err := r.Change(t.Context(), []string{"k"}, func(_ int, file string) (local.Note, error) {
			return local.Note{Before: file, After: file + text, Reply: "added"}, nil
		})
		return err
	}
	if err := add("too long"); !fault.HasCode(err, "file_too_large") || !tool.CertainlyNotDone(err) {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := add("yz"); err != nil {
		t.Error(err)
	}
}
