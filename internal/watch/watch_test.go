package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/fsnotify/fsnotify"

	"steward/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// awayAndGone makes folders in dir and has w watch them, then moves each of
// them away and deletes it: the system says that they moved when their watch is
// gone already, which fsnotify reports as an error for each.
func awayAndGone(t *testing.T, w *Watcher, dir string) (folders []string) {
	t.Helper()
	for i := range 40 {
		d := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := w.Add(d); err != nil {
			t.Fatal(err)
		}
		folders = append(folders, d)
	}
	for _, d := range folders {
		if err := os.Rename(d, d+".away"); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(d + ".away"); err != nil {
			t.Fatal(err)
		}
	}
	return folders
}

// One loop reads events and removes folders, as its users do.
func TestALoopThatReadsAndRemoves(t *testing.T) {
	for range 5 {
		dir := t.TempDir()
		w, err := New()
		if err != nil {
			t.Fatal(err)
		}
		folders := awayAndGone(t, w, dir)
		for gone := 0; gone < len(folders); {
			select {
			case ev := <-w.Events:
				if filepath.Dir(ev.Name) != dir {
					t.Fatalf("an event of %s", ev.Name)
				}
				_ = w.Remove(ev.Name) // as one does who does not know that its watch has gone with it
				if ev.Has(fsnotify.Rename) {
					gone++
				}
			case <-w.Errors:
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Close ends also while nobody reads.
func TestCloseWhileErrorsComeAndNobodyReads(t *testing.T) {
	for range 5 {
		w, err := New()
		if err != nil {
			t.Fatal(err)
		}
		awayAndGone(t, w, t.TempDir())
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		for range w.Events {
		}
	}
}
