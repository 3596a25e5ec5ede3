package app

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// RespectMemoryLimit makes the garbage collector respect the memory limit of Steward's control
// group (a container's or a unit's): near the limit it runs more often, before the system
// kills Steward. GOMEMLIMIT takes precedence.
func RespectMemoryLimit(getenv func(string) string, root string) {
	if getenv("GOMEMLIMIT") != "" {
		return
	}
	if most := groupMemory(root); most < math.MaxInt64 {
		debug.SetMemoryLimit(most / 8 * 5) // leave room for memory outside the Go heap: the program, SQLite
	}
}

// groupMemory returns the lowest memory limit of Steward's control group (version 1 or 2) and
// the groups above it, in bytes; MaxInt64: there is no limit.
func groupMemory(root string) int64 {
	most := int64(math.MaxInt64)
	own, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return most // this system has no control groups
	}
	for line := range strings.Lines(string(own)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		at, file := filepath.Join(root, "sys/fs/cgroup"), "memory.max"
		switch {
		case len(f) == 3 && f[1] == "memory":
			at, file = filepath.Join(at, "memory"), "memory.limit_in_bytes"
		case len(f) != 3 || f[1] != "":
			continue
		}
		for dir := filepath.Join("/", f[2]); ; dir = filepath.Dir(dir) {
			if b, err := os.ReadFile(filepath.Join(at, dir, file)); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil { // else it says "max"
					most = min(most, n)
				}
			}
			if dir == "/" {
				break
			}
		}
	}
	if most >= 1<<50 { // version 1 writes a huge number for no limit
		return math.MaxInt64
	}
	return most
}
