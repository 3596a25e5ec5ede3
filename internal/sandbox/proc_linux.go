package sandbox

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc: USER_HZ, which is 100 on every machine
// that Linux runs on today (proc(5), time(7)).
const tick = time.Second / 100

// process is one entry of /proc.
type process struct {
	pid     int
	state   byte
	threads int
	cpu     time.Duration // including that of its children that have ended
}

func procFile(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// stat reads a process (proc_pid_stat(5)). It returns false if there is none.
func stat(pid int) (process, bool) {
	b, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return process{}, false
	}
	return parseStat(pid, b)
}

func parseStat(pid int, b []byte) (process, bool) {
	i := bytes.LastIndexByte(b, ')') // a name may have spaces and parentheses
	if i < 0 {
		return process{}, false
	}
	f := strings.Fields(string(b[i+1:])) // from field 3 on
	if len(f) < 20 {
		return process{}, false
	}
	num := func(field int) uint64 {
		n, _ := strconv.ParseUint(f[field-3], 10, 64) // the kernel writes numbers there
		return n
	}
	return process{pid: pid, state: f[0][0], threads: int(num(20)),
		cpu: time.Duration(num(14)+num(15)+num(16)+num(17)) * tick}, true
}

// tree returns a process and all its descendants.
func tree(root int) []process {
	var out []process
	todo := []int{root}
	for len(todo) > 0 {
		pid := todo[0]
		todo = todo[1:]
		p, ok := stat(pid)
		if !ok {
			continue
		}
		out = append(out, p)
		todo = append(todo, children(pid)...)
	}
	return out
}

// children returns the processes that any thread of a process has started.
func children(pid int) []int {
	threads, err := os.ReadDir(procFile(pid, "task"))
	if err != nil {
		return nil
	}
	var out []int
	for _, t := range threads {
		b, err := os.ReadFile(procFile(pid, "task/"+t.Name()+"/children"))
		if err != nil {
			continue // the thread is gone
		}
		for _, f := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// memoryOf returns a process's memory that is not backed by files, including what was swapped
// out.
func memoryOf(pid int) int64 {
	b, err := os.ReadFile(procFile(pid, "status"))
	if err != nil {
		return 0
	}
	return kilobytes(b, "RssAnon:", "RssShmem:", "VmSwap:")
}

// proportional is memoryOf with shared memory divided among the processes that share it.
func proportional(pid int) (int64, bool) {
	b, err := os.ReadFile(procFile(pid, "smaps_rollup"))
	if err != nil {
		return 0, false
	}
	return kilobytes(b, "Pss_Anon:", "Pss_Shmem:", "SwapPss:"), true
}

// kilobytes adds up the named fields of a file of /proc.
func kilobytes(b []byte, names ...string) int64 {
	var sum int64
	for line := range strings.Lines(string(b)) {
		for _, name := range names {
			if rest, ok := strings.CutPrefix(line, name); ok {
				n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
				sum += n << 10
			}
		}
	}
	return sum
}
