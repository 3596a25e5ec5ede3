package command

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"steward/internal/app"
	"steward/internal/fault"
	"steward/internal/secret"
	strictly "steward/internal/strict"
)

// Confirm asks the user at a terminal; anything but y means no. in is standard input if it
// has been read from before.
func (a *Program) Confirm(in *bufio.Reader, format string, args ...any) (bool, error) {
	if in == nil {
		in = bufio.NewReader(a.Stdin)
	}
	if _, err := fmt.Fprintf(a.Stderr, format+" [y/N] ", args...); err != nil {
		return false, err
	}
	line, err := in.ReadString('\n')
	return err == nil && strings.TrimSpace(strings.ToLower(line)) == "y", nil
}

// ConfirmDelete lists what would be deleted and asks the user to confirm.
func (a *Program) ConfirmDelete(yes bool, listed []string) error {
	if yes {
		return nil
	}
	if !app.IsTerminal(a.Stdin) {
		return Usage("deleting requires --yes without a terminal")
	}
	ok, err := a.Confirm(nil, "%s\ndelete?", strings.Join(listed, "\n"))
	if err == nil && !ok {
		a.Note("nothing was deleted")
		err = ExitCode(ExitFailed)
	}
	return err
}

// ReadSecret asks for a secret, or reads it from standard input.
func (a *Program) ReadSecret(ctx context.Context, name string) (string, error) {
	if f, ok := TerminalInput(a.Stdin); ok {
		return a.ReadHidden(ctx, f, name)
	}
	if a.Stdin == nil {
		return "", Usage("there is no secret on standard input")
	}
	b, err := io.ReadAll(io.LimitReader(a.Stdin, secret.MaxLength+2))
	if err != nil {
		return "", fault.New(fault.Unavailable, "input_unreadable", "standard input cannot be read: %w", err).WithHint("pipe the secret in")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(strictly.Unmarked(b)), "\n"), "\r"), nil
}

// ReadHidden asks for a line without echo. If the command is interrupted, it returns at
// once and turns the echo on again.
func (a *Program) ReadHidden(ctx context.Context, f *os.File, what string) (string, error) {
	fd := int(f.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("asking for %s: %w", what, err)
	}
	defer term.Restore(fd, before) //nolint:errcheck // the terminal is gone
	if err := echoOff(fd); err != nil {
		return "", fmt.Errorf("asking for %s: %w", what, err)
	}
	fmt.Fprintf(a.Stderr, "%s: ", what)
	defer fmt.Fprintln(a.Stderr)
	type line struct {
		text []byte
		err  error
	}
	read := make(chan line, 1)
	go func() {
		b, err := term.ReadPassword(fd)
		read <- line{b, err}
	}()
	select {
	case l := <-read:
		return string(l.text), l.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// TerminalInput returns the terminal at which a person can be asked.
func TerminalInput(stdin any) (*os.File, bool) {
	return app.FileOf(stdin), app.IsTerminal(stdin)
}

// ConsentTimeout is how long steward accounts connect waits for a person.
const ConsentTimeout = 10 * time.Minute

// ShowConsent tells a person where to consent. code is to be typed there, unless it is empty.
func (a *Program) ShowConsent(url, code string) {
	if code == "" {
		fmt.Fprintf(a.Stderr, "open this in a browser on this machine:\n%s\n", url)
		return
	}
	fmt.Fprintf(a.Stderr, "open %s on any device, and enter %s\n", url, code)
}

// Edit returns a text as the person has changed it in the program that VISUAL or EDITOR names. name is that of
// the file, which is removed afterwards.
func (a *Program) Edit(ctx context.Context, name string, text []byte) ([]byte, error) {
	dir, err := os.MkdirTemp("", "steward-edit")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, "/bin/sh", "-c", cmp.Or(a.Getenv("VISUAL"), a.Getenv("EDITOR"), "vi")+` "$1"`, "sh", file)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("the editor ended with an error, so nothing was changed: %w", err)
	}
	return os.ReadFile(file)
}
