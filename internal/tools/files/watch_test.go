package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/tool"
)

// watched is a granted folder whose changes are followed.
type watched struct {
	*testing.T
	Options
	dir string
	got []string
	at  string // the last cursor
}

func newWatched(t *testing.T) *watched {
	w := &watched{T: t, dir: t.TempDir()}
	w.Folders = []Folder{{Name: "box", Path: w.dir, For: &tool.Audience{Users: []string{"ann"}}}}
	return w
}

func (w *watched) write(name, text string) {
	w.Helper()
	at := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// run follows a pattern until stop is called.
func (w *watched) run(pattern string) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for c, err := range w.Watch(ctx, "ann", pattern, w.at) {
			if err != nil {
				w.got = append(w.got, fault.Of(err).Code)
				return
			}
			w.at = c.Cursor
			if len(c.Files) > 0 {
				w.got = append(w.got, strings.Join(c.Files, " "))
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (w *watched) saw(want ...string) {
	w.Helper()
	if !slices.Equal(w.got, want) {
		w.Errorf("got %q, want %q", w.got, want)
	}
	w.got = nil
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		w.write("in/old.txt", "old")
		stop := w.run("box/in/*.txt")
		time.Sleep(time.Minute + 2*time.Second) // never at the same time as a look
		w.saw()
		for i := range 4 { // a file that grows is reported once, when it is complete
			w.write("in/a.txt", strings.Repeat("x", i+1))
			w.write("in/b.pdf", "not meant")
			time.Sleep(lookEvery)
		}
		w.saw()
		time.Sleep(time.Minute)
		w.saw("box/in/a.txt")
		w.write("in/old.txt", "older")
		w.write("in/c.txt", "c")
		time.Sleep(time.Minute)
		w.saw("box/in/c.txt box/in/old.txt")
		stop()

		// What changes while nobody looks is one change.
		w.write("in/d.txt", "d")
		w.write("in/c.txt", "cc")
		if err := os.Remove(filepath.Join(w.dir, "in/a.txt")); err != nil {
			t.Fatal(err)
		}
		stop = w.run("box/in/*.txt")
		time.Sleep(time.Minute + 2*time.Second)
		w.saw("box/in/c.txt box/in/d.txt")
		w.write("in/a.txt", "again")
		for i := range 30 { // one that never rests is reported nevertheless, now and then
			w.write("in/log.txt", strings.Repeat("x", i+1))
			time.Sleep(lookEvery)
		}
		synctest.Wait()
		stop()
		if len(w.got) < 2 || w.got[0] != "box/in/a.txt box/in/log.txt" {
			t.Errorf("%q", w.got)
		}
	})
}

// A folder that is missing has no files. A path that the tools refuse is not followed.
func TestWhatCanBeWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		stop := w.run("box/later/x")
		time.Sleep(time.Minute + 2*time.Second)
		w.write("later/x", "x")
		time.Sleep(time.Minute)
		stop()
		w.saw("box/later/x")
	})
	w := newWatched(t)
	if err := os.Symlink("/etc", filepath.Join(w.dir, "etc")); err != nil {
		t.Fatal(err)
	}
	for i := range maxMatches + 1 {
		w.write(fmt.Sprintf("many/%d", i), "")
	}
	for pattern, code := range map[string]string{"box/etc/passwd": "path_refused", "/etc/passwd": "path_refused", "box/../x": "path_refused", "no/x": "path_refused", "box/many/*": "files_too_many",
		"box/many/1*": "", "box/x": ""} {
		err := w.CanWatch(t.Context(), "ann", pattern)
		if code == "" && err != nil || code != "" && !fault.HasCode(err, code) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	if err := w.CanWatch(t.Context(), "bob", "box/x"); !fault.HasCode(err, "path_refused") {
		t.Error(err)
	}
	for path, want := range map[string]string{filepath.Join(w.dir, "in", "*.txt"): "box/in/*.txt", filepath.Join(w.dir, "x"): "box/x", "/etc/passwd": "/etc/passwd"} {
		if got, err := w.NameOf(t.Context(), "ann", path); err != nil || got != want {
			t.Error(path, got, err)
		}
	}
}
