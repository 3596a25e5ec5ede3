package cli

import (
	"context"
	"fmt"
	"os"
	"steward/internal/app"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// readHidden asks for a line without echo. If the command is interrupted, it returns at
// once and turns the echo on again.
func (a *program) readHidden(ctx context.Context, f *os.File, what string) (string, error) {
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

// echoOff stops a terminal from showing what is typed. It is called before the prompt appears,
// because nothing that is typed from then on may be shown.
func echoOff(fd int) error {
	t, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return err
	}
	t.Lflag &^= unix.ECHO
	return unix.IoctlSetTermios(fd, setTermios, t)
}

// terminalInput returns the terminal at which a person can be asked.
func terminalInput(stdin any) (*os.File, bool) {
	return app.FileOf(stdin), app.IsTerminal(stdin)
}
