package builtin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"steward/internal/extract"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
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
	Path   string `json:"path" jsonschema:"the file to read, beginning with a granted folder's name, for example notes/todo.txt" minlen:"1" maxlen:"1024"`
	Offset int64  `json:"offset,omitzero" jsonschema:"where to begin, in bytes; 0 unless given" min:"0"`
	Limit  int    `json:"limit,omitzero" jsonschema:"how many bytes at most; 24576 unless given" min:"1" max:"24576"`
	Line   int    `json:"line,omitzero" jsonschema:"the first line to read, counted from 1, instead of offset" min:"1"`
	Lines  int    `json:"lines,omitzero" jsonschema:"how many lines, from line on; as many as fit unless given" min:"1" max:"10000"`
}

// files adds the tools that work in the granted folders.
func (k *kit) files() {
	if k.err == nil {
		k.err = checkFolders(k.opt.Folders)
	}
	if k.err != nil || len(k.opt.Folders) == 0 {
		return
	}
	k.add(tool.New(tool.Spec{Name: "files.list", Effect: tool.Query, Version: "1", Yields: mine,
		Description: "Lists the files and folders in a folder: names, sizes and times. " + begin,
		Log:         tool.LogSpec{Summary: "List {path|the granted folders}", Impact: []string{"path"}},
		Tidy:        []tool.Strategy{again("path", "offset")}},
		func(ctx context.Context, in tool.Invocation, a listArgs) (string, error) {
			return k.list(ctx, in.User, a)
		}))
	k.add(tool.New(tool.Spec{Name: "files.read", Effect: tool.Query, Version: "1", Yields: mine,
		Description: "Reads a file: shows the content of a text file, an image or a PDF. A long text is read page by page. " + begin,
		Log:         tool.LogSpec{Summary: "Read {path}", Impact: []string{"path"}},
		Tidy:        []tool.Strategy{again("path", "offset", "limit", "line", "lines")}},
		func(ctx context.Context, in tool.Invocation, a readArgs) (tool.Result, error) {
			return k.read(ctx, in.User, a)
		}))
	k.addSearch()
	if slices.ContainsFunc(k.opt.Folders, func(f Folder) bool { return f.Write }) {
		k.addWriter()
		if k.opt.Trash != nil {
			k.addChangers()
			if k.opt.Notes != "" {
				k.addNotes(k.opt.Notes)
			}
		}
	}
}

// mine are the labels of files in granted folders: they belong to the user, and anybody may have
// written them.
const mine = message.Private | message.Untrusted

func checkFolders(folders []Folder) error {
	seen := map[string]bool{}
	for _, f := range folders {
		bad := func(format string, args ...any) *fault.Error {
			return fault.New(fault.Invalid, "folder_invalid", "the granted folder %q: "+format, append([]any{f.Name}, args...)...)
		}
		switch info, err := os.Stat(f.Path); {
		case f.Name == "" || f.Name == "." || f.Name == ".." || strings.ContainsAny(f.Name, "/\\\x00\n"):
			return bad("its name is not one word").WithHint("name it like notes")
		case seen[f.Name]:
			return bad("there are two of this name").WithHint("name one of them otherwise")
		case f.Make && errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return bad("%w", err).WithHint("make the folder, or take it out of the settings")
		case !info.IsDir():
			return bad("%s is no folder", f.Path).WithHint("grant a folder")
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
	var out folders
	for _, f := range k.folders() {
		admits := f.For.Admits(user, nil)
		if !admits && k.opt.Groups != nil {
			groups, err := k.opt.Groups(ctx, user)
			if err != nil {
				return nil, err
			}
			admits = f.For.Admits(user, groups)
		}
		if admits {
			out = append(out, f)
		}
	}
	return out, nil
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
const begin = "Paths begin with the name of a granted folder; files.list without a path tells which there are."

// find splits a model's path into a folder and a path in it. It refuses whatever could lead out of the
// folder; os.Root guarantees that nothing does, even if the folder changes meanwhile.
func (list folders) find(shown string) (place, error) {
	bad := func(why string) (place, error) {
		return place{}, fault.New(fault.Denied, "path_refused", "%.200q is refused: %s", shown, why).WithHint("%s", list.granted(false))
	}
	clean := strings.TrimSuffix(shown, "/")
	switch {
	case strings.ContainsAny(clean, "\x00\\"):
		return bad("a path has no backslash and no zero byte")
	case strings.HasPrefix(clean, "/") || strings.HasPrefix(clean, "~"):
		return bad("it is not inside a granted folder")
	case !fs.ValidPath(clean):
		return bad(`a path has no empty parts, no "." and no ".."`)
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

// open opens the folder of a place, and refuses a path through a symbolic link.
func (p place) open() (*os.Root, error) {
	if p.Make {
		if err := os.MkdirAll(p.Path, 0o755); err != nil {
			return nil, p.fault(err)
		}
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
	}
	return root, nil
}

// fault returns an error in the model's terms, without any path of the machine.
func (p place) fault(err error) error {
	var coded *fault.Error
	switch {
	case errors.As(err, &coded):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, "file_not_found", "there is no %q", p.shown).WithHint("list the folder with files.list")
	case errors.Is(err, fs.ErrPermission):
		return fault.New(fault.Denied, "file_denied", "the system does not let Steward do that with %q", p.shown)
	case errors.Is(err, syscall.ENOSPC):
		return fault.New(fault.NoSpace, "disk_full", "the disk is full")
	case errors.Is(err, syscall.EROFS):
		return fault.New(fault.Denied, "file_denied", "%q is on a file system that is read-only", p.shown)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist): // the latter from making folders
		return fault.New(fault.Invalid, "not_a_folder", "a part of %q is a file, not a folder", p.shown)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fault.New(fault.Invalid, "name_too_long", "the name %.80q… is too long", p.shown)
	}
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return fault.New(fault.Unavailable, "file_unavailable", "%q cannot be used: %w", p.shown, err)
}

func (k *kit) list(ctx context.Context, user string, a listArgs) (string, error) {
	mine, err := k.foldersOf(ctx, user)
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
			return "", fault.New(fault.Invalid, "not_a_folder", "%q is a file, not a folder", p.shown).WithHint("read it with files.read")
		}
		return "", p.fault(err)
	}
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
			fmt.Fprintf(&b, "%s  (%s: cannot be used)\n", name, special(info.Mode()))
		}
	}
	if to < len(entries) {
		fmt.Fprintf(&b, "[There are more: go on with offset %d.]\n", to)
	}
	return b.String()
}

func special(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	case m.IsDir():
		return "a folder"
	}
	return "no plain file"
}

// openFile opens a regular file for reading. O_NONBLOCK keeps the call from hanging if a pipe takes the
// file's place between the two checks.
func (p place) openFile(root *os.Root) (*os.File, fs.FileInfo, error) {
	info, err := root.Lstat(p.rel)
	if err != nil {
		return nil, nil, p.fault(err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, p.notPlain(info.Mode())
	}
	f, err := root.OpenFile(p.rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, p.fault(err)
	}
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close() // nothing was written
		if err != nil {
			return nil, nil, p.fault(err)
		}
		return nil, nil, p.notPlain(info.Mode())
	}
	return f, info, nil
}

func (p place) notPlain(m fs.FileMode) error {
	e := fault.New(fault.Invalid, "not_a_file", "%q is %s, not a plain file", p.shown, special(m))
	if m.IsDir() {
		return e.WithHint("list it with files.list")
	}
	return e
}

func (k *kit) read(ctx context.Context, user string, a readArgs) (tool.Result, error) {
	mine, err := k.foldersOf(ctx, user)
	if err != nil {
		return tool.Result{}, err
	}
	p, root, err := mine.open(a.Path)
	if err != nil {
		return tool.Result{}, err
	}
	defer root.Close()
	f, info, err := p.openFile(root)
	if err != nil {
		return tool.Result{}, err
	}
	defer f.Close()
	head := make([]byte, 8192)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return tool.Result{}, p.fault(err)
	}
	if kind := sniff(p.rel, head[:n], info.Size()); kind != "" {
		if k.opt.Reader != nil && (kind == "application/pdf" || strings.HasSuffix(strings.ToLower(p.rel), ".docx")) {
			return p.document(ctx, *k.opt.Reader, f, info, a)
		}
		return p.media(f, info, kind)
	}
	if a.Line > 0 || a.Lines > 0 {
		return p.lines(ctx, f, a)
	}
	return p.page(f, info, a)
}

// sniff returns the media type of a file, and "" for text.
func sniff(name string, head []byte, size int64) string {
	kind, _, _ := mime.ParseMediaType(http.DetectContentType(head)) // its own output parses
	switch {
	case !strings.HasPrefix(kind, "text/") && kind != "application/octet-stream":
		return kind
	case text(head, int64(len(head)) < size):
		return ""
	}
	if byName, _, err := mime.ParseMediaType(mime.TypeByExtension(path.Ext(name))); err == nil && kind == "application/octet-stream" {
		return byName
	}
	return kind
}

// text reports whether b is UTF-8 text. cut says that it may end inside a character.
func text(b []byte, cut bool) bool {
	if cut {
		for i := 1; i <= utf8.UTFMax && i <= len(b); i++ {
			if utf8.RuneStart(b[len(b)-i]) {
				if !utf8.FullRune(b[len(b)-i:]) {
					b = b[:len(b)-i]
				}
				break
			}
		}
	}
	return utf8.Valid(b) && !slices.Contains(b, 0)
}

// document returns the text of a PDF or Word file, page by page.
func (p place) document(ctx context.Context, r extract.Reader, f *os.File, info fs.FileInfo, a readArgs) (tool.Result, error) {
	data, err := io.ReadAll(io.LimitReader(f, extract.MaxBytes+1))
	if err != nil {
		return tool.Result{}, p.fault(err)
	}
	doc, err := r.Read(ctx, extract.Input{Data: data})
	if err != nil {
		return tool.Result{}, err
	}
	text := doc.Text
	if a.Offset > 0 && a.Offset >= int64(len(text)) {
		return tool.Result{}, fault.New(fault.Invalid, "offset_invalid", "the text of %q has %d bytes: there is nothing at %d", p.shown, len(text), a.Offset)
	}
	start := border([]byte(text), int(a.Offset))
	end := border([]byte(text), min(start+maxPage, len(text)))
	out := text[start:end]
	switch {
	case strings.TrimSpace(text) == "":
		out = "(there is no text in it; it may be scanned)"
	case end < len(text):
		out += fmt.Sprintf("\n[Bytes %d to %d of %d of its text. Read on at offset %d.]", start, end, len(text), end)
	}
	return tool.Text(fmt.Sprintf("%s (%s, %d bytes):\n%s", p.shown, doc.Kind, info.Size(), out)), nil
}

// media returns an image or a PDF, and describes any other file.
func (p place) media(f *os.File, info fs.FileInfo, kind string) (tool.Result, error) {
	image := kind == "image/png" || kind == "image/jpeg" || kind == "image/gif" || kind == "image/webp"
	if !image && kind != "application/pdf" || info.Size() > maxMedia {
		why := "it is not UTF-8 text"
		if info.Size() > maxMedia {
			why = "it is too large to be shown"
		}
		return tool.Text(fmt.Sprintf("%s is a file of type %s with %d bytes, changed %s; %s.",
			p.shown, kind, info.Size(), info.ModTime().UTC().Format(time.RFC3339), why)), nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxMedia))
	if err != nil {
		return tool.Result{}, p.fault(err)
	}
	if image {
		return tool.Result{Content: []message.Block{&message.Text{Text: p.shown + ":"}, &message.Image{MIME: kind, Data: data}}}, nil
	}
	return tool.Result{Content: []message.Block{&message.Text{Text: p.shown + ":"},
		&message.File{MIME: kind, Name: path.Base(p.rel), Data: data}}}, nil
}

// maxScan bounds how much of a file is read to find a line.
const maxScan = 256 << 20

// lines reads some lines of a text. A line that is too long for a page is cut.
func (p place) lines(ctx context.Context, f *os.File, a readArgs) (tool.Result, error) {
	in := bufio.NewReaderSize(io.LimitReader(f, maxScan), 64<<10)
	var b strings.Builder
	first, n, more, end := max(a.Line, 1), 1, false, false
	for part := false; !end && !more; {
		line, err := in.ReadSlice('\n')
		switch {
		case err == io.EOF:
			end = true
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return tool.Result{}, p.fault(err)
		case n%4096 == 0 && ctx.Err() != nil:
			return tool.Result{}, ctx.Err()
		}
		if part = err != nil && !end; n >= first && len(line) > 0 {
			more = b.Len()+len(line) > maxPage || a.Lines > 0 && n >= first+a.Lines
			if !more || b.Len() == 0 {
				b.Write(line[:min(len(line), maxPage)])
			}
		}
		if !part && !more && len(line) > 0 && !end {
			n++
		}
	}
	if b.Len() == 0 {
		return tool.Result{}, fault.New(fault.Invalid, "line_invalid", "%q has no line %d", p.shown, first)
	}
	out := strings.ToValidUTF8(b.String(), "\uFFFD")
	if more {
		out += fmt.Sprintf("\n[Lines %d to %d. Read on at line %d.]", first, max(n-1, first), max(n, first+1))
	}
	return tool.Text(out), nil
}

// page reads a part of a text, without splitting characters.
func (p place) page(f *os.File, info fs.FileInfo, a readArgs) (tool.Result, error) {
	if a.Limit == 0 {
		a.Limit = maxPage
	}
	if a.Offset > 0 && a.Offset >= info.Size() {
		return tool.Result{}, fault.New(fault.Invalid, "offset_invalid", "%q has %d bytes: there is nothing at %d", p.shown, info.Size(), a.Offset)
	}
	// Room for a character that begins before the offset, and one that ends after the limit.
	from := max(0, a.Offset-utf8.UTFMax+1)
	buf := make([]byte, int(a.Offset-from)+a.Limit+utf8.UTFMax)
	n, err := f.ReadAt(buf, from)
	if err != nil && err != io.EOF {
		return tool.Result{}, p.fault(err)
	}
	buf = buf[:n]
	start := border(buf, int(a.Offset-from))
	end := border(buf, min(start+a.Limit, len(buf)))
	if end <= start && len(buf) > start { // the limit is shorter than a character
		_, size := utf8.DecodeRune(buf[start:])
		end = start + size
	}
	out := strings.ToValidUTF8(string(buf[start:end]), "\uFFFD")
	first, last := from+int64(start), from+int64(end)
	switch {
	case len(buf) == 0:
		out = "(the file is empty)"
	case last < info.Size():
		out += fmt.Sprintf("\n[Bytes %d to %d of %d. Read on at offset %d.]", first, last, info.Size(), last)
	case first > 0:
		out += fmt.Sprintf("\n[Bytes %d to %d of %d: the end.]", first, last, info.Size())
	}
	return tool.Text(out), nil
}

// border returns the last index up to at where a character begins.
func border(b []byte, at int) int {
	if at >= len(b) {
		return len(b)
	}
	for i := at; i >= 0 && i > at-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			return i
		}
	}
	return at
}
