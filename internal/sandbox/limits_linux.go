package sandbox

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// dataSlack is what a process may map beyond Limits.Memory: runtimes map more than they use
// (thread stacks, heaps in large pieces).
const dataSlack = 256 << 20

// limit sets the limits of a process that does not run yet, and so of everything that it will
// start. own says that it is in a user namespace of its own, where the kernel counts its
// processes separately from the user's others.
func limit(pid int, l Limits, own bool) error {
	limits := map[int]uint64{
		unix.RLIMIT_DATA:   uint64(l.Memory + dataSlack),
		unix.RLIMIT_FSIZE:  uint64(l.FileSize),
		unix.RLIMIT_NOFILE: uint64(l.Files),
		// One byte, not zero: a core_pattern that pipes to a program ignores 0 (core(5)), and no
		// core dump fits into a byte.
		unix.RLIMIT_CORE: 1,
	}
	if own && countsPerNamespace() {
		limits[unix.RLIMIT_NPROC] = uint64(l.Processes + 1) // one more for bubblewrap
	}
	var errs []error
	for which, n := range limits {
		errs = append(errs, setLimit(pid, which, n, n))
	}
	if l.CPU > 0 { // SIGXCPU at the soft limit, SIGKILL at the hard one
		s := uint64((l.CPU + time.Second - 1) / time.Second)
		errs = append(errs, setLimit(pid, unix.RLIMIT_CPU, s, s+1))
	}
	return errors.Join(errs...)
}

// setLimit lowers a limit. A limit that is already lower stays.
func setLimit(pid, which int, soft, hard uint64) error {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, which, nil, &old); err != nil {
		return fmt.Errorf("reading limit %d of the program: %w", which, err)
	}
	now := unix.Rlimit{Cur: min(soft, old.Max), Max: min(hard, old.Max)}
	if err := unix.Prlimit(pid, which, &now, nil); err != nil {
		return fmt.Errorf("setting limit %d of the program: %w", which, err)
	}
	return nil
}

// countsPerNamespace reports whether the kernel counts processes per user namespace (Linux 5.14). Older
// kernels would compare the limit with all processes of the user, so there only the watch counts.
func countsPerNamespace() bool {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return false
	}
	var major, minor int
	if _, err := fmt.Sscanf(strings.TrimRight(string(u.Release[:]), "\x00"), "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 5 || major == 5 && minor >= 14
}
