package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"steward/internal/fault"
	"steward/internal/lifetime/disk"
	"steward/internal/store/sqlite"
)

// errLeftOut says that a file cannot be copied, and that the backup is good without it.
var errLeftOut = errors.New("the file is left out")

// copyAll copies the data folder into the stage, in the order that the package's comment describes.
func (w *making) copyAll(ctx context.Context) (Manifest, error) {
	m := Manifest{Format: Format, Program: w.Version, Made: w.at, Kind: w.Kind}
	data := filepath.Join(w.stage, dataName)
	if err := os.Mkdir(data, 0o700); err != nil {
		return m, err
	}
	have := map[string]bool{}
	for _, part := range []stage{indexes, approved, truth, everythingElse, approved} {
		if part == truth && w.Log != nil {
			var err error
			if m.Log, err = w.Log(ctx); err != nil {
				return m, err
			}
			continue // a database in the folder is left from before the move to another store
		}
		names, err := w.list(part, &m)
		if err != nil {
			return m, err
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return m, err
			}
			if have[name] {
				continue
			}
			f, err := w.copyOne(ctx, name, data, &m.Log)
			if errors.Is(err, errLeftOut) {
				m.LeftOut = append(m.LeftOut, name+" (damaged)")
				continue
			}
			if errors.Is(err, fs.ErrNotExist) && name != database {
				continue // it was removed meanwhile
			}
			if err != nil {
				return m, err
			}
			if f.Link != "" && inside(w.Data, filepath.Join(w.Data, filepath.FromSlash(name))) == "" {
				m.LeftOut = append(m.LeftOut, name+" -> "+f.Link)
			}
			have[name] = true
			m.Files = append(m.Files, f)
			m.Bytes += f.Size
			if len(m.Files) > maxFiles {
				return m, fault.New(fault.TooLarge, "backup_too_large", "the data folder has more than %d files", maxFiles).WithHint("remove what is not needed from the folders of agents")
			}
		}
	}
	if w.Log == nil && !have[database] {
		return m, fault.New(fault.NotFound, "data_missing", "the database in %s was removed while it was backed up", w.Data)
	}
	for name, from := range w.Settings {
		f, err := w.copyPlain(from, path.Join(settingsName, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return m, err
		}
		m.Files = append(m.Files, f)
		m.Bytes += f.Size
	}
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return m, syncAll(w.stage)
}

// list returns the paths of what is copied in one stage, folders before what is in them.
func (w *making) list(part stage, m *Manifest) (names []string, err error) {
	err = filepath.WalkDir(w.Data, func(at string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && at != w.Data {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(w.Data, at)
		if err != nil || rel == "." {
			return err
		}
		name := filepath.ToSlash(rel)
		if !sortOf(w.rules, name).kept() || stageOf(name) != part || d.IsDir() && same(w.Folder, at) {
			if d.IsDir() {
				return fs.SkipDir // stages and sorts are those of whole folders; and backups are not backed up
			}
			return nil
		}
		if k := d.Type(); k != 0 && k != fs.ModeDir && k != fs.ModeSymlink {
			m.LeftOut = append(m.LeftOut, name)
			return nil
		}
		names = append(names, name)
		return nil
	})
	if len(names) > maxFiles {
		err = errors.Join(err, fault.New(fault.TooLarge, "backup_too_large", "the data folder has more than %d files", maxFiles))
	}
	return names, err
}

// same reports whether two paths name the same folder.
func same(folder, at string) bool {
	a, err := os.Stat(folder)
	if err != nil {
		return false
	}
	b, err := os.Stat(at)
	return err == nil && os.SameFile(a, b)
}

// copyOne copies a file of the data folder.
func (w *making) copyOne(ctx context.Context, name, data string, log *Log) (File, error) {
	from, to := filepath.Join(w.Data, filepath.FromSlash(name)), filepath.Join(data, filepath.FromSlash(name))
	info, err := os.Lstat(from)
	if err != nil {
		return File{}, err
	}
	f := File{Path: path.Join(dataName, name), Mode: info.Mode().Perm(), At: info.ModTime().UTC()}
	switch {
	case name == database: // also where it is a link
		f.Mode = 0o600
		if err := w.step("copy", to); err != nil {
			return f, err
		}
		copied, err := sqlite.Copy(ctx, from, to)
		if err != nil {
			return f, err
		}
		log.Schema, log.Entries = copied.Schema, copied.Entries
		f.SQL = true
		return f, w.readBack(ctx, to, &f, log)
	case info.IsDir():
		f.Dir = true
		return f, os.MkdirAll(to, 0o700)
	case info.Mode()&fs.ModeSymlink != 0:
		f.Link, err = os.Readlink(from)
		return f, errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o700), os.Symlink(f.Link, to))
	case journal(name) && isDatabase(databaseOf(name), databaseOf(from)):
		return f, fs.ErrNotExist // the copy of its database has its content
	case isDatabase(name, from):
		if err := errors.Join(w.step("copy", to), os.MkdirAll(filepath.Dir(to), 0o700)); err != nil {
			return f, err
		}
		if err := sqlite.CopyAny(ctx, from, to); err == nil {
			f.SQL = true
			return f, hashFile(to, &f)
		} else if ctx.Err() == nil && sortOf(w.rules, name) == Costly {
			return f, errLeftOut // a damaged index does not keep the truth from being backed up
		} else if ctx.Err() != nil || !strings.HasPrefix(name, "private/") {
			return f, err
		} // a program's own database that is locked, or has an extension, is copied like any file
	}
	return w.copyPlain(from, f.Path)
}

// readBack reads the head of the log from its copy.
func (w *making) readBack(ctx context.Context, copied string, f *File, log *Log) error {
	st, err := sqlite.Open(ctx, sqlite.Options{Path: copied, ReadOnly: true, Readers: 1})
	if err == nil {
		head, sealed := st.Seal(ctx)
		log.Head, err = head, errors.Join(sealed, st.Close())
	} else if fault.HasCode(err, "database_too_old") {
		err = nil
	}
	return errors.Join(err, hashFile(copied, f))
}

// copyPlain copies a file that is no database.
func (w *making) copyPlain(from, name string) (File, error) {
	in, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return File{}, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return File{}, err
	}
	f := File{Path: name, Mode: info.Mode().Perm(), At: info.ModTime().UTC()}
	to := filepath.Join(w.stage, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return f, err
	}
	sum, err := writeFile(steps(w.Step), to, f.Mode|0o600, in)
	f.Size, f.Hash = sum.size, sum.hash
	return f, err
}

// sum is what was written to a file.
type sum struct {
	size int64
	hash string
}

// writeFile writes a new file and syncs it.
func writeFile(step steps, to string, mode os.FileMode, in io.Reader) (sum, error) {
	if err := step.at("create", to); err != nil {
		return sum{}, err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return sum{}, err
	}
	return fill(step, out, to, in)
}

// fill writes a file, syncs it and closes it.
func fill(step steps, out *os.File, name string, in io.Reader) (sum, error) {
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(stepWriter{out, func() error { return step.at("write", name) }}, h), onlyReader{in})
	if err == nil {
		err = step.at("sync", name)
	}
	if err == nil {
		err = out.Sync()
	}
	return sum{n, hex.EncodeToString(h.Sum(nil))}, errors.Join(err, out.Close())
}

// onlyReader hides what else a reader can do, so that it is read piece by piece.
type onlyReader struct{ io.Reader }

// hashFile sets the size and the hash of a copy.
func hashFile(name string, f *File) error {
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.Copy(h, in)
	f.Size, f.Hash = n, hex.EncodeToString(h.Sum(nil))
	return errors.Join(err, in.Close())
}

// isDatabase reports whether a file is an SQLite database. Files that this process may have open with SQLite are
// known by their names: closing them here would release SQLite's locks on them.
func isDatabase(name, file string) bool {
	top, _, _ := strings.Cut(name, "/")
	switch {
	case top == "vectors.db":
		return true
	case top == "services":
		return strings.HasSuffix(name, ".sqlite")
	case top == database:
		return false // it is copied before it comes to this
	}
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 16)
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == "SQLite format 3\x00"
}

// journalEnds end the names of what SQLite writes beside a database.
func journalEnds() []string { return []string{"-wal", "-shm", "-journal"} }

func journal(name string) bool { return databaseOf(name) != name }

// databaseOf returns the path of the database that a journal belongs to, or the path itself.
func databaseOf(name string) string {
	for _, end := range journalEnds() {
		if file, ok := strings.CutSuffix(name, end); ok {
			return file
		}
	}
	return name
}

// syncAll makes all folders below a folder durable.
func syncAll(folder string) error {
	return filepath.WalkDir(folder, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return disk.SyncFolder(at)
	})
}
