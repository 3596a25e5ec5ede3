package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

func checkFolders(folders []Folder) error {
	seen := map[string]bool{}
	for _, f := range folders {
		bad := func(format string, args ...any) *fault.Error {
			return fault.New(fault.Invalid, "folder_invalid", "the granted folder %q: "+format, append([]any{f.Name}, args...)...)
		}
		switch info, err := os.Stat(f.Path); {
		case f.Name == "" || f.Name == "." || f.Name == ".." || strings.ContainsAny(f.Name, "/\\\x00\n"):
			return bad("its name is not a single word").WithHint("name it like notes")
		case seen[f.Name]:
			return bad("the name is used twice").WithHint("rename one of them")
		case f.Make && errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return bad("%w", err).WithHint("create the folder, or remove it from the settings")
		case !info.IsDir():
			return bad("%s is not a folder", f.Path).WithHint("grant a folder")
		}
		seen[f.Name] = true
	}
	return nil
}

// folders returns all granted folders.
func (k *kit) folders() folders {
	if k.opt.More == nil {
		return k.opt.Folders
	}
	all := folders(k.opt.More())
	for _, f := range k.opt.Folders {
		if !slices.ContainsFunc(all, func(more Folder) bool { return more.Name == f.Name }) {
			all = append(all, f)
		}
	}
	return all
}

// foldersOf returns the folders that a user may use.
func (k *kit) foldersOf(ctx context.Context, user string) (folders, error) {
	list, err := local.Own(ctx, user, k.opt.Groups, k.folders(), func(f Folder) *tool.Audience { return f.For })
	if k.opt.Private != nil && len(list) > 0 {
		private := local.NewPrivate(k.opt.Private())
		for i := range list {
			list[i].private = private
		}
	}
	return list, err
}

// folders are granted folders.
type folders []Folder

// granted names the folders for a remedy.
func (list folders) granted(writable bool) string {
	var names []string
	for _, f := range list {
		if f.Write || !writable {
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 {
		return "No folder is granted to this user."
	}
	return "Paths begin with one of the granted folders: " + strings.Join(names, ", ") + "."
}

// place is a path inside a granted folder.
type place struct {
	Folder
	shown string // as the model writes it
	rel   string // inside the folder, "." for the folder itself
}

// begin describes paths for all users. It names no folders, because only those who may use a folder may
// know its name.
const begin = "Paths begin with the name of a granted folder; files.list without a path lists them."

// find splits a model's path into a folder and a path in it. It refuses whatever could lead out of the
// folder; os.Root guarantees that nothing does, even if the folder changes meanwhile.
func (list folders) find(shown string) (place, error) {
	bad := func(why string) (place, error) {
		return place{}, fault.New(fault.Denied, "path_refused", "%.200q is refused: %s", shown, why).WithHint("%s", list.granted(false))
	}
	clean := strings.TrimSuffix(shown, "/")
	switch {
	case strings.ContainsAny(clean, "\x00\\"):
		return bad("a path must not contain a backslash or a zero byte")
	case strings.HasPrefix(clean, "/") || strings.HasPrefix(clean, "~"):
		return bad("it is not inside a granted folder")
	case !fs.ValidPath(clean):
		return bad(`a path must not have empty parts, "." or ".."`)
	}
	name, rel, _ := strings.Cut(clean, "/")
	for _, f := range list {
		if f.Name == name {
			if rel == "" {
				rel = "."
			}
			return place{Folder: f, shown: clean, rel: rel}, nil
		}
	}
	return bad("there is no granted folder " + name)
}

// open finds a path and opens its folder.
func (list folders) open(path string) (place, *os.Root, error) {
	p, err := list.find(path)
	if err != nil {
		return p, nil, err
	}
	root, err := p.open()
	return p, root, err
}

// privateError refuses what belongs to Steward itself.
func (p place) privateError() error {
	return fault.New(fault.Denied, "path_refused", "%q is refused: it contains Steward's own data or settings, which tools cannot read or change", p.shown)
}

// open opens the folder of a place, and refuses a path through a symbolic link or into what belongs to
// Steward itself.
func (p place) open() (*os.Root, error) {
	if p.Make {
		if err := os.MkdirAll(p.Path, 0o755); err != nil {
			return nil, p.fault(err)
		}
	}
	if p.private.Has(p.Path) {
		return nil, p.privateError()
	}
	root, err := os.OpenRoot(p.Path)
	if err != nil {
		return nil, p.fault(err)
	}
	for i := range len(p.rel) + 1 {
		if i < len(p.rel) && p.rel[i] != '/' {
			continue
		}
		info, err := root.Lstat(p.rel[:i])
		if err != nil {
			break // it is missing, which opening it will report
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			root.Close() // it was only read
			return nil, fault.New(fault.Denied, "path_refused", "%q is refused: it leads through a symbolic link", p.shown)
		}
		if p.private.Is(info) {
			root.Close() // likewise
			return nil, p.privateError()
		}
	}
	return root, nil
}

// fault returns an error in the model's terms, without any path of the machine.
func (p place) fault(err error) error {
	var coded *fault.Error
	if errors.As(err, &coded) {
		return err
	}
	out := local.Fault(p.shown, err)
	if fault.Is(out, fault.NotFound) {
		return fault.Of(out).WithHint("check the name, or list the folder")
	}
	return out
}

// openFile opens a regular file for reading. O_NONBLOCK keeps the call from hanging if a pipe takes the
// file's place between the two checks.
func (p place) openFile(root *os.Root) (*os.File, fs.FileInfo, error) {
	info, err := root.Lstat(p.rel)
	if err != nil {
		return nil, nil, p.fault(err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, p.notRegularError(info.Mode())
	}
	f, err := root.OpenFile(p.rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, p.fault(err)
	}
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() || p.private.Is(info) {
		f.Close() // nothing was written
		if err != nil {
			return nil, nil, p.fault(err)
		}
		if p.private.Is(info) {
			return nil, nil, p.privateError()
		}
		return nil, nil, p.notRegularError(info.Mode())
	}
	return f, info, nil
}

func (p place) notRegularError(m fs.FileMode) error {
	if m.IsDir() {
		return fault.New(fault.Invalid, "not_a_file", "%q is a folder", p.shown).WithHint("list it, or name a file in it")
	}
	return fault.New(fault.Invalid, "not_a_file", "%q is not a regular file", p.shown)
}
