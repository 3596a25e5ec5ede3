package app

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

func TestGroupMemory(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no groups":          {nil, math.MaxInt64},
		"a container's":      {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 512 << 20},
		"that of one above":  {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "1024\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, 1024},
		"none":               {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, math.MaxInt64},
		"the first version":  {map[string]string{"proc/self/cgroup": "5:cpu:/x\n4:memory:/a\n0::/\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "2048\n"}, 2048},
		"none, in the first": {map[string]string{"proc/self/cgroup": "4:memory:/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n"}, math.MaxInt64},
	} {
		root := t.TempDir()
		for path, text := range c.files {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := groupMemory(root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		if c.want != 512<<20 {
			continue
		}
		before := debug.SetMemoryLimit(-1)
		RespectMemoryLimit(func(string) string { return "1GiB" }, root)
		if got := debug.SetMemoryLimit(-1); got != before {
			t.Errorf("GOMEMLIMIT does not count: %d", got)
		}
		RespectMemoryLimit(func(string) string { return "" }, root)
		if got := debug.SetMemoryLimit(before); got != 320<<20 {
			t.Errorf("the limit is %d", got)
		}
	}
}
