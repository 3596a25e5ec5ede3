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

// Places and ids inside of the confinement.
const (
	innerTemp = "/tmp"
	innerHome = "/tmp/home"
	innerID   = 1000 // the program's user and group id, whatever Steward's are
)

// systemFolders are shown to confined programs, read-only.
func systemFolders() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store"}
}

// systemFiles are what programs need of /etc; the rest may hold secrets.
func systemFiles() []string {
	return []string{"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem",
		"pki/tls/certs", "pki/ca-trust", "ca-certificates", "ca-certificates.conf", "crypto-policies", "localtime", "timezone",
		"nsswitch.conf", "host.conf", "gai.conf", "services", "protocols", "mime.types", "magic", "os-release", "locale.alias",
		"fonts", "terminfo", "perl", "java-*", "python3*"}
}

// inheritedFiles holds the files that bubblewrap inherits, by their file descriptors there.
type inheritedFiles struct{ files []*os.File }

// add hands over f and returns its file descriptor in the child.
func (h *inheritedFiles) add(f *os.File) string {
	h.files = append(h.files, f)
	return strconv.Itoa(2 + len(h.files))
}

// data hands over an in-memory file that holds b.
func (h *inheritedFiles) data(b []byte) (string, error) {
	fd, err := unix.MemfdCreate("steward", unix.MFD_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("creating a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	number := h.add(f)
	if _, err = f.Write(b); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return number, err
}

func (h *inheritedFiles) close() {
	for _, f := range h.files {
		f.Close()
	}
	h.files = nil
}

// confined is a command with what its confinement needs.
type confined struct {
	Command
	program string // absolute
	temp    string // for an unsandboxed program: a folder on the host for its temporary files
	inheritedFiles
	gate, info *os.File // our ends: a byte opens the gate; info names the first process

	routes        []route  // the addresses to listen on inside
	self          string   // the executable that listens
	channel       *os.File // transfers the listeners: our end
	channelInside string   // the file descriptor of the other end inside
}

// plan makes the bubblewrap command line. Arguments that hold secrets go through an in-memory
// file, because every user of the machine can see a command line.
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
	if len(c.routes) > 0 {
		var addresses []string
		for _, w := range c.routes {
			addresses = append(addresses, w.address)
		}
		line = append(line, insideProgram, insideFlag, c.channelInside, strings.Join(addresses, ","))
	}
	line = append(append(line, c.program), c.Args...)
	// This is bubblewrap's own environment: the declared variables must not reach it.
	return plan{path: bwrap, args: line, env: []string{"PATH=" + systemPath}, files: c.files}, nil
}

// arguments returns bubblewrap's arguments, in the order in which it applies them.
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

// folders returns the arguments that determine which parts of the file system are shown.
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
	if len(c.routes) > 0 {
		args = append(args, "--ro-bind", c.self, insideProgram)
	}
	// The folders that bubblewrap has created itself would be writable, and of unlimited size.
	return append(args, "--remount-ro", "/dev", "--remount-ro", "/proc", "--remount-ro", "/"), nil
}

// names returns the arguments for the files by which users and hosts are looked up.
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

// grantable returns an error if a path cannot be granted.
func grantable(path string) error {
	bad := func(why string) error {
		return fault.New(fault.Invalid, "sandbox_path_invalid", "%s cannot be shown to a program: %s", path, why).
			WithHint("name a folder or file of the user")
	}
	if !filepath.IsAbs(path) {
		return bad("it is not an absolute path")
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return bad("it does not exist")
	}
	for _, p := range []string{path, real} {
		if p == "/" {
			return bad("it is the whole file system")
		}
		for _, kernel := range []string{"/proc", "/sys", "/dev"} {
			if below(p, kernel) && !below(p, "/dev/shm") {
				return bad("it is a kernel file system")
			}
		}
	}
	return nil
}

func isSystem(path string) bool {
	return slices.ContainsFunc(systemFolders(), func(dir string) bool { return below(path, dir) })
}

// environment returns the program's whole environment.
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

// channels hands over the filter, and the two pipe ends that block the program until its limits are
// set.
func (c *confined) channels() ([]string, error) {
	var args []string
	if !c.Unsandboxed {
		program, err := filter(len(c.routes) > 0)
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
	info, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.info = info
	return append(args, "--info-fd", c.add(w)), nil
}

// close closes what is still open on our side.
func (c *confined) close() {
	c.inheritedFiles.close()
	c.gate.Close() // if nil: an error that means nothing
	c.info.Close()
}

// first reads the id of the first process inside.
func (c *confined) first() (int, error) {
	var first struct {
		Child int `json:"child-pid"`
	}
	if err := json.NewDecoder(c.info).Decode(&first); err != nil || first.Child <= 1 {
		return 0, errors.Join(errors.New("bubblewrap did not start the program"), err)
	}
	return first.Child, nil
}
