package sandbox

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/test/must"
	_ "steward/test/seed"
)

func TestOutput(t *testing.T) {
	out, err := inSandbox(t, Command{Path: "sh", Args: []string{"-c", "pwd; id -un; cat; echo $HOME $TMPDIR $LANG $A; echo to-stderr >&2; exit 3"},
		Env: []string{"A=b c", "LD_PRELOAD=/nowhere.so", "junk", "=x"}})
	f := fault.Of(err)
	if want := "/tmp/home\nsteward\n/tmp/home /tmp C.UTF-8 b c\n"; !strings.HasSuffix(out, want) {
		t.Errorf("%q, want %q", out, want)
	}
	if f == nil || f.Code != "program_failed" || f.Details["exit_code"] != 3 || !strings.Contains(f.Message, "to-stderr") {
		t.Errorf("%#v", f)
	}
}

// No argument contains a secret, because every user of the machine can read arguments.
func TestSecretsAreNotInArguments(t *testing.T) {
	p := must.Get(Start(context.Background(), Command{Path: "cat", Env: []string{"KEY=s3cr3t-value"}}))
	defer p.Wait()
	defer p.Kill()
	if found := marked(t, "s3cr3t-value"); len(found) > 0 {
		t.Errorf("processes %v show it", found)
	}
}

func TestProgramsThatCannotBeRun(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(content), mode))
		return path
	}
	elf := "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x02\x00"
	t.Setenv("PATH", os.Getenv("PATH")+":"+dir+":relative")
	write("only-here", "#!/bin/sh\necho found\n", 0o755)
	for path, code := range map[string]string{
		"/nowhere/at/all": "program_not_found",
		"no-such-program": "program_not_found",
		"./relative":      "program_not_found",
		"":                "program_not_found",
		filepath.Join(write("file", "x", 0o755), "x"): "program_not_found",
		dir:                                   "program_not_executable",
		"/dev/null":                           "program_not_executable",
		write("plain", "#!x", 0o644):          "program_not_executable",
		write("empty", "", 0o755):             "program_not_executable",
		write("text", "echo", 0o755):          "program_not_executable",
		"text":                                "program_not_executable",
		write("sparc", elf+"\x2b\x00", 0o755): "program_not_executable",
		write("lost", "#!/nowhere/perl\n", 0o755): "program_not_executable",
	} {
		for _, free := range []bool{false, true} {
			p, err := Start(context.Background(), Command{Path: path, Unsandboxed: free})
			if err == nil {
				err = p.Wait()
			}
			if !fault.HasCode(err, code) {
				t.Errorf("%q, unsandboxed %v: %v", path, free, err)
			}
		}
	}
	if out, err := inSandbox(t, Command{Path: "only-here"}); err != nil || out != "found\n" {
		t.Errorf("a program of Steward's own PATH: %q, %v", out, err)
	}
	if out, err := inSandbox(t, Command{Path: "only-here", Env: []string{"PATH=" + dir}}); err != nil || out != "found\n" {
		t.Errorf("a program of its PATH: %q, %v", out, err)
	}
	if err := format("/nowhere"); !fault.HasCode(err, "program_not_found") {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	done, cancel := context.WithCancelCause(context.Background())
	cancel(fault.New(fault.Cancelled, "stopped", "stopped by the user"))
	if _, err := Start(done, Command{Path: "true"}); !fault.HasCode(err, "stopped") {
		t.Errorf("an ended context: %v", err)
	}
	for _, l := range []Limits{{Memory: -1}, {Processes: -1}, {Output: -1}, {FileSize: -1}, {Files: -1}} {
		if _, err := Start(context.Background(), Command{Path: "true", Limits: l}); !fault.HasCode(err, "sandbox_limits_invalid") {
			t.Errorf("%+v: %v", l, err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink("/proc", link))
	for _, path := range []string{"relative", "/", "/proc", "/proc/self", "/sys", "/dev/sda", "/nowhere", link} {
		for _, c := range []Command{{Read: []string{path}}, {Write: []string{path}}, {Dir: path}} {
			c.Path = "true"
			p, err := Start(context.Background(), c)
			if !fault.HasCode(err, "sandbox_path_invalid") {
				t.Errorf("%+v: %v, %v", c, p, err)
			}
		}
	}
}

// Paths below a writable path have no mount of their own: a link that a program leaves there could
// misdirect it.
func TestGrants(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(secret, []byte("x"), 0o600))
	must.Do(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	c := Command{Path: "sh", Dir: dir, Write: []string{dir, filepath.Join(dir, "sub")}, Read: []string{filepath.Join(dir, "sub")}}
	c.Args = []string{"-c", "rmdir sub && ln -s " + filepath.Dir(secret) + " sub && pwd"}
	if out, err := inSandbox(t, c); err != nil || out != dir+"\n" {
		t.Errorf("%q, %v", out, err)
	}
	c.Args = []string{"-c", "cat sub/secret"}
	if out, err := inSandbox(t, c); err == nil {
		t.Errorf("the link was followed: %q", out)
	}
	// A writable folder in a readable one, and a readable one in a writable one.
	must.Do(t, os.Mkdir(filepath.Join(dir, "in"), 0o700))
	c = Command{Path: "sh", Read: []string{dir}, Write: []string{filepath.Join(dir, "in")}}
	c.Args = []string{"-c", "echo x >" + dir + "/in/new && ! echo x >" + dir + "/new"}
	must.Get(inSandbox(t, c))
	c = Command{Path: "sh", Network: must.Get(egress.Declared(true)), Args: []string{"-c", "test -e /etc/hosts && ! test -e /etc/shadow && ! test -e /home && echo x >/tmp/x"}}
	must.Get(inSandbox(t, c))
}

func TestUnavailable(t *testing.T) {
	dir := t.TempDir()
	script := func(name, body string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755))
		return path
	}
	fake := func(name, says string) string {
		return script(name, `[ "$1" = --help ] && { echo "--size BYTES"; exit 0; }`+"\necho \""+says+"\" >&2; exit 1")
	}
	for name, c := range map[string]struct{ bwrap, remedy string }{
		"missing":    {"no-bwrap-here", "apt install bubblewrap"},
		"old":        {script("old", "echo --tmpfs"), "0.8 or later"},
		"broken":     {script("broken", "exit 1"), "0.8 or later"},
		"namespaces": {fake("namespaces", "bwrap: No permissions to create new namespace"), "unprivileged_userns_clone"},
		"proc":       {fake("proc", "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"), "systempaths=unconfined"},
		"odd":        {fake("odd", "bwrap: something else"), "run bwrap to see its error"},
	} {
		m := &machine{bwrap: c.bwrap}
		err := m.available()
		f := fault.Of(err)
		if f == nil || f.Code != "sandbox_unavailable" || f.Kind != fault.Unsupported || !strings.Contains(f.Remedy, c.remedy) ||
			!strings.Contains(f.Remedy, "unsandboxed: true") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := m.start(context.Background(), Command{Path: "true"}); !fault.HasCode(err, "sandbox_unavailable") {
			t.Errorf("%s: Start: %v", name, err)
		}
		p := must.Get(m.start(context.Background(), Command{Path: "true", Unsandboxed: true}))
		if err := p.Wait(); err != nil {
			t.Errorf("%s: unsandboxed: %v", name, err)
		}
	}
	m := new(machine)
	must.Do(t, m.available())
	m.bwrap = "no-bwrap-here" // not used: the positive answer is cached
	must.Do(t, m.available())
}

// If bubblewrap is killed while it begins, nothing that it has started stays.
func TestBubblewrapIsKilledWhileItBegins(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "left")
	bwrap := filepath.Join(dir, "bwrap")
	must.Do(t, os.WriteFile(bwrap, []byte(`#!/bin/sh
[ "$1" = --help ] && { echo "--size BYTES"; exit 0; }
sleep 1000 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
echo $! >`+file+`
kill -9 $$
`), 0o755))
	if err := (&machine{bwrap: bwrap}).available(); !fault.HasCode(err, "sandbox_unavailable") {
		t.Fatal(err)
	}
	pid := must.Get(strconv.Atoi(strings.TrimSpace(string(must.Get(os.ReadFile(file))))))
	for ; ; time.Sleep(time.Millisecond) { // until the process is gone, or the time of all tests is over
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
}

func TestTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all strings.Builder
		var kept tail
		for range rapid.IntRange(0, 8).Draw(t, "writes") {
			part := strings.Repeat(rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "text"), rapid.IntRange(0, maxStderr/2).Draw(t, "times"))
			all.WriteString(part)
			if n, err := kept.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		want := all.String()
		if want = want[max(0, len(want)-maxStderr):]; kept.String() != want {
			t.Fatalf("%d bytes kept of %d", len(kept.String()), all.Len())
		}
	})
}

// A line may be as long as the limit, however it is split into reads.
func TestLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		text := rapid.StringMatching(`([a-z]{0,30}\n){0,9}[a-z]{0,30}`).Draw(t, "text")
		r, w, err := os.Pipe()
		must.Do(t, err)
		go func() { w.WriteString(text); w.Close() }()
		var why error
		l := &lines{from: r, limit: int64(limit), kill: func(err error) { why = err }}
		var from io.Reader = l
		if rapid.Bool().Draw(t, "bytes") {
			from = iotest.OneByteReader(l)
		}
		got, err := io.ReadAll(from)
		r.Close()
		long := slices.ContainsFunc(strings.Split(text, "\n"), func(s string) bool { return len(s) > limit })
		if long != fault.HasCode(err, "output_too_large") || long != (why != nil) || !long && (err != nil || string(got) != text) {
			t.Fatalf("%q with %d: %q, %v, ended for %v", text, limit, got, err, why)
		}
		if _, err := l.Read(make([]byte, 1)); err == nil {
			t.Fatal("it can be read after its end")
		}
	})
}

func TestStat(t *testing.T) {
	p, ok := parseStat(7, []byte("7 (a) b (c)) S 1 2 3 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 5 0 999 1 2 3"))
	if want := (process{pid: 7, state: 'S', threads: 5, cpu: time.Second}); !ok || p != want {
		t.Errorf("%+v, %v", p, ok)
	}
	for _, bad := range []string{"", "7 a S 1", "7 (a) S 1 2"} {
		if _, ok := parseStat(7, []byte(bad)); ok {
			t.Errorf("%q is read", bad)
		}
	}
	if _, ok := stat(1 << 30); ok {
		t.Error("a process that is not there")
	}
	if n, ok := proportional(os.Getpid()); !ok || n < 1<<20 {
		t.Errorf("%d, %v", n, ok)
	}
	if n, ok := proportional(1 << 30); ok || memoryOf(1<<30) != 0 || n != 0 {
		t.Error("the memory of a process that is not there")
	}
}

// Even if programs cannot be confined, no process of an unsandboxed one outlives it.
func TestNothingIsLeftUnconfined(t *testing.T) {
	m := &machine{bwrap: "no-bwrap-here"}
	mark := fmt.Sprintf("83%06d", os.Getpid())
	for name, script := range stubborn(mark) {
		p := must.Get(m.start(context.Background(), Command{Path: "sh", Args: []string{"-c", script}, Unsandboxed: true}))
		must.Get(p.Stdout.Read(make([]byte, 1)))
		if name != "leaves child" {
			p.Kill()
		}
		if err := p.Wait(); (name == "leaves child") != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if left := marked(t, mark); len(left) > 0 {
			t.Errorf("%s: still running: %v", name, left)
		}
	}
	for script, code := range map[string]string{
		"while :; do :; done": "cpu_exceeded",
		"exit 3":              "program_failed",
		"kill -KILL $$":       "program_failed",
		"ulimit -n; ulimit -Hn >&2; [ $(ulimit -n) = 99 ] && [ $(ulimit -Hn) = 99 ]": "",
	} {
		p, err := m.start(context.Background(), Command{Path: "sh", Args: []string{"-c", script}, Unsandboxed: true,
			Limits: Limits{CPU: time.Second, Files: 99}})
		must.Do(t, err)
		if err := p.Wait(); code == "" && err != nil || code != "" && !fault.HasCode(err, code) {
			t.Errorf("%s: %v", script, err)
		}
	}
	p := must.Get(m.start(context.Background(), Command{Path: writeScript(t, "#!/nowhere/perl\n"), Unsandboxed: true, Env: []string{"GOCOVERDIR=" + t.TempDir()}})) // GOCOVERDIR avoids a warning on stderr when coverage is measured
	if err := p.Wait(); !fault.HasCode(err, "program_not_executable") {
		t.Error(err)
	}
}

func writeScript(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "script")
	must.Do(t, os.WriteFile(path, []byte(text), 0o755))
	return path
}

// The connections of a program that use Steward's file descriptors are bounded. Further ones wait until one
// ends.
func TestForwarderBounds(t *testing.T) {
	dir := must.Get(os.MkdirTemp("", ""))
	defer os.RemoveAll(dir)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	var now, most atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				_, _ = io.Copy(c, c)
				now.Add(-1)
			}()
		}
	}()
	in := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	f := newForwarder()
	defer f.close()
	f.serve(in, new(net.Dialer).DialContext, l.Addr().String())
	var all []net.Conn
	for range maxPassed + 20 {
		c := must.Get(net.Dial("tcp", in.Addr().String()))
		must.Get(c.Write([]byte("x")))
		all = append(all, c)
	}
	for _, c := range all {
		must.Get(io.ReadFull(c, make([]byte, 1)))
		c.Close()
	}
	if most.Load() > maxPassed {
		t.Errorf("%d connections at once", most.Load())
	}
}
