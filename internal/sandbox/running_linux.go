package sandbox

import (
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"steward/internal/fault"
)

// running is a started program.
type running struct {
	program string
	limits  Limits
	cmd     *exec.Cmd // bubblewrap, or Steward around the program
	in      io.WriteCloser
	out     *lines
	errs    tail
	data    *gauge // measures its own folder; nil: it has none
	watch   *watch // nil until the limits are set
	first   int    // pidfd of the first process in its namespace; -1: it has no namespace of its own
	clean   []func()

	mu     sync.Mutex
	why    error // what ended it, if it did not end by itself
	reaped bool  // its process id may have been reused

	once sync.Once
	err  error
}

// kill implements Process.Kill.
func (r *running) kill() {
	r.end(fault.New(fault.Cancelled, "program_killed", "the program was ended"))
}

// end ends the program and all its children, for a reason.
func (r *running) end(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reaped {
		return
	}
	if r.why == nil {
		r.why = why
	}
	r.killAll()
}

// killAll must be called with the lock held, or when nothing else can hold it.
func (r *running) killAll() {
	if r.first >= 0 {
		// The kernel ends all processes of a namespace with its first one. An error means that it
		// has already ended.
		_ = unix.PidfdSendSignal(r.first, unix.SIGKILL, nil, 0)
	}
	if r.cmd != nil && !r.reaped {
		if r.first < 0 {
			killBelow(r.cmd.Process.Pid)
			// If bubblewrap is killed while it begins, the process that it has made is below init, and waits forever. The
			// group is the program's own: it began in a new session.
			_ = unix.Kill(-r.cmd.Process.Pid, unix.SIGKILL)
		}
		_ = r.cmd.Process.Kill() // an error means that it has already ended
	}
}

// wait implements Process.Wait.
func (r *running) wait() error {
	r.once.Do(func() {
		r.reap()
		r.err = r.outcome()
		r.cleanUp()
	})
	return r.err
}

// abandon cleans up after a failed start.
func (r *running) abandon() {
	r.kill()
	r.once.Do(func() {
		r.reap()
		r.cleanUp()
	})
}

// reap waits for the end of the program and of everything that it has started.
func (r *running) reap() {
	if r.cmd == nil {
		return
	}
	// Until the process is reaped, its id is not reused.
	for unix.Waitid(unix.P_PID, r.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	r.mu.Lock()
	r.killAll() // processes that it left behind
	r.reaped = true
	killed := r.why != nil
	r.mu.Unlock()
	if r.first >= 0 {
		awaitEnd(r.first)
	}
	if r.watch != nil {
		r.watch.stop()
	}
	_ = r.cmd.Wait() // the state says more than the error
	if killed {
		r.out.from.Close()
	}
}

// awaitEnd waits until the killed process of a pidfd is gone.
func awaitEnd(fd int) {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// cleanUp removes what was made for the program.
func (r *running) cleanUp() {
	if r.first >= 0 {
		unix.Close(r.first)
		r.first = -1
	}
	for _, f := range r.clean {
		f()
	}
	r.clean = nil
}

// outcome returns the error for how the program ended.
func (r *running) outcome() error {
	if r.why != nil {
		return r.why
	}
	code, signal := r.exit()
	switch {
	case code == 0:
		return nil
	case signal == unix.SIGXCPU:
		return exceeded("cpu", "%v of CPU time", r.limits.CPU)
	case signal == unix.SIGXFSZ:
		return exceeded("file_size", "%d bytes in a file", r.limits.FileSize)
	}
	said := strings.TrimSpace(r.errs.String())
	if why, ok := startFailure(code, said); ok {
		return fault.New(fault.Invalid, "program_not_executable", "%s could not be run: %s", r.program, why).
			WithHint("check that its interpreter exists and that the sandbox can read it (sandbox.read)")
	}
	e := fault.New(fault.Unavailable, "program_failed", "the program ended with exit code %d", code).Detail("exit_code", code)
	if signal != 0 {
		e = fault.New(fault.Unavailable, "program_failed", "the program was killed by the signal %s", unix.SignalName(signal)).
			Detail("signal", unix.SignalName(signal))
	}
	if text := lastLines(said); text != "" {
		e = e.Detail("stderr", text)
		e.Message += "; it said: " + text
	}
	return e
}

// startFailure detects from the output of bubblewrap (or of Steward in its place) that the program was
// never started.
func startFailure(code int, said string) (string, bool) {
	why, ok := strings.CutPrefix(said, "bwrap: ")
	return why, ok && code == 1 && !strings.Contains(why, "\n")
}

// exit returns the exit code, and the signal that it represents: the process around the program
// adds 128 to the signal's number.
func (r *running) exit() (int, unix.Signal) {
	status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus) // not unix.WaitStatus, which is another type
	if ok && status.Signaled() {
		return 128 + int(status.Signal()), status.Signal()
	}
	code := r.cmd.ProcessState.ExitCode()
	if code > 128 && unix.SignalName(unix.Signal(code-128)) != "" {
		return code, unix.Signal(code - 128)
	}
	return code, 0
}

// exceeded returns the error of a program that a limit has ended.
func exceeded(limit, format string, args ...any) error {
	return fault.New(fault.Exhausted, limit+"_exceeded", "the program was stopped: it used more than "+format, args...).
		WithHint("reduce its work, or raise the limit %s in its sandbox", limit)
}
