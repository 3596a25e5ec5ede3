package process

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/sandbox"
	"steward/internal/tool"
)

// Program says what to run, and what it may do.
type Program struct {
	Command any               `yaml:"command"` // a program, or a list: a program and its first arguments; never split at spaces
	Args    []string          `yaml:"args"`
	Env     map[string]string `yaml:"env"`     // ${NAME} stands for the secret of that name
	Secrets []string          `yaml:"secrets"` // secrets that are in its environment under their own names
	Files   []string          `yaml:"files"`   // further files beside the agent (globs) that an approval pins

	Sandbox     *Sandbox `yaml:"sandbox"`
	Unsandboxed bool     `yaml:"unsandboxed"` // with all rights of Steward
}

// Sandbox is what a confined program may do. Paths are relative to the agent's folder, or with ~/
// to the user's home.
type Sandbox = sandbox.Grants

// words returns the program and all its arguments.
func (p *Program) words() ([]string, error) {
	words, bad := sandbox.Words(p.Command)
	if bad != nil {
		return nil, badDecl("%s", bad.Message).WithHint("%s", bad.Remedy)
	}
	if len(words) == 0 || words[0] == "" {
		return nil, badDecl("there is no command").WithHint("write command: and the program, or a list of the program and its arguments")
	}
	return append(words, p.Args...), nil
}

// check validates the program without starting it.
func (p *Program) check(dir string) error {
	words, err := p.words()
	if err != nil {
		return err
	}
	if _, err := absolutePath(dir, words[0]); strings.Contains(words[0], "/") && err != nil {
		return err
	}
	for _, w := range words {
		if strings.ContainsRune(w, 0) {
			return badDecl("command contains an invalid character")
		}
	}
	for _, name := range append(slices.Sorted(maps.Keys(p.Env)), p.Secrets...) {
		if !sandbox.GoodVariable(name, p.Env[name]) {
			return badDecl("%.80q is not a valid environment variable", name)
		}
	}
	if p.Sandbox == nil {
		return nil
	}
	network, err := egress.Declared(p.Sandbox.Network)
	if err != nil {
		return err
	}
	if p.Unsandboxed && (!network.Zero() || len(p.Sandbox.Read)+len(p.Sandbox.Write) > 0) {
		return badDecl("sandbox and unsandboxed exclude each other").
			WithHint("leave one of them out; limits can be combined with unsandboxed")
	}
	for _, path := range slices.Concat(p.Sandbox.Read, p.Sandbox.Write) {
		if _, err := absolutePath(dir, path); err != nil {
			return err
		}
	}
	return nil
}

// absolutePath makes a path absolute.
func absolutePath(dir, path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", badDecl("%s: the user has no home folder: %w", path, err)
		}
		return filepath.Join(home, rest), nil
	}
	switch {
	case filepath.IsAbs(path):
		return filepath.Clean(path), nil
	case dir == "":
		return "", badDecl("%s is a relative path, which is not allowed here", path).WithHint("write an absolute path")
	case !filepath.IsLocal(path):
		return "", badDecl("%s is outside the agent's folder", path).WithHint("move it into the folder, or write an absolute path")
	}
	return filepath.Join(dir, path), nil
}

// files returns the files that determine what the program does, without those of the system: the
// program, arguments that name files beside the agent or scripts elsewhere, and the declared files.
func (p *Program) files(dir string) []string {
	words, err := p.words()
	if err != nil {
		return nil // check has reported it
	}
	var out []string
	if strings.Contains(words[0], "/") {
		if path, err := absolutePath(dir, words[0]); err == nil && !system(path) {
			out = append(out, path)
		}
	}
	if dir != "" {
		for _, a := range words[1:] {
			path := filepath.Join(dir, a)
			if filepath.IsAbs(a) {
				path = a
			}
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && (inside(dir, path) || !system(path) && tool.IsCode(path)) {
				out = append(out, path)
			}
		}
	}
	for _, f := range p.Files {
		path, err := absolutePath(dir, f)
		if err != nil {
			continue
		}
		found, err := filepath.Glob(path)
		if err != nil || len(found) == 0 {
			found = []string{path} // pinning it reports that it is missing
		}
		out = append(out, found...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// code returns the folders of scripts that lie outside of the agent's folder, from which they load more code.
func (p *Program) code(dir string) (c tool.Code) {
	for _, path := range p.files(dir) {
		if dir == "" || inside(dir, path) || !tool.IsCode(path) {
			continue
		}
		if real, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(c.Folders, filepath.Dir(real)) {
			c.Folders = append(c.Folders, filepath.Dir(real))
		}
	}
	return c
}

func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// system reports whether a program belongs to the operating system. Its updates are not subject to an
// agent's approval.
func system(path string) bool {
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/opt", "/nix/store", "/gnu/store"} {
		if inside(dir, path) {
			return true
		}
	}
	return false
}

// prepared is a program that is ready to be started.
type prepared struct {
	command sandbox.Command
	secrets []string // to be masked in messages
	release func()   // ends the services; never nil
}

// prepare makes the command with its current secrets and services.
func (p *Program) prepare(ctx context.Context, env tool.Env) (prepared, error) {
	out := prepared{release: func() {}}
	words, err := p.words()
	if err != nil {
		return out, err
	}
	c := sandbox.Command{Path: words[0], Args: words[1:], Dir: env.Dir, Unsandboxed: p.Unsandboxed}
	if strings.Contains(c.Path, "/") {
		if c.Path, err = absolutePath(env.Dir, c.Path); err != nil {
			return out, err
		}
	}
	if err := c.Grant(p.Sandbox, func(path string) (string, error) { return absolutePath(env.Dir, path) }); err != nil {
		return out, err
	}
	x := sandbox.Expander{Secret: env.Secret}
	for _, name := range p.Secrets {
		c.Env = append(c.Env, name+"="+x.Named(name))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		c.Env = append(c.Env, name+"="+x.Expand(p.Env[name]))
	}
	if missing := x.Missing(); missing != "" {
		return out, fault.New(fault.Unavailable, "process_secret_missing", "the program needs the secret %s, which is not set", missing).
			WithHint("set it, and list it under secrets of the agent")
	}
	secrets, release, err := c.Provision(ctx, env)
	if err != nil {
		return out, err
	}
	return prepared{command: c, secrets: append(x.Values, secrets...), release: release}, nil
}

// masked removes the values of secrets from an error.
func masked(err error, secrets []string) error {
	f := fault.Of(err)
	if f == nil || len(secrets) == 0 {
		return err
	}
	text := sandbox.Mask(f.Error(), secrets)
	if text == f.Error() {
		return err
	}
	return &fault.Error{Kind: f.Kind, Code: f.Code, Message: text, Retry: f.Retry, After: f.After}
}
