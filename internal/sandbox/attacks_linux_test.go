package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// trials are the attacks on a world. The test binary runs them by name when it is started as a
// probe, for which the world may be empty. A name that occurs again is the same attack with other
// arguments.
func (w *world) trials() []trial {
	secret := filepath.Join(w.home, "secret")
	small := Limits{Memory: 128 << 20, Processes: 40, FileSize: 2 << 20, CPU: time.Second, Files: 128}
	parts := Limits{Memory: 128 << 20, Processes: 200} // threads included
	return []trial{
		// Other processes.
		{name: "see process", run: seeProcess, args: []string{w.pid, w.length}},
		{name: "signal process", run: func(a []string) error { return unix.Kill(number(a[0]), 0) }, args: []string{w.pid}},
		{name: "ptrace process", run: func(a []string) error { return unix.PtraceSeize(number(a[0])) }, args: []string{w.pid}, proof: root},
		{name: "be traced", run: beTraced},
		{name: "read memory", run: readMemory},
		{name: "take descriptor", run: takeDescriptor},
		{name: "compare processes", run: func([]string) error { return call(unix.SYS_KCMP, pid(), pid(), 0) }, proof: root},
		{name: "root of first", run: func(a []string) error { return read("/proc/1/root" + a[0]) }, args: []string{secret}, proof: never},
		{name: "root of itself", run: func(a []string) error { return read("/proc/self/root" + a[0]) }, args: []string{secret}},
		{name: "working folder", run: func(a []string) error { return read("/proc/self/cwd" + strings.Repeat("/..", 64) + a[0]) }, args: []string{secret}},
		{name: "raise priority", run: func([]string) error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -5) }, proof: root},
		{name: "choice of who is killed", run: func([]string) error { return os.WriteFile("/proc/self/oom_score_adj", []byte("1"), 0) }},
		{name: "raise limits", run: raiseLimits, proof: root},
		{name: "inherit environment", run: inheritEnvironment},
		{name: "inherit descriptors", run: inheritDescriptors, args: []string{"secret"}},
		{name: "type into terminal", run: typeIntoTerminal, proof: root},
		// The network.
		{name: "tcp", run: func(a []string) error { return dial("tcp", a[0]) }, args: []string{w.tcp}},
		{name: "tcp", args: []string{strings.Replace(w.tcp, "127.0.0.1", "localhost", 1)}},
		{name: "tcp", args: []string{w.tcp}, network: true},
		{name: "udp", run: udp, args: []string{w.udp}},
		{name: "udp", args: []string{w.udp}, network: true},
		{name: "dns", run: resolve, args: []string{w.udp}},
		{name: "dns", args: []string{w.udp}, network: true},
		{name: "unix socket", run: func(a []string) error { return dial("unix", a[0]) }, args: []string{w.socket}},
		{name: "abstract socket", run: func(a []string) error { return dial("unix", "@"+a[0]) }, args: []string{w.ghost}},
		{name: "abstract socket", args: []string{w.ghost}, network: true},
		{name: "socket from env", run: func([]string) error { return dial("unix", os.Getenv("SSH_AUTH_SOCK")) }},
		{name: "known sockets", run: knownSockets},
		{name: "raw socket", run: func([]string) error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }, proof: root},
		{name: "raw socket", proof: root, network: true},
		{name: "packet socket", run: func([]string) error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) }, proof: root, network: true},
		{name: "kernel crypto", run: func([]string) error { return socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) }, proof: never, network: true},
		{name: "virtual socket", run: func([]string) error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }, proof: never, network: true},
		{name: "kernel events", run: func([]string) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT) }, network: true},
		{name: "audit socket", run: func([]string) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT) }, proof: never},
		{name: "address of itself", run: func([]string) error { return socket(unix.AF_INET, unix.SOCK_STREAM, 0) }},
		// Files and devices.
		{name: "read file", run: func(a []string) error { return read(a[0]) }, args: []string{secret}},
		{name: "read file", args: []string{filepath.Join(w.open, "link/secret")}},
		{name: "read file", args: []string{w.seen + "/../" + filepath.Base(w.home) + "/secret"}, proof: never},
		{name: "read file", args: []string{"/etc/shadow"}, proof: root},
		{name: "list folder", run: func(a []string) error { _, err := os.ReadDir(a[0]); return err }, args: []string{w.home}},
		{name: "list folder", args: []string{"/root"}, proof: root},
		{name: "list folder", args: []string{"/home"}},
		{name: "list folder", args: []string{"/var/log"}},
		{name: "write file", run: func(a []string) error { return create(a[0]) }, args: []string{filepath.Join(w.home, "new")}},
		{name: "write file", args: []string{filepath.Join(w.seen, "new")}},
		{name: "write file", args: []string{"/usr/steward-probe"}, proof: root},
		{name: "write file", args: []string{"/etc/steward-probe"}, proof: root},
		{name: "write file", args: []string{"/dev/steward-probe"}, proof: root},
		{name: "append to file", run: func(a []string) error { return openWrite(a[0]) }, args: []string{filepath.Join(w.seen, "file")}},
		{name: "change mode", run: func(a []string) error { return os.Chmod(a[0], 0o777) }, args: []string{filepath.Join(w.seen, "file")}},
		{name: "write by link", run: func(a []string) error { return create(a[0]) }, args: []string{filepath.Join(w.open, "link/new")}},
		{name: "hard link", run: hardLink, args: []string{secret, w.open}},
		{name: "hard link", args: []string{filepath.Join(w.seen, "file"), w.open}},
		{name: "write own program", run: func([]string) error { return openWrite("/proc/self/exe") }, proof: never},
		{name: "make root file", run: func([]string) error { return create("/steward-probe") }, proof: root},
		{name: "write kernel", run: func([]string) error { return openWrite("/proc/sys/kernel/core_pattern") }, proof: root},
		{name: "system request", run: func([]string) error { return openWrite("/proc/sysrq-trigger") }, proof: never},
		{name: "kernel memory", run: func([]string) error { return read("/proc/kcore") }, proof: never},
		{name: "sysfs", run: func([]string) error { _, err := os.ReadDir("/sys/class/net"); return err }},
		{name: "devices", run: devices, proof: root},
		{name: "make device", run: func([]string) error { return makeDevice() }, proof: root},
		{name: "control groups", run: controlGroups, proof: root},
		{name: "handles", run: func([]string) error { _, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/", 0); return err }, proof: root},
		{name: "mount", run: mount, proof: root},
		{name: "new mount", run: func([]string) error { return newMount() }, proof: root},
		{name: "clone mount", run: func([]string) error { _, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE); return err }, proof: root},
		{name: "make writable", run: func([]string) error { return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") }, proof: never},
		{name: "unmount", run: func([]string) error { return not(unix.Unmount("/nowhere", 0), unix.EPERM) }, proof: root},
		{name: "change root", run: func([]string) error { return unix.Chroot(os.TempDir()) }, proof: root},
		{name: "pivot root", run: func([]string) error { return not(unix.PivotRoot("/nowhere", "/nowhere"), unix.EPERM) }, proof: root},
		{name: "setuid program", run: setuid, args: []string{w.setuid}, proof: root},
		{name: "capabilities", run: func([]string) error { return capabilities() }, proof: root},
		// The kernel.
		{name: "unshare", run: func([]string) error { return unix.Unshare(unix.CLONE_NEWUTS) }, proof: root},
		{name: "unshare files", run: func([]string) error { return unix.Unshare(unix.CLONE_FS) }},
		{name: "clone user", run: func([]string) error { return cloneFlags(unix.CLONE_NEWUSER) }, proof: root},
		{name: "clone network", run: func([]string) error { return cloneFlags(unix.CLONE_NEWUSER | unix.CLONE_NEWNET) }, proof: root},
		{name: "clone3", run: func([]string) error { return not(call(435), unix.ENOSYS) }},
		{name: "join namespace", run: joinNamespace, proof: root},
		{name: "host name", run: hostName, proof: root},
		{name: "clock", run: func([]string) error {
			var t unix.Timex
			_, err := unix.ClockAdjtime(unix.CLOCK_REALTIME, &t)
			return err
		}},
		{name: "set clock", run: setClock, proof: root},
		{name: "keyring", run: func([]string) error {
			_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
			return err
		}, proof: root},
		{name: "add key", run: func([]string) error {
			_, err := unix.AddKey("user", "steward", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
			return err
		}, proof: root},
		{name: "bpf", run: bpfMap, proof: root},
		{name: "io_uring", run: func([]string) error { return not(call(unix.SYS_IO_URING_SETUP, 1, 0), unix.ENOSYS) }},
		{name: "userfaultfd", run: func([]string) error { return call(unix.SYS_USERFAULTFD, unix.O_CLOEXEC) }, proof: root},
		{name: "perf", run: perf, proof: never},
		{name: "load module", run: func([]string) error { return not(unix.InitModule(nil, ""), unix.EPERM) }, proof: root},
		{name: "kexec", run: func([]string) error { return not(call(unix.SYS_KEXEC_LOAD, 0, 99, 0, 0), unix.EPERM) }, proof: root},
		{name: "reboot", run: func([]string) error { return not(call(unix.SYS_REBOOT, 0, 0, 0), unix.EPERM) }, proof: root},
		{name: "swap", run: func([]string) error { return not(call(unix.SYS_SWAPON, 0, 0), unix.EPERM) }, proof: root},
		{name: "kernel log", run: func([]string) error { _, err := unix.Klogctl(10, nil); return err }, proof: root},
		{name: "accounting", run: func([]string) error { return not(call(unix.SYS_ACCT, 1), unix.EPERM) }, proof: root},
		{name: "watch all files", run: func([]string) error { _, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF, 0); return err }, proof: root},
		{name: "personality", run: func([]string) error { return call(unix.SYS_PERSONALITY, 0x40000) }},
		{name: "foreign call", run: func([]string) error { return not(call(0x40000000|unix.SYS_GETPID), unix.EPERM) }},
		{name: "secret memory", run: func([]string) error { _, err := unix.MemfdCreate("x", 0); return err }},
		{name: "kernel shared", run: func([]string) error { return call(unix.SYS_SHMGET, 0, 4096, unix.IPC_CREAT|0o600) }},
		{name: "kernel queue", run: func([]string) error { return call(unix.SYS_MSGGET, 0, unix.IPC_CREAT|0o600) }},
		// Exhaustion.
		{name: "many processes", run: manyProcesses, limits: small},
		{name: "many threads", run: manyThreads, limits: small},
		{name: "much memory", run: func([]string) error { return fill(unix.MAP_PRIVATE) }, limits: small},
		{name: "shared memory", run: func([]string) error { return fill(unix.MAP_SHARED) }, limits: small},
		{name: "memory in parts", run: memoryInParts, limits: parts},
		{name: "long computation", run: compute, limits: small, proof: never},
		{name: "big file", run: bigFile, args: []string{w.open}, limits: small},
		{name: "shared folder", run: func([]string) error { return fillFolder("/dev/shm") }, limits: small},
		{name: "temporary folder", run: func([]string) error { return fillFolder(os.TempDir()) }, limits: small},
		{name: "many descriptors", run: manyDescriptors, limits: small},
	}
}

func pid() uintptr { return uintptr(os.Getpid()) }

func number(s string) int { n, _ := strconv.Atoi(s); return n }

func call(nr uintptr, args ...uintptr) error {
	args = append(args, 0, 0, 0, 0, 0, 0)
	if _, _, e := unix.Syscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5]); e != 0 {
		return e
	}
	return nil
}

// not returns nil, which means a successful attack, unless err is kept.
func not(err error, kept error) error {
	if errors.Is(err, kept) {
		return err
	}
	return nil
}

func read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Read(make([]byte, 1))
	return err
}

func create(path string) error {
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		return err
	}
	return os.Remove(path)
}

func openWrite(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		f.Close()
	}
	return err
}

func dial(network, address string) error {
	if address == "" {
		return errors.New("no address")
	}
	c, err := net.DialTimeout(network, address, 30*time.Second)
	if err == nil {
		c.Close()
	}
	return err
}

func udp(a []string) error {
	c, err := net.Dial("udp", a[0])
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Write([]byte("ping")); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 9))
	return err
}

func resolve(a []string) error {
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", a[0])
	}}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := r.LookupHost(ctx, "steward.example.")
	return err
}

func knownSockets([]string) error {
	paths := []string{"/run/dbus/system_bus_socket", "/var/run/docker.sock", "/run/docker.sock", "/tmp/.X11-unix/X0", "@/tmp/.X11-unix/X0",
		"/run/systemd/private", "/run/user/0/bus", "/run/user/1000/bus", "/run/containerd/containerd.sock", "/run/postgresql/.s.PGSQL.5432"}
	if a, ok := strings.CutPrefix(os.Getenv("DBUS_SESSION_BUS_ADDRESS"), "unix:path="); ok {
		paths = append(paths, a)
	}
	for _, p := range paths {
		if dial("unix", p) == nil {
			return nil
		}
	}
	return errors.New("none answers")
}

func socket(family, kind, protocol int) error {
	fd, err := unix.Socket(family, kind, protocol)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func seeProcess(a []string) error {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, path := range all {
		if b, err := os.ReadFile(path); err == nil && bytes.HasPrefix(b, []byte("sleep\x00"+a[1])) {
			return nil
		}
	}
	return errors.New("not seen")
}

func readMemory([]string) error {
	from, to := []byte("x"), make([]byte, 1)
	_, err := unix.ProcessVMReadv(os.Getpid(), []unix.Iovec{{Base: &to[0], Len: 1}},
		[]unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&from[0])), Len: 1}}, 0)
	return err
}

func takeDescriptor([]string) error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(fd, 0, 0)
	return err
}

func raiseLimits([]string) error {
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 40, Max: 1 << 40})
}

func inheritEnvironment([]string) error {
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return err
	}
	for _, path := range all {
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte("PROBE_SECRET=")) {
			return nil
		}
	}
	return errors.New("not there")
}

func inheritDescriptors(a []string) error {
	for fd := 3; fd < 4096; fd++ {
		if f, err := unix.Openat(fd, a[0], unix.O_RDONLY, 0); err == nil {
			unix.Close(f)
			return nil
		}
	}
	for fd := range 3 { // through the files that it does have
		if _, err := os.Stat(fmt.Sprintf("/proc/self/fd/%d/../%s", fd, a[0])); err == nil {
			return nil
		}
	}
	return errors.New("there are none")
}

func typeIntoTerminal([]string) error {
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	c := byte('x')
	return not(call(unix.SYS_IOCTL, f.Fd(), unix.TIOCSTI, uintptr(unsafe.Pointer(&c))), unix.EPERM)
}

func hardLink(a []string) error {
	to := filepath.Join(a[1], "linked")
	if err := os.Link(a[0], to); err != nil {
		return err
	}
	return os.Remove(to)
}

func devices([]string) error {
	known := []string{"console", "core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
	entries, err := os.ReadDir("/dev")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.Contains(known, e.Name()) && openWrite("/dev/"+e.Name()) == nil {
			return nil
		}
	}
	return errors.New("only the usual ones")
}

func makeDevice() error {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("null-%d", os.Getpid()))
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		return err
	}
	defer os.Remove(path)
	return openWrite(path)
}

func controlGroups([]string) error {
	err := errors.New("there are none")
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.Name() == "cgroup.procs" && openWrite(path) == nil {
			err = nil
			return fs.SkipAll
		}
		return nil
	})
	return err
}

func mount([]string) error {
	dir, err := os.MkdirTemp("", "mount")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=4k"); err != nil {
		return err
	}
	return unix.Unmount(dir, 0)
}

func newMount() error {
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func setuid(a []string) error {
	out, err := exec.Command(a[0], "probe", "capabilities").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func capabilities() error {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	if bytes.Contains(b, []byte("CapEff:\t0000000000000000")) {
		return errors.New("it has none")
	}
	return nil
}

func cloneFlags(flags uintptr) error {
	cmd := exec.Command("/proc/self/exe", "probe", "nothing")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	return cmd.Run()
}

// init keeps a probe on its first thread. A traced thread that is not the first stays a zombie until its
// tracer waits for it, and then nobody sees the end of its process.
func init() {
	if len(os.Args) > 1 && os.Args[1] == "probe" {
		runtime.LockOSThread()
	}
}

// beTraced asks to be traced by its parent, which does not act as a tracer. The first signal would stop
// the thread for good, and Go's runtime signals long-running threads. So it blocks all signals first.
func beTraced([]string) error {
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil); err != nil {
		return err
	}
	return call(unix.SYS_PTRACE, unix.PTRACE_TRACEME)
}

func joinNamespace([]string) error {
	fd, err := unix.Open("/proc/self/ns/uts", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return unix.Setns(fd, unix.CLONE_NEWUTS)
}

func hostName([]string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	return unix.Sethostname([]byte(name))
}

func setClock([]string) error {
	return not(call(unix.SYS_CLOCK_SETTIME, unix.CLOCK_REALTIME, 0), unix.EPERM)
}

func bpfMap([]string) error {
	attr := struct{ kind, key, value, entries uint32 }{2, 4, 4, 1}
	return call(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
}

func perf([]string) error {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
	_, err := unix.PerfEventOpen(&attr, 0, -1, -1, 0)
	return err
}
