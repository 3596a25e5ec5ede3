package vector_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/search/vector"
	"steward/internal/store"
	"steward/internal/store/sqlite"
)

// killEnv names the folder in which the process builds an index until it is killed.
const killEnv = "STEWARD_TEST_VECTOR_DIR"

// killed builds the index, if this process was started for that, and tells of each request
// on stdout. It reports whether it was.
func killed() bool {
	dir := os.Getenv(killEnv)
	if dir == "" {
		return false
	}
	if err := build(dir); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	fmt.Println("done")
	return true
}

func build(dir string) error {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "steward.db")})
	if err != nil {
		return err
	}
	x := vector.New(vector.Options{Path: filepath.Join(dir, "vectors.db"), Store: st, Model: only(tellingModel()), Log: slog.New(slog.DiscardHandler)})
	if err := x.CatchUp(ctx); err != nil {
		return err
	}
	fmt.Println("noted")
	return x.Embed(ctx)
}

// tellingModel returns a model that tells of each request before it answers.
func tellingModel() *double {
	d := &double{name: "test/kill", dims: 64}
	d.fail = func(texts []string) error {
		fmt.Println("asked for", len(texts))
		return nil
	}
	return d
}

// However often the process is killed while it builds the index, the index is in the end
// the one that an undisturbed process builds.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	d := &double{name: "test/kill", dims: 64}
	opt := vector.Options{Model: only(d)}
	w := openWorld(t, t.TempDir(), opt)
	for n := range 4 {
		c := w.talk([]string{"ana", "ben"}[n%2], "x")
		var changes []store.Change
		for i := range 400 {
			changes = append(changes, c.change(userSays(fmt.Sprintf("message %d of %d and word%d", i, n, i%50))))
		}
		w.commit(c.Owner, changes...)
		for i := 0; i < 400; i += 37 {
			w.commit(c.Owner, store.Change{Op: store.Erase, URI: changes[i].URI})
		}
	}
	w.close() // one process at a time has the store
	program, err := os.Executable()
	must(t, err)
	for kills := 0; ; kills++ {
		cmd := exec.Command(program, "-test.run=^$")
		cmd.Env = append(os.Environ(), killEnv+"="+w.dir)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		last := ""
		lines := bufio.NewScanner(out)
		for n := 0; n <= kills%4 && lines.Scan(); n++ { // a little later each time
			last = lines.Text()
		}
		if strings.HasPrefix(last, "failed") {
			t.Fatal(last)
		}
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		err = cmd.Wait()
		if err == nil || kills == 200 {
			break // it had finished before it was killed
		}
		if cmd.ProcessState.ExitCode() == 1 {
			t.Fatalf("the process failed: %v", err)
		}
	}
	w = openWorld(t, w.dir, opt)
	defer w.close()
	w.catchUp()
	again := w.open(vector.Options{Model: only(d), Path: filepath.Join(w.dir, "again.db")})
	defer func() { must(t, again.Close()) }()
	must(t, again.CatchUp(t.Context()))
	must(t, again.Embed(t.Context()))
	want, err := again.Census(t.Context())
	must(t, err)
	if got := w.census(); fmt.Sprint(got) != fmt.Sprint(want) || got[0].Messages != 2*(400-11) || got[0].Vectors != got[0].Messages {
		t.Errorf("%v\nnot\n%v", got, want)
	}
}
