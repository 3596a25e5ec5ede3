package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/domain/local"
	"steward/internal/domain/local/localtest"
	"steward/internal/fault"
	"steward/internal/tool"
)

// What a kit's action wraps keeps all that it can do, as it is approved too.
func TestUndoAndBatchOfAnApprovedTool(t *testing.T) {
	k := local.NewKit(localtest.Env(t, "x"), "domain:test")
	local.Action(k, tool.Spec{Name: "act", Description: "Acts."}, func(context.Context, tool.Invocation, struct{}) (string, error) { return "done", nil },
		func(context.Context, tool.Invocation) (bool, tool.Result, error) {
			return true, tool.Text("settled"), nil
		})
	broken := errors.New("broken")
	local.Undo(k, "act", func(user string) service {
		if user == "bob" {
			return service{broken}
		}
		return service{}
	})
	k.Batch("act", func(_ context.Context, ins []tool.Invocation) []tool.Outcome { return make([]tool.Outcome, len(ins)) })
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

// service can take back what has a key.
type service struct{ fails error }

func (s service) Revert(_ context.Context, key string) (string, error) { return "back " + key, s.fails }

func TestFormers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	if _, ok, err := local.FormerOf(path, "k"); ok || err != nil {
		t.Error(ok, err)
	}
	want := local.Former{Before: "a\r\n", After: "b\x00é", What: "it"}
	for range 2 {
		if err := local.KeepFormer(path, "k", want); err != nil {
			t.Fatal(err)
		}
	}
	if got, ok, err := local.FormerOf(path, "k"); got != want || !ok || err != nil {
		t.Error(got, ok, err)
	}
	if err := local.KeepFormer(path, "large", local.Former{Before: strings.Repeat("x", 2<<20)}); err != nil {
		t.Error(err)
	}
	if _, ok, err := local.FormerOf(path, "large"); ok || err != nil {
		t.Errorf("what is too large is kept: %v", err)
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
	if err := local.KeepFormer(path, "new", want); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 500 {
		t.Errorf("%d are kept, %v", len(list), err)
	}
	for _, key := range []string{"k", "new"} { // the newest are
		if _, ok, err := local.FormerOf(path, key); !ok || err != nil {
			t.Errorf("%s: %v %v", key, ok, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
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
	if _, _, err := local.FormerOf(path, "new"); !fault.HasCode(err, "undo_invalid") {
		t.Error(err)
	}
	if err := local.KeepFormer(filepath.Join(path, "x"), "k", want); err != nil { // path is no file yet
		t.Error(err)
	}
	if err := local.KeepFormer("/dev/null/x", "k", want); err == nil {
		t.Error("kept in no folder")
	}
}

// Taking back undoes one replacement, whatever else has come to stand around it.
func TestReverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z]{1,3}`)
		pieces := rapid.SliceOfNDistinct(word, 1, 8, func(s string) string { return s }).Draw(t, "pieces")
		i := rapid.IntRange(0, len(pieces)-1).Draw(t, "at")
		f := local.Former{Before: pieces[i], After: strings.ToUpper(pieces[i]), What: "it"}
		now := slices.Clone(pieces)
		now[i] = f.After
		now = slices.Insert(now, rapid.IntRange(0, len(now)).Draw(t, "more"), "MORE")
		back, err := f.Reverse(now, nil)
		if err != nil || !slices.Equal(slices.DeleteFunc(back, func(s string) bool { return s == "MORE" }), pieces) {
			t.Fatal(back, err)
		}
		if _, err := f.Reverse(pieces, nil); !fault.HasCode(err, "changed_since") {
			t.Fatal(err)
		}
		added := local.Former{After: f.After}
		if back, err = added.Reverse(now, nil); err != nil || len(back) != len(now)-1 || slices.Contains(back, f.After) {
			t.Fatal(back, err)
		}
		removed := local.Former{Before: "GONE"}
		back, err = removed.Reverse(now, func(p []string, before string) []string { return append(slices.Clone(p), before) })
		if err != nil || back[len(back)-1] != "GONE" {
			t.Fatal(back, err)
		}
	})
}
