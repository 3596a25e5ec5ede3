package files

import (
	"bufio"
	"bytes"
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
	"steward/internal/strict"
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
	not   skippedFiles
}

// skippedFiles counts what a search has passed over.
type skippedFiles struct{ binary, large, unreadable, hidden int }

// String says it in a line; there may be nothing to say.
func (u skippedFiles) String() string {
	var said []string
	for _, c := range []struct {
		n         int
		one, many string
	}{{u.binary, "file that is not text", "files that are not text"},
		{u.large, fmt.Sprintf("file with more than %d MB", maxSearchFile>>20), fmt.Sprintf("files with more than %d MB", maxSearchFile>>20)},
		{u.unreadable, "that cannot be read", "that cannot be read"},
		{u.hidden, "that is hidden or named in .gitignore", "that are hidden or named in .gitignore"}} {
		switch {
		case c.n == 1:
			said = append(said, "1 "+c.one)
		case c.n > 1:
			said = append(said, fmt.Sprintf("%d %s", c.n, c.many))
		}
	}
	if len(said) == 0 {
		return ""
	}
	return "\n[Not searched: " + strings.Join(said, ", ") + ".]"
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
			return f.out.String() + fmt.Sprintf("[Stopped after %d lines in %d files: there may be more. Use a narrower search, or search one folder.]", f.hits, f.files) + f.not.String() + "\n", nil
		}
		if err != nil {
			return "", err
		}
	}
	if f.hits == 0 {
		return fmt.Sprintf("No line of %d files matches.", f.files) + f.not.String(), nil
	}
	return strings.TrimSuffix(f.out.String(), "\n") + f.not.String() + "\n", nil
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
			f.not.unreadable++
			return nil
		}
		own := rel != p.rel && p.owns(e)
		hidden := own || rel != p.rel && (strings.HasPrefix(e.Name(), ".") || f.ignored(rel, e.IsDir()))
		if hidden && !own && (e.IsDir() || f.wants(rel)) {
			f.not.hidden++
		}
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

// file searches a file. Files that are not text, or are too large, are counted.
func (f *finder) file(p place, root *os.Root) error {
	file, info, err := p.openFile(root)
	if err != nil {
		f.not.unreadable++
		return nil //nolint:nilerr // what cannot be read is not searched
	}
	defer file.Close()
	if info.Size() > maxSearchFile {
		f.not.large++
		return nil
	}
	if f.files++; f.files > maxSearchFiles {
		return errEnough
	}
	b, err := io.ReadAll(io.LimitReader(file, maxSearchFile))
	if err != nil {
		f.files--
		f.not.unreadable++
		return nil //nolint:nilerr // likewise
	}
	if f.bytes += int64(len(b)); f.bytes > maxSearchBytes {
		return errEnough
	}
	said, ok := textIn(p.rel, b)
	if !ok {
		f.files--
		f.not.binary++
		return nil
	}
	n := 0
	for line := range strings.Lines(said) {
		if n++; n%1024 == 0 && f.ctx.Err() != nil {
			return f.ctx.Err()
		}
		line = strings.TrimSuffix(line, "\n")
		if !f.match([]byte(line)) {
			continue
		}
		fmt.Fprintf(&f.out, "%s:%d: %s\n", p.shown, n, tool.Clip(strings.ToValidUTF8(line, "\uFFFD"), maxHitText))
		if f.hits++; f.hits == maxHits {
			return errEnough
		}
	}
	return nil
}

// textIn returns what a file says. It is false for a file that is not text. One that only begins as UTF-8 is
// searched for what can be read in it.
func textIn(name string, b []byte) (string, bool) {
	kind, how := sniff(name, b[:min(len(b), 8192)], int64(len(b)))
	if kind != "" {
		return "", false
	}
	if whole, ok := formOf(b, false); ok {
		how = whole
	}
	said, err := how.decode(b)
	return unixEnds(said), err == nil
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
	data, err := io.ReadAll(io.LimitReader(file, maxIgnoreFile))
	if err != nil {
		return
	}
	lines := bufio.NewScanner(bytes.NewReader(strict.Unmarked(data)))
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
// "**" does not. A pattern that is not a glob matches only itself.
func globRegexp(glob string) *regexp.Regexp {
	if text, err := pattern.Regexp(glob, pattern.Filenames|pattern.EntireString|pattern.GlobLeadingDot); err == nil {
		if re, err := regexp.Compile(text); err == nil {
			return re
		}
	}
	return regexp.MustCompile(`(?s)\A` + regexp.QuoteMeta(strings.ToValidUTF8(glob, "\uFFFD")) + `\z`)
}
