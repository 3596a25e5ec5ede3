package catalog

import (
	"os"
	"path/filepath"
	"testing"

	"steward/internal/fault"
	"steward/test/must"
)

// sealedUnit returns a unit whose folder has a program and a file beside it.
func sealedUnit(t *testing.T) (*Catalog, *unit) {
	t.Helper()
	dir := t.TempDir()
	u := &unit{path: "desk", dir: dir, hash: "h1"}
	for name, mode := range map[string]os.FileMode{"run.sh": 0o755, "lib/part.txt": 0o644} {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte("first "+name), mode))
		p := must.Get(outside(path))
		p.name = name
		u.sealed = append(u.sealed, p)
	}
	return &Catalog{opt: Options{Snapshots: filepath.Join(t.TempDir(), "snapshots")}}, u
}

func TestASnapshotHasWhatWasReadAndStays(t *testing.T) {
	c, u := sealedUnit(t)
	for range 2 { // first made, then reused
		got, err := c.snapshotOf(u)
		if err != nil || len(got) != 1 {
			t.Fatalf("%v %v", got, err)
		}
		for name, mode := range map[string]os.FileMode{"run.sh": 0o500, "lib/part.txt": 0o400} {
			at := filepath.Join(got[u.dir], name)
			b, err := os.ReadFile(at)
			if err != nil || string(b) != "first "+name {
				t.Errorf("%s: %q %v", name, b, err)
			}
			if info, err := os.Stat(at); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s: %v %v", name, info.Mode(), err)
			}
		}
		must.Do(t, os.WriteFile(filepath.Join(u.dir, "run.sh"), []byte("second"), 0o755))
	}
	if left, err := os.ReadDir(c.opt.Snapshots); err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
}

func TestASnapshotIsOfNothingElse(t *testing.T) {
	for name, x := range map[string]struct {
		before, after func(u *unit, at string) error
		code          string
	}{
		"changed before": {code: "agent_changed", before: func(u *unit, _ string) error {
			return os.WriteFile(filepath.Join(u.dir, "run.sh"), []byte("other"), 0o755)
		}},
		"longer before": {code: "agent_changed", before: func(u *unit, _ string) error {
			return os.WriteFile(filepath.Join(u.dir, "run.sh"), []byte("first run.sh and more"), 0o755)
		}},
		"gone before": {code: "agent_changed", before: func(u *unit, _ string) error { return os.Remove(filepath.Join(u.dir, "run.sh")) }},
		"too large": {code: "snapshot_too_large", before: func(u *unit, _ string) error {
			u.sealed[0].size = maxBytes + 1
			return nil
		}},
		"no room": {code: "snapshot_failed", before: func(_ *unit, at string) error { return os.WriteFile(at, nil, 0o600) }},
		"more": {code: "snapshot_changed", after: func(_ *unit, at string) error {
			return os.WriteFile(filepath.Join(at, "h1", "folder", "more.sh"), nil, 0o500)
		}},
		"replaced": {code: "snapshot_changed", after: func(_ *unit, at string) error {
			file := filepath.Join(at, "h1", "folder", "run.sh")
			if err := os.Remove(file); err != nil {
				return err
			}
			return os.WriteFile(file, []byte("First run.sh"), 0o500)
		}},
		"a link": {code: "snapshot_changed", after: func(_ *unit, at string) error {
			file := filepath.Join(at, "h1", "folder", "run.sh")
			if err := os.Remove(file); err != nil {
				return err
			}
			return os.Symlink("/bin/sh", file)
		}},
		"less": {code: "snapshot_changed", after: func(_ *unit, at string) error {
			return os.Remove(filepath.Join(at, "h1", "folder", "lib", "part.txt"))
		}},
	} {
		c, u := sealedUnit(t)
		if x.before != nil {
			must.Do(t, x.before(u, c.opt.Snapshots))
		} else {
			must.Get(c.snapshotOf(u))
		}
		if x.after != nil {
			must.Do(t, x.after(u, c.opt.Snapshots))
		}
		for _, when := range []string{"later", "at the next start"} {
			if got, err := c.snapshotOf(u); !fault.HasCode(err, x.code) {
				t.Errorf("%s, %s: %v %v, want %s", name, when, got, err, x.code)
			}
			u.snapshot.copies = nil
		}
	}
}
