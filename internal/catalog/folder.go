package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"steward/internal/strict"
)

// Limits on what is read of an agent's folder.
const (
	maxText    = 256 << 10 // bytes of a file of text
	maxFile    = 64 << 20  // bytes of a file that is executed
	maxFiles   = 2000      // pinned files of one agent
	maxBytes   = 256 << 20 // of the pinned files together
	maxShown   = 64 << 10  // of a file whose text is shown
	maxSkills  = 64
	maxEntries = 4096 // of a folder
	maxDepth   = 8    // levels of agents
)

// pin is a file with the content that was read. Exactly this content is approved and used.
type pin struct {
	name string // relative to the agent's folder; absolute outside it
	path string // absolute
	data []byte // of files that are used as text; nil: pinned by hash only
	hash string // SHA-256, hex
	size int64
	info fs.FileInfo
	run  bool // it is executed, or a program may load it

	named  bool   // the source names it itself; the others are files beside it
	beside string // the folder that it is code of, if that is not the agent's; else empty
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// folder is an agent's folder; nothing outside it is read.
type folder struct {
	root *os.Root
	dir  string
}

// errNotPlain is the error for anything but a regular file.
var errNotPlain = errors.New("it is not a regular file")

// open opens a regular file of the folder. It does not follow links out of the folder, and does
// not block on a pipe.
func (f folder) open(name string, most int64) (*os.File, fs.FileInfo, error) {
	file, err := f.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	return plainFile(file, most)
}

func plainFile(file *os.File, most int64) (*os.File, fs.FileInfo, error) {
	info, err := file.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errNotPlain
	case info.Size() > most:
		err = fmt.Errorf("it has %d bytes; the limit is %d", info.Size(), most)
	default:
		return file, info, nil
	}
	return nil, nil, errors.Join(err, file.Close())
}

// text reads a file that is used as text.
func (f folder) text(name string) (pin, error) {
	p, err := f.read(name, maxText, maxText)
	if p.run = false; err == nil && p.data == nil {
		err = errors.New("it is not UTF-8 text")
	}
	return p, err
}

// bytes reads a file that is executed: its hash, and its text if it is short.
func (f folder) bytes(name string) (pin, error) { return f.read(name, maxFile, maxShown) }

func (f folder) read(name string, most, shown int64) (pin, error) {
	file, info, err := f.open(name, most)
	if err != nil {
		return pin{}, err
	}
	return hashed(file, info, name, filepath.Join(f.dir, name), shown)
}

// outside reads a file that lies outside the folder: a program of the machine.
func outside(name string) (pin, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return pin{}, err
	}
	file, info, err := plainFile(file, 1<<30)
	if err != nil {
		return pin{}, err
	}
	return hashed(file, info, name, name, maxShown)
}

// hashed reads a file, and keeps its content if it is a text of at most shown bytes.
func hashed(file *os.File, info fs.FileInfo, name, abs string, shown int64) (pin, error) {
	sum := sha256.New()
	p := pin{name: name, path: abs, info: info, run: true}
	var err error
	if info.Size() <= shown {
		if p.data, err = io.ReadAll(io.LimitReader(file, shown+1)); err == nil {
			sum.Write(p.data)
			p.size = int64(len(p.data))
			p.data = strict.Unmarked(p.data)
		}
		if !utf8.Valid(p.data) || p.size > shown {
			p.data = nil
		}
	}
	if p.data == nil && err == nil { // continue from where reading stopped
		var n int64
		n, err = io.Copy(sum, file)
		p.size += n
	}
	p.hash = hex.EncodeToString(sum.Sum(nil))
	return p, errors.Join(err, file.Close())
}

// entry is something in a folder.
type entry struct {
	name string
	dir  bool
	link bool
}

// entries lists a folder inside this one, sorted. The list is empty if the folder is missing.
func (f folder) entries(name string) ([]entry, error) {
	d, err := f.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := d.ReadDir(maxEntries + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	err = errors.Join(err, d.Close())
	if len(list) > maxEntries {
		err = fmt.Errorf("it has more than %d entries", maxEntries)
	}
	out := make([]entry, len(list))
	for i, e := range list {
		out[i] = entry{e.Name(), e.IsDir(), e.Type()&fs.ModeSymlink != 0}
		if out[i].link { // followed inside the folder, refused beyond it by Root
			if info, serr := f.root.Stat(filepath.FromSlash(path.Join(name, e.Name()))); serr == nil {
				out[i].dir = info.IsDir()
			}
		}
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return out, err
}

// unrelated reports whether a part of an agent's folder holds nothing that the agent runs.
func unrelated(name string, dir bool) bool {
	low := strings.ToLower(name)
	if dir {
		switch low {
		case dirAgents, dirSkills, "tests", "test", "testdata", "logs", "log", "docs", "data":
			return true
		}
		return strings.HasPrefix(name, ".")
	}
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") {
		return true
	}
	if !slices.Contains([]string{"", ".md", ".txt", ".rst"}, path.Ext(low)) {
		return false // license.py may be a program
	}
	for _, doc := range []string{"readme", "license", "licence", "changelog", "copying", "notice", "authors"} {
		if strings.HasPrefix(low, doc) {
			return true
		}
	}
	return false
}

// walk returns the regular files below a folder that belong to its programs. left bounds how many
// folders are visited, because links can turn a few into very many.
func (f folder) walk(name string, into map[string]bool, left *int, depth int) error {
	if *left--; depth > 16 || *left < 0 {
		return fmt.Errorf("%s is nested too deeply, or has more than %d folders", name, maxFiles)
	}
	list, err := f.entries(name)
	if err != nil {
		return err
	}
	for _, e := range list {
		inner := path.Join(name, e.name)
		switch {
		case unrelated(e.name, e.dir) && (name == "." || strings.HasPrefix(e.name, ".")):
		case e.dir: // also a link to a folder, under the name of the link: its target may be unrelated to programs
			if err := f.walk(inner, into, left, depth+1); err != nil {
				return err
			}
		default:
			if into[inner] = true; len(into) > maxFiles {
				return fmt.Errorf("its programs have more than %d files", maxFiles)
			}
		}
	}
	return nil
}
