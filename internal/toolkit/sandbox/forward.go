package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"steward/internal/fault"
)

// A program without a network can still reach what Command.Connect names:
// this program runs in front of it inside, listens at the same addresses
// there, and passes each connection on through a Unix socket to a listener
// outside, which dials the real address.
const (
	insideProgram = "/run/steward/program"
	insideSockets = "/run/steward/sockets"
	insideFlag    = "--inside-sandbox"
)

// Inside must be called first in main with os.Args. When this process was
// started to pass connections on for a confined program, it does that, runs
// the program, and returns its exit code and true: main is to exit with it.
func Inside(args []string) (code int, mine bool) {
	if len(args) < 4 || args[1] != insideFlag {
		return 0, false
	}
	code, err := inside(strings.Split(args[2], ","), insideSockets, args[3], args[4:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code, true
}

// inside listens at each address, passes on through the sockets in dir, and
// runs the program.
func inside(addresses []string, dir, program string, args []string) (int, error) {
	f := new(forwarder)
	defer f.close()
	for i, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return 126, err
		}
		f.serve(l, "unix", filepath.Join(dir, strconv.Itoa(i)))
	}
	cmd := exec.Command(program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exitCode(exit.ProcessState), nil
	case err != nil:
		return 126, err
	}
	return 0, nil
}

// checkConnect says what is wrong with the addresses of Command.Connect.
func checkConnect(addresses []string) error {
	for _, a := range addresses {
		to, err := netip.ParseAddrPort(a)
		if err != nil || !to.Addr().IsLoopback() || to.Port() < 1024 {
			return fault.New(fault.Invalid, "sandbox_connect_invalid", "a confined program cannot be let to %q", a).
				With("name an address of this machine, 127.0.0.1 or [::1], with a port from 1024 on")
		}
	}
	return nil
}

// forwarder passes connections on until it is closed.
type forwarder struct {
	mu     sync.Mutex
	open   map[io.Closer]bool
	closed bool
	wg     sync.WaitGroup
}

// hold keeps c to be closed with the forwarder; false: that has happened.
func (f *forwarder) hold(c io.Closer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	if f.open == nil {
		f.open = map[io.Closer]bool{}
	}
	f.open[c] = true
	return true
}

// drop closes c.
func (f *forwarder) drop(c io.Closer) {
	c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
}

// mostPassed is how many connections to one address are passed on at once;
// more wait. Each takes two of Steward's own files.
const mostPassed = 64

// serve passes on what arrives at l.
func (f *forwarder) serve(l net.Listener, network, address string) {
	f.hold(l)
	f.wg.Go(func() {
		defer f.drop(l)
		passing := make(chan struct{}, mostPassed)
		for {
			passing <- struct{}{} // close ends those that are passed on
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.wg.Go(func() {
				defer func() { <-passing }()
				f.pass(conn, network, address)
			})
		}
	})
}

// pass joins a connection with one to the address, until both sides are done.
func (f *forwarder) pass(from net.Conn, network, address string) {
	if !f.hold(from) {
		from.Close()
		return
	}
	defer f.drop(from)
	to, err := net.Dial(network, address)
	if err != nil {
		return // the caller sees its connection end
	}
	if !f.hold(to) {
		to.Close()
		return
	}
	defer f.drop(to)
	var wg sync.WaitGroup
	copyTo := func(dst, src net.Conn) {
		_, _ = io.Copy(dst, src) // its end is passed on, whatever the reason
		if half, ok := dst.(interface{ CloseWrite() error }); ok {
			half.CloseWrite()
		}
	}
	wg.Go(func() { copyTo(to, from) })
	copyTo(from, to)
	wg.Wait()
}

// close ends all connections and waits for it.
func (f *forwarder) close() {
	f.mu.Lock()
	f.closed = true
	for c := range f.open {
		c.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

// passOut listens in dir for what comes from inside.
func passOut(addresses []string, dir string) (*forwarder, error) {
	f := new(forwarder)
	for i, address := range addresses {
		l, err := net.Listen("unix", filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			f.close()
			return nil, err
		}
		f.serve(l, "tcp", address)
	}
	return f, nil
}
