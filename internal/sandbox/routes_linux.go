package sandbox

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync"

	"steward/internal/fault"
)

// A confined program has an empty network namespace, but may reach Steward's services, loopback
// addresses of its rule, and its proxy. For these, listeners are opened inside: this executable
// runs in front of the program there, opens the listeners, hands them to Steward through a socket
// that it has inherited, and becomes the program. Steward, outside, then accepts the connections
// that are dialled inside.
const (
	insideProgram = "/run/steward/program"
	insideFlag    = "--inside-sandbox"
)

// route is an address inside, and the function that serves it.
type route struct {
	address string
	serve   func(net.Listener) // runs until the listener is closed
}

// checkConnect validates the addresses of Command.Connect.
func checkConnect(addresses []string) error {
	for _, a := range addresses {
		to, err := netip.ParseAddrPort(a)
		if err != nil || !to.Addr().IsLoopback() || to.Port() < 1024 {
			return fault.New(fault.Invalid, "sandbox_connect_invalid", "a confined program cannot be given access to %q", a).
				WithHint("name an address of this machine, 127.0.0.1 or [::1], with a port from 1024 on")
		}
	}
	return nil
}

// forwarder forwards connections until it is closed.
type forwarder struct {
	ctx context.Context
	end context.CancelFunc
	wg  sync.WaitGroup
}

func newForwarder() *forwarder {
	f := new(forwarder)
	f.ctx, f.end = context.WithCancel(context.Background())
	return f
}

// hold makes the forwarder close c when it is closed, or earlier by calling drop.
func (f *forwarder) hold(c io.Closer) (drop func()) {
	stop := context.AfterFunc(f.ctx, func() { c.Close() })
	return func() { stop(); c.Close() }
}

// maxPassed is how many connections to one address are forwarded at once; further ones wait.
// Each takes two of Steward's own file descriptors.
const maxPassed = 64

// dialer connects to the address that a connection is forwarded to.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// serve forwards connections that arrive at l to an address.
func (f *forwarder) serve(l net.Listener, dial dialer, address string) {
	f.wg.Go(func() {
		defer f.hold(l)()
		passing := make(chan struct{}, maxPassed)
		for {
			passing <- struct{}{} // close ends the forwarded connections
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.wg.Go(func() {
				defer func() { <-passing }()
				f.pass(conn, dial, address)
			})
		}
	})
}

// pass joins a connection with one to the address, until both sides are done.
func (f *forwarder) pass(from net.Conn, dial dialer, address string) {
	defer f.hold(from)()
	to, err := dial(f.ctx, "tcp", address)
	if err != nil {
		return // the program sees its connection close
	}
	defer f.hold(to)()
	var wg sync.WaitGroup
	copyTo := func(dst, src net.Conn) {
		_, _ = io.Copy(dst, src) // the other side is closed, whatever the error
		if half, ok := dst.(interface{ CloseWrite() error }); ok {
			half.CloseWrite()
		}
	}
	wg.Go(func() { copyTo(to, from) })
	copyTo(from, to)
	wg.Wait()
}

// close ends all connections and waits until they have ended.
func (f *forwarder) close() {
	f.end()
	f.wg.Wait()
}
