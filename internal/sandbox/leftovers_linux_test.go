package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/test/must"
)

// marked returns the processes that have a text in their command line.
func marked(t *testing.T, text string) []int {
	t.Helper()
	all := must.Get(filepath.Glob("/proc/[0-9]*/cmdline"))
	var out []int
	for _, path := range all {
		b, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(b), text) {
			pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
			if p, ok := stat(pid); ok && p.state != 'Z' && pid != os.Getpid() {
				out = append(out, pid)
			}
		}
	}
	return out
}

// temporary returns the entries of the temporary folder.
func temporary(t *testing.T) []string {
	t.Helper()
	out := must.Get(filepath.Glob(filepath.Join(os.TempDir(), "steward-*")))
	return out
}

// stubborn returns programs that resist their end. Each writes a line when all of its processes run.
func stubborn(mark string) map[string]string {
	return map[string]string{
		"hangs":         `echo; sleep ` + mark,
		"ignores":       `trap "" TERM INT HUP; echo; while :; do sleep ` + mark + `; done`,
		"background":    `sleep ` + mark + ` & sleep ` + mark + ` & echo; wait`,
		"leaves child":  `sleep ` + mark + ` & echo; exit 0`,
		"leaves group":  `setsid sleep ` + mark + ` & echo; wait`,
		"forks twice":   `(setsid sh -c "sleep ` + mark + ` & echo" &) ; sleep ` + mark,
		"sheds all":     `(env -i setsid sh -c "sleep ` + mark + ` & echo" &) ; sleep ` + mark,
		"closes output": `sleep ` + mark + ` & echo; exec >&- 2>&-; sleep ` + mark,
	}
}

func TestNothingIsLeft(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // a private one: other tests use the shared one
	before := temporary(t)
	mark := fmt.Sprintf("87%06d", os.Getpid())
	for _, free := range []bool{false, true} {
		for name, script := range stubborn(mark) {
			for want, how := range map[string]func(*Process, context.CancelCauseFunc){
				"deadline_exceeded": func(_ *Process, cancel context.CancelCauseFunc) { cancel(context.DeadlineExceeded) },
				"program_killed":    func(p *Process, _ context.CancelCauseFunc) { p.Kill() },
				"":                  func(*Process, context.CancelCauseFunc) {},
			} {
				if (name == "leaves child") != (want == "") {
					continue // this program ends by itself, and no other does
				}
				t.Run(fmt.Sprintf("%s, unsandboxed %v, %s", name, free, want), func(t *testing.T) {
					ctx, cancel := context.WithCancelCause(context.Background())
					defer cancel(nil)
					p := must.Get(Start(ctx, Command{Path: "sh", Args: []string{"-c", script}, Unsandboxed: free}))
					must.Get(p.Stdout.Read(make([]byte, 1)))
					how(p, cancel)
					err := p.Wait()
					if want == "" && err != nil || want != "" && !fault.HasCode(err, want) {
						t.Errorf("Wait: %v", err)
					}
					if again := p.Wait(); again != err {
						t.Errorf("Wait again: %v", again)
					}
					p.Kill()
					if left := marked(t, mark); len(left) > 0 {
						t.Errorf("still running: %v", left)
					}
				})
			}
		}
	}
	if after := temporary(t); len(after) > 0 || len(before) > 0 {
		t.Errorf("left behind: %v, there were %v", after, before)
	}
}

// The error says why the kernel ended a program.
func TestSignals(t *testing.T) {
	for _, free := range []bool{false, true} {
		for signal, code := range map[string]string{"KILL": "program_failed", "XCPU": "cpu_exceeded", "XFSZ": "file_size_exceeded"} {
			p := must.Get(Start(context.Background(), Command{Path: "sh", Args: []string{"-c", "kill -" + signal + " $$"}, Unsandboxed: free}))
			f := fault.Of(p.Wait())
			if f == nil || f.Code != code || code == "program_failed" && f.Details["signal"] != "SIG"+signal {
				t.Errorf("%s, unsandboxed %v: %+v", signal, free, f)
			}
		}
	}
}

// A program without a network reaches only the addresses in Command.Connect.
func TestConnect(t *testing.T) {
	dir := must.Get(os.MkdirTemp("", "")) // not t.TempDir: its path is too long for a socket
	defer os.RemoveAll(dir)
	t.Setenv("TMPDIR", dir)
	let := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	other := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	defer other.Close()
	go func() {
		for {
			c, err := let.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				line, _ := bufio.NewReader(c).ReadString('\n')
				fmt.Fprintf(c, "you said %s", line)
			}()
		}
	}()
	defer let.Close()
	self := must.Get(os.Executable())
	run := func(args ...string) (string, error) {
		return inSandbox(t, Command{Path: self, Args: append([]string{"probe"}, args...), Connect: []string{let.Addr().String()}})
	}
	for range 3 {
		if out, err := run("talk", let.Addr().String()); err != nil || out != "you said hello\n" {
			t.Errorf("%q, %v", out, err)
		}
	}
	if out, err := run("tcp", other.Addr().String()); err == nil {
		t.Errorf("it reached another address: %s", out)
	}
	if _, err := run("exit", "7"); fault.Of(err) == nil || fault.Of(err).Details["exit_code"] != 7 {
		t.Errorf("the exit code does not come through: %v", err)
	}
	if _, err := run("crash"); fault.Of(err) == nil || fault.Of(err).Details["signal"] != "SIGKILL" {
		t.Errorf("the signal does not come through: %v", err)
	}
	for _, bad := range []string{"10.0.0.1:8080", "127.0.0.1:80", "localhost:8080", "127.0.0.1", ""} {
		_, err := Start(context.Background(), Command{Path: "true", Connect: []string{bad}})
		if !fault.HasCode(err, "sandbox_connect_invalid") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if left := temporary(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func talk(args []string) int {
	c, err := net.Dial("tcp", args[0])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Fprintln(c, "hello")
	_, err = io.Copy(os.Stdout, c)
	if err = errors.Join(err, c.Close()); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
