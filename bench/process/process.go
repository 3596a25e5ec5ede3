// Package process measures programs that run, and runs a benchmark as a child of itself.
package process

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the CPU time of a process with all its threads, by its CPU-time clock (clock_getcpuclockid(3)).
func CPU(pid int) (time.Duration, error) {
	const sched = 2
	var t unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|sched), &t)
	return time.Duration(t.Nano()), err
}

// RSS returns the resident memory of a process in MB; 0 if it has ended.
func RSS(pid int) float64 { return status(pid, "VmRSS:") }

// PeakRSS returns the most resident memory that a process ever had, in MB; 0 if it has ended.
func PeakRSS(pid int) float64 { return status(pid, "VmHWM:") }

// status returns a size that the kernel tells about a process, in MB.
func status(pid int, name string) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(b, []byte(name))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kb, err := strconv.ParseFloat(string(fields[0]), 64)
	if err != nil {
		return 0
	}
	return kb / 1024
}

// Child is this program, run once more with other arguments. It must end when its standard input does.
type Child struct {
	*exec.Cmd
	in io.Closer
}

// Start runs this program with arguments, and returns the first line of its output.
func Start(args ...string) (*Child, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, "", err
	}
	c := &Child{cmd, in}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, "", errors.Join(err, c.Stop())
	}
	return c, strings.TrimSpace(line), nil
}

// Stop ends the child by closing its standard input.
func (c *Child) Stop() error { return errors.Join(c.in.Close(), c.Wait()) }
