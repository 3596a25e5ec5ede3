package sandbox

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of times in /proc: USER_HZ, which is 100 on every machine
// that Linux runs on today (proc(5), time(7)).
const tick = time.Second / 100

// process is one entry of /proc.
type process struct {
	pid, parent, group, session int
	state                       byte
	threads                     int
	cpu                         time.Duration // with that of its children that have ended
	started                     uint64        // ticks since the machine's start: with pid, an identity
}

func procFile(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// stat reads a process (proc_pid_stat(5)); false: there is none.
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
	return process{pid: pid, state: f[0][0], parent: int(num(4)), group: int(num(5)), session: int(num(6)), threads: int(num(20)),
		cpu: time.Duration(num(14)+num(15)+num(16)+num(17)) * tick, started: num(22)}, true
}

// tree returns a process and all below it.
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

// children returns the processes that a process, in any of its threads, has
// started.
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

// memoryOf is what a process holds in memory that no file backs, also what
// was swapped out.
func memoryOf(pid int) int64 {
	b, err := os.ReadFile(procFile(pid, "status"))
	if err != nil {
		return 0
	}
	return kilobytes(b, "RssAnon:", "RssShmem:", "VmSwap:")
}

// proportional is memoryOf with shared memory in proportion to how many share it.
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

// family are the processes of an unconfined program: its tree, its session,
// those that were seen in its tree before, those that carry its mark, and
// those that hold its pipes. Only who sheds all of them at once escapes it (a
// cgroup, where there is one, is not escaped).
type family struct {
	root  int
	mark  string
	pipes []string // as links in /proc/PID/fd read
	seen  map[int]uint64
}

// members returns who of the family still runs; only a thorough look finds
// those by their marks and pipes.
func (f family) members(thorough bool) []process {
	rest := processes()
	in := map[int]bool{f.root: true}
	for _, p := range rest {
		if f.known(p) || thorough && f.marked(p) {
			in[p.pid] = true
		}
	}
	var out []process
	for grown := true; grown; { // a child may stand before its parent
		grown = false
		rest = slices.DeleteFunc(rest, func(p process) bool {
			if !in[p.pid] && !in[p.parent] {
				return false
			}
			in[p.pid], grown = true, true
			if p.state != 'Z' && p.state != 'X' {
				out = append(out, p)
			}
			return true
		})
	}
	return out
}

// processes returns all of this machine, but for this one.
func processes() []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if p, ok := stat(pid); ok {
			out = append(out, p)
		}
	}
	return out
}

// known reports whether a process belongs to the family wherever it stands.
func (f family) known(p process) bool {
	if p.session == f.root || p.pid == f.root {
		return true
	}
	started, ok := f.seen[p.pid]
	return ok && started == p.started
}

// marked reports whether a process carries the family's mark or its pipes.
func (f family) marked(p process) bool {
	if p.parent == os.Getpid() {
		return false // another program of ours; before it is run, it has all files of Steward
	}
	if f.mark != "" { // one that was confined has none: what failed before it ran carries nothing
		env, err := os.ReadFile(procFile(p.pid, "environ"))
		if err == nil && bytes.Contains(env, []byte(f.mark+"\x00")) {
			return true
		}
	}
	return f.holds(p.pid)
}

// holds reports whether a process has a pipe of the program open.
func (f family) holds(pid int) bool {
	dir := procFile(pid, "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false // of another user, or gone
	}
	for _, e := range entries {
		if to, err := os.Readlink(dir + "/" + e.Name()); err == nil && slices.Contains(f.pipes, to) {
			return true
		}
	}
	return false
}

// killRounds bounds how often kill looks for processes that were started
// meanwhile.
const killRounds = 1000

// kill ends the family. A signal to a group reaches all that are in it at
// once, also those that are just being forked. What may not be ended, as it has
// become another user's, is left.
func (f family) kill() {
	own := unix.Getpgrp()
	for range killRounds {
		_ = unix.Kill(-f.root, unix.SIGKILL) // the groups are the family's own, for its root began a session
		reached := false
		for _, p := range f.members(true) {
			if p.group > 1 && p.group != own {
				_ = unix.Kill(-p.group, unix.SIGKILL)
			}
			if err := unix.Kill(p.pid, unix.SIGKILL); !errors.Is(err, unix.EPERM) {
				reached = true // gone is as good
			}
		}
		if !reached {
			return
		}
	}
}
