package documents

import (
	"context"
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

	"steward/client"
	"steward/internal/fault"
	"steward/internal/record"
	"steward/internal/tools/local"
)

// Limits of watched folders.
const (
	lookEvery     = 10 * time.Second // how often they are looked at
	settled       = 5 * time.Second  // how long a file has not changed before it is read
	maxFolderDeep = 16               // folders within folders
	maxLooked     = 50_000           // files and folders that are looked at in a folder
)

// Folder is a folder that is watched, with what is in it.
type Folder struct {
	Path string
	User string // whose documents they are
	Own  bool   // they are the person's own texts
}

// Folders says how far the watched folders of a user are read.
func (e *Engine) Folders(user string) (out []client.DocumentFolder) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, f := range e.opt.Folders {
		if f.User == user {
			out = append(out, e.folders[i])
		}
	}
	return out
}

// Watch keeps the documents of the watched folders in line with their files until ctx is done. It looks at them
// every few seconds, which works in every file system. Symbolic links, hidden files and folders, and what is
// Steward's own are left out.
func (e *Engine) Watch(ctx context.Context) {
	e.watch(ctx, func(Folder) bool { return true })
}

// WatchOf is Watch for the folders of one user, on the node of a cluster that has the user. The folders are those of
// that machine: a folder that is not there is reported, and its documents stay.
func (e *Engine) WatchOf(ctx context.Context, user string) {
	e.watch(ctx, func(f Folder) bool { return f.User == user })
}

func (e *Engine) watch(ctx context.Context, which func(Folder) bool) {
	if err := e.Forgotten(ctx); err != nil && ctx.Err() == nil {
		e.opt.Log.Warn("the index of the documents cannot be brought up to date", "error", err)
	}
	for slices.ContainsFunc(e.opt.Folders, which) {
		for i := range e.opt.Folders {
			if !which(e.opt.Folders[i]) {
				continue
			}
			err := e.Scan(ctx, i)
			if ctx.Err() != nil {
				return
			}
			e.progress(i, func(f *client.DocumentFolder) {
				f.Reading, f.Error = "", ""
				if err != nil {
					f.Error = fault.Of(err).Error()
				}
			})
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return
		}
	}
}

func (e *Engine) progress(i int, change func(*client.DocumentFolder)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(&e.folders[i])
}

// Scan looks once at a watched folder: it reads what is new or different, and removes what is gone.
func (e *Engine) Scan(ctx context.Context, i int) error {
	f := e.opt.Folders[i]
	root, err := os.OpenRoot(f.Path)
	if err != nil {
		return fault.New(fault.Unavailable, "folder_unreadable", "the folder %s cannot be read: %w", f.Path, err).WithHint("check documents.folders in the settings")
	}
	defer root.Close()
	files, err := e.look(root)
	if err != nil {
		return err
	}
	list, err := e.List(ctx, f.User)
	if err != nil {
		return err
	}
	known := map[string]record.Document{}
	for _, d := range list {
		if d.Folder == f.Path {
			known[d.Path] = d
		}
	}
	e.progress(i, func(p *client.DocumentFolder) { p.Found, p.Read, p.Refused = len(files), 0, 0 })
	count := func(status string) {
		e.progress(i, func(p *client.DocumentFolder) {
			if status == record.DocumentRefused {
				p.Refused++
			} else {
				p.Read++
			}
		})
	}
	var failed error
	added := false
	for _, file := range files {
		full := filepath.Join(f.Path, filepath.FromSlash(file.name))
		old, ok := known[full]
		delete(known, full)
		stamp := fmt.Sprintf("%d %d", file.size, file.at.UnixNano())
		if ok && old.Stamp == stamp && old.Own == f.Own {
			count(old.Status)
			continue
		}
		if age := e.opt.Now().Sub(file.at); age >= 0 && age < settled {
			continue // it may still be written: the next look reads it
		}
		e.progress(i, func(p *client.DocumentFolder) { p.Reading = file.name })
		data, err := readFile(root, file.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			failed = fault.New(fault.Unavailable, "file_unreadable", "%s cannot be read: %w", full, err)
			continue
		}
		d, err := e.Add(ctx, f.User, File{Name: path.Base(file.name), Path: full, Data: data, Own: f.Own, folder: f.Path, stamp: stamp})
		if err != nil {
			return err
		}
		added = true
		count(d.Status)
	}
	for _, d := range known {
		if err := e.forget(ctx, &d); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	if added { // the next search need not wait for it
		failed = errors.Join(failed, e.index.sync(ctx, f.User))
	}
	return failed
}

type seenFile struct {
	name string // in the folder, with slashes
	size int64
	at   time.Time
}

// look returns the documents in a folder, by name.
func (e *Engine) look(root *os.Root) (out []seenFile, err error) {
	private := local.NewPrivate(e.opt.Private)
	looked := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if name == "." {
				return err
			}
			return nil // a folder within, to which there is no right, has no documents
		}
		if looked++; looked > maxLooked {
			return fault.New(fault.Exhausted, "folder_too_large", "the folder has more than %d files", maxLooked).WithHint("watch folders within it")
		}
		hidden := name != "." && strings.HasPrefix(d.Name(), ".")
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // it is gone
		}
		switch {
		case d.IsDir() && (hidden || d.Name() == "node_modules" || strings.Count(name, "/") >= maxFolderDeep || private.Is(info)):
			return fs.SkipDir
		case d.IsDir() || hidden || !d.Type().IsRegular() || !Readable(name) || private.Is(info):
			return nil
		}
		out = append(out, seenFile{name, info.Size(), info.ModTime()})
		return nil
	})
	slices.SortFunc(out, func(a, b seenFile) int { return strings.Compare(a.name, b.name) })
	return out[:min(len(out), MaxDocuments)], err
}

// readFile reads a file, and one byte more than what is accepted.
func readFile(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, errors.New("it is not a file"))
	}
	return io.ReadAll(io.LimitReader(f, MaxBytes+1))
}
