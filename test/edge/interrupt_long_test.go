//go:build long && linux

package edge_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"steward/internal/store/backup"
	"steward/test/edge"
)

// These tests interrupt the built program where it changes the disk while it backs up, restores and upgrades: they
// kill it there, let the change fail, or give it a disk that has no room left. Afterwards there is the old state or the
// new one. strace counts the calls of each thread for itself, so a number is not the same place in each run; what must
// be true afterwards is. The programs that it starts are left alone (-b execve): if one process of bubblewrap is killed
// while it begins, another one waits forever, and strace with it.

// changes returns the calls by which a program changes the disk, by their kind.
func changes() []string {
	return []string{"write", "pwrite64", "fsync,fdatasync", "ftruncate", "rename,renameat,renameat2", "unlink,unlinkat", "mkdir,mkdirat", "link,linkat,symlinkat", "fchmod,fchmodat", "utimensat"}
}

// mostPlaces bounds the places at which a command is interrupted in one way at one kind of change.
const mostPlaces = 16

// ended says how a command has ended.
type ended struct {
	out  string
	code int // -1: it was killed
}

func end(out []byte, err error) ended {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return ended{string(out), 0}
	case errors.As(err, &exit):
		return ended{string(out), exit.ExitCode()}
	}
	return ended{err.Error(), -2}
}

// under runs a command of a node as an argument of another program.
func under(n *edge.Node, prefix []string, args ...string) ended {
	n.T.Helper()
	c := n.Command(args...)
	cmd := exec.CommandContext(n.T.Context(), prefix[0], append(slices.Concat(prefix[1:], []string{c.Path}), args...)...)
	cmd.Env, cmd.Dir = append(c.Env, "GOMAXPROCS=1"), c.Dir
	e := end(cmd.CombinedOutput())
	if e.code == -2 {
		n.T.Fatal(e.out)
	}
	return e
}

// interrupts runs a command again and again. Each time a later change of each kind is the last one, or fails. before
// prepares the data, and after looks at what is left.
func interrupts(t *testing.T, n *edge.Node, args []string, before func(), after func(what string, e ended)) {
	t.Helper()
	for _, how := range []string{"signal=KILL:when=%d", "error=ENOSPC:when=%d+", "error=EIO:when=%d"} {
		places := 0
		for _, calls := range changes() {
			missed := 0
			for place := 1; place <= mostPlaces && missed < 2; place++ {
				what := calls + ":" + fmt.Sprintf(how, place)
				before()
				e := under(n, []string{"strace", "-f", "-b", "execve", "-qq", "-o", n.Dir + "/trace", "-e", "trace=" + calls, "-e", "inject=" + what}, args...)
				if e.code == -1 || injected(t, n.Dir+"/trace") {
					places++
				} else {
					missed++
				}
				after(strings.Join(args, " ")+" with "+what, e)
				if t.Failed() {
					return
				}
			}
		}
		t.Logf("%s with %s: interrupted at %d places", args[0], how, places)
		if places < 10 {
			t.Errorf("%v was hardly interrupted by %s", args, how)
		}
	}
}

// injected reports whether strace has let a call fail.
func injected(t *testing.T, trace string) bool {
	t.Helper()
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), "(INJECTED)")
}

// stateOf describes a data folder: the head of the log as the program tells it, and all other files but indexes and
// what belongs to a running process.
func stateOf(n *edge.Node) string {
	n.T.Helper()
	head := n.Must("audit", "head") // it finishes what was interrupted
	n.Must("audit", "verify")
	sum := sha256.New()
	err := filepath.WalkDir(n.Data(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == n.Data() {
			return err
		}
		name := strings.TrimPrefix(path, n.Data()+"/")
		switch backup.SortOf(name) {
		case backup.Truth, backup.Unknown:
		default:
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || name == "steward.db" {
			return nil
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s %x\n", name, b)
		return err
	})
	if err != nil {
		n.T.Fatal(err)
	}
	return fmt.Sprintf("%s%x", head, sum.Sum(nil))
}

// put replaces the data folder of a node by a copy of another folder.
func put(n *edge.Node, from string) {
	n.T.Helper()
	list, err := filepath.Glob(n.Data("*")) // the folder itself may be a mount
	if err != nil {
		n.T.Fatal(err)
	}
	for _, path := range list {
		if err := os.RemoveAll(path); err != nil {
			n.T.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(n.T.Context(), "cp", "-a", from+"/.", n.Data()).CombinedOutput(); err != nil {
		n.T.Fatalf("%v: %s", err, out)
	}
}

// soundBackups checks each backup in a folder, removes it, and returns how many there were.
func soundBackups(t *testing.T, folder, what string) int {
	t.Helper()
	list, err := backup.List(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range list {
		if err := backup.Check(t.Context(), backup.CheckOptions{Source: backup.FolderSource(b.Path), Temp: t.TempDir()}); err != nil {
			t.Errorf("%s: %s is not sound: %v", what, b.Path, err)
		}
		if err := os.RemoveAll(b.Path); err != nil {
			t.Fatal(err)
		}
	}
	return len(list)
}

// nothingLeft fails if there is more in a folder of backups than its lock.
func nothingLeft(t *testing.T, folder, what string) {
	t.Helper()
	list, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Name() != ".steward-backup.lock" {
			t.Errorf("%s: %s is left", what, e.Name())
		}
	}
}

// talked is a node that was asked something, and has a secret.
func talked(t *testing.T, question string) *edge.Node {
	t.Helper()
	n := edge.New(t, edge.Options{})
	n.Must("ask", "-q", question)
	n.RunIn("zqx-door-code-123456", "secrets", "set", "DOOR")
	return n
}

func TestABackupIsInterruptedAtEachChange(t *testing.T) {
	t.Parallel()
	n := talked(t, "What is 6 times 7?")
	folder, was := filepath.Join(n.Dir, "backups"), stateOf(n)
	interrupts(t, n, []string{"backup", folder}, func() {}, func(what string, e ended) {
		made := soundBackups(t, folder, what)
		if e.code == 0 && made != 1 {
			t.Errorf("%s: it says that there is a backup: %s", what, e.out)
		}
	})
	if got := stateOf(n); got != was {
		t.Errorf("the data was %s and is %s", was, got)
	}
	n.Must("backup", folder)
	if soundBackups(t, folder, "at the end") != 1 {
		t.Error("there is no backup at the end")
	}
	nothingLeft(t, folder, "at the end")
}

// restoring is a node with older data, and a backup of newer data.
func restoring(t *testing.T) (n *edge.Node, base, source string, older, newer string) {
	t.Helper()
	other := talked(t, "What is 8 times 9?")
	other.Must("backup", filepath.Join(other.Dir, "backups"))
	source, newer = onlyBackup(t, filepath.Join(other.Dir, "backups")).Path, stateOf(other)
	n = talked(t, "What is 6 times 7?")
	older, base = stateOf(n), filepath.Join(t.TempDir(), "base")
	if err := os.CopyFS(base, os.DirFS(n.Data())); err != nil {
		t.Fatal(err)
	}
	return n, base, source, older, newer
}

// restored checks that a restore has happened or has not.
func restoredOrNot(t *testing.T, n *edge.Node, what, older, newer string, e ended) {
	t.Helper()
	switch got := stateOf(n); {
	case got != older && got != newer:
		t.Errorf("%s: the data is neither the old one nor the new one: %s, exit code %d", what, e.out, e.code)
	case e.code == 0 && got != newer:
		t.Errorf("%s: it says that it has restored: %s", what, e.out)
	case got == newer:
		list, err := filepath.Glob(n.Data("before-restore-*"))
		if err != nil || len(list) != 1 {
			t.Errorf("%s: the old data is in %q, %v", what, list, err)
		}
	}
	for _, left := range []string{"restore.partial", "restore.ready"} {
		if _, err := os.Stat(n.Data(left)); err == nil && left == "restore.ready" {
			t.Errorf("%s: %s is left", what, left)
		}
	}
}

func TestARestoreIsInterruptedAtEachChange(t *testing.T) {
	t.Parallel()
	n, base, source, older, newer := restoring(t)
	interrupts(t, n, []string{"restore", source, "--replace"}, func() { put(n, base) }, func(what string, e ended) {
		restoredOrNot(t, n, what, older, newer, e)
	})
}

// upgraded checks that an upgrade has happened or has not, and that it happens the next time.
func upgradedOrNot(t *testing.T, n *edge.Node, what string) {
	t.Helper()
	if got := schemaOf(t, n); got != 2 && got != 3 {
		t.Errorf("%s: the schema is %d", what, got)
	}
	if out := n.Must("ask", "-q", "What is 6 times 7?"); !strings.Contains(out, "42") {
		t.Errorf("%s: the next answer is %s", what, out)
	}
	n.Must("audit", "verify")
	if out := n.Must("conversations", "list"); !strings.Contains(out, "What is 17 * 23?") {
		t.Errorf("%s: these conversations are left: %s", what, out)
	}
	soundBackups(t, n.Data("backups"), what)
}

// upgrading is a node with the data folder of an older Steward, and a copy of that folder.
func upgrading(t *testing.T) (n *edge.Node, base string) {
	t.Helper()
	n, base = older(t, 2), filepath.Join(t.TempDir(), "base")
	if err := os.CopyFS(base, os.DirFS(n.Data())); err != nil {
		t.Fatal(err)
	}
	return n, base
}

func TestAnUpgradeIsInterruptedAtEachChange(t *testing.T) {
	t.Parallel()
	n, base := upgrading(t)
	interrupts(t, n, []string{"ask", "-q", "What is 8 times 9?"}, func() { put(n, base) }, func(what string, _ ended) { upgradedOrNot(t, n, what) })
}

// An upgrade that fails after the migration is undone. That is interrupted too.
func TestUndoingAnUpgradeIsInterruptedAtEachChange(t *testing.T) {
	t.Parallel()
	n, base := upgrading(t)
	settings := func(text string) { n.Write(text, ".config", "steward", "steward.yaml") }
	interrupts(t, n, []string{"ask", "-q", "What is 8 times 9?"}, func() { put(n, base); settings("profile: {persona: nobody}\n") }, func(what string, _ ended) {
		settings("{}\n")
		upgradedOrNot(t, n, what)
	})
}

// disk mounts a disk of a limited size, or with a limited number of files.
func disk(t *testing.T, at, limit string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(at, 0o700), syscall.Mount("tmpfs", at, "tmpfs", 0, limit)); err != nil {
		t.Fatalf("a small disk cannot be mounted, for which this test needs to run as root: %v", err)
	}
}

func unmount(t *testing.T, at string) {
	t.Helper()
	if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
		t.Error(err)
	}
}

func enlarge(t *testing.T, at string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", at, "tmpfs", syscall.MS_REMOUNT, "size=256m,nr_inodes=100000"); err != nil {
		t.Fatal(err)
	}
}

// fullDisks runs a command on disks that are larger each time, until it works, and on some of which it is only the
// number of files that is limited.
func fullDisks(t *testing.T, at string, blocks, files int, try func(what string) (worked bool)) {
	t.Helper()
	for _, limit := range []struct {
		form       string
		from, step int
	}{{"size=%dk", blocks, 16}, {"size=64m,nr_inodes=%d", files, 1}} {
		tried := 0
		for room := limit.from; ; room += limit.step {
			what := fmt.Sprintf(limit.form, room)
			disk(t, at, what)
			worked := try(what)
			unmount(t, at)
			tried++
			if t.Failed() {
				return
			}
			if worked {
				break
			}
			if tried > 400 {
				t.Fatalf("with %s it still does not work", what)
			}
		}
		t.Logf("%s: failed on %d disks", fmt.Sprintf(limit.form, limit.from), tried-1)
		if tried < 3 {
			t.Errorf("%s: it works at once", fmt.Sprintf(limit.form, limit.from))
		}
	}
}

func TestABackupOnADiskWithoutRoom(t *testing.T) {
	t.Parallel()
	n := talked(t, "What is 6 times 7?")
	folder := filepath.Join(n.Dir, "backups")
	fullDisks(t, folder, 4, 2, func(what string) bool {
		r := n.Run("backup", folder)
		made := soundBackups(t, folder, what)
		if r.Code == 0 != (made == 1) || r.Code != 0 && !strings.Contains(r.Err, "disk_full") {
			t.Errorf("%s: there are %d backups: %+v", what, made, r)
		}
		nothingLeft(t, folder, what)
		return r.Code == 0
	})
}

// A restore that could not be finished, because a folder that would have to move is mounted, is not begun.
func TestNoRestoreBesideAMount(t *testing.T) {
	t.Parallel()
	n, _, source, older, newer := restoring(t)
	disk(t, n.Data("services"), "size=1m")
	r := n.Run("restore", source, "--replace")
	if r.Code == 0 || !strings.Contains(r.Err, "data_immovable") {
		t.Errorf("%+v", r)
	}
	unmount(t, n.Data("services"))
	if got := stateOf(n); got != older {
		t.Error("the data is not the old one any more")
	}
	n.Must("restore", source, "--replace")
	restoredOrNot(t, n, "unmounted", older, newer, ended{})
}

// sizeOf returns the room that a folder takes, in KiB, and the number of its files.
func sizeOf(t *testing.T, folder string) (blocks, files int) {
	t.Helper()
	err := filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().IsRegular() {
			blocks += int(info.Size()+4095) / 4096 * 4
		}
		files++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return blocks, files
}

func TestARestoreOnADiskWithoutRoom(t *testing.T) {
	t.Parallel()
	n, base, source, older, newer := restoring(t)
	if err := os.RemoveAll(n.Data()); err != nil {
		t.Fatal(err)
	}
	blocks, files := sizeOf(t, base)
	fullDisks(t, n.Data(), blocks+8, files+2, func(what string) bool {
		put(n, base)
		r := n.Run("restore", source, "--replace")
		if r.Code != 0 && !strings.Contains(r.Err, "disk_full") {
			t.Errorf("%s: %+v", what, r)
		}
		enlarge(t, n.Data())
		restoredOrNot(t, n, what, older, newer, ended{r.Out + r.Err, r.Code})
		return r.Code == 0
	})
}

func TestAnUpgradeOnADiskWithoutRoom(t *testing.T) {
	t.Parallel()
	n := older(t, 2)
	base := filepath.Join(t.TempDir(), "base")
	if err := os.Rename(n.Data(), base); err != nil {
		t.Fatal(err)
	}
	blocks, files := sizeOf(t, base)
	fullDisks(t, n.Data(), blocks+8, files+2, func(what string) bool {
		put(n, base)
		r := n.Run("ask", "-q", "What is 8 times 9?")
		if r.Code != 0 && !strings.Contains(r.Err, "disk_full") {
			t.Errorf("%s: %+v", what, r)
		}
		enlarge(t, n.Data())
		upgradedOrNot(t, n, what)
		return r.Code == 0
	})
}
