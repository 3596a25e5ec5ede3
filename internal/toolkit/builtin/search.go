package builtin

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/pattern"

	"steward/internal/fault"
	"steward/internal/tool"
)

// Limits of one search.
const (
	maxHits        = 200
	maxHitText     = 300 // bytes of a line that is shown
	maxSearchFiles = 50_000
	maxSearchFile  = 8 << 20 // a larger file is not searched
	maxSearchBytes = 512 << 20
	maxIgnoreFile  = 64 << 10
	maxIgnoreRules = 2000
)

type searchArgs struct {
	Query  string `json:"query" jsonschema:"the words that a line must have, in any order and case; with regexp, a regular expression (RE2)" minlen:"1" maxlen:"1000"`
	Regexp bool   `json:"regexp,omitzero" jsonschema:"query is a regular expression, which tells cases apart unless it begins with (?i)"`
	Path   string `json:"path,omitzero" jsonschema:"the folder or file to search, beginning with a granted folder's name; all granted folders unless given" maxlen:"1024"`
	Glob   string `json:"glob,omitzero" jsonschema:"only files whose name, or path inside the folder, is like this, for example *.go or docs/**/*.md" maxlen:"200"`
}

// finder is a running search.
type finder struct {
	ctx   context.Context
	match func(line []byte) bool
	wants glob
	rules []rule
	out   strings.Builder
	hits  int
	files int
	bytes int64
}

// errEnough ends a search that has found enough, or read too much.
var errEnough = errors.New("enough")

func (k *kit) search(ctx context.Context, in tool.Invocation, a searchArgs) (string, error) {
	mine, err := k.foldersOf(ctx, in.User)
	if err != nil {
		return "", err
	}
	f := &finder{ctx: ctx, wants: globOf(cmp.Or(a.Glob, "*"))}
	if f.match, err = matcher(a); err != nil {
		return "", err
	}
	var starts []string
	all := strings.Trim(a.Path, "./ ") == ""
	if !all {
		starts = []string{a.Path}
	} else {
		for _, folder := range mine {
			starts = append(starts, folder.Name)
		}
	}
	for _, s := range starts {
		p, root, err := mine.open(s)
		switch {
		case err == nil:
			err = errors.Join(f.below(p, root), root.Close())
		case all && fault.HasCode(err, "path_refused"):
			continue // it is Steward's own: the others are searched
		}
		if errors.Is(err, errEnough) {
			return f.out.String() + fmt.Sprintf("[Stopped after %d lines in %d files: there may be more. Search for less, or in one folder.]\n", f.hits, f.files), nil
		}
		if err != nil {
			return "", err
		}
	}
	if f.hits == 0 {
		return fmt.Sprintf("No line of %d files matches.", f.files), nil
	}
	return f.out.String(), nil
}

// matcher returns what decides about a line.
func matcher(a searchArgs) (func([]byte) bool, error) {
	if a.Regexp {
		re, err := regexp.Compile(a.Query)
		if err != nil {
			return nil, fault.New(fault.Invalid, "regexp_invalid", "the regular expression cannot be read: %w", err).WithHint("RE2 has no look-around and no back references")
		}
		return re.Match, nil
	}
	var words []*regexp.Regexp
	for _, w := range strings.Fields(a.Query) {
		words = append(words, regexp.MustCompile("(?i)"+regexp.QuoteMeta(w)))
	}
	return func(line []byte) bool {
		for _, w := range words {
			if !w.Match(line) {
				return false
			}
		}
		return len(words) > 0
	}, nil
}

func (f *finder) below(p place, root *os.Root) error {
	f.rules = nil
	return fs.WalkDir(root.FS(), p.rel, func(rel string, e fs.DirEntry, err error) error {
		switch {
		case f.ctx.Err() != nil:
			return f.ctx.Err()
		case err != nil && rel == p.rel:
			return p.fault(err)
		case err != nil:
			return nil // what cannot be read is not searched
		}
		hidden := rel != p.rel && (strings.HasPrefix(e.Name(), ".") || f.ignored(rel, e.IsDir()) || p.owns(e))
		switch {
		case hidden && e.IsDir():
			return fs.SkipDir
		case e.IsDir():
			f.ignore(p.Folder, root, rel)
			return nil
		case hidden || !e.Type().IsRegular() || !f.wants(rel):
			return nil
		}
		return f.file(place{Folder: p.Folder, shown: path.Join(p.Name, rel), rel: rel}, root)
	})
}

// owns reports whether a folder is Steward's own. A file is looked at when it is opened.
func (p place) owns(e fs.DirEntry) bool {
	if !e.IsDir() {
		return false
	}
	info, err := e.Info()
	return err != nil || p.private.Is(info)
}

// file searches a file. What is no text, or too large, is passed over.
func (f *finder) file(p place, root *os.Root) error {
	file, info, err := p.openFile(root)
	if err != nil {
		return nil //nolint:nilerr // what cannot be read is not searched
	}
	defer file.Close()
	if f.files++; info.Size() > maxSearchFile {
		return nil
	}
	if f.files > maxSearchFiles {
		return errEnough
	}
	head := make([]byte, 1024)
	n, err := file.ReadAt(head, 0)
	if err != nil && err != io.EOF || !text(head[:n], info.Size() > int64(n)) {
		return nil //nolint:nilerr // likewise
	}
	in := bufio.NewScanner(io.LimitReader(file, maxSearchFile))
	in.Buffer(nil, maxSearchFile)
	for line := 1; in.Scan(); line++ {
		f.bytes += int64(len(in.Bytes())) + 1
		if line%1024 == 0 && f.ctx.Err() != nil {
			return f.ctx.Err()
		}
		if f.bytes > maxSearchBytes {
			return errEnough
		}
		if !f.match(in.Bytes()) {
			continue
		}
		shown := strings.ToValidUTF8(strings.TrimSuffix(in.Text(), "\r"), "\uFFFD")
		fmt.Fprintf(&f.out, "%s:%d: %s\n", p.shown, line, tool.Clip(shown, maxHitText))
		if f.hits++; f.hits == maxHits {
			return errEnough
		}
	}
	return nil
}

// glob reports whether it matches a path, or without a slash the last part of one.
type glob func(rel string) bool

func globOf(text string) glob {
	re, inName := globRegexp(strings.TrimPrefix(text, "/")), !strings.Contains(text, "/")
	return func(rel string) bool {
		if inName {
			rel = path.Base(rel)
		}
		return re.MatchString(rel)
	}
}

// rule is a line of a .gitignore (https://git-scm.com/docs/gitignore).
type rule struct {
	glob
	dir    string // where the file lies
	folder bool   // it is only for folders
	keep   bool   // it begins with "!"
}

// ignore reads the .gitignore of a folder, if there is one.
func (f *finder) ignore(folder Folder, root *os.Root, dir string) {
	file, _, err := place{Folder: folder, rel: path.Join(dir, ".gitignore")}.openFile(root)
	if err != nil {
		return
	}
	defer file.Close()
	lines := bufio.NewScanner(io.LimitReader(file, maxIgnoreFile))
	for lines.Scan() && len(f.rules) < maxIgnoreRules {
		line, keep := strings.CutPrefix(strings.TrimRight(lines.Text(), " \t\r"), "!")
		line, folder := strings.CutSuffix(line, "/")
		if line != "" && line[0] != '#' && len(line) <= 500 {
			f.rules = append(f.rules, rule{globOf(line), dir, folder, keep})
		}
	}
}

// ignored reports whether the last rule that matches a path excludes it.
func (f *finder) ignored(rel string, folder bool) (out bool) {
	for _, r := range f.rules {
		below, ok := strings.CutPrefix(rel, r.dir+"/")
		if r.dir == "." {
			below, ok = rel, true
		}
		if ok && (folder || !r.folder) && r.glob(below) {
			out = !r.keep
		}
	}
	return out
}

// globRegexp converts a glob of files to a regular expression: "*" and "?" stay in one part of a path, and
// "**" does not. What is no glob stands for itself.
func globRegexp(glob string) *regexp.Regexp {
	if text, err := pattern.Regexp(glob, pattern.Filenames|pattern.EntireString|pattern.GlobLeadingDot); err == nil {
		if re, err := regexp.Compile(text); err == nil {
			return re
		}
	}
	return regexp.MustCompile(`(?s)\A` + regexp.QuoteMeta(strings.ToValidUTF8(glob, "\uFFFD")) + `\z`)
}
