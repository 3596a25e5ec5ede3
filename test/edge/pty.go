package edge

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/creack/pty"
)

// Screen runs a command with a terminal of 100 by 40 characters as its standard
// streams. It returns every byte that reached the terminal and the exit code.
func (n *Node) Screen(args ...string) (string, int) { n.T.Helper(); return n.Type("", "", args...) }

// Type is Screen for a command that asks for input: once the terminal shows the
// text at, it types keys.
func (n *Node) Type(at, keys string, args ...string) (string, int) {
	n.T.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Dir = append(n.Env, "TERM=xterm-256color", "LANG=C.UTF-8"), n.Dir
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 100, Rows: 40})
	if err != nil {
		n.T.Fatal(err)
	}
	defer tty.Close()
	var out bytes.Buffer
	for b := make([]byte, 1); keys != "" && !strings.HasSuffix(out.String(), at); {
		if _, err := tty.Read(b); err != nil {
			n.T.Fatalf("%q never came: %s", at, out.String())
		}
		out.Write(b)
	}
	if _, err := tty.WriteString(keys); err != nil {
		n.T.Fatal(err)
	}
	if _, err := io.Copy(&out, tty); err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, os.ErrClosed) { // EIO: the other side has closed
		n.T.Fatal(err)
	}
	cmd.Wait() //nolint:errcheck // the exit code says it
	return out.String(), cmd.ProcessState.ExitCode()
}

// Commands returns all commands of the binary, such as "conversations list".
func (n *Node) Commands() []string {
	n.T.Helper()
	dir := n.Dir + "/man"
	n.Must("man", dir)
	files, err := os.ReadDir(dir)
	if err != nil {
		n.T.Fatal(err)
	}
	return commandsOf(files)
}

// commandsOf derives the commands from the names of manual pages; each command
// has one.
func commandsOf(files []os.DirEntry) (out []string) {
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), filepath.Ext(f.Name()))
		out = append(out, strings.TrimPrefix(strings.ReplaceAll(name, "-", " "), "steward "))
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == "steward" })
}
