package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/lifetime/disk"
	"steward/internal/store/sqlite"
)

// The folders of a restore in the data folder.
const (
	restorePartial = "restore.partial"
	restoreReady   = "restore.ready"
	planName       = "plan.json"
	settingsAside  = "settings-of-backup"
	asidePrefix    = "before-restore-"
	checkEnd       = ".check"
)

// RestoreOptions say what is restored, and to where.
type RestoreOptions struct {
	Data    string // the data folder
	Source  Source
	Replace bool             // if there is data in the folder, move it aside
	Now     func() time.Time // nil: time.Now

	// Fits reports why the store that is in use does not fit the log of the backup. nil: nothing is compared.
	Fits func(context.Context, Log) error

	Step func(what, path string) error
}

// Restored is what a restore has done.
type Restored struct {
	Manifest Manifest `json:"manifest"`
	Aside    string   `json:"aside,omitzero"`    // where the data is that was there before; empty: there was none
	Settings string   `json:"settings,omitzero"` // where the settings of then are; empty: the backup has none
}

// plan says how a restore is finished. It is written before the commit.
type plan struct {
	Aside string   `json:"aside"` // where the old files go
	Old   []string `json:"old"`   // their names in the data folder
	New   []string `json:"new"`   // the names of the new ones
}

// Restore replaces the content of a data folder by a backup. Nobody may use the folder meanwhile. Errors:
// data_in_use, data_there, data_immovable, backup_damaged, backup_unsound, database_too_new, backup_too_new, backup_encrypted,
// disk_full, restore_failed.
func Restore(ctx context.Context, o RestoreOptions) (out Restored, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := os.MkdirAll(o.Data, 0o700); err != nil {
		return out, restoreFailed(o.Data, err)
	}
	release, err := sqlite.Hold(filepath.Join(o.Data, database))
	if err != nil {
		return out, err
	}
	defer func() { err = restoreFailed(o.Data, errors.Join(err, release())) }()
	if err := finish(o.Data, o.Step); err != nil {
		return out, err
	}
	p, err := planFor(&o)
	if err != nil {
		return out, err
	}
	stage := filepath.Join(o.Data, restorePartial)
	if err := os.RemoveAll(stage); err != nil {
		return out, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(stage))
		}
	}()
	if out.Manifest, err = unpack(ctx, o.Source, stage, o.Step); err != nil {
		return out, err
	}
	if err := inspect(ctx, stage, &out.Manifest); err != nil {
		return out, err
	}
	if o.Fits != nil {
		if err := o.Fits(ctx, out.Manifest.Log); err != nil {
			return out, err
		}
	}
	if there(filepath.Join(stage, settingsName)) { // it comes back as a folder of its own
		out.Settings = filepath.Join(o.Data, settingsAside)
		if err := os.Rename(filepath.Join(stage, settingsName), filepath.Join(stage, dataName, settingsAside)); err != nil {
			return out, err
		}
	}
	if len(p.Old) > 0 {
		out.Aside = filepath.Join(o.Data, p.Aside)
	}
	if err := commit(&o, p, stage); err != nil {
		return out, err
	}
	return out, finish(o.Data, o.Step)
}

// planFor lists what is moved. It refuses a folder with data in it, unless it is to be replaced.
func planFor(o *RestoreOptions) (plan, error) {
	p := plan{Aside: asidePrefix + o.Now().UTC().Format(nameTime)}
	for n := 2; there(filepath.Join(o.Data, p.Aside)); n++ {
		p.Aside = fmt.Sprintf("%s%s.%d", asidePrefix, o.Now().UTC().Format(nameTime), n)
	}
	list, err := os.ReadDir(o.Data)
	if err != nil {
		return p, err
	}
	var fixed []string // what cannot be moved
	for _, e := range list {
		name := e.Name()
		stays := name == database+".lock" || name == filepath.Base(Own(o.Data)) || strings.HasPrefix(name, asidePrefix) || name == restorePartial || name == "serve.log"
		if stays {
			continue
		}
		p.Old = append(p.Old, name)
		switch path := filepath.Join(o.Data, name); {
		case disk.Mounted(path):
			fixed = append(fixed, name+" is mounted there")
		case e.IsDir() && !disk.Usable(path): // its entry for the folder above is written
			fixed = append(fixed, name+" is not writable for this user")
		}
	}
	if len(p.Old) > 0 && !o.Replace {
		return p, fault.New(fault.Conflict, "data_there", "there is data in %s, such as %s", o.Data, p.Old[0]).
			WithHint("restore into another folder with --data FOLDER, or add --replace: the data that is there is then kept in a folder %s…", asidePrefix)
	}
	if len(fixed) > 0 { // after the commit, this would keep the restore from being finished
		return p, fault.New(fault.Conflict, "data_immovable", "the data in %s cannot be moved aside: %s", o.Data, strings.Join(fixed, ", ")).
			WithHint("unmount it, or make it writable, and restore again; or restore into another folder with --data FOLDER; nothing was changed")
	}
	return p, nil
}

// commit makes everything durable, and then renames the folder. From then on the restore has happened.
func commit(o *RestoreOptions, p plan, stage string) error {
	list, err := os.ReadDir(filepath.Join(stage, dataName))
	if err != nil {
		return err
	}
	for _, e := range list {
		p.New = append(p.New, e.Name())
	}
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if _, err := writeFile(steps(o.Step), filepath.Join(stage, planName), 0o600, strings.NewReader(string(b))); err != nil {
		return err
	}
	if err := syncAll(stage); err != nil {
		return err
	}
	ready := filepath.Join(o.Data, restoreReady)
	if err := steps(o.Step).at("commit", ready); err != nil {
		return err
	}
	if err := os.Rename(stage, ready); err != nil {
		return err
	}
	return disk.SyncFolder(o.Data)
}

// Pending reports whether a restore was interrupted after its commit, so that Finish has something to do.
func Pending(data string) bool { return there(filepath.Join(data, restoreReady)) }

// Finish finishes a restore that was interrupted after its commit. Error: data_in_use, if the restore still runs.
func Finish(data string) (err error) {
	if !Pending(data) {
		return nil
	}
	release, err := sqlite.Hold(filepath.Join(data, database))
	if err != nil {
		return err
	}
	defer func() { err = restoreFailed(data, errors.Join(err, release())) }()
	return finish(data, nil)
}

// finish moves the old files aside and the new ones into place. It may be repeated after it was interrupted
// anywhere. The caller holds the folder.
func finish(data string, step steps) error {
	ready := filepath.Join(data, restoreReady)
	b, err := os.ReadFile(filepath.Join(ready, planName))
	if errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(ready) // there is none, or it was finished and is being removed
	}
	var p plan
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		return err
	}
	aside := filepath.Join(data, p.Aside)
	if len(p.Old) > 0 {
		if err := step.at("make the folder", aside); err != nil {
			return err
		}
		if err := os.Mkdir(aside, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	move := func(name, from, to string) error {
		if there(filepath.Join(to, name)) { // it was moved before the interruption
			return nil
		}
		if err := step.at("move", filepath.Join(to, name)); err != nil {
			return err
		}
		err := os.Rename(filepath.Join(from, name), filepath.Join(to, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	// All old files leave before the first new one comes: a journal of the old database must not be found beside the
	// new one. A name that is in the folder of old files is a new file here.
	for _, name := range p.Old {
		if err := move(name, data, aside); err != nil {
			return err
		}
	}
	if len(p.Old) > 0 {
		if err := errors.Join(disk.SyncFolder(aside), disk.SyncFolder(data)); err != nil {
			return err
		}
	}
	for _, name := range p.New {
		if err := move(name, filepath.Join(ready, dataName), data); err != nil {
			return err
		}
	}
	if err := disk.SyncFolder(data); err != nil {
		return err
	}
	if err := step.at("remove", ready); err != nil {
		return err
	}
	// The plan goes first: without it there is nothing to finish.
	if err := os.Remove(filepath.Join(ready, planName)); err != nil {
		return err
	}
	return os.RemoveAll(ready)
}

// unpack writes a backup into a new folder, and compares each file with the manifest.
func unpack(ctx context.Context, s Source, to string, step steps) (m Manifest, err error) {
	if err := step.at("make the folder", to); err != nil {
		return m, err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return m, err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	var left map[string]File // files that have not come yet
	err = s.read(func(name string, r io.Reader) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if left == nil {
			if name != manifestName {
				return damaged("it does not begin with its manifest")
			}
			if m, err = parseManifest(r); err != nil {
				return err
			}
			left, err = makeFolders(root, &m)
			return err
		}
		f, ok := left[name]
		if !ok {
			return damaged("its manifest does not list %.200q", name)
		}
		delete(left, name)
		return unpackFile(root, &f, r, step)
	})
	if err != nil {
		return m, err
	}
	if left == nil {
		return m, damaged("it is empty")
	}
	for name := range left {
		return m, damaged("%s is missing", name)
	}
	return m, finishTree(root, &m)
}

// makeFolders checks the names in a manifest, makes its folders, and returns the files with content.
func makeFolders(root *os.Root, m *Manifest) (map[string]File, error) {
	left := map[string]File{}
	for _, f := range m.Files {
		top, _, below := strings.Cut(f.Path, "/")
		if !below || top != dataName && top != settingsName || path.Clean(f.Path) != f.Path || !filepath.IsLocal(filepath.FromSlash(f.Path)) || len(f.Path) > maxName || len(f.Link) > maxLinks {
			return nil, damaged("its manifest lists %.200q", f.Path)
		}
		dir := path.Dir(f.Path)
		if f.Dir {
			dir = f.Path
		}
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		if _, twice := left[f.Path]; twice {
			return nil, damaged("its manifest lists %.200q twice", f.Path)
		}
		if !f.Dir && f.Link == "" {
			left[f.Path] = f
		}
	}
	return left, nil
}

func unpackFile(root *os.Root, f *File, r io.Reader, step steps) error {
	if err := step.at("create", f.Path); err != nil {
		return err
	}
	out, err := root.OpenFile(filepath.FromSlash(f.Path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	s, err := fill(step, out, f.Path, io.LimitReader(r, f.Size+1))
	if err != nil {
		return err
	}
	if s.size != f.Size || s.hash != f.Hash {
		return damaged("%s differs from what was backed up", f.Path)
	}
	return nil
}

// finishTree makes links, and sets modes and times: of folders last, since what is written into them changes theirs. A
// folder that was read-only becomes writable for its owner: it could be neither moved into place nor removed.
func finishTree(root *os.Root, m *Manifest) error {
	for _, f := range slices.Backward(m.Files) {
		name := filepath.FromSlash(f.Path)
		if f.Link != "" {
			if err := root.Symlink(f.Link, name); err != nil {
				return err
			}
			continue
		}
		mode := f.Mode.Perm() | 0o400
		if f.Dir {
			mode |= 0o700
		}
		if err := errors.Join(root.Chmod(name, mode), root.Chtimes(name, f.At, f.At)); err != nil {
			return err
		}
	}
	return nil
}

// inspect checks a backup that was unpacked: each database by SQLite's integrity check, and the log from its first
// entry to the head in the manifest.
func inspect(ctx context.Context, folder string, m *Manifest) error {
	path := filepath.Join(folder, dataName, database)
	if m.Log.Store == "" && !there(path) {
		return damaged("it has no database")
	}
	for _, f := range m.Files {
		if !f.SQL {
			continue
		}
		found, err := sqlite.DamageOf(ctx, filepath.Join(folder, filepath.FromSlash(f.Path)))
		if err == nil && len(found) > 0 {
			err = unsound("%s is damaged: %s", f.Path, found[0])
		}
		if err != nil {
			return err
		}
	}
	if m.Log.Store != "" {
		return nil
	}
	version, newest, err := sqlite.SchemaOf(path)
	if err != nil || version < newest {
		return err // a log of an older schema is verified after its migration
	}
	st, err := sqlite.Open(ctx, sqlite.Options{Path: path, ReadOnly: true, Readers: 1})
	if err != nil {
		return err
	}
	v, err := st.Verify(ctx)
	if err = errors.Join(err, st.Close()); err != nil {
		return err
	}
	switch {
	case v.Flaw != nil:
		return unsound("entry %d of the log: %s", v.Flaw.Seq, v.Flaw.What)
	case v.Last != m.Log.Entries:
		return unsound("the log has %d entries instead of %d", v.Last, m.Log.Entries)
	case m.Log.Head.Seq > 0 && v.Head != m.Log.Head: // a program that does not know the schema leaves it out
		return unsound("the head of the log is not the one that was backed up")
	}
	return nil
}

func unsound(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "backup_unsound", "the backup is not sound: "+format, args...).
		WithHint("use another backup; if this one was just made, check the data folder with steward doctor")
}

// CheckOptions say which backup is checked, and where there is room for that.
type CheckOptions struct {
	Source Source
	Temp   string // a folder; nothing stays in it
	Step   func(what, path string) error
}

// Check restores a backup into a temporary folder, runs the checks of a restore, and removes the folder.
func Check(ctx context.Context, o CheckOptions) (err error) {
	to, err := os.MkdirTemp(o.Temp, ".steward-*"+checkEnd)
	if err != nil {
		return failed(o.Temp, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(to)) }()
	at := filepath.Join(to, "restored")
	m, err := unpack(ctx, o.Source, at, o.Step)
	if err == nil {
		err = inspect(ctx, at, &m)
	}
	return failed(o.Temp, err)
}

// restoreFailed gives an error a code, unless it has one.
func restoreFailed(data string, err error) error {
	var own *fault.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	e := fault.Of(failed(data, err))
	if e.Code == "backup_failed" {
		return fault.New(fault.Unavailable, "restore_failed", "the restore failed: %w", err).WithHint("check that %s can be written, and restore again", data)
	}
	return e
}

// PutBack replaces the database of a data folder by the one in a backup that is a folder, and leaves everything else
// as it is. It is for a migration that is undone: nothing has been written since the backup. Nobody may use the folder
// meanwhile. The database is the old one or the one from the backup, whenever it is interrupted.
func PutBack(path, data string, step func(what, path string) error) (err error) {
	release, err := sqlite.Hold(filepath.Join(data, database))
	if err != nil {
		return err
	}
	defer func() { err = restoreFailed(data, errors.Join(err, release())) }()
	m, err := readManifest(path)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(m.Files, func(f File) bool { return f.Path == dataName+"/"+database })
	if i < 0 {
		return damaged("it has no database")
	}
	in, err := os.Open(filepath.Join(path, dataName, database))
	if err != nil {
		return err
	}
	to := filepath.Join(data, database+".new")
	if err := os.RemoveAll(to); err != nil {
		return errors.Join(err, in.Close())
	}
	s, err := writeFile(step, to, 0o600, in)
	if err = errors.Join(err, in.Close()); err == nil && s.hash != m.Files[i].Hash {
		err = damaged("%s differs from what was backed up", database)
	}
	if err != nil {
		return errors.Join(err, os.Remove(to))
	}
	// The store was closed, which has moved everything from its journals into the database.
	for _, end := range journalEnds() {
		if err := os.Remove(filepath.Join(data, database+end)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := steps(step).at("put back", to); err != nil {
		return err
	}
	if err := os.Rename(to, filepath.Join(data, database)); err != nil {
		return err
	}
	return disk.SyncFolder(data)
}
