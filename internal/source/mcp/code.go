package mcp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"steward/internal/tool"
)

// fetchers are programs that fetch what they run, or run it from an image. With a value, only after one of
// these words.
func fetchers() map[string][]string {
	return map[string][]string{"npx": nil, "bunx": nil, "pnpx": nil, "uvx": nil, "pipx": nil, "docker": nil, "podman": nil, "nerdctl": nil,
		"npm": {"exec", "x"}, "pnpm": {"dlx", "exec"}, "yarn": {"dlx"}, "bun": {"x"}, "uv": {"tool"}}
}

// interpreters run code that their arguments name. One that is found in PATH belongs to the machine: an
// approval must not keep it from being updated.
func interpreters() *regexp.Regexp {
	return regexp.MustCompile(`^(node|nodejs|deno|bun|tsx|ts-node|npm|npx|pnpm|pnpx|yarn|bunx|python|python[23](\.[0-9]+)?|pypy3?|uv|uvx|pipx|poetry|ruby|bundle|perl|php|lua|java|dotnet|go|cargo|sh|bash|zsh|dash|env|docker|podman|nerdctl|make)$`)
}

// folderFlags are options whose value is the folder that code is taken from.
var folderFlags = []string{"--directory", "--project", "--prefix", "--cwd", "--from", "--dir", "-C"}

// codeVariables are variables of the environment that name files or folders of code.
var codeVariables = []string{"PYTHONPATH", "PYTHONSTARTUP", "NODE_PATH", "RUBYLIB", "PERL5LIB", "CLASSPATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES"}

// code is what is known of the code that a server's program loads.
type code struct {
	files   []string // the program, and scripts among its arguments
	folders []string // where code beside it lies
	loose   []string // what no approval can pin, in words

	installs bool // the program installs packages there itself
}

// code finds the code of a server's program.
func (s *source) code() (c code) {
	if len(s.command) == 0 {
		return c
	}
	words := slices.Concat(s.command, s.decl.Args)
	bases := s.bases(words)
	for i, w := range words {
		if _, value, ok := strings.Cut(w, "="); ok && strings.HasPrefix(w, "-") {
			w = value
		}
		for _, path := range candidates(w, i == 0, s.env.Dir != "", bases) {
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() || i > 0 && !runs(path, info) {
				continue
			}
			if !slices.Contains(c.files, path) {
				c.files = append(c.files, path)
			}
			if script(path) {
				c.folder(filepath.Dir(path))
			}
			break
		}
	}
	for _, dir := range bases {
		if dir != s.env.Dir {
			c.folder(dir)
		}
	}
	for _, name := range codeVariables {
		for _, path := range filepath.SplitList(s.decl.Env[name]) {
			info, err := os.Stat(path)
			switch {
			case err != nil || !filepath.IsAbs(path):
			case info.IsDir():
				c.folder(path)
			case info.Mode().IsRegular() && !slices.Contains(c.files, path):
				c.files = append(c.files, path)
			}
		}
	}
	c.loose = unpinned(words, bases)
	if name := filepath.Base(words[0]); len(c.folders) > 0 && slices.Contains([]string{"uv", "poetry", "pipenv", "hatch", "pdm"}, name) {
		c.installs = true
		c.loose = append(c.loose, "the packages that "+name+" installs")
	}
	return c
}

func (c *code) folder(dir string) {
	if real, err := filepath.EvalSymlinks(dir); err == nil && !slices.Contains(c.folders, real) {
		c.folders = append(c.folders, real)
	}
}

// bases returns the folders that relative paths start from: the working folder, and those that options name.
func (s *source) bases(words []string) []string {
	var dirs []string
	if dir := s.dir(); dir != "" {
		dirs = append(dirs, dir)
	}
	for i, w := range words {
		flag, value, joined := strings.Cut(w, "=")
		if !slices.Contains(folderFlags, flag) {
			continue
		}
		if !joined && i+1 < len(words) {
			value = words[i+1]
		}
		if filepath.IsAbs(value) {
			dirs = append(dirs, filepath.Clean(value))
		}
	}
	return dirs
}

// candidates returns the files that a word of a command can stand for. own says that the command is an agent's.
func candidates(word string, first, own bool, bases []string) []string {
	switch {
	case word == "" || strings.HasPrefix(word, "-") || strings.ContainsRune(word, 0):
		return nil
	case filepath.IsAbs(word):
		return []string{filepath.Clean(word)}
	case first && !strings.Contains(word, "/"):
		if own {
			return nil // its name is looked up where it is confined
		}
		path, err := exec.LookPath(word)
		if err != nil || !filepath.IsAbs(path) || interpreters().MatchString(word) {
			return nil
		}
		return []string{path}
	}
	var out []string
	for _, dir := range bases {
		out = append(out, filepath.Join(dir, word))
	}
	return out
}

// script reports whether a file is code that another program reads, which may load more code from beside it.
func script(path string) bool {
	if tool.IsCode(path) {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 2)
	n, err := f.Read(head)
	return err == nil && n == 2 && string(head) == "#!"
}

// unpinned tells what a command runs that no approval can pin.
func unpinned(words, bases []string) (out []string) {
	name := strings.TrimSuffix(filepath.Base(words[0]), ".exe")
	rest := words[1:]
	if name == "env" && len(rest) > 0 {
		return unpinned(rest, bases)
	}
	if only, known := fetchers()[name]; known && (only == nil || len(rest) > 0 && slices.Contains(only, rest[0])) {
		return []string{fmt.Sprintf("%s downloads or chooses the code that it runs", name)}
	}
	switch {
	case slices.Contains([]string{"sh", "bash", "zsh", "dash", "cmd"}, name) && (slices.Contains(rest, "-c") || slices.Contains(rest, "/c")):
		out = append(out, "the programs that the command line of "+name+" starts")
	case strings.HasPrefix(name, "python") && slices.Contains(rest, "-m") && len(bases) == 0:
		out = append(out, name+" chooses the module of -m itself")
	case slices.ContainsFunc(rest, func(w string) bool {
		return strings.HasPrefix(w, "https://") || strings.HasPrefix(w, "npm:") || strings.HasPrefix(w, "jsr:")
	}) && (name == "deno" || name == "bun" || name == "node"):
		out = append(out, name+" downloads the code that it runs")
	}
	return out
}
