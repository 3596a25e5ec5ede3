// Package backup copies a data folder while Steward uses it, and puts such a copy back.
//
// # What a backup holds
//
// A data folder holds databases, files of people and programs, keys, and things that can be made again. The table
// rules (layout.go) names each kind of file once, and says whether it is the truth, derived, or of use only to a
// running process. A backup has the truth, and what is derived but costs money to make again. A file that no rule
// names is in the backup too: nothing is lost because it is new.
//
// # Form
//
// A backup is a folder with the file manifest.json and a copy of each file below data/, or the same as one tar
// stream whose first entry is the manifest. The stream may be encrypted with age. The manifest has the version of
// this form, the program that made it, the schema and the sealed head of the log, and of each file the size, the
// mode and the SHA-256 hash. The last member of the manifest is its own hash, so that any change of any byte is
// noticed.
//
// # One moment
//
// Databases are copied with VACUUM INTO, which reads one snapshot and blocks no writer. The order of the copies is
// what makes them fit together (copy.go). Indexes come before the log: an index that is behind catches up, one that
// is ahead of its log would be wrong. The approved copies of agents come before and after it, since the log names
// them. Everything that a recorded action may change comes after it: a backup may then hold a change that its log
// does not have yet, which looks like a crash before the action was settled, and is settled like one.
//
// With a store elsewhere (PostgreSQL), the database is backed up with that store's own tools. The backup then has
// everything else, and the manifest notes the head of the log in the moment in which the database would have been
// copied. A restore compares it with the store: one that is older than the files would be wrong for the same reason as
// an index that is ahead of its log; one that is newer is like a copy of the files that is behind.
//
// # All or nothing
//
// A backup is made in a hidden folder beside its place (.NAME.partial), synced, checked and then renamed. What an
// interrupted backup leaves behind is removed by the next one. A lock on the folder keeps two from working there.
//
// # Restoring
//
// Restore unpacks into restore.partial inside the data folder, compares each hash, runs SQLite's integrity check
// over each database, and verifies the log up to the head in the manifest. Until then nothing of the old data is
// touched. One rename, to restore.ready, is the commit. Then the old files move to before-restore-TIME and the new
// ones into their places, as a list in restore.ready says (Finish). If that is interrupted, whatever opens the data
// folder next finishes it first. So there is the old state before the rename and the new one after it.
//
// # Steps
//
// Each place at which this package changes the disk calls Options.Step first. Tests end the process there, or let
// the step fail, and look at what is left.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"filippo.io/age"

	"steward/internal/fault"
	"steward/internal/lifetime/disk"
	"steward/internal/store/sqlite"
)

// Limits.
const (
	maxFiles    = 500_000   // in a backup
	maxManifest = 200 << 20 // bytes
	maxName     = 4096      // bytes of a path
	maxLinks    = 4096      // bytes of where a link leads
)

// Kind says why a backup was made. It is part of the backup's name.
type Kind string

// The kinds. Retention rules remove only those that Steward makes by itself.
const (
	Manual  Kind = ""        // somebody asked for it
	Job     Kind = "job"     // it was time for it
	Upgrade Kind = "upgrade" // a newer program was about to change the data
)

// Options say what is backed up, and to where. Data is required.
type Options struct {
	Data     string            // the data folder
	Folder   string            // where the backup is put; it is made if it is missing. Stream needs none
	Kind     Kind              //
	Version  string            // of the program
	Settings map[string]string // files beside the data folder that belong to it: where they are, by their name in the backup
	Age      []age.Recipient   // for whom it is encrypted; none: it is not encrypted
	NoCheck  bool              // do not restore it into a temporary folder to check it
	Now      func() time.Time  // nil: time.Now

	// Log describes the log of a store that is not in the data folder: its database is then left out. nil: the log is
	// in the data folder.
	Log func(context.Context) (Log, error)

	// Step is called before each change of the disk. If it fails, so does the change. nil: nothing is called.
	Step func(what, path string) error
}

func (o *Options) now() time.Time {
	if o.Now == nil {
		return time.Now().UTC()
	}
	return o.Now().UTC()
}

// Made is a backup that was made.
type Made struct {
	Path     string        `json:"path,omitzero"` // empty: it was streamed
	Manifest Manifest      `json:"manifest"`
	Checked  bool          `json:"checked"` // it was restored into a temporary folder, and is sound
	Took     time.Duration `json:"-"`
}

// lockName is the file that is locked while a backup is made in its folder.
const lockName = ".steward-backup"

// Make makes a backup in a folder. Errors: backup_running, backup_inside, disk_full, backup_failed, backup_unsound,
// data_missing.
func Make(ctx context.Context, o Options) (Made, error) {
	began := time.Now()
	w, err := begin(&o)
	if err != nil {
		return Made{}, err
	}
	made, err := w.make(ctx)
	if err == nil {
		made.Path, err = w.publish(ctx)
	}
	made.Took = time.Since(began)
	return made, w.end(err)
}

// Stream makes a backup and writes it to a stream, as a tar archive. It is complete before the first byte is
// written. If Stream fails, the receiver must throw away what it got.
func Stream(ctx context.Context, o Options, out io.Writer) (Made, error) {
	began := time.Now()
	if o.Folder == "" {
		o.Folder = Own(o.Data)
	}
	w, err := begin(&o)
	if err != nil {
		return Made{}, err
	}
	made, err := w.make(ctx)
	if err == nil {
		err = pack(ctx, w.stage, made.Manifest, o.Age, out)
	}
	made.Took = time.Since(began)
	return made, w.end(err)
}

// Own returns the folder for backups inside a data folder: for those that are made before an upgrade if no other
// folder is set, and for what a stream is read from.
func Own(data string) string { return filepath.Join(data, "backups") }

// making is a backup that is being made.
type making struct {
	*Options
	at      time.Time
	rules   []Rule
	stage   string // the folder in which it is made
	release func() error
}

// begin locks the folder and makes the one in which the backup is made.
func begin(o *Options) (*making, error) {
	if real, err := filepath.EvalSymlinks(o.Data); err == nil {
		o.Data = real
	}
	needed := filepath.Join(o.Data, database)
	if o.Log != nil {
		needed = o.Data
	}
	if _, err := os.Stat(needed); err != nil {
		return nil, fault.New(fault.NotFound, "data_missing", "there is nothing to back up in %s: %w", o.Data, err).
			WithHint("name the data folder with --data")
	}
	rules := Rules()
	// Among the data, backups would be backed up themselves, and moved aside by a restore.
	if name := inside(o.Data, o.Folder); name != "" && sortOf(rules, name) != Aside {
		return nil, fault.New(fault.Invalid, "backup_inside", "%s is in the data folder, where backups would be backed up themselves", o.Folder).
			WithHint("name a folder elsewhere, best on another disk, or %s", Own(o.Data))
	}
	if err := os.MkdirAll(o.Folder, 0o700); err != nil {
		return nil, failed(o.Folder, err)
	}
	release, err := hold(o.Folder)
	if err != nil {
		return nil, err
	}
	w := &making{Options: o, at: o.now(), rules: rules, release: release}
	if err = w.prepare(); err != nil {
		return nil, w.end(err)
	}
	return w, nil
}

// inside returns where a path leads below a folder whose own path has no links, with slashes. It is empty if the path
// leads elsewhere. The end of the path may be missing.
func inside(folder, path string) string {
	real, err := filepath.EvalSymlinks(path)
	rest := ""
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path {
		rest = filepath.Join(filepath.Base(path), rest)
		path = filepath.Dir(path)
		real, err = filepath.EvalSymlinks(path)
	}
	rel, e := filepath.Rel(folder, filepath.Join(real, rest))
	if err != nil || e != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(rel)
}

// hold locks a folder of backups. Errors: backup_running, backup_failed.
func hold(folder string) (release func() error, err error) {
	release, err = sqlite.Hold(filepath.Join(folder, lockName))
	if fault.HasCode(err, "data_in_use") {
		return nil, fault.New(fault.Conflict, "backup_running", "another backup is being made in %s", folder).WithHint("wait until it is done").Retrying(fault.RetryBackoff, 0)
	}
	return release, failed(folder, err)
}

func (w *making) prepare() error {
	if err := removePartial(w.Folder); err != nil {
		return err
	}
	w.stage = hidden(w.Folder, w.name())
	if err := w.step("make the folder", w.stage); err != nil {
		return err
	}
	return os.Mkdir(w.stage, 0o700)
}

// name returns a name that no backup in the folder has.
func (w *making) name() string {
	suffix := ""
	if w.Kind != Manual {
		suffix = "-" + string(w.Kind)
	}
	name := "steward-" + w.at.Format(nameTime)
	for n := 2; ; n++ {
		if !there(filepath.Join(w.Folder, name+suffix)) && !there(filepath.Join(w.Folder, name+suffix+ageEnd)) {
			return name + suffix
		}
		name = fmt.Sprintf("steward-%s.%d", w.at.Format(nameTime), n)
	}
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// partialEnd ends the names of what is not complete.
const partialEnd = ".partial"

func hidden(folder, name string) string { return filepath.Join(folder, "."+name+partialEnd) }

// make copies the data folder, writes the manifest, and checks the result.
func (w *making) make(ctx context.Context) (Made, error) {
	m, err := w.copyAll(ctx)
	if err != nil {
		return Made{}, err
	}
	if err := m.write(w.Options, w.stage); err != nil {
		return Made{}, err
	}
	if w.NoCheck {
		return Made{Manifest: m}, nil
	}
	if err := Check(ctx, CheckOptions{Source: FolderSource(w.stage), Temp: w.Folder, Step: w.Step}); err != nil {
		return Made{}, err
	}
	return Made{Manifest: m, Checked: true}, nil
}

// publish gives the backup its name.
func (w *making) publish(ctx context.Context) (string, error) {
	from, name := w.stage, strings.TrimSuffix(filepath.Base(w.stage)[1:], partialEnd)
	if len(w.Age) > 0 {
		name += ageEnd
		from = hidden(w.Folder, name)
		if err := w.packTo(ctx, from); err != nil {
			return "", err
		}
	}
	to := filepath.Join(w.Folder, name)
	if err := w.step("publish", to); err != nil {
		return "", err
	}
	if err := os.Rename(from, to); err != nil {
		return "", err
	}
	return to, disk.SyncFolder(w.Folder)
}

// packTo writes the encrypted stream to a file.
func (w *making) packTo(ctx context.Context, path string) error {
	m, err := readManifest(w.stage)
	if err != nil {
		return err
	}
	if err := w.step("create", path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = pack(ctx, w.stage, m, w.Age, stepWriter{f, func() error { return w.step("write", path) }})
	if err == nil {
		err = w.step("sync", path)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// end removes what is left, and releases the folder.
func (w *making) end(err error) error {
	if w.stage != "" {
		err = errors.Join(err, os.RemoveAll(w.stage), os.RemoveAll(strings.TrimSuffix(w.stage, partialEnd)+ageEnd+partialEnd))
	}
	return failed(w.Folder, errors.Join(err, w.release()))
}

func (o *Options) step(what, path string) error { return steps(o.Step).at(what, path) }

type steps func(what, path string) error

func (s steps) at(what, path string) error {
	if s == nil {
		return nil
	}
	if err := s(what, path); err != nil {
		return &fs.PathError{Op: what, Path: path, Err: err}
	}
	return nil
}

// stepWriter calls a function before each write.
type stepWriter struct {
	io.Writer
	step func() error
}

func (w stepWriter) Write(b []byte) (int, error) {
	if err := w.step(); err != nil {
		return 0, err
	}
	return w.Writer.Write(b)
}

// failed gives an error a code, unless it has one.
func failed(path string, err error) error {
	var own *fault.Error
	switch {
	case err == nil || errors.As(err, &own):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.Of(err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fault.New(fault.NoSpace, "disk_full", "no space left on the disk: %w", err).WithHint("free some space, or name another folder; nothing was changed")
	}
	return fault.New(fault.Unavailable, "backup_failed", "the backup failed: %w", err).WithHint("check that %s can be written, and everything in the data folder can be read; nothing was changed", path)
}

// removePartial removes what interrupted backups have left in a folder. The caller holds the folder.
func removePartial(folder string) error {
	list, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".steward-") && (strings.HasSuffix(e.Name(), partialEnd) || strings.HasSuffix(e.Name(), checkEnd)) {
			if err := os.RemoveAll(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
