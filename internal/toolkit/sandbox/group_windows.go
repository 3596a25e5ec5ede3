package sandbox

import "os/exec"

func apart(*exec.Cmd) {}

// killAll ends a program.
func killAll(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
