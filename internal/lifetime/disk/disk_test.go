package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"steward/test/must"
)

func TestOneHasALock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f := must.Get(os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600))
		t.Cleanup(func() { f.Close() })
		return f
	}
	first, second := open(), open()
	if ok, err := TryLock(first); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ok, err := TryLock(second); ok || err != nil {
		t.Fatalf("a second one gets the lock: %v, %v", ok, err)
	}
	if err := Unlock(first); err != nil {
		t.Fatal(err)
	}
	if ok, err := TryLock(second); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

func TestFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	if err := SyncFolder(dir); err != nil {
		t.Error(err)
	}
	if err := SyncFolder(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	if n, err := Free(dir); n <= 0 || err != nil {
		t.Errorf("%d bytes are free, %v", n, err)
	}
	if _, err := Free(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	if !Usable(dir) || Usable(missing) || !Readable(dir) || Readable(missing) {
		t.Error("what may be used is told wrongly")
	}
}
