package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is a control group (version 2) of one program. Where Steward may
// make one, nothing of a program escapes it; limits are set in it as far as
// the level above hands them down.
type cgroup struct {
	path string
	dir  *os.File
}

// newCgroup makes a group below Steward's own, or returns nil where that is
// not allowed.
func newCgroup(l Limits) *cgroup {
	own, ok := ownCgroup("/proc/self/mountinfo", "/proc/self/cgroup")
	if !ok {
		return nil
	}
	path, err := os.MkdirTemp(own, fmt.Sprintf("steward-%d-", os.Getpid()))
	if err != nil {
		return nil
	}
	g := &cgroup{path: path}
	if g.dir, err = os.Open(path); err != nil || g.set(l) != nil {
		g.remove()
		return nil
	}
	return g
}

// ownCgroup finds the folder of this process's group of version 2.
func ownCgroup(mountinfo, membership string) (string, bool) {
	mounts, err1 := os.ReadFile(mountinfo)
	groups, err2 := os.ReadFile(membership)
	if errors.Join(err1, err2) != nil {
		return "", false
	}
	var group string
	for line := range strings.Lines(string(groups)) {
		if rest, ok := strings.CutPrefix(line, "0::"); ok {
			group = strings.TrimSpace(rest)
		}
	}
	if group == "" {
		return "", false
	}
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if !strings.HasPrefix(after, "cgroup2 ") || len(f) < 5 {
			continue
		}
		if root := f[3]; below(group, root) {
			return filepath.Join(f[4], strings.TrimPrefix(group, strings.TrimSuffix(root, "/"))), true
		}
	}
	return "", false
}

// set writes the limits for which there are controllers.
func (g *cgroup) set(l Limits) error {
	for name, value := range map[string]int64{
		"memory.max": l.Memory + l.FileSize, // what lies in its /tmp counts too
		"pids.max":   int64(l.Processes + 2),
	} {
		err := g.write(name, strconv.FormatInt(value, 10))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (g *cgroup) write(name, value string) error {
	f, err := os.OpenFile(filepath.Join(g.path, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func (g *cgroup) read(name string) string {
	b, err := os.ReadFile(filepath.Join(g.path, name))
	if err != nil {
		return ""
	}
	return string(b)
}

// kill ends all in the group.
func (g *cgroup) kill() {
	if g.write("cgroup.kill", "1") == nil {
		return
	}
	for range killRounds { // before Linux 5.14
		pids := strings.Fields(g.read("cgroup.procs"))
		if len(pids) == 0 {
			return
		}
		for _, p := range pids {
			if pid, err := strconv.Atoi(p); err == nil {
				_ = unix.Kill(pid, unix.SIGKILL) // gone is as good
			}
		}
	}
}

// field returns a number of a file of lines "name number".
func (g *cgroup) field(file, name string) (int64, bool) {
	for line := range strings.Lines(g.read(file)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// cpu returns the time that the group has used.
func (g *cgroup) cpu() (time.Duration, bool) {
	us, ok := g.field("cpu.stat", "usage_usec")
	return time.Duration(us) * time.Microsecond, ok
}

// outOfMemory reports whether the kernel has ended a process for memory.
func (g *cgroup) outOfMemory() bool {
	n, _ := g.field("memory.events", "oom_kill")
	return n > 0
}

// remove ends what is left in the group and removes it. The kernel may still
// be taking its last process apart.
func (g *cgroup) remove() {
	for wait := time.Millisecond; wait < time.Second; wait *= 2 {
		if err := os.Remove(g.path); err == nil || errors.Is(err, os.ErrNotExist) {
			break
		}
		g.kill()
		time.Sleep(wait)
	}
	g.dir.Close() // of nil: an error that says nothing
}
