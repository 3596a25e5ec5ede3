package sandbox

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// dataSlack is what a process may map beyond Limits.Memory: run-time systems
// map more than they use (stacks of threads, heaps in big pieces).
const dataSlack = 256 << 20

// limit sets the limits of a process that does not run yet, and so of all that
// it will start. own says that it is in a user namespace of its own, where
// the kernel counts its processes apart from the user's others.
func limit(pid int, l Limits, own bool) error {
	limits := map[int]uint64{
		unix.RLIMIT_DATA:   uint64(l.Memory + dataSlack),
		unix.RLIMIT_FSIZE:  uint64(l.FileSize),
		unix.RLIMIT_NOFILE: uint64(l.Files),
		// One byte, not none: a core_pattern that pipes to a program ignores 0
		// (core(5)), and no core fits into a byte.
		unix.RLIMIT_CORE: 1,
	}
	if own && countsApart() {
		limits[unix.RLIMIT_NPROC] = uint64(l.Processes + 1) // the first is bubblewrap's
	}
	var errs []error
	for which, n := range limits {
		errs = append(errs, setLimit(pid, which, n, n))
	}
	if l.CPU > 0 { // at the first it is told, at the second killed
		s := uint64((l.CPU + time.Second - 1) / time.Second)
		errs = append(errs, setLimit(pid, unix.RLIMIT_CPU, s, s+1))
	}
	return errors.Join(errs...)
}

// setLimit lowers a limit; one that is lower already stays.
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

// countsApart reports whether the kernel counts processes per user namespace
// (Linux 5.14). Before, the limit would be compared with all that the user
// runs; there only the watch counts.
func countsApart() bool {
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
