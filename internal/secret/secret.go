// Package secret resolves references to secrets and masks the secrets in
// everything that is recorded, logged or shown.
//
// A reference is text in the place of a secret:
//
//	env:NAME        the environment variable
//	file:PATH       a file that no other user can read, without its last line break
//	command:ARGV    what a program prints; no shell, words in quotes stay together
//	store:NAME      a secret of Steward's own store: a file under <data>/secrets
package secret

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"steward/internal/fault"
)

// Limits of a secret's value, in bytes. A shorter secret would be found and hidden
// inside ordinary words.
const (
	MinLength = 6
	MaxLength = 64 << 10
)

// commandTimeout is the time limit of a program that prints a secret.
const commandTimeout = 10 * time.Second

// kinds lists the kinds of references.
var kinds = [...]string{"env", "file", "command", "store"}

// IsReference reports whether a text is a reference.
func IsReference(text string) bool {
	kind, rest, ok := strings.Cut(text, ":")
	if !ok || strings.TrimSpace(rest) == "" || strings.HasPrefix(rest, "//") {
		return false
	}
	for _, k := range kinds {
		if k == kind {
			return true
		}
	}
	return false
}

// Resolver resolves references. The zero Resolver knows no variables and no
// store. Safe for concurrent use.
type Resolver struct {
	Getenv  func(name string) string // nil: no variables
	Store   *Store                   // nil: no store
	Dir     string                   // the base of relative paths; empty: the current folder
	Timeout time.Duration            // of a command; zero: 10 seconds
	Masker  *Masker                  // learns each resolved secret; may be nil
}

// Resolve returns the value of a reference. Error codes:
// secret_ref_invalid, secret_missing, secret_exposed (a file that others may
// read), secret_command_failed, secret_short, secret_invalid.
func (r *Resolver) Resolve(ctx context.Context, ref string) (string, error) {
	if !IsReference(ref) {
		return "", fault.New(fault.Invalid, "secret_ref_invalid", "this is not a reference to a secret").
			WithHint("write env:NAME, file:PATH, command:PROGRAM ARGS or store:NAME")
	}
	kind, rest, _ := strings.Cut(ref, ":")
	var value string
	var err error
	switch kind {
	case "env":
		value, err = r.env(rest)
	case "file":
		value, err = r.file(rest)
	case "command":
		value, err = r.command(ctx, rest)
	case "store":
		if r.Store == nil {
			return "", missing(rest)
		}
		value, err = r.Store.Get(rest)
	}
	if err != nil {
		return "", err
	}
	if err := Check(value); err != nil {
		return "", fault.Of(err).Detail("ref", ref)
	}
	if r.Masker != nil {
		err = r.Masker.Add(nameOf(kind, rest), value)
	}
	return value, err
}

// nameOf returns the name that stands in place of a masked secret.
func nameOf(kind, rest string) string {
	switch kind {
	case "file":
		return filepath.Base(rest)
	case "command":
		words, err := split(rest)
		if err != nil || len(words) == 0 {
			return "command"
		}
		return filepath.Base(words[0])
	}
	return rest
}

// Check refuses a value that cannot be kept secret: secret_short, secret_invalid.
func Check(value string) error {
	switch {
	case len(value) < MinLength:
		return fault.New(fault.Invalid, "secret_short", "a secret has at least %d characters: a shorter one could not be masked in records", MinLength).
			WithHint("choose a longer one")
	case len(value) > MaxLength:
		return fault.New(fault.TooLarge, "secret_invalid", "a secret has at most %d KiB", MaxLength>>10).WithHint("keep large files elsewhere")
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return fault.New(fault.Invalid, "secret_invalid", "a secret is text").WithHint("encode it, for example with base64")
	case len(strings.TrimSpace(value)) < MinLength:
		return fault.New(fault.Invalid, "secret_invalid", "this secret is mostly blanks").WithHint("check that this is the right text")
	}
	return nil
}

func missing(name string) error {
	return fault.New(fault.NotFound, "secret_missing", "there is no secret %.80q", name).
		WithHint("steward secrets set %.80s", name)
}

func (r *Resolver) env(name string) (string, error) {
	if r.Getenv != nil {
		if v := strings.TrimSpace(r.Getenv(name)); v != "" {
			return v, nil
		}
	}
	return "", fault.New(fault.NotFound, "secret_missing", "the environment variable %.80q is not set", name).
		WithHint("set it where Steward is started")
}

// file reads a file that no other user can read.
func (r *Resolver) file(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && r.Getenv != nil {
		path = filepath.Join(r.Getenv("HOME"), rest)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.Dir, path)
	}
	b, err := ReadPrivate(path)
	if errors.As(err, new(*fs.PathError)) {
		err = fault.New(fault.NotFound, "secret_missing", "the file of a secret cannot be read: %w", err).
			WithHint("name an existing file that Steward may read")
	}
	return trimLine(b), err
}

// trimLine removes the last line break, which editors and programs add.
func trimLine(b []byte) string {
	return string(bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r")))
}

// exposed refuses a file that belongs to another user, or that others may read.
func exposed(path string, info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return fault.New(fault.Invalid, "secret_missing", "%s is not a file", path).WithHint("name a regular file")
	case info.Mode().Perm()&0o077 != 0:
		return fault.New(fault.Denied, "secret_exposed", "other users may read or change %s (its mode is %04o)", path, info.Mode().Perm()).
			WithHint("chmod 600 %s", path)
	case !ownedByUs(info):
		return fault.New(fault.Denied, "secret_exposed", "%s belongs to another user", path).
			WithHint("chown it to the user that Steward runs as")
	}
	return nil
}

// command runs a program and returns what it prints. Its standard error is not
// shown, since it may contain the secret.
func (r *Resolver) command(ctx context.Context, line string) (string, error) {
	argv, err := split(line)
	if err != nil {
		return "", err
	}
	timeout := r.Timeout
	if timeout == 0 {
		timeout = commandTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.WaitDelay = r.Dir, time.Second
	var out bounded
	cmd.Stdout = &out
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", commandFailed(argv[0], "did not end within %s", timeout)
	case errors.Is(err, errTooLong):
		return "", commandFailed(argv[0], "printed more than %d KiB", MaxLength>>10)
	case err != nil:
		return "", commandFailed(argv[0], "failed: %w", err)
	}
	return trimLine(out.text), nil
}

func commandFailed(name, format string, args ...any) error {
	return fault.New(fault.Unavailable, "secret_command_failed", "%s, which should print a secret, "+format, append([]any{name}, args...)...).
		WithHint("run it yourself to see its error")
}

var errTooLong = errors.New("too long")

// bounded is a buffer with the size limit of a secret.
type bounded struct{ text []byte }

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > MaxLength+2 {
		return 0, errTooLong
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

// split splits a command line into words. Quotes of both kinds keep blanks; a
// backslash escapes the next character, except in single quotes. No other
// character has a meaning: there is no shell.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	in, quote, escape := false, rune(0), false
	for _, c := range line {
		switch {
		case escape:
			word.WriteRune(c)
			escape = false
		case c == '\\' && quote != '\'':
			in, escape = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			in, quote = true, c
		case quote == 0 && unicode.IsSpace(c):
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		default:
			in = true
			word.WriteRune(c)
		}
	}
	if in {
		words = append(words, word.String())
	}
	if quote != 0 || escape || len(words) == 0 || words[0] == "" {
		return nil, fault.New(fault.Invalid, "secret_ref_invalid", "the command of a secret has no program, or an unclosed quote").
			WithHint(`write command:PROGRAM ARGS, such as command:pass show "my key"`)
	}
	return words, nil
}
