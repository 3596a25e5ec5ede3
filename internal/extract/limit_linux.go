package extract

import (
	"os"

	"golang.org/x/sys/unix"
)

// limitSelf bounds the memory and processor time of this process. The limit on data (not on
// address space) is one that the Go runtime's reservations do not count against; see
// getrlimit(2). If the machine runs out of memory all the same, this process is the one to go. A
// limit that cannot be set leaves the time limit of the caller.
func limitSelf() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	seconds := uint64(maxTime.Seconds()) + 1
	for what, most := range map[int]uint64{unix.RLIMIT_DATA: maxMemory, unix.RLIMIT_CPU: seconds, unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: 0} {
		_ = unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most})
	}
}
