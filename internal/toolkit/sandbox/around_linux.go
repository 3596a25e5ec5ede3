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

// aroundFlag has this program run around one that cannot be confined.
const aroundFlag = "--around-program"

// gateNumber is the file at which the program around another one is held back
// until the limits are set, and by which it notices the end of Steward.
const gateNumber = 3

// around runs a program to its end and returns its exit code. Whatever the
// program leaves behind becomes a child of this process (PR_SET_CHILD_SUBREAPER),
// so that it is found in one tree, and is ended with the program or with
// Steward. Only a program that kills this process escapes.
func around(program []string) (int, error) {
	gate := os.NewFile(gateNumber, "gate")
	unix.CloseOnExec(gateNumber)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("taking on what it leaves behind: %w", err)
	}
	if _, err := gate.Read(make([]byte, 1)); err != nil {
		return 0, fmt.Errorf("waiting for its limits: %w", err)
	}
	// Go raises the limit of open files for itself and gives children the one
	// that it found; they are to have the one that was set meanwhile.
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
		f.Close() // the program alone decides when they end
	}
	go func() {
		_, _ = gate.Read(make([]byte, 1)) // it ends with Steward
		killBelow(os.Getpid())
	}()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if pid != cmd.Process.Pid && (err == nil || errors.Is(err, unix.EINTR)) {
			continue // what it left behind, or nothing yet
		}
		killBelow(os.Getpid())
		if status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return status.ExitStatus(), nil
	}
}

// killRounds bounds how often is looked for processes that were started
// meanwhile.
const killRounds = 1000

// killBelow ends all processes below one that takes on what they leave behind.
// A signal to a group reaches all that are in it at once, also those that are
// just being forked. What may not be ended, as it has become another user's, is
// left.
func killBelow(root int) {
	own := unix.Getpgrp()
	for range killRounds {
		left := false
		for _, p := range tree(root) {
			if p.pid == root || p.state == 'Z' || p.state == 'X' {
				continue
			}
			if group, err := unix.Getpgid(p.pid); err == nil && group > 1 && group != own && group != root {
				_ = unix.Kill(-group, unix.SIGKILL) // the groups are its own: it began in a session of its own
			}
			if err := unix.Kill(p.pid, unix.SIGKILL); !errors.Is(err, unix.EPERM) {
				left = true // gone is as good
			}
		}
		if !left {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
