package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// aroundFlag makes this executable run around a program that cannot be confined.
const aroundFlag = "--around-program"

// gateNumber is the file descriptor that blocks the process around a program until the limits are
// set. Through it, that process also notices the end of Steward.
const gateNumber = 3

// runToEnd runs a program to its end and returns its exit code. Processes that the program leaves
// behind become children of this process (PR_SET_CHILD_SUBREAPER), so that they stay in one tree
// and end with the program or with Steward. Only a program that kills this process escapes.
func runToEnd(program []string) (int, error) {
	gate := os.NewFile(gateNumber, "gate")
	unix.CloseOnExec(gateNumber)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("adopting orphaned processes: %w", err)
	}
	if _, err := gate.Read(make([]byte, 1)); err != nil {
		return 0, fmt.Errorf("waiting for its limits: %w", err)
	}
	// Go raises the limit of open files for itself and gives children the limit that it found at
	// startup. The program must get the one that was set since.
	var files syscall.Rlimit
	if err := errors.Join(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files), syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files)); err != nil {
		return 0, err
	}
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		f.Close() // only the program decides when they are closed
	}
	go func() {
		_, _ = gate.Read(make([]byte, 1)) // the read ends when Steward does
		killBelow(os.Getpid())
	}()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if pid != cmd.Process.Pid && (err == nil || errors.Is(err, unix.EINTR)) {
			continue // an orphan, or no event yet
		}
		killBelow(os.Getpid())
		if status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return status.ExitStatus(), nil
	}
}

// killRounds bounds how often the tree is searched for processes that were started in the meantime.
const killRounds = 1000

// killBelow kills all processes below root, which is a subreaper. A signal to a group reaches all
// its members at once, including those just being forked. Processes that may not be signalled,
// because they now belong to another user, are left.
func killBelow(root int) {
	own := unix.Getpgrp()
	for range killRounds {
		left := false
		for _, p := range tree(root) {
			if p.pid == root || p.state == 'Z' || p.state == 'X' {
				continue
			}
			if group, err := unix.Getpgid(p.pid); err == nil && group > 1 && group != own && group != root {
				_ = unix.Kill(-group, unix.SIGKILL) // the groups are the program's own: it began in a new session
			}
			if err := unix.Kill(p.pid, unix.SIGKILL); !errors.Is(err, unix.EPERM) {
				left = true // already gone counts as killed
			}
		}
		if !left {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
