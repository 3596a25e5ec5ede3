package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"steward/internal/fault"
)

func (m *machine) start(ctx context.Context, c Command) (*Process, error) {
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	if err := c.Limits.check(); err != nil {
		return nil, err
	}
	c.Limits = c.Limits.WithDefaults()
	bwrap, err := m.confiner()
	if err != nil && !c.Unsandboxed {
		return nil, err
	}
	r, err := launch(c, bwrap)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { r.end(ended(ctx)) })
	r.clean = append(r.clean, func() { stop() })
	return &Process{Stdin: r.in, Stdout: r.out, stderr: r.errs.String, wait: r.wait, kill: r.kill}, nil
}

// launch starts a program, confined by bwrap unless that is empty.
func launch(c Command, bwrap string) (*running, error) {
	program, err := c.find()
	if err != nil {
		return nil, err
	}
	if err := closeOnExec(); err != nil {
		return nil, failed(fmt.Errorf("closing Steward's files for it: %w", err))
	}
	data, err := newGauge(c.Data, c.Limits.Data)
	if err != nil {
		return nil, err
	}
	r := &running{program: program, limits: c.Limits, data: data, first: -1}
	if bwrap == "" {
		err = r.startFree(c)
	} else {
		err = r.startConfined(c, bwrap)
	}
	if err != nil {
		r.abandon()
		if said := strings.TrimSpace(r.errs.String()); said != "" { // from bubblewrap
			err = fmt.Errorf("%w: %s", err, said)
		}
		return nil, coded(err)
	}
	return r, nil
}

// find looks the program up in its own PATH, and then in Steward's.
func (c *Command) find() (string, error) {
	if filepath.IsAbs(c.Path) {
		return c.Path, runnable(c.approvedCopy(c.Path))
	}
	var lists []string
	if !c.Unsandboxed {
		lists = []string{systemPath}
	}
	for _, e := range c.Env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			lists = []string{path}
		}
	}
	return find(c.Path, append(lists, os.Getenv("PATH"))...)
}

// closeOnExec marks all file descriptors that this process has inherited, so that no program
// inherits them in turn: Go marks only those that it opens itself.
func closeOnExec() error {
	err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	open, err := os.ReadDir("/proc/self/fd") // before Linux 5.11
	if err != nil {
		return err
	}
	for _, e := range open {
		var fd int
		if _, err := fmt.Sscan(e.Name(), &fd); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// startConfined starts bubblewrap with the first process inside blocked, sets the limits of that
// process, and then unblocks it.
func (r *running) startConfined(c Command, bwrap string) error {
	in := &confined{Command: c, program: r.program}
	defer in.close()
	var err error
	if c.Unsandboxed {
		in.temp, err = r.makeTemp()
	} else {
		err = r.openRoutes(in)
	}
	if err != nil {
		return coded(err)
	}
	p, err := in.plan(bwrap)
	if err != nil {
		return coded(err)
	}
	if err := r.spawn(p); err != nil {
		return err
	}
	in.inheritedFiles.close() // the child has its own copies
	pid, err := in.first()
	if err == nil {
		err = r.applyLimits(pid)
	}
	if err == nil {
		_, err = in.gate.Write([]byte{1})
	}
	return err
}

// applyLimits sets the limits of a process that is still blocked, and begins to watch it.
func (r *running) applyLimits(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("holding the program: %w", err)
	}
	r.first = fd
	if err := limit(pid, r.limits, true); err != nil {
		return err
	}
	r.watchOver(pid)
	return nil
}

// watchOver begins to watch the tree of a process.
func (r *running) watchOver(pid int) {
	r.watch = newWatch(pid, r.first < 0, r.limits, r.data, r.end)
	go r.watch.run() // only now is the end of the program certain to be noticed
}

// startFree starts a program with Steward's own rights, on a machine where nothing can be hidden
// from it.
func (r *running) startFree(c Command) error {
	temp, err := r.makeTemp()
	if err != nil {
		return failed(err)
	}
	c.rewrite()
	if r.program, err = c.find(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return failed(err)
	}
	blocked, gate, err := os.Pipe()
	if err != nil {
		return failed(err)
	}
	defer blocked.Close()
	r.clean = append(r.clean, func() { gate.Close() })
	p := plan{path: self, args: append([]string{aroundFlag, r.program}, c.Args...), dir: c.Dir,
		env: append(freeEnvironment(temp), c.Env...), files: []*os.File{blocked}}
	if p.dir == "" {
		p.dir = temp
	}
	if err := r.spawn(p); err != nil {
		return err
	}
	pid := r.cmd.Process.Pid
	err = limit(pid, r.limits, false)
	if err == nil {
		r.watchOver(pid)
		_, err = gate.Write([]byte{1})
	}
	return err
}

// makeTemp makes a folder for the temporary files of a program. It is removed with the program.
func (r *running) makeTemp() (string, error) {
	temp, remove, err := makeTemp()
	if err == nil {
		r.clean = append(r.clean, remove)
	}
	return temp, err
}

// freeEnvironment returns what an unconfined program's environment has besides the declared
// variables.
func freeEnvironment(temp string) []string {
	env := []string{"TMPDIR=" + temp}
	for name, other := range map[string]string{"PATH": systemPath, "HOME": temp, "LANG": "C.UTF-8"} {
		if v := os.Getenv(name); v != "" {
			other = v
		}
		env = append(env, name+"="+other)
	}
	return env
}

// plan is a process to start.
type plan struct {
	path  string
	args  []string
	env   []string
	dir   string
	files []*os.File // from file descriptor 3 on
}

// stderrWait is how long to wait for the program's stderr after its end. A process that has
// escaped and holds it open must not delay Steward.
const stderrWait = 5 * time.Second

// spawn starts the process in a session of its own, with pipes for its three standard files.
func (r *running) spawn(p plan) error {
	cmd := exec.Command(p.path, p.args...)
	cmd.Env, cmd.Dir, cmd.ExtraFiles = p.env, p.dir, p.files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, theirs, err := os.Pipe()
	if err != nil {
		return failed(err)
	}
	defer theirs.Close()
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = theirs, &r.errs, stderrWait
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		out.Close()
		return failed(err)
	}
	r.cmd, r.in, r.out = cmd, in, &lines{from: out, limit: r.limits.Output, kill: r.end}
	return nil
}

// failed returns an error of starting that may be temporary.
func failed(err error) error {
	return fault.New(fault.Unavailable, "sandbox_failed", "the program could not be started: %w", err).
		WithHint("try again; if it persists, check whether this machine has free memory, processes and files")
}

// coded returns a coded error unchanged.
func coded(err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return err
	}
	return failed(err)
}

// ended returns the error of a program that was ended because ctx is done.
func ended(ctx context.Context) error {
	cause := fault.Of(context.Cause(ctx))
	return fault.New(cause.Kind, cause.Code, "the program was stopped: %w", context.Cause(ctx)).
		Retrying(cause.Retry, cause.After)
}
