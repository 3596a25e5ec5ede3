package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Runner runs a program to its end, and returns what it printed. Its error says what the program
// said.
type Runner interface {
	Run(ctx context.Context, name string, args ...string) (string, error)
}

// programs runs programs with an environment.
type programs struct{ environ []string }

// Run implements Runner.
func (p programs) Run(ctx context.Context, name string, args ...string) (string, error) {
	path, err := p.find(name)
	if err != nil {
		return "", err
	}
	var out, said strings.Builder
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.environ, &out, &said
	err = cmd.Run()
	if text := strings.Join(strings.Fields(said.String()), " "); err != nil && text != "" {
		err = errors.New(text)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return out.String(), err
}

// find looks a program up in the PATH of the environment.
func (p programs) find(name string) (string, error) {
	for _, dir := range filepath.SplitList(variable(p.environ, "PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); filepath.IsAbs(path) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no program %s", name)
}

// variable returns a variable of an environment. The last one counts.
func variable(environ []string, name string) (value string) {
	for _, v := range environ {
		if k, val, ok := strings.Cut(v, "="); ok && k == name {
			value = val
		}
	}
	return value
}
