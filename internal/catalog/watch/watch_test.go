package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/fsnotify/fsnotify"

	"steward/test/leak"
	"steward/test/must"
)

func TestMain(m *testing.M) { leak.Main(m) }

// awayAndGone makes folders in dir, watches them with w, and then moves each one
// away and deletes it. The event of the move arrives after the watch has been
// removed, so fsnotify reports an error for each folder.
func awayAndGone(t *testing.T, w *Watcher, dir string) (folders []string) {
	t.Helper()
	for i := range 40 {
		d := filepath.Join(dir, fmt.Sprint(i))
		must.Do(t, os.Mkdir(d, 0o755))
		must.Do(t, w.Add(d))
		folders = append(folders, d)
	}
	for _, d := range folders {
		must.Do(t, os.Rename(d, d+".away"))
		must.Do(t, os.Remove(d+".away"))
	}
	return folders
}

// One loop reads events and removes folders, as the users of Watcher do.
func TestALoopThatReadsAndRemoves(t *testing.T) {
	for range 5 {
		dir := t.TempDir()
		w := must.Get(New())
		folders := awayAndGone(t, w, dir)
		for gone := 0; gone < len(folders); {
			select {
			case ev := <-w.Events:
				if filepath.Dir(ev.Name) != dir {
					t.Fatalf("an event of %s", ev.Name)
				}
				_ = w.Remove(ev.Name) // as a user would that does not know that the watch is already gone
				if ev.Has(fsnotify.Rename) {
					gone++
				}
			case <-w.Errors:
			}
		}
		must.Do(t, w.Close())
	}
}

// Close returns even if nobody reads Events and Errors.
func TestCloseWhileErrorsComeAndNobodyReads(t *testing.T) {
	for range 5 {
		w := must.Get(New())
		awayAndGone(t, w, t.TempDir())
		must.Do(t, w.Close())
		for range w.Events {
		}
	}
}
