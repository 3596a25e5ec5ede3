package app

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"steward/internal/fault"
	"steward/internal/settings"
	"steward/internal/tool"
	"steward/internal/tools/files"
)

// granted are the folders that were granted while this process runs.
type granted struct {
	mu   sync.Mutex
	more []files.Folder
}

func (g *granted) list() []files.Folder {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.more)
}

func (g *granted) add(f settings.Folder) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.more = slices.DeleteFunc(g.more, func(old files.Folder) bool { return old.Name == f.Name })
	g.more = append(g.more, files.Folder{Name: f.Name, Path: f.Path, Write: f.Write, For: tool.OwnedBy(f.Users, f.Groups)})
}

// GrantFolder lets the files tools of the machine's own user use one more folder. The settings file
// remembers it, and the node of this process allows it at once.
func (a *App) GrantFolder(path string, write bool, l *Local) (string, error) {
	set, err := a.loadSettings() // the file may have been edited
	if err != nil {
		return "", err
	}
	if path, err = a.grantable(set, path); err != nil {
		return "", err
	}
	file := settings.UserFile(a.Environ)
	if from := set.SourceOf("folders"); from.Kind != settings.FromDefault && from.Kind != settings.FromUser || file == "" {
		return "", fault.New(fault.Conflict, "folder_elsewhere", "the folders are set by %s", from).WithHint("add %s there", path)
	}
	if inside(set.Workspace, path) {
		return path + " is in the workspace already", nil
	}
	f := settings.Folder{Name: folderName(set, path), Path: path, Write: write}
	for _, old := range set.Folders {
		if old.Path != path {
			continue
		}
		if old.Write || !write {
			return path + " is granted already, as " + old.Name, nil
		}
		f.Name, f.Users, f.Groups = old.Name, old.Users, old.Groups
	}
	if err := settings.Grant(file, f); err != nil {
		return "", err
	}
	may := "read"
	if write {
		may = "read, and after your approval write,"
	}
	said := fmt.Sprintf("Steward may %s files in %s, under the name %s. It is listed under folders in %s.", may, path, f.Name, file)
	if l == nil || !l.files(write) {
		return said + " It takes effect when Steward starts again.", nil
	}
	l.granted.add(f)
	return said, nil
}

// files reports whether the node has tools that read files, or also write them.
func (l *Local) files(write bool) bool {
	name := "files.read"
	if write {
		name = "files.write"
	}
	return slices.ContainsFunc(l.node.Tools(""), func(t tool.Spec) bool { return t.Name == name })
}

// systemFolders returns the folders of the system, which are never granted.
func systemFolders() []string {
	return []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var",
		"/Library", "/System", "/private/etc", "/private/var"}
}

// grantable returns the real path of a folder, unless it must not be granted.
func (a *App) grantable(set *settings.Loaded, path string) (string, error) {
	refuse := func(format string, args ...any) (string, error) {
		return "", fault.New(fault.Denied, "folder_refused", format, args...).WithHint("name a folder of yours, such as ~/Documents")
	}
	home := a.Getenv("HOME")
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') && home != "" {
		path = home + rest
	}
	real, err := filepath.EvalSymlinks(a.Path(path))
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return refuse("%s cannot be found: %w", path, err)
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return refuse("%s is not a folder", path)
	}
	own := []string{set.Data, filepath.Dir(settings.UserFile(a.Environ))}
	for _, dir := range own {
		if inside(dir, real) || inside(real, dir) {
			return refuse("%s holds what Steward itself stores, or its settings, in %s", path, dir)
		}
	}
	for _, dir := range systemFolders() {
		if inside(dir, real) || real == "/" {
			return refuse("%s belongs to the system", path)
		}
	}
	if strings.Contains(strings.TrimPrefix(real, home), "/.") {
		return refuse("%s is hidden; such folders hold keys and settings", path)
	}
	return real, nil
}

// inside reports whether a path is a folder or inside of it, when links are followed.
func inside(dir, path string) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// notInWord is what a folder's name cannot have.
var notInWord = regexp.MustCompile(`[^a-z0-9_-]+`)

// folderName returns a name for a folder that no other has.
func folderName(set *settings.Loaded, path string) string {
	word := strings.Trim(notInWord.ReplaceAllString(strings.ToLower(filepath.Base(path)), "-"), "-_")
	if word == "" || len(word) > 50 {
		word = "folder"
	}
	taken := func(name string) bool {
		return name == WorkspaceName || slices.ContainsFunc(set.Folders, func(f settings.Folder) bool { return f.Name == name })
	}
	name := word
	for n := 2; taken(name); n++ {
		name = fmt.Sprintf("%s-%d", word, n)
	}
	return name
}
