package main

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// heedMemory makes the garbage collector respect the memory limit of Steward's control
// group (a container's or a unit's): near the limit it runs more often, before the system
// kills Steward. GOMEMLIMIT takes precedence.
func heedMemory(getenv func(string) string, root string) {
	if getenv("GOMEMLIMIT") != "" {
		return
	}
	if most := groupMemory(root); most < math.MaxInt64 {
		debug.SetMemoryLimit(most / 8 * 5) // the rest is for what the collector does not see: the program, SQLite
	}
}

// groupMemory is the lowest limit of Steward's control group and those above it, in version
// 2 or 1 of control groups; MaxInt64: none.
func groupMemory(root string) int64 {
	most := int64(math.MaxInt64)
	own, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return most // there are none on this system
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
	if most >= 1<<50 { // how the first version says that there is none
		return math.MaxInt64
	}
	return most
}
