// Package sandbox runs foreign programs: confined, bounded, with nothing inherited, and ended
// together with all their children.
//
// On Linux a program is confined with bubblewrap (https://github.com/containers/bubblewrap): its
// own namespaces for users, processes, network, IPC, host name and cgroups; a file system of the
// system's read-only folders, an empty /tmp and what the program was granted; no capabilities;
// and a system call filter (seccomp). Its limits are set before its first instruction runs. It
// reaches the network only through a proxy of Steward's (package egress), which besides loopback
// is all that its network namespace has.
//
// A program that a person runs unsandboxed keeps the user's files and network. If bubblewrap
// works, it still has its own process tree, and cannot see the folders in Command.Hide.
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
	Args []string // without the program's name
	Dir  string   // working directory; readable by the program. Empty: its HOME
	Env  []string // NAME=value, besides a minimal PATH, HOME, TMPDIR and LANG; nothing else is inherited

	Name string       // what the log calls it
	Log  *slog.Logger // logs what the program was kept from; nil: not logged

	// Network is where the program may connect, through the HTTP proxy that its environment
	// names. Loopback addresses in it are reached directly.
	Network egress.Rule
	// Connect are addresses 127.0.0.1:PORT of Steward's services, which the program reaches
	// directly. For Network and Connect, the executable of this process runs first, in front of
	// the program: main must begin with Inside.
	Connect []string
	Read    []string // further absolute paths that it may read
	Write   []string // absolute paths that it may write, including everything below them
	Data    string   // a folder of its own that it may write, limited by Limits.Data; empty: none

	// Instead maps absolute paths to the approved copies of the program's own files and folders.
	// The program finds the copy, read-only, at that path in place of the original. In a copied
	// folder, the folder data is shown as it is.
	Instead map[string]string
	// Hide are folders and files of which the program sees only Data and Instead, by whatever path
	// they can be reached. They must exist: a program could make what is missing.
	Hide []string

	// Unsandboxed runs the program with the files and the network of Steward's user; the user has
	// allowed this. Hide holds if programs can be confined (Available).
	Unsandboxed bool
	Limits      Limits
}

// Limits bound a program. Zero values mean the defaults.
type Limits struct {
	Memory    int64         `yaml:"memory" json:"memory,omitzero"`       // bytes, of all its processes; 1 GiB
	CPU       time.Duration `yaml:"cpu" json:"cpu,omitzero"`             // of all its processes; 5 minutes; negative: no limit, for servers
	Processes int           `yaml:"processes" json:"processes,omitzero"` // including their threads, at once; 256
	Output    int64         `yaml:"output" json:"output,omitzero"`       // bytes of one line on stdout; 4 MiB
	FileSize  int64         `yaml:"file_size" json:"file_size,omitzero"` // bytes of a file that it writes, and of all in its /tmp; 256 MiB
	Files     int           `yaml:"files" json:"files,omitzero"`         // open at once in each process; 256
	Data      int64         `yaml:"data" json:"data,omitzero"`           // bytes of everything in its own folder; 256 MiB
}

// WithDefaults returns l with its zero values replaced by the defaults.
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

// check validates limits.
func (l Limits) check() error {
	if l.Memory < 0 || l.Processes < 0 || l.Output < 0 || l.FileSize < 0 || l.Files < 0 || l.Data < 0 {
		return fault.New(fault.Invalid, "sandbox_limits_invalid", "a limit of a program is negative").
			WithHint("omit a limit for its default")
	}
	return nil
}

// Process is a running program. Wait must be called. Its methods are safe for concurrent use, and
// may be called more than once.
type Process struct {
	Stdin io.WriteCloser
	// Stdout must be read to the end, or the process Killed. A line longer than Limits.Output
	// ends the program with an error (TooLarge, output_too_large).
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

// Available returns nil if programs can be confined here, and otherwise the error that Start
// would return: sandbox_unavailable, with a remedy.
func Available() error { return thisMachine.available() }

// Wait waits until the program has ended and cleans up. When it returns, no process of the
// program is running. It returns nil for exit code 0, and otherwise a coded error: program_failed
// (with the details exit_code or signal), memory_exceeded, cpu_exceeded, processes_exceeded
// (Exhausted), output_too_large, program_killed, or that of the context that ended it.
func (p *Process) Wait() error { return p.wait() }

// Kill ends the program and all its children at once.
func (p *Process) Kill() { p.kill() }

// Stderr returns the end of the program's stderr, at most 16 KiB.
func (p *Process) Stderr() string { return p.stderr() }
