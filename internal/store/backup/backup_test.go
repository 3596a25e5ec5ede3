package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/fault"
	"steward/internal/lifetime/disk"
	"steward/internal/resource"
	"steward/internal/store"
	stewardsql "steward/internal/store/sqlite"
	"steward/test/killed"
)

func TestMain(m *testing.M) {
	killed.Inside(work)
	os.Exit(m.Run())
}

func conv(name string) resource.URI { return resource.Root("common.Conversation", name) }

// world is a data folder in which everything is that has a rule of its own.
func world(t testing.TB, data, who string) {
	t.Helper()
	if err := makeWorld(data, who); err != nil {
		t.Fatal(err)
	}
}

func makeWorld(data, who string) error {
	ctx := context.Background()
	st, err := stewardsql.Open(ctx, stewardsql.Options{Path: filepath.Join(data, database)})
	if err != nil {
		return err
	}
	for i := range 40 {
		_, err := st.Commit(ctx, store.ForUser(who), store.Batch{Changes: []store.Change{{URI: conv(fmt.Sprint(who, i%7)), Body: []byte(strings.Repeat(fmt.Sprintf("%s says %d. ", who, i), 20))}}})
		if err != nil {
			return err
		}
	}
	if _, err := st.Seal(ctx); err != nil {
		return err
	}
	_, err = st.Commit(ctx, store.ForUser(who), store.Batch{Changes: []store.Change{{URI: conv("open"), Body: []byte("not sealed")}}})
	if err := errors.Join(err, st.Close()); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"token": "token of " + who, "secrets/KEY": "secret of " + who, "agents/a/agent.yaml": "name: " + who, "agents/a/run": "#!/bin/sh\n",
		"private/root/todo/todo.md": "- [ ] " + who, "mcp.json": "{}", "serve.log": "log of " + who, "search.db": "derived", "server.json": "{}",
		"something-new/file": "of " + who, "skills/s/SKILL.md": who, "snapshots/abc/folder/run": who, "policies/own.rego": who,
	} {
		path := filepath.Join(data, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			return err
		}
	}
	err = errors.Join(os.Chmod(filepath.Join(data, "agents/a/run"), 0o700), os.Symlink("run", filepath.Join(data, "agents/a/link")), os.MkdirAll(filepath.Join(data, "private/empty"), 0o700))
	for _, path := range []string{"services/a/db/ada.sqlite", "private/root/own.db", "vectors.db"} {
		err = errors.Join(err, makeRows(filepath.Join(data, path), who))
	}
	return err
}

// makeRows makes a database whose table has numbers of rows that no column shows, with gaps.
func makeRows(path, who string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return err
	}
	err = sqlitex.ExecuteTransient(c, "PRAGMA journal_mode=WAL", nil)
	for _, text := range []string{"CREATE TABLE t (x)", "INSERT INTO t VALUES (1), (2), (3), ('" + who + "')", "DELETE FROM t WHERE x < 3"} {
		err = errors.Join(err, sqlitex.ExecuteTransient(c, text, nil))
	}
	return errors.Join(err, c.Close())
}

// state describes what is in a data folder, without what is of use only to a running process.
func state(t testing.TB, data string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == data {
			return err
		}
		rel, err := filepath.Rel(data, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if !SortOf(name).kept() {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil || journal(name) {
			return err
		}
		switch {
		case d.IsDir():
			out[name] = "folder"
		case d.Type()&fs.ModeSymlink != 0:
			out[name], err = os.Readlink(path)
		case name == database:
			out[name], err = logState(data)
		case isDatabase(name, path):
			out[name], err = rows(path)
		default:
			var b []byte
			b, err = os.ReadFile(path)
			out[name] = fmt.Sprintf("%v %s", info.Mode(), b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// logState reads the whole log, and verifies it.
func logState(data string) (string, error) {
	ctx := context.Background()
	st, err := stewardsql.Open(ctx, stewardsql.Options{Path: filepath.Join(data, database), ReadOnly: true})
	if err != nil {
		return "", err
	}
	defer st.Close()
	v, err := st.Verify(ctx)
	if err != nil || v.Flaw != nil {
		return "", fmt.Errorf("%v %v", v.Flaw, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %x\n", v.Last, v.Head.Hash)
	page, err := st.Log(ctx, store.ForNode("system"), store.LogQuery{Limit: 1000})
	for _, e := range page.Entries {
		fmt.Fprintf(&b, "%d %s %s\n", e.Seq, e.URI, e.Body)
	}
	return b.String(), err
}

func rows(path string) (string, error) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = sqlitex.ExecuteTransient(c, "SELECT rowid, x FROM t", &sqlitex.ExecOptions{ResultFunc: func(st *sqlite.Stmt) error {
		fmt.Fprintf(&b, "%d %s\n", st.ColumnInt64(0), st.ColumnText(1))
		return nil
	}})
	return b.String(), errors.Join(err, c.Close())
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	if !fault.HasCode(err, code) {
		t.Errorf("the error is %v, not %s", err, code)
	}
}

func same1(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s: %s is %.200q, not %.200q", what, name, got[name], want[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: there is also %s", what, name)
		}
	}
}

func TestWhatIsBackedUpComesBack(t *testing.T) {
	t.Parallel()
	data, folder := filepath.Join(t.TempDir(), "data"), t.TempDir()
	world(t, data, "ada")
	want := state(t, data)
	settings := filepath.Join(t.TempDir(), "steward.yaml")
	if err := os.WriteFile(settings, []byte("listen: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Data: data, Folder: folder, Version: "v1", Settings: map[string]string{"steward.yaml": settings, "none.yaml": settings + "x"}}
	made, err := Make(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if made.Manifest.Log.Entries != 41 || made.Manifest.Log.Head.Seq != 41 || !made.Checked {
		t.Errorf("the manifest says %+v", made.Manifest.Log)
	}
	var stream bytes.Buffer
	if _, err := Stream(t.Context(), o, &stream); err != nil {
		t.Fatal(err)
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	o.Age = []age.Recipient{id.Recipient()}
	sealed, err := Make(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(sealed.Path); err != nil || bytes.Contains(b, []byte("secret of ada")) || !strings.HasSuffix(sealed.Path, ageEnd) {
		t.Errorf("%s is not encrypted, %v", sealed.Path, err)
	}
	same1(t, "the data folder", state(t, data), want)
	keys := func() ([]age.Identity, error) { return []age.Identity{id}, nil }
	for name, source := range map[string]func() Source{
		"folder": func() Source { return FolderSource(made.Path) },
		"stream": func() Source { return StreamSource("-", bytes.NewReader(stream.Bytes()), nil) },
		"age": func() Source {
			s, closing, err := OpenSource(sealed.Path, keys)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { closing() })
			return s
		},
	} {
		to := filepath.Join(t.TempDir(), "new", "data")
		r, err := Restore(t.Context(), RestoreOptions{Data: to, Source: source()})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		same1(t, name, state(t, to), want)
		if b, err := os.ReadFile(filepath.Join(r.Settings, "steward.yaml")); err != nil || string(b) != "listen: x\n" {
			t.Errorf("%s: the settings are %q, %v", name, b, err)
		}
		for _, gone := range []string{"search.db", "server.json", "serve.log", "restore.ready", "restore.partial"} {
			if there(filepath.Join(to, gone)) {
				t.Errorf("%s: %s is there", name, gone)
			}
		}
		// With data in it, the folder is refused, and replaced only on request.
		world(t, filepath.Join(t.TempDir(), "other"), "bob")
		if _, err := Restore(t.Context(), RestoreOptions{Data: to, Source: source()}); !fault.HasCode(err, "data_there") {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(to, "token"), []byte("newer"), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err = Restore(t.Context(), RestoreOptions{Data: to, Source: source(), Replace: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		same1(t, name, state(t, to), want)
		if b, err := os.ReadFile(filepath.Join(r.Aside, "token")); err != nil || string(b) != "newer" {
			t.Errorf("%s: what was there before has the token %q, %v", name, b, err)
		}
	}
	if _, err := Restore(t.Context(), RestoreOptions{Data: filepath.Join(t.TempDir(), "x"), Source: StreamSource("-", must1(os.Open(sealed.Path)), nil)}); !fault.HasCode(err, "backup_encrypted") {
		t.Error(err)
	}
	other := must1(age.GenerateX25519Identity())
	s, closing, err := OpenSource(sealed.Path, func() ([]age.Identity, error) { return []age.Identity{other}, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer closing()
	_, err = Restore(t.Context(), RestoreOptions{Data: filepath.Join(t.TempDir(), "x"), Source: s})
	wantCode(t, err, "backup_key_wrong")
	list, err := List(folder)
	if err != nil || len(list) != 2 {
		t.Errorf("the list is %+v, %v", list, err)
	}
}

func must1[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestAPassphraseOpensABackup(t *testing.T) {
	t.Parallel()
	data, folder := filepath.Join(t.TempDir(), "data"), t.TempDir()
	world(t, data, "ada")
	r, err := age.NewScryptRecipient("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	r.SetWorkFactor(10) // the default takes a second
	made, err := Make(t.Context(), Options{Data: data, Folder: folder, Age: []age.Recipient{r}, NoCheck: true})
	if err != nil {
		t.Fatal(err)
	}
	for pass, code := range map[string]string{"correct horse": "", "battery": "backup_key_wrong"} {
		s, closing, err := OpenSource(made.Path, func() ([]age.Identity, error) { return Identities("", pass) })
		if err != nil {
			t.Fatal(err)
		}
		err = Check(t.Context(), CheckOptions{Source: s, Temp: t.TempDir()})
		if code == "" && err != nil || code != "" && !fault.HasCode(err, code) {
			t.Errorf("%s: %v", pass, err)
		}
		closing()
	}
}

// Every change of a backup is noticed: of each byte of its small files, of some bytes of its databases, of its names.
func TestADamagedBackupIsRefused(t *testing.T) {
	t.Parallel()
	data, folder := filepath.Join(t.TempDir(), "data"), t.TempDir()
	world(t, data, "ada")
	made, err := Make(t.Context(), Options{Data: data, Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	refused := func(what string, s Source) {
		t.Helper()
		if err := Check(t.Context(), CheckOptions{Source: s, Temp: temp}); err == nil {
			t.Errorf("%s is not noticed", what)
		} else if e := fault.Of(err); e.Code == "internal" || e.Code == "backup_failed" {
			t.Errorf("%s: %v", what, err)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range some(append(made.Manifest.Files, File{Path: manifestName, Size: 1500})) {
		if f.Size == 0 {
			continue
		}
		path := filepath.Join(made.Path, f.Path)
		whole := must1(os.ReadFile(path))
		write := func(b []byte) {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 4 {
			at := r.IntN(len(whole))
			broken := bytes.Clone(whole)
			broken[at] ^= 1 << r.IntN(8)
			write(broken)
			refused(fmt.Sprintf("byte %d of %s", at, f.Path), FolderSource(made.Path))
		}
		write(whole[:len(whole)-1])
		refused("the end of "+f.Path, FolderSource(made.Path))
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		refused("the lack of "+f.Path, FolderSource(made.Path))
		write(whole)
	}
	if err := Check(t.Context(), CheckOptions{Source: FolderSource(made.Path), Temp: temp}); err != nil {
		t.Error(err)
	}
	var stream bytes.Buffer
	if _, err := Stream(t.Context(), Options{Data: data, NoCheck: true}, &stream); err != nil {
		t.Fatal(err)
	}
	var cuts []int
	for n := 0; n < stream.Len()-2048; n += stream.Len() / 50 { // the last 1,024 bytes are zeros that end a tar archive
		cuts = append(cuts, n)
	}
	for _, n := range some(cuts) {
		refused(fmt.Sprintf("a stream of %d bytes", n), StreamSource("-", bytes.NewReader(stream.Bytes()[:n]), nil))
	}
	if list := must1(os.ReadDir(temp)); len(list) != 0 {
		t.Errorf("%d folders are left", len(list))
	}
}

// A manifest that names a place outside of the folder writes nothing there.
func TestABackupStaysInItsFolder(t *testing.T) {
	t.Parallel()
	for _, bad := range []File{{Path: "data/../../x"}, {Path: "/etc/x"}, {Path: "data"}, {Path: "other/x"}, {Path: "data/a//b"}, {Path: "data/" + strings.Repeat("x", maxName)}} {
		m := Manifest{Format: Format, Files: []File{bad}}
		b := must1(m.seal())
		s := Source{read: func(each func(string, io.Reader) error) error { return each(manifestName, bytes.NewReader(b)) }}
		wantCode(t, Check(t.Context(), CheckOptions{Source: s, Temp: t.TempDir()}), "backup_damaged")
	}
	// A link does not lead a later file out.
	out := t.TempDir()
	m := Manifest{Format: Format, Files: []File{{Path: "data/l", Link: out}, {Path: "data/l/x", Size: 1, Hash: "00"}}}
	b := must1(m.seal())
	s := Source{read: func(each func(string, io.Reader) error) error {
		return errors.Join(each(manifestName, bytes.NewReader(b)), each("data/l/x", strings.NewReader("x")))
	}}
	if err := Check(t.Context(), CheckOptions{Source: s, Temp: t.TempDir()}); err == nil || there(filepath.Join(out, "x")) {
		t.Errorf("%v", err)
	}
}

// failing returns a step function that fails from the nth call on, and counts the calls.
func failing(n int, with error) (step func(string, string) error, count *int) {
	count = new(int)
	return func(string, string) error {
		if *count++; n > 0 && *count >= n {
			return with
		}
		return nil
	}, count
}

// At each change of the disk, the backup fails for lack of room or by an error of the disk. Then there is no backup,
// and nothing else is left.
func TestABackupThatFailsIsNotThere(t *testing.T) {
	t.Parallel()
	data, folder := filepath.Join(t.TempDir(), "data"), t.TempDir()
	world(t, data, "ada")
	want := state(t, data)
	id := must1(age.GenerateX25519Identity())
	for _, to := range [][]age.Recipient{nil, {id.Recipient()}} {
		step, count := failing(0, nil)
		if _, err := Make(t.Context(), Options{Data: data, Folder: t.TempDir(), Age: to, Step: step}); err != nil {
			t.Fatal(err)
		}
		for _, place := range some(killed.Places(int64(*count))) {
			n := int(place)
			with, code := error(syscall.ENOSPC), "disk_full"
			if n%2 == 0 {
				with, code = syscall.EIO, "backup_failed"
			}
			step, _ := failing(n, with)
			_, err := Make(t.Context(), Options{Data: data, Folder: folder, Age: to, Step: step})
			wantCode(t, err, code)
			for _, e := range must1(os.ReadDir(folder)) {
				if e.Name() != lockName+".lock" {
					t.Errorf("after %d steps there is %s", n, e.Name())
				}
			}
		}
	}
	same1(t, "the data folder", state(t, data), want)
}

// At each change of the disk, the restore fails. Then the data folder is the old one or the new one.
func TestARestoreThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	base, folder := filepath.Join(t.TempDir(), "old"), t.TempDir()
	source := filepath.Join(t.TempDir(), "new")
	world(t, base, "ada")
	world(t, source, "bob")
	older, newer := state(t, clone(t, base)), state(t, source)
	made := must1(Make(t.Context(), Options{Data: source, Folder: folder}))
	step, count := failing(0, nil)
	whole := clone(t, base)
	must1(Restore(t.Context(), RestoreOptions{Data: whole, Source: FolderSource(made.Path), Replace: true, Step: step}))
	finished := 0
	for _, place := range some(restorePlaces(int64(*count))) {
		n, data := int(place), clone(t, base)
		step, _ := failing(n, syscall.EIO)
		if _, err := Restore(t.Context(), RestoreOptions{Data: data, Source: FolderSource(made.Path), Replace: true, Step: step}); err == nil {
			t.Fatalf("step %d does not fail", n)
		}
		if !Pending(data) {
			same1(t, fmt.Sprint("after step ", n), state(t, data), older)
			continue
		}
		if err := Finish(data); err != nil {
			t.Fatal(err)
		}
		finished++
		same1(t, fmt.Sprint("after step ", n), state(t, data), newer)
	}
	if finished == 0 {
		t.Error("no restore was interrupted after its commit")
	}
}

// restorePlaces returns the steps after which a restore is interrupted: among them most of those that move files.
func restorePlaces(count int64) []int64 {
	places := killed.Places(count)
	for n := max(count-25, 1); n <= count; n += 2 {
		places = append(places, n)
	}
	return places
}

// clone copies a data folder.
func clone(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// work is what a process does that is killed: it backs a folder up, or restores one.
func work(dir string, p *killed.Points) error {
	step := func(string, string) error { p.Here(); return nil }
	if b, err := os.ReadFile(filepath.Join(dir, "restore")); err == nil {
		_, err := Restore(context.Background(), RestoreOptions{Data: filepath.Join(dir, "data"), Source: FolderSource(string(b)), Replace: true, Step: step})
		return err
	}
	_, err := Make(context.Background(), Options{Data: filepath.Join(dir, "data"), Folder: filepath.Join(dir, "backups"), Step: step})
	return err
}

// Killed at any step, a backup is complete or not there, and the next one works.
func TestKilledWhileBackingUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, folder := filepath.Join(dir, "data"), filepath.Join(dir, "backups")
	world(t, data, "ada")
	want := state(t, data)
	_, count, err := killed.Run(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	had := len(must1(List(folder)))
	for _, n := range some(killed.Places(count)) {
		if done, _, err := killed.Run(dir, n); err != nil || !done {
			t.Fatalf("step %d: %v %v", n, done, err)
		}
		list := must1(List(folder))
		if len(list) != had { // it was killed after its last change
			t.Errorf("killed at step %d, there are %d backups instead of %d", n, len(list), had)
		}
		for _, e := range list {
			if err := Check(t.Context(), CheckOptions{Source: FolderSource(e.Path), Temp: t.TempDir()}); err != nil {
				t.Errorf("killed at step %d: %v", n, err)
			}
		}
		same1(t, "the data folder", state(t, data), want)
	}
	made := must1(Make(t.Context(), Options{Data: data, Folder: folder}))
	for _, e := range must1(os.ReadDir(folder)) {
		if strings.HasSuffix(e.Name(), partialEnd) || strings.HasSuffix(e.Name(), checkEnd) {
			t.Errorf("%s is left", e.Name())
		}
	}
	to := filepath.Join(t.TempDir(), "data")
	must1(Restore(t.Context(), RestoreOptions{Data: to, Source: FolderSource(made.Path)}))
	same1(t, "restored", state(t, to), want)
}

// Killed at any step, and killed again while the next process finishes it, a restore has happened or has not.
func TestKilledWhileRestoring(t *testing.T) {
	t.Parallel()
	base, source, folder := filepath.Join(t.TempDir(), "old"), filepath.Join(t.TempDir(), "new"), t.TempDir()
	world(t, base, "ada")
	world(t, source, "bob")
	older, newer := state(t, clone(t, base)), state(t, source)
	made := must1(Make(t.Context(), Options{Data: source, Folder: folder}))
	prepare := func() string {
		dir := t.TempDir()
		if err := errors.Join(os.CopyFS(filepath.Join(dir, "data"), os.DirFS(base)), os.WriteFile(filepath.Join(dir, "restore"), []byte(made.Path), 0o600)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	_, count, err := killed.Run(prepare(), 0)
	if err != nil {
		t.Fatal(err)
	}
	was := map[bool]int{}
	for _, n := range some(restorePlaces(count)) {
		dir := prepare()
		data := filepath.Join(dir, "data")
		if done, _, err := killed.Run(dir, n); err != nil || !done {
			t.Fatalf("step %d: %v %v", n, done, err)
		}
		pending := Pending(data)
		was[pending]++
		if !pending {
			same1(t, fmt.Sprint("killed at step ", n), state(t, data), older)
			continue
		}
		if done, _, err := killed.Run(dir, 3); err != nil || !done { // the next one finishes it first of all
			t.Fatal(done, err)
		}
		if err := Finish(data); err != nil {
			t.Fatal(err)
		}
		same1(t, fmt.Sprint("killed at step ", n), state(t, data), newer)
		aside := must1(filepath.Glob(filepath.Join(data, asidePrefix+"*")))
		if len(aside) != 1 {
			t.Fatalf("the old data is in %q", aside)
		}
		same1(t, fmt.Sprint("the old data, killed at step ", n), state(t, aside[0]), older)
	}
	if was[false] == 0 || was[true] == 0 {
		t.Errorf("before and after the commit: %v", was)
	}
}

// Sixteen writers go on while backups are made. Each backup holds the log up to its head, exactly.
func TestABackupWhileOthersWrite(t *testing.T) {
	t.Parallel()
	data, folder := filepath.Join(t.TempDir(), "data"), t.TempDir()
	st, err := stewardsql.Open(t.Context(), stewardsql.Options{Path: filepath.Join(data, database)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for i := range 16 {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				body := fmt.Sprintf("writer %d says %d", i, n)
				_, err := st.Commit(ctx, store.ForUser(fmt.Sprint("u", i)), store.Batch{Changes: []store.Change{{URI: conv(fmt.Sprint(i)), Body: []byte(body)}, {URI: conv(fmt.Sprint("pair", i)), Body: []byte(body)}}})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	if _, err := st.Wait(t.Context(), 200); err != nil {
		t.Fatal(err)
	}
	var made []Made
	for len(made) < 3 {
		m, err := Make(t.Context(), Options{Data: data, Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, m)
	}
	cancel()
	writers.Wait()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	all := must1(logState(data))
	_, all, _ = strings.Cut(all, "\n")
	for _, m := range made {
		to := filepath.Join(t.TempDir(), "data")
		must1(Restore(t.Context(), RestoreOptions{Data: to, Source: FolderSource(m.Path)}))
		got := must1(logState(to))
		_, got, _ = strings.Cut(got, "\n")
		if !strings.HasPrefix(all, got) || m.Manifest.Log.Entries == 0 || m.Manifest.Log.Entries%2 != 0 {
			t.Errorf("the backup with %d entries differs from the log", m.Manifest.Log.Entries)
		}
		again, err := stewardsql.Open(t.Context(), stewardsql.Options{Path: filepath.Join(to, database)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := again.Commit(t.Context(), store.ForUser("u1"), store.Batch{Changes: []store.Change{{URI: conv("1"), Body: []byte("goes on")}}}); err != nil {
			t.Error(err)
		}
		if v, err := again.Verify(t.Context()); err != nil || v.Flaw != nil {
			t.Error(v.Flaw, err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A folder among the data is refused: its backups would be in the next backup, and a restore would move them aside.
func TestNoBackupAmongTheData(t *testing.T) {
	t.Parallel()
	data, link := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "link")
	world(t, data, "ada")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{data, filepath.Join(data, "mine"), filepath.Join(data, "private", "a", "b"), filepath.Join(link, "mine")} {
		_, err := Make(t.Context(), Options{Data: link, Folder: folder})
		wantCode(t, err, "backup_inside")
	}
	if there(filepath.Join(data, "mine")) || there(filepath.Join(data, "private", "a")) {
		t.Error("a folder was made")
	}
	for _, folder := range []string{Own(data), filepath.Join(Own(link), "more"), data + "-backups"} {
		must1(Make(t.Context(), Options{Data: link, Folder: folder, NoCheck: true}))
	}
}

// Folders that are read-only are backed up and restored like others. One that would have to be moved aside, and cannot
// be, keeps a restore from beginning.
func TestReadOnlyFolders(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	world(t, data, "ada")
	want := state(t, data)
	readOnly := []string{filepath.Join(data, "agents", "a"), filepath.Join(data, "policies")}
	for _, dir := range readOnly {
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	}
	made := must1(Make(t.Context(), Options{Data: data, Folder: t.TempDir()}))
	to := filepath.Join(t.TempDir(), "new")
	must1(Restore(t.Context(), RestoreOptions{Data: to, Source: FolderSource(made.Path)}))
	same1(t, "restored", state(t, to), want)
	if info, err := os.Stat(filepath.Join(to, "policies")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	_, err := Restore(t.Context(), RestoreOptions{Data: data, Source: FolderSource(made.Path), Replace: true})
	if err != nil || !disk.Usable(readOnly[1]) {
		wantCode(t, err, "data_immovable")
	} // root writes anywhere
	if Pending(data) {
		t.Error("the restore cannot be finished")
	}
	same1(t, "the data folder", state(t, data), want)
}

// An index that is damaged is left out, since it can be made again. A damaged database of an agent fails the backup.
func TestADamagedIndexIsLeftOut(t *testing.T) {
	t.Parallel()
	data, folder := filepath.Join(t.TempDir(), "data"), t.TempDir()
	world(t, data, "ada")
	damage := func(name string) {
		t.Helper()
		f := must1(os.OpenFile(filepath.Join(data, name), os.O_WRONLY, 0))
		_, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, 3000), 4096)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	damage("vectors.db")
	made := must1(Make(t.Context(), Options{Data: data, Folder: folder}))
	if want := []string{"vectors.db (damaged)"}; !slices.Equal(made.Manifest.LeftOut, want) || there(filepath.Join(made.Path, dataName, "vectors.db")) {
		t.Errorf("left out are %q instead of %q", made.Manifest.LeftOut, want)
	}
	damage("services/a/db/ada.sqlite")
	if _, err := Make(t.Context(), Options{Data: data, Folder: folder}); err == nil || !strings.Contains(err.Error(), "ada.sqlite") {
		t.Errorf("%v", err)
	}
}

// What links outside of the data folder lead to is not in the backup, which says so.
func TestLinksThatLeadOutAreNamed(t *testing.T) {
	t.Parallel()
	data, out := filepath.Join(t.TempDir(), "data"), t.TempDir()
	world(t, data, "ada") // it has a link that stays inside
	if err := errors.Join(os.Symlink(out, filepath.Join(data, "private", "out")), os.Symlink("nowhere", filepath.Join(data, "private", "broken"))); err != nil {
		t.Fatal(err)
	}
	made := must1(Make(t.Context(), Options{Data: data, Folder: t.TempDir()}))
	if want := []string{"private/out -> " + out}; !slices.Equal(made.Manifest.LeftOut, want) {
		t.Errorf("left out are %q instead of %q", made.Manifest.LeftOut, want)
	}
	to := filepath.Join(t.TempDir(), "new")
	must1(Restore(t.Context(), RestoreOptions{Data: to, Source: FolderSource(made.Path)}))
	if leads, err := os.Readlink(filepath.Join(to, "private", "out")); err != nil || leads != out {
		t.Errorf("the link is restored to %q, %v", leads, err)
	}
}

// While a data folder is in use, nothing is restored into it.
func TestNoRestoreIntoAFolderInUse(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	world(t, data, "ada")
	made := must1(Make(t.Context(), Options{Data: data, Folder: t.TempDir()}))
	st, err := stewardsql.Open(t.Context(), stewardsql.Options{Path: filepath.Join(data, database)})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	_, err = Restore(t.Context(), RestoreOptions{Data: data, Source: FolderSource(made.Path), Replace: true})
	wantCode(t, err, "data_in_use")
}

func TestTwoBackupsDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	data, folder := filepath.Join(t.TempDir(), "data"), t.TempDir()
	world(t, data, "ada")
	second := errors.New("not tried")
	_, err := Make(t.Context(), Options{Data: data, Folder: folder, Step: func(string, string) error {
		if second != nil && second.Error() == "not tried" {
			_, second = Make(t.Context(), Options{Data: data, Folder: folder})
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, second, "backup_running")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Make(ctx, Options{Data: data, Folder: folder})
	wantCode(t, err, "cancelled")
	_, err = Make(t.Context(), Options{Data: t.TempDir(), Folder: folder})
	wantCode(t, err, "data_missing")
	if list := must1(List(folder)); len(list) != 1 || time.Since(list[0].Made) > time.Hour {
		t.Errorf("%+v", list)
	}
}

func commitOne(ctx context.Context, st *stewardsql.Store) error {
	_, err := st.Commit(ctx, store.ForUser("ada"), store.Batch{Changes: []store.Change{{URI: conv("later"), Body: []byte("later")}}})
	return err
}

// With a store elsewhere, a backup has everything but the database, and says where the log ended. What does not fit
// that store is not restored.
func TestAStoreElsewhere(t *testing.T) {
	t.Parallel()
	data, folder := filepath.Join(t.TempDir(), "data"), t.TempDir()
	world(t, data, "ada")
	want := state(t, data)
	delete(want, database) // it is left from before the move
	log := Log{Store: "postgres", Entries: 7, Head: store.Head{Seq: 5, Hash: store.Hash{1}}}
	o := Options{Data: data, Folder: folder, Log: func(context.Context) (Log, error) { return log, nil }}
	made := must1(Make(t.Context(), o))
	if made.Manifest.Log != log || !made.Checked || there(filepath.Join(made.Path, dataName, database)) {
		t.Errorf("the manifest says %+v", made.Manifest.Log)
	}
	var asked Log
	refuse := func(_ context.Context, l Log) error {
		asked = l
		return fault.New(fault.Conflict, "store_behind_backup", "the database is older")
	}
	to := filepath.Join(t.TempDir(), "data")
	_, err := Restore(t.Context(), RestoreOptions{Data: to, Source: FolderSource(made.Path), Fits: refuse})
	wantCode(t, err, "store_behind_backup")
	if asked != log || there(filepath.Join(to, "token")) {
		t.Errorf("it was asked about %+v, and something was restored", asked)
	}
	must1(Restore(t.Context(), RestoreOptions{Data: to, Source: FolderSource(made.Path)}))
	same1(t, "restored", state(t, to), want)
	// A store that cannot be reached fails the backup.
	o.Log = func(context.Context) (Log, error) {
		return Log{}, fault.New(fault.Unavailable, "store_unreachable", "it is away")
	}
	_, err = Make(t.Context(), o)
	wantCode(t, err, "store_unreachable")
	o.Data = filepath.Join(data, "none")
	_, err = Make(t.Context(), o)
	wantCode(t, err, "data_missing")
}
