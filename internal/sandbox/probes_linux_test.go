package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/test/must"
)

// TestMain runs the tests, or what this binary was started as: a probe, or Inside.
func TestMain(m *testing.M) {
	if code, mine := Inside(os.Args); mine {
		os.Exit(code)
	}
	if len(os.Args) > 2 && os.Args[1] == "probe" {
		os.Exit(probe(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// noSleep lets programs that were built with the race detector end at once.
const noSleep = "atexit_sleep_ms=0"

// kept is the exit code of an attack that failed.
const kept = 42

func probe(name string, args []string) int {
	if run, ok := helpers()[name]; ok {
		return run(args)
	}
	for _, tr := range new(world).trials() {
		if tr.name != name {
			continue
		}
		if err := tr.run(args); err != nil {
			fmt.Println("kept:", err)
			return kept
		}
		fmt.Println("through")
		return 0
	}
	panic("there is no probe " + name)
}

// proof says which user can show that an attack succeeds without the sandbox.
type proof int

const (
	anyone proof = iota // for every user
	root                // with root's capabilities
	never               // it would do harm, or depends on the machine
)

// world holds the targets of the probes.
type world struct {
	home   string // a folder that is not granted, with a file secret and a socket
	open   string // a folder that may be written, with a link to home
	seen   string // a folder that may be read, with a file
	setuid string // a program with the set-user-id bit

	pid, length string // of a process: its id, and the time that it sleeps
	tcp, udp    string // addresses of listeners
	socket      string // path of a Unix socket
	ghost       string // name of an abstract socket
}

func newWorld(t *testing.T) *world {
	w := &world{home: t.TempDir(), open: t.TempDir(), seen: t.TempDir()}
	for _, f := range []string{filepath.Join(w.home, "secret"), filepath.Join(w.seen, "file"), filepath.Join(w.open, "own")} {
		must.Do(t, os.WriteFile(f, []byte("x"), 0o600))
	}
	must.Do(t, os.Symlink(w.home, filepath.Join(w.open, "link")))
	w.length = fmt.Sprintf("86%06d", os.Getpid())
	sleep := exec.Command("sleep", w.length)
	must.Do(t, sleep.Start())
	t.Cleanup(func() { sleep.Process.Kill(); sleep.Wait() })
	w.pid = strconv.Itoa(sleep.Process.Pid)
	listen := func(network, address string) string {
		l := must.Get(net.Listen(network, address))
		t.Cleanup(func() { l.Close() })
		return l.Addr().String()
	}
	w.tcp = listen("tcp", "127.0.0.1:0")
	w.socket = listen("unix", filepath.Join(w.home, "s"))
	w.ghost = strings.TrimPrefix(listen("unix", fmt.Sprintf("@steward-probe-%d", os.Getpid())), "@")
	udp := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))
	t.Cleanup(func() { udp.Close() })
	go serveUDP(udp)
	w.udp = udp.LocalAddr().String()
	w.setuid = setuidProgram(t)
	t.Setenv("PROBE_SECRET", "yes")
	t.Setenv("PROBE_FREE", "yes") // programs in the sandbox do not inherit it
	t.Setenv("SSH_AUTH_SOCK", w.socket)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+w.socket)
	return w
}

// setuidProgram returns a program with the set-user-id bit. It belongs to root if root runs the tests, or
// ran the tests that started these.
func setuidProgram(t *testing.T) string {
	if path := os.Getenv("PROBE_SETUID"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "setuid")
	copyFile(t, path)
	must.Do(t, os.Chmod(path, 0o755|os.ModeSetuid))
	return path
}

// copyFile copies this program.
func copyFile(t *testing.T, to string) {
	t.Helper()
	b := must.Get(os.ReadFile(must.Get(os.Executable())))
	must.Do(t, os.WriteFile(to, b, 0o755))
	must.Do(t, os.Chmod(to, 0o755))
}

// serveUDP answers pings, and DNS questions with an address.
func serveUDP(c net.PacketConn) {
	buf := make([]byte, 512)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		answer := []byte("pong")
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) == nil && len(m.Questions) == 1 {
			m.Response = true
			m.Additionals = nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body: &dnsmessage.AResource{A: [4]byte{10, 1, 2, 3}}}}
			}
			if answer, err = m.Pack(); err != nil {
				continue
			}
		}
		c.WriteTo(answer, from)
	}
}

// trial is an attack with its arguments.
type trial struct {
	name string
	// run is what a program might try. It returns nil if it succeeded, and otherwise what prevented
	// it.
	run     func(args []string) error
	args    []string
	proof   proof
	network bool
	limits  Limits
}

// TestProbes shows that each attack succeeds without the sandbox, if that can be shown, and fails inside.
func TestProbes(t *testing.T) {
	must.Do(t, Available())
	t.Setenv("GORACE", noSleep)
	w := newWorld(t)
	self := must.Get(os.Executable())
	kept, proved := 0, 0
	for _, tr := range w.trials() {
		name := tr.name
		if tr.network {
			name += " with a network"
		}
		t.Run(name, func(t *testing.T) {
			line := append([]string{"probe", tr.name}, tr.args...)
			w.leak(t)
			if tr.proof == anyone || tr.proof == root && mighty() {
				out, err := exec.Command(self, line...).CombinedOutput()
				if err != nil {
					t.Errorf("it proves nothing: without the sandbox: %s%v", out, err)
				}
				proved++
			}
			var network egress.Rule
			if tr.network {
				network = must.Get(egress.Declared(true))
			}
			out, err := inSandbox(t, Command{Path: self, Args: line, Network: network,
				Read: []string{w.seen, w.setuid}, Write: []string{w.open}, Limits: tr.limits})
			if !tr.kept(err) {
				t.Errorf("it was not kept from its aim: %s%v", out, err)
			}
			t.Logf("%s%v", out, err)
			kept++
		})
	}
	t.Logf("as user %d: %d probes kept from their aim, %d of them shown to reach it without the sandbox", os.Getuid(), kept, proved)
	must.Get(os.Stat(filepath.Join(w.home, "secret")))
	if err := unix.Kill(number(w.pid), 0); err != nil {
		t.Error("the other process is gone")
	}
}

// kept reports whether the attack was tried and failed, or the program was ended for it.
func (tr trial) kept(err error) bool {
	f := fault.Of(err)
	switch {
	case f == nil:
		return false
	case f.Details["exit_code"] == kept || f.Details["signal"] == "SIGSYS":
		return true
	case tr.limits == Limits{}:
		return false
	}
	return f.Kind == fault.Exhausted || f.Details["exit_code"] == 2 // Go's runtime gave up
}

// leak opens the folder that is not granted without close-on-exec, like a careless library.
func (w *world) leak(t *testing.T) {
	fd := must.Get(unix.Open(w.home, unix.O_RDONLY|unix.O_DIRECTORY, 0))
	t.Cleanup(func() { unix.Close(fd) })
}

// mighty reports whether this process is root with all capabilities.
func mighty() bool { return os.Getuid() == 0 && capabilities() == nil }

// inSandbox runs a program to its end and returns its stdout.
func inSandbox(t *testing.T, c Command) (string, error) {
	t.Helper()
	ctx := context.Background()
	c.Env = append(c.Env, "GORACE="+noSleep)
	p := must.Get(Start(ctx, c))
	p.Stdin.Close()
	out, err := io.ReadAll(p.Stdout)
	if werr := p.Wait(); werr != nil {
		err = werr
	}
	return string(out), err
}

// TestAsOrdinaryUser runs these tests once more as an unprivileged user, if root runs them.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		return // the other tests already run as an unprivileged user
	}
	dir := must.Get(os.MkdirTemp("", "steward-ordinary-"))
	defer os.RemoveAll(dir)
	must.Do(t, os.Chmod(dir, 0o755))
	self, setuid, temp := filepath.Join(dir, "test"), filepath.Join(dir, "setuid"), filepath.Join(dir, "tmp")
	copyFile(t, self)
	copyFile(t, setuid)
	must.Do(t, os.Chmod(setuid, 0o755|os.ModeSetuid))
	must.Do(t, os.Mkdir(temp, 0o700))
	must.Do(t, os.Chown(temp, 65534, 65534))
	limit := 15 * time.Minute
	if at, ok := t.Deadline(); ok {
		limit = time.Until(at) - 10*time.Second // leaves time to report a time-out
	}
	cmd := exec.Command(self, "-test.v", "-test.timeout", limit.String(), "-test.run", "^(TestProbes|TestBombs|TestNothingIsLeft|TestConnect)$")
	cmd.Dir = temp
	cmd.Env = []string{"PATH=" + systemPath, "HOME=" + temp, "TMPDIR=" + temp, "PROBE_SETUID=" + setuid, "GORACE=" + noSleep}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "as user") || strings.HasPrefix(line, "--- ") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if bytes.Contains(out, []byte("no tests to run")) {
		t.Error("nothing was tested")
	}
}

// helpers are programs that probes and tests start.
func helpers() map[string]func([]string) int {
	return map[string]func([]string) int{
		"nothing": func([]string) int { return 0 },
		"talk":    talk,
		"litter": func(a []string) int {
			if err := os.WriteFile(a[0]+"/litter", nil, 0o600); err != nil {
				fmt.Println(err)
				return 1
			}
			return 0
		},
		"exit": func(a []string) int { return number(a[0]) },
		"crash": func([]string) int {
			unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		},
		"part": func([]string) int {
			b := make([]byte, 40<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			fmt.Print("x")
			_, _ = io.Copy(io.Discard, os.Stdin) // until its input is closed
			return int(b[0]) - 1
		},
	}
}
