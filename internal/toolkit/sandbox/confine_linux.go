package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"steward/internal/fault"
)

// Where a confined program finds what is its own.
const (
	innerTemp = "/tmp"
	innerHome = "/tmp/home"
	innerID   = 1000 // its user and group, whoever Steward is
)

// systemFolders are shown to confined programs, read-only.
func systemFolders() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store"}
}

// systemFiles are what programs need of /etc; the rest of it may hold secrets.
func systemFiles() []string {
	return []string{"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem",
		"pki/tls/certs", "pki/ca-trust", "ca-certificates", "ca-certificates.conf", "crypto-policies", "localtime", "timezone",
		"nsswitch.conf", "host.conf", "gai.conf", "services", "protocols", "mime.types", "magic", "os-release", "locale.alias",
		"fonts", "terminfo", "perl", "java-*", "python3*"}
}

// handed is a file that bubblewrap gets from us, by its number there.
type handed struct{ files []*os.File }

// add hands f over and returns its number in the child.
func (h *handed) add(f *os.File) string {
	h.files = append(h.files, f)
	return strconv.Itoa(2 + len(h.files))
}

// data hands over a file in memory that holds b.
func (h *handed) data(b []byte) (string, error) {
	fd, err := unix.MemfdCreate("steward", unix.MFD_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("making a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	number := h.add(f)
	if _, err = f.Write(b); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return number, err
}

func (h *handed) close() {
	for _, f := range h.files {
		f.Close()
	}
	h.files = nil
}

// confined is a command with what its confinement needs.
type confined struct {
	Command
	program string // absolute
	temp    string // of an unsandboxed program: a folder of the host for what it needs for a while
	handed
	gate, info *os.File // our ends: a byte opens the gate; info tells the first process

	ways          []way    // what is listened for inside
	self          string   // the program that listens
	channel       *os.File // hands the listeners over: our end
	channelInside string   // the number of the other end inside
}

// plan makes the call of bubblewrap. What it says of secrets goes through a
// file in memory, for arguments are seen by every user of the machine.
func (c *confined) plan(bwrap string) (plan, error) {
	args, err := c.arguments()
	if err != nil {
		return plan{}, err
	}
	number, err := c.data([]byte(strings.Join(args, "\x00") + "\x00"))
	if err != nil {
		return plan{}, err
	}
	line := []string{"--args", number, "--"}
	if len(c.ways) > 0 {
		var addresses []string
		for _, w := range c.ways {
			addresses = append(addresses, w.address)
		}
		line = append(line, insideProgram, insideFlag, c.channelInside, strings.Join(addresses, ","))
	}
	line = append(append(line, c.program), c.Args...)
	// The environment is bubblewrap's own: what is declared must not reach it.
	return plan{path: bwrap, args: line, env: []string{"PATH=" + systemPath}, files: c.files}, nil
}

// arguments are bubblewrap's, in the order in which it does them.
func (c *confined) arguments() ([]string, error) {
	args := []string{"--unshare-user", "--unshare-pid", "--die-with-parent", "--new-session", "--cap-drop", "ALL"}
	folders := c.wholeMachine
	if !c.Unsandboxed {
		id := strconv.Itoa(innerID)
		args = append(args, "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--uid", id, "--gid", id, "--hostname", "sandbox")
		folders = c.folders
	}
	more, err := folders()
	if err != nil {
		return nil, err
	}
	args = append(append(args, more...), c.environment()...)
	more, err = c.channels()
	return append(args, more...), err
}

// folders says what of the file system is shown.
func (c *confined) folders() ([]string, error) {
	var args []string
	for _, dir := range systemFolders() {
		if to, err := os.Readlink(dir); err == nil {
			args = append(args, "--symlink", to, dir)
		} else if _, err := os.Stat(dir); err == nil {
			args = append(args, "--ro-bind", dir, dir)
		}
	}
	for _, name := range systemFiles() {
		found, err := filepath.Glob("/etc/" + name)
		if err != nil {
			return nil, err // a pattern of ours
		}
		for _, path := range found {
			args = append(args, "--ro-bind-try", path, path)
		}
	}
	size := strconv.FormatInt(max(c.Limits.FileSize, 64<<10), 10)
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--size", size, "--tmpfs", "/dev/shm",
		"--perms", "1777", "--size", size, "--tmpfs", innerTemp, "--perms", "0700", "--dir", innerHome)
	names, err := c.names()
	if err != nil {
		return nil, err
	}
	granted, err := c.granted()
	if err != nil {
		return nil, err
	}
	args = append(append(args, names...), granted...)
	if len(c.ways) > 0 {
		args = append(args, "--ro-bind", c.self, insideProgram)
	}
	// What bubblewrap has made itself would be writable, and of any size.
	return append(args, "--remount-ro", "/dev", "--remount-ro", "/proc", "--remount-ro", "/"), nil
}

// names are the files by which users and machines are looked up.
func (c *confined) names() ([]string, error) {
	var args []string
	give := func(path, text string) error {
		number, err := c.data([]byte(text))
		args = append(args, "--ro-bind-data", number, path)
		return err
	}
	err := errors.Join(
		give("/etc/passwd", fmt.Sprintf("steward:x:%d:%d:Steward:%s:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n", innerID, innerID, innerHome)),
		give("/etc/group", fmt.Sprintf("steward:x:%d:\nnogroup:x:65534:\n", innerID)))
	return args, errors.Join(err, give("/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n"))
}

// grantable says why a path cannot be granted.
func grantable(path string) error {
	bad := func(why string) error {
		return fault.New(fault.Invalid, "sandbox_path_invalid", "%s cannot be shown to a program: %s", path, why).
			WithHint("name a folder or a file of the user's")
	}
	if !filepath.IsAbs(path) {
		return bad("it is no absolute path")
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return bad("it is not there")
	}
	for _, p := range []string{path, real} {
		if p == "/" {
			return bad("that is all there is")
		}
		for _, kernel := range []string{"/proc", "/sys", "/dev"} {
			if below(p, kernel) && !below(p, "/dev/shm") {
				return bad("it belongs to the kernel")
			}
		}
	}
	return nil
}

func isSystem(path string) bool {
	return slices.ContainsFunc(systemFolders(), func(dir string) bool { return below(path, dir) })
}

// environment is all that the program finds in its own.
func (c *confined) environment() []string {
	args := []string{"--clearenv"}
	set := func(name, value string) { args = append(args, "--setenv", name, value) }
	dir := innerHome
	if c.Unsandboxed {
		dir = c.temp
		for _, e := range freeEnvironment(c.temp) {
			name, value, _ := strings.Cut(e, "=")
			set(name, value)
		}
	} else {
		set("PATH", systemPath)
		set("HOME", innerHome)
		set("TMPDIR", innerTemp)
		set("LANG", "C.UTF-8")
	}
	for _, e := range c.Env {
		if name, value, ok := strings.Cut(e, "="); ok && name != "" {
			set(name, value)
		}
	}
	if c.Dir != "" {
		dir = filepath.Clean(c.Dir)
	}
	return append(args, "--chdir", dir)
}

// channels hands over the filter and the two ends by which the program is
// held back until its limits are set.
func (c *confined) channels() ([]string, error) {
	var args []string
	if !c.Unsandboxed {
		program, err := filter(len(c.ways) > 0)
		if err != nil {
			return nil, err
		}
		calls, err := c.data(program)
		if err != nil {
			return nil, err
		}
		args = append(args, "--seccomp", calls)
	}
	blocked, gate, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	args = append(args, "--block-fd", c.add(blocked))
	c.gate = gate
	info, told, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.info = info
	return append(args, "--info-fd", c.add(told)), nil
}

// close closes what is still open at our side.
func (c *confined) close() {
	c.handed.close()
	c.gate.Close() // of nil: an error that says nothing
	c.info.Close()
}

// first reads the id of the first process inside.
func (c *confined) first() (int, error) {
	var told struct {
		Child int `json:"child-pid"`
	}
	if err := json.NewDecoder(c.info).Decode(&told); err != nil || told.Child <= 1 {
		return 0, errors.Join(errors.New("bubblewrap has not started the program"), err)
	}
	return told.Child, nil
}
