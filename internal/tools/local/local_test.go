package local_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/local"
	"steward/test/localtest"
	_ "steward/test/seed"
)

func TestPlaces(t *testing.T) {
	if _, err := local.NewPlace(tool.Env{}, "rest"); !fault.HasCode(err, "data_missing") {
		t.Errorf("no data folder: %v", err)
	}
}

// No two users share a folder, and none leads out of the data folder, also
// where a file system does not tell cases apart.
func TestFoldersOfUsers(t *testing.T) {
	p, err := local.NewPlace(tool.Env{Data: "/data"}, "x")
	if err != nil {
		t.Fatal(err)
	}
	name := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("./\\_aA1-~\x00"))))
	rapid.Check(t, func(t *rapid.T) {
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		if a != b && strings.EqualFold(p.For(a), p.For(b)) {
			t.Fatalf("%q and %q share %q", a, b, p.For(a))
		}
		if rel, err := filepath.Rel("/data", p.For(a)); err != nil || strings.Count(rel, "/") != 1 || !filepath.IsLocal(rel) {
			t.Fatalf("%q leads to %q", a, p.For(a))
		}
	})
}

func TestAForgottenUserHasNoFolder(t *testing.T) {
	data := t.TempDir()
	own := []string{"root/mail/ana/inbox/1", "agents/desk/below/sources/mail/ana/x"}
	others := []string{"root/mail/an/inbox/1", "agents/ana/sources/mail/bob/ana/x", "agents/desk/sources/program/cache/ana/x"}
	for _, name := range append(own, others...) {
		path := filepath.Join(data, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(local.Forget(data, "ana"), local.Forget(filepath.Join(data, "none"), "ana")); err != nil {
		t.Fatal(err)
	}
	for i, name := range append(own, others...) {
		if _, err := os.Stat(filepath.Join(data, filepath.FromSlash(name))); (err == nil) != (i >= len(own)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "f")
	if err := local.Replace(path, []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := local.Replace(path, []byte("3")); err != nil {
		t.Fatal(err)
	}
	if b, err := local.ReadFile(path, 10); err != nil || string(b) != "3" {
		t.Errorf("%q, %v", b, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
		t.Errorf("left behind: %v, %v", list, err)
	}
	if _, err := local.ReadFile(path, 0); !fault.HasCode(err, "file_too_large") {
		t.Errorf("%v", err)
	}
	if b, err := local.ReadFile(path+"x", 0); b != nil || err != nil {
		t.Errorf("a missing one: %q, %v", b, err)
	}
	if _, err := local.ReadFile(dir, 1<<20); err == nil {
		t.Error("a folder was read")
	}
	if err := local.Replace(filepath.Join(path, "x"), nil); err == nil {
		t.Error("a file was a folder")
	}
}

// Changes made at the same time by several are all there.
func TestUpdatesOfMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := local.Update(context.Background(), path, 100, func(old []byte) ([]byte, error) { return append(old, 'x'), nil }, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if b, err := os.ReadFile(path); err != nil || len(b) != 20 {
		t.Errorf("%q, %v", b, err)
	}
}

func TestUpdatesThatFailChangeNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no")
	for name, change := range map[string]func([]byte) ([]byte, error){
		"refused":  func([]byte) ([]byte, error) { return nil, refused },
		"too long": func([]byte) ([]byte, error) { return make([]byte, 101), nil },
	} {
		if err := local.Update(t.Context(), path, 100, change, nil); err == nil || !tool.CertainlyNotDone(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := local.Update(t.Context(), path, 100, func(old []byte) ([]byte, error) { return old, nil }, nil); err != nil {
		t.Error(err)
	}
	if err := local.Update(t.Context(), path, 2, func(old []byte) ([]byte, error) { return old, nil }, nil); !fault.HasCode(err, "file_too_large") {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
		t.Errorf("%q, %v", b, err)
	}
	if err := local.Update(t.Context(), filepath.Join(path, "below"), 2, nil, nil); err == nil || !tool.CertainlyNotDone(err) {
		t.Errorf("below a file: %v", err)
	}
	// While another one changes it, nobody waits longer than they want to.
	err := local.Update(t.Context(), path, 100, func([]byte) ([]byte, error) {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer stop()
		return nil, local.Update(ctx, path, 100, nil, nil)
	}, nil)
	if !fault.HasCode(err, "file_busy") || !tool.CertainlyNotDone(err) {
		t.Errorf("while it is busy: %v", err)
	}
}

func TestFaults(t *testing.T) {
	for want, err := range map[string]error{
		"file_not_found":   &fs.PathError{Path: "/secret/place", Err: fs.ErrNotExist},
		"file_denied":      fs.ErrPermission,
		"file_unavailable": errors.New("broken"),
	} {
		got := local.Fault("place", err)
		if !fault.HasCode(got, want) || strings.Contains(got.Error(), "secret") {
			t.Errorf("%v: %v", err, got)
		}
	}
}

func kit(env tool.Env, description string) tool.Source {
	k := local.NewKit(env, "domain:test")
	local.Action(k, tool.Spec{Name: "do", Description: description}, func(context.Context, tool.Invocation, struct{}) (string, error) { return "done", nil },
		func(context.Context, tool.Invocation) (bool, tool.Result, error) {
			return true, tool.Text("settled"), nil
		})
	local.Query(k, tool.Spec{Name: "ask", Description: "Asks."}, func(context.Context, tool.Invocation, struct{}) (string, error) { return "asked", nil })
	src, err := k.Source()
	if err != nil {
		panic(err)
	}
	return src
}

func TestASourceHoldsToWhatWasApproved(t *testing.T) {
	env := localtest.Env(t, "MyTools 2")
	changed := 0
	env.Changed = func() { changed++ }
	src := kit(env, "Does.")
	a, err := src.Announce(t.Context())
	if err != nil || len(a.Specs) != 2 || a.Specs[0].Name != "my_tools_2.do" || a.Specs[0].Origin != "domain:test" || len(src.Files()) != 0 {
		t.Fatalf("%+v %v", a, err)
	}
	asks := a.Specs[0]
	asks.Asks = true
	query := a.Specs[0]
	query.Effect, query.Delivery = tool.Query, ""
	for _, spec := range []tool.Spec{a.Specs[0], a.Specs[1], asks, query} {
		tl := src.Tool(spec)
		var r tool.Registry
		if err := r.Add(tl); err != nil {
			t.Error(err)
		}
		if _, err := tl.Call(t.Context(), tool.Invocation{Args: []byte("{}")}); err != nil {
			t.Error(err)
		}
		if err := tl.(tool.Checker).Check([]byte(`{"x":1}`)); !fault.HasCode(err, "args_invalid") {
			t.Errorf("%v", err)
		}
		if _, ok := tool.SettlerOf(tl); ok != strings.HasSuffix(spec.Name, "do") {
			t.Errorf("%s: a settler %v", spec.Name, ok)
		}
	}
	later := kit(env, "Does something else.")
	gone := a.Specs[1]
	gone.Name = "my_tools_2.gone"
	for _, spec := range []tool.Spec{a.Specs[0], gone} {
		tl := later.Tool(spec)
		if _, err := tl.Call(t.Context(), tool.Invocation{Args: []byte("{}")}); !fault.HasCode(err, "tool_changed") || !fault.Is(err, fault.Denied) || tl.Spec().Name != spec.Name {
			t.Errorf("%v", err)
		}
	}
	if changed != 2 {
		t.Errorf("told %d times that it has changed", changed)
	}
	env.Changed = nil
	if _, err := kit(env, "Else.").Tool(gone).Call(t.Context(), tool.Invocation{}); !fault.HasCode(err, "tool_changed") {
		t.Errorf("%v", err)
	}
}

func TestAKitKeepsItsFirstError(t *testing.T) {
	k := local.NewKit(localtest.Env(t, "x"), "domain:test")
	local.Action(k, tool.Spec{Name: "Bad Name", Description: "x"}, func(context.Context, tool.Invocation, struct{}) (string, error) { return "", nil }, nil)
	local.Query(k, tool.Spec{Name: "good"}, func(context.Context, tool.Invocation, struct{}) (string, error) { return "", nil })
	if _, err := k.Source(); !fault.HasCode(err, "tool_name_invalid") {
		t.Errorf("%v", err)
	}
}

func TestWhatIsDoneOnceCannotBeAskedAbout(t *testing.T) {
	k := local.NewKit(localtest.Env(t, "x"), "domain:test")
	local.Action(k, tool.Spec{Name: "do", Description: "Does."}, func(context.Context, tool.Invocation, struct{}) (string, error) { return "done", nil }, nil)
	src, err := k.Source()
	if err != nil {
		t.Fatal(err)
	}
	a, err := src.Announce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tl := src.Tool(a.Specs[0])
	if s := tl.Spec(); s.Name != "x.do" || s.Effect != tool.Action || s.Dedupes {
		t.Errorf("%+v", s)
	}
	if _, ok := tool.SettlerOf(tl); ok {
		t.Error("it can be asked what it has done")
	}
	if res, err := tl.Call(t.Context(), tool.Invocation{Args: []byte("{}")}); err != nil || localtest.TextOf(res) != "done" {
		t.Errorf("%v %v", res, err)
	}
}

func TestHasWords(t *testing.T) {
	for query, want := range map[string]bool{"tea zoe": true, "the TEA": true, "te": true, "the": false, "": false, "tea bob": false} {
		if got := local.HasWords("Tea with Zoe", query, "the"); got != want {
			t.Errorf("%q: %v", query, got)
		}
	}
}
