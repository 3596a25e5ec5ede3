//go:build unix

package command

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Alive reports whether there is a process with this id.
func Alive(pid int) bool { return pid > 0 && !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

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
