package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// hold is called by a successful attack. Inside the sandbox, the attack keeps what it has taken until it is
// ended, because limits that the kernel does not enforce are only checked now and then.
func hold() {
	if os.Getenv("PROBE_FREE") == "" {
		time.Sleep(time.Minute)
	}
}

func manyProcesses([]string) error {
	var all []*exec.Cmd
	defer func() {
		for _, c := range all {
			c.Process.Kill()
			c.Wait()
		}
	}()
	for range 60 {
		c := exec.Command("sleep", "600")
		if err := c.Start(); err != nil {
			return err
		}
		all = append(all, c)
	}
	hold()
	return nil
}

func manyThreads([]string) error {
	var ends [2]int
	if err := unix.Pipe(ends[:]); err != nil {
		return err
	}
	for range 60 {
		go unix.Read(ends[0], make([]byte, 1)) // each read blocks a thread, because nothing is written
	}
	for {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		if len(threads) >= 60 {
			hold()
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

func fill(how int) error {
	const size = 400 << 20
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, how|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	for i := 0; i < size; i += 4096 {
		b[i] = 1
	}
	hold()
	return nil
}

// memoryInParts uses much memory in many processes that use little each.
func memoryInParts([]string) error {
	var told []io.Reader
	for range 8 {
		c := exec.Command("/proc/self/exe", "probe", "part")
		in, err1 := c.StdinPipe()
		out, err2 := c.StdoutPipe()
		if err := errors.Join(err1, err2, c.Start()); err != nil {
			return err
		}
		defer c.Wait()
		defer in.Close() // ends the part
		told = append(told, out)
	}
	for _, out := range told {
		if _, err := out.Read(make([]byte, 1)); err != nil {
			return fmt.Errorf("a part is gone: %w", err)
		}
	}
	hold()
	return nil
}

// compute uses four seconds of CPU time.
func compute([]string) error {
	for {
		var used unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err == nil && used.Utime.Nano()+used.Stime.Nano() > int64(4*time.Second) {
			return nil
		}
	}
}

func bigFile(a []string) error {
	signal.Ignore(unix.SIGXFSZ)
	path := filepath.Join(a[0], "big")
	defer os.Remove(path)
	return os.WriteFile(path, make([]byte, 3<<20), 0o600)
}

func fillFolder(in string) error {
	dir, err := os.MkdirTemp(in, "fill")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for i := range 6 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), make([]byte, 1<<20), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func manyDescriptors([]string) error {
	for range 400 {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			return err
		}
	}
	return nil
}
