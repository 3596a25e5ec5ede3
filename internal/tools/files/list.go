package files

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Limits of the files tools.
const (
	maxEntries = 500      // shown of a folder at once
	maxPage    = 24 << 10 // bytes of text read at once
	maxMedia   = 4 << 20  // of an image or PDF for the model
	maxWrite   = 8 << 20
)

type listArgs struct {
	Path   string `json:"path,omitzero" jsonschema:"the folder to list, beginning with a granted folder's name; leave out to see which folders there are" maxlen:"1024"`
	Offset int    `json:"offset,omitzero" jsonschema:"how many entries to skip" min:"0"`
}

type readArgs struct {
	Path  string `json:"path" jsonschema:"the file to read, beginning with a granted folder's name, for example notes/todo.txt" minlen:"1" maxlen:"1024"`
	Line  int    `json:"line,omitzero" jsonschema:"the first line to read, counted from 1" min:"1"`
	Lines int    `json:"lines,omitzero" jsonschema:"how many lines; as many as fit unless given" min:"1" max:"10000"`
}

// files adds the tools that work in the granted folders.
func (k *kit) files(to *local.Kit) {
	if len(k.opt.Folders) == 0 {
		return
	}
	local.Query(to, tool.Spec{Name: "list", Yields: ownLabels, Tidy: local.ReplacesEarlier("path", "offset"), Sentences: listFiles(k.mainFolder()),
		Description: "Lists the files and folders in a folder: names, sizes and times. " + begin,
		Log:         tool.LogSpec{Summary: "List {path|the granted folders}", Impact: []string{"path"}}}, k.list)
	local.Query(to, tool.Spec{Name: "read", Yields: ownLabels, Tidy: local.ReplacesEarlier("path", "line", "lines"), Sentences: withFolder(k.mainFolder(), readFile...),
		Description: "Reads a file: shows the content of a text file, an image or a PDF. A long text is read page by page. " + begin,
		Log:         tool.LogSpec{Summary: "Read {path}", Impact: []string{"path"}}}, k.read)
	local.Query(to, tool.Spec{Name: "search", Yields: ownLabels, Tidy: local.ReplacesEarlier("query", "regexp", "path", "glob"), Sentences: searchFiles,
		Description: "Searches the text files of the granted folders for words or a regular expression, and returns the lines as PATH:LINE: TEXT. Hidden files and what .gitignore names are left out.",
		Log:         tool.LogSpec{Summary: "Search files for {query}", Impact: []string{"path"}}}, k.search)
	if k.changeable() {
		k.addActions(to)
	}
}

// mainFolder returns the folder that a file without one is in: the workspace, or else the first that everybody
// may write to. Names of other folders are shown only to those who may use them.
func (k *kit) mainFolder() string {
	for _, f := range k.opt.Folders {
		if f.Write && (f.Make || f.For == nil) {
			return f.Name
		}
	}
	return ""
}

// changeable reports whether there are tools that change files.
func (k *kit) changeable() bool {
	return k.opt.Trash != nil && slices.ContainsFunc(k.opt.Folders, func(f Folder) bool { return f.Write })
}

// ownLabels are the labels of files in granted folders: they belong to the user, and anybody may have
// written them.
const ownLabels = message.Private | message.Untrusted

func (k *kit) list(ctx context.Context, in tool.Invocation, a listArgs) (string, error) {
	mine, err := k.foldersOf(ctx, in.User)
	if err != nil {
		return "", err
	}
	if strings.Trim(a.Path, "./ ") == "" {
		if len(mine) == 0 {
			return mine.granted(false), nil
		}
		var b strings.Builder
		for _, f := range mine {
			mode := "read only"
			if f.Write {
				mode = "read and write"
			}
			fmt.Fprintf(&b, "%s/ (%s)\n", f.Name, mode)
		}
		return b.String(), nil
	}
	p, root, err := mine.open(a.Path)
	if err != nil {
		return "", err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), p.rel)
	if err != nil {
		if info, statErr := root.Lstat(p.rel); statErr == nil && !info.IsDir() {
			return "", fault.New(fault.Invalid, "not_a_folder", "%q is a file, not a folder", p.shown).WithHint("read it, or list the folder that it is in")
		}
		return "", p.fault(err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		info, err := e.Info()
		return err == nil && p.private.Is(info)
	})
	return listing(p, entries, a.Offset), nil
}

func listing(p place, entries []fs.DirEntry, offset int) string {
	if len(entries) == 0 {
		return p.shown + "/ is empty"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s/ has %d entries:\n", p.shown, len(entries))
	from := min(offset, len(entries))
	to := min(from+maxEntries, len(entries))
	for _, e := range entries[from:to] {
		name := strings.ToValidUTF8(e.Name(), "\uFFFD")
		info, err := e.Info()
		switch {
		case err != nil:
			fmt.Fprintf(&b, "%s (gone meanwhile)\n", name)
		case e.IsDir():
			fmt.Fprintf(&b, "%s/\n", name)
		case info.Mode().IsRegular():
			fmt.Fprintf(&b, "%s  %d bytes  %s\n", name, info.Size(), info.ModTime().UTC().Format(time.RFC3339))
		default:
			fmt.Fprintf(&b, "%s  (not a regular file: cannot be used)\n", name)
		}
	}
	if to < len(entries) {
		fmt.Fprintf(&b, "[There are more: continue with offset %d.]\n", to)
	}
	return b.String()
}
