//go:build unix

package command

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Alive reports whether there is a process with this id.
func Alive(pid int) bool { return pid > 0 && !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// Together makes everything that a command starts end with it when it is cancelled: each program of a pipeline. At a
// terminal it leaves the command as it is: a signal from the keyboard reaches all of them there, and a group of their
// own could not ask for a password.
func Together(cmd *exec.Cmd) {
	if t, err := os.OpenFile("/dev/tty", os.O_RDONLY, 0); err == nil {
		_ = t.Close()
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		if errors.Is(err, unix.ESRCH) {
			return os.ErrProcessDone
		}
		return err
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
