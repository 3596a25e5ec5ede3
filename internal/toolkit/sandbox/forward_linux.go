package sandbox

import (
	"os"
	"syscall"
)

// passOn opens the way to the addresses of Connect.
func (r *running) passOn(in *confined) error {
	if err := checkConnect(in.Connect); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return failed(err)
	}
	dir, err := os.MkdirTemp("", "steward-sockets-")
	if err != nil {
		return failed(err)
	}
	r.clean = append(r.clean, func() { os.RemoveAll(dir) })
	f, err := passOut(in.Connect, dir)
	if err != nil {
		return failed(err)
	}
	r.clean = append(r.clean, f.close)
	in.sockets, in.self = dir, self
	return nil
}

// exitCode is the exit code, or 128 and the signal, as shells have it.
func exitCode(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}
