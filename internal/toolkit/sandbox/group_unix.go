//go:build unix && !linux

package sandbox

import (
	"os/exec"
	"syscall"
)

// apart gives a program a session of its own.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// killAll ends a program and its process group.
func killAll(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
