package command

import (
	"errors"
	"os/exec"

	"golang.org/x/sys/windows"
)

// Alive reports whether there is a process with this id.
func Alive(pid int) bool {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return errors.Is(err, windows.ERROR_ACCESS_DENIED) // it is there, and somebody else's
	}
	var code uint32
	err = errors.Join(windows.GetExitCodeProcess(h, &code), windows.CloseHandle(h))
	return err != nil || code == uint32(windows.STATUS_PENDING)
}

// Together does nothing: Windows has no groups of processes that a signal reaches.
func Together(*exec.Cmd) {}

// echoOff stops a terminal from showing what is typed. It is called before the prompt appears,
// because nothing that is typed from then on may be shown.
func echoOff(fd int) error {
	var mode uint32
	if err := windows.GetConsoleMode(windows.Handle(fd), &mode); err != nil {
		return err
	}
	return windows.SetConsoleMode(windows.Handle(fd), mode&^windows.ENABLE_ECHO_INPUT)
}
