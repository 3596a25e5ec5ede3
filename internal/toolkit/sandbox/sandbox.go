// Package sandbox runs programs of others: confined, bounded, with nothing
// inherited, and ended with all their children.
//
// On Linux a program is confined with bubblewrap (https://github.com/containers/bubblewrap):
// namespaces of its own for users, processes, network, IPC, host name and
// cgroups; a file system of the system's read-only folders, an empty /tmp and
// what it was granted; no capabilities; and a filter of system calls
// (seccomp). Its limits are set before its first instruction runs. What it may
// reach of the network it reaches through a proxy of Steward's (package
// egress), which is all that its own network namespace has beside loopback.
//
// A program that a person runs unsandboxed keeps the user's files and network.
// Where bubblewrap works it still has a process tree of its own, and sees
// nothing of the folders in Command.Hide.
package sandbox

import (
	"context"
	"io"
	"log/slog"
	"time"

	"steward/internal/egress"
	"steward/internal/fault"
)

// Command is a program to run and what it may do.
type Command struct {
	Path string   // absolute, or a name that is looked up in PATH
	Args []string // without the program's own name
	Dir  string   // working directory; readable by the program. Empty: its HOME
	Env  []string // NAME=value, beside a minimal PATH, HOME, TMPDIR and LANG; nothing else is inherited

	Name string       // what the log calls it
	Log  *slog.Logger // is told what it was kept from; nil: nobody

	// Network is what it may connect to, by way of the HTTP proxy that its
	// environment names. Loopback addresses in it are reached directly.
	Network egress.Rule
	// Connect are addresses 127.0.0.1:PORT of Steward's services, which it
	// reaches directly. For both, the program of this process runs in front of
	// it first: main must begin with Inside.
	Connect []string
	Read    []string // further absolute paths that it may read
	Write   []string // absolute paths that it may write, with all below them
	Data    string   // a folder of its own that it may write, bounded by Limits.Data; empty: none

	// Instead has, by absolute path, files and folders that the program finds
	// at that path in place of what lies there: the approved copies of its own
	// files, read-only. Of a folder, the folder data in it is shown as it is.
	Instead map[string]string
	// Hide are folders of which the program sees nothing but Data and Instead,
	// by whatever path they can be reached.
	Hide []string

	// Unsandboxed runs it with the files and the network of Steward's user. The
	// user has said so. Hide holds where programs can be confined (Available).
	Unsandboxed bool
	Limits      Limits
}

// Limits bound a program. Zero values mean the defaults.
type Limits struct {
	Memory    int64         `yaml:"memory" json:"memory,omitzero"`       // bytes, of all its processes; 1 GiB
	CPU       time.Duration `yaml:"cpu" json:"cpu,omitzero"`             // of all its processes; 5 minutes; negative: no limit, for servers
	Processes int           `yaml:"processes" json:"processes,omitzero"` // with their threads, at once; 256
	Output    int64         `yaml:"output" json:"output,omitzero"`       // bytes of one line on stdout; 4 MiB
	FileSize  int64         `yaml:"file_size" json:"file_size,omitzero"` // bytes of a file that it writes, and of all in its /tmp; 256 MiB
	Files     int           `yaml:"files" json:"files,omitzero"`         // open at once in each process; 256
	Data      int64         `yaml:"data" json:"data,omitzero"`           // bytes of all in its own folder; 256 MiB
}

// WithDefaults returns l with its zero values filled in.
func (l Limits) WithDefaults() Limits {
	or := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	or(&l.Memory, 1<<30)
	or((*int64)(&l.CPU), int64(5*time.Minute))
	or(&l.Output, 4<<20)
	or(&l.FileSize, 256<<20)
	or(&l.Data, 256<<20)
	if l.Processes == 0 {
		l.Processes = 256
	}
	if l.Files == 0 {
		l.Files = 256
	}
	return l
}

// check says what is wrong with limits.
func (l Limits) check() error {
	if l.Memory < 0 || l.Processes < 0 || l.Output < 0 || l.FileSize < 0 || l.Files < 0 || l.Data < 0 {
		return fault.New(fault.Invalid, "sandbox_limits_invalid", "a limit of a program is negative").
			WithHint("leave a limit out for its default")
	}
	return nil
}

// Process is a running program. Wait must be called. Its methods are safe for
// concurrent use, and may be called again.
type Process struct {
	Stdin io.WriteCloser
	// Stdout is to be read to the end, or the process Killed. A line longer
	// than Limits.Output ends the program, and is an error (TooLarge,
	// output_too_large).
	Stdout io.Reader
	stderr func() string
	wait   func() error
	kill   func()
}

// Start starts a program. When ctx is done, it and all its children are
// killed. Error codes: sandbox_unavailable (Unsupported: this machine cannot
// confine it; the remedy says what to install, or how to run it unsandboxed),
// program_not_found, program_not_executable, sandbox_path_invalid,
// sandbox_limits_invalid.
func Start(ctx context.Context, c Command) (*Process, error) {
	return thisMachine.start(ctx, c)
}

// Available returns nil if programs can be confined here, and else what Start
// would return: sandbox_unavailable with what to do about it.
func Available() error { return thisMachine.available() }

// Wait waits for its end and cleans up; nothing of it runs any more when it
// returns. It returns nil for exit code 0, and else a coded error:
// program_failed (with the details exit_code or signal), memory_exceeded,
// cpu_exceeded, processes_exceeded (Exhausted), output_too_large,
// program_killed, or the one of the context that ended it.
func (p *Process) Wait() error { return p.wait() }

// Kill ends it and all its children at once.
func (p *Process) Kill() { p.kill() }

// Stderr returns the end of what it has written to stderr, at most 16 KiB.
func (p *Process) Stderr() string { return p.stderr() }
