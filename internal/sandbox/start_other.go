//go:build unix && !linux

package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"steward/internal/fault"
)

// machine cannot confine programs: only Linux can.
type machine struct{}

var thisMachine = new(machine)

func (m *machine) available() error {
	return fault.New(fault.Unsupported, "sandbox_unavailable", "programs can be confined on Linux only").
		WithHint("give unsandboxed: true for this tool, which then runs with all rights of Steward")
}

// start starts an unconfined program. Of its limits, only those of its output are enforced here.
func (m *machine) start(ctx context.Context, c Command) (*Process, error) {
	if !c.Unsandboxed {
		return nil, m.available()
	}
	if err := c.Limits.check(); err != nil {
		return nil, err
	}
	c.rewrite()
	program, err := find(c.Path, os.Getenv("PATH"))
	if err != nil {
		return nil, err
	}
	temp, remove, err := makeTemp()
	if err != nil {
		return nil, failed(err)
	}
	cmd := exec.Command(program, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, append([]string{"TMPDIR=" + temp}, c.Env...)
	for _, name := range []string{"PATH", "HOME", "LANG", "SystemRoot"} {
		if v := os.Getenv(name); v != "" {
			cmd.Env = append([]string{name + "=" + v}, cmd.Env...)
		}
	}
	ownSession(cmd)
	return run(ctx, cmd, c.Limits.WithDefaults(), remove)
}

func run(ctx context.Context, cmd *exec.Cmd, l Limits, remove func()) (*Process, error) {
	var errs tail
	cmd.Stderr = &errs
	in, err1 := cmd.StdinPipe()
	outR, outW, err2 := os.Pipe()
	cmd.Stdout = outW
	err := errors.Join(err1, err2)
	if err == nil {
		err = cmd.Start()
	}
	outW.Close() // if nil: an error that means nothing
	if err != nil {
		outR.Close()
		remove()
		return nil, failed(err)
	}
	var mu sync.Mutex
	var why error
	end := func(reason error) {
		mu.Lock()
		defer mu.Unlock()
		if why == nil {
			why = reason
		}
		killAll(cmd)
	}
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	wait := sync.OnceValue(func() error {
		err := cmd.Wait()
		killAll(cmd)
		stop()
		remove()
		mu.Lock()
		defer mu.Unlock()
		if why != nil {
			outR.Close()
			return why
		}
		if err != nil {
			return fault.New(fault.Unavailable, "program_failed", "the program ended: %w", err)
		}
		return nil
	})
	kill := func() { end(fault.New(fault.Cancelled, "program_killed", "the program was ended")) }
	return &Process{Stdin: in, Stdout: &lines{from: outR, limit: l.Output, kill: end}, stderr: errs.String, wait: wait, kill: kill}, nil
}

// Places returns the paths by which folders and files can be reached. Mounts are known on Linux only.
func Places(folders []string) ([]string, error) { return folders, nil }

func failed(err error) error {
	return fault.New(fault.Unavailable, "sandbox_failed", "the program could not be started: %w", err)
}

// Inside does nothing here: only Linux needs it.
func Inside([]string) (code int, mine bool) { return 0, false }

// ownSession gives a program a session of its own.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// killAll ends a program and its process group.
func killAll(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
