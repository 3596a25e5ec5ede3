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

// awayAndGone makes folders in dir and has w watch them, then moves each of
// them away and deletes it: the system says that they moved when their watch is
// gone already, which fsnotify reports as an error for each.
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

// One loop reads events and removes folders, as its users do.
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
				_ = w.Remove(ev.Name) // as one does who does not know that its watch has gone with it
				if ev.Has(fsnotify.Rename) {
					gone++
				}
			case <-w.Errors:
			}
		}
		must.Do(t, w.Close())
	}
}

// Close ends also while nobody reads.
func TestCloseWhileErrorsComeAndNobodyReads(t *testing.T) {
	for range 5 {
		w := must.Get(New())
		awayAndGone(t, w, t.TempDir())
		must.Do(t, w.Close())
		for range w.Events {
		}
	}
}
