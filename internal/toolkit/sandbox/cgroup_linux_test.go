package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
)

func TestCgroupPlace(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, 0, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	mounts := file("mounts", "31 23 0:28 / /sys rw - sysfs sysfs rw\n41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	for name, c := range map[string]struct{ mounts, groups, want string }{
		"systemd":   {mounts, "0::/user.slice/app.service\n", "/sys/fs/cgroup/user.slice/app.service"},
		"both":      {mounts, "4:memory:/x\n0::/\n", "/sys/fs/cgroup"},
		"container": {file("inner", "41 31 0:38 /docker/abc /cg rw - cgroup2 cgroup2 rw\n"), "0::/docker/abc/in\n", "/cg/in"},
		"elsewhere": {file("other", "41 31 0:38 /docker/abc /cg rw - cgroup2 cgroup2 rw\n"), "0::/\n", ""},
		"old":       {mounts, "4:memory:/x\n", ""},
		"none":      {filepath.Join(dir, "none"), "0::/\n", ""},
	} {
		got, ok := ownCgroup(c.mounts, file("groups", c.groups))
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
}

func TestCgroupFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"memory.max": "max", "pids.max": "max", "cpu.stat": "usage_usec 1500000\nuser_usec 3\n",
		"memory.events": "low 0\noom_kill 2\n", "cgroup.procs": ""} {
		must(t, 0, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	g := &cgroup{path: dir}
	must(t, 0, g.set(Limits{Memory: 1000, FileSize: 24, Processes: 5}))
	if g.read("memory.max") != "1024" && !strings.HasPrefix(g.read("memory.max"), "1024") || g.read("pids.max")[:1] != "7" {
		t.Errorf("%q, %q", g.read("memory.max"), g.read("pids.max"))
	}
	if d, ok := g.cpu(); d != 1500*time.Millisecond || !ok {
		t.Error(d, ok)
	}
	if !g.outOfMemory() {
		t.Error("the end for memory is not seen")
	}
	r := &running{limits: Limits{}.WithDefaults(), group: g}
	if err := r.outcome(); !fault.HasCode(err, "memory_exceeded") {
		t.Error(err)
	}
	g.kill() // nobody is in it
	if _, ok := g.field("nothing", "x"); ok {
		t.Error("a field of no file")
	}
}
