package sandbox

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"steward/internal/egress"
)

// Inside must be called first in main, with os.Args. It reports whether this process was started
// for a program: either in front of a confined one, to open its listeners and then become it
// (Inside then returns only if that fails), or around one that cannot be confined. If so, main
// must exit with the code.
func Inside(args []string) (code int, mine bool) {
	var err error
	var program []string
	switch {
	case len(args) > 4 && args[1] == insideFlag:
		program = args[4:]
		var channel int
		if channel, err = strconv.Atoi(args[2]); err == nil {
			err = inside(channel, strings.Split(args[3], ","), program)
		}
	case len(args) > 2 && args[1] == aroundFlag:
		program = args[2:]
		if code, err = runToEnd(program); err == nil {
			return code, true
		}
	default:
		return 0, false
	}
	// This has the form of bubblewrap's message, which this process stands in for.
	fmt.Fprintf(os.Stderr, "bwrap: execvp %s: %v\n", program[0], err)
	return 1, true
}

// inside listens at each address, hands over the listeners, and becomes the program.
func inside(channel int, addresses, program []string) error {
	unix.CloseOnExec(channel)
	var fds []int
	var files []*os.File
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			return err
		}
		fds, files = append(fds, int(f.Fd())), append(files, f)
	}
	if err := unix.Sendmsg(channel, []byte{0}, unix.UnixRights(fds...), nil, 0); err != nil {
		return err
	}
	runtime.KeepAlive(files)
	return unix.Exec(program[0], program, os.Environ())
}

// maxRoutes bounds the addresses inside, because all listeners travel in one message.
const maxRoutes = 64

// proxyPort is the proxy's port inside, unless it is taken.
const proxyPort = 3128

// openRoutes prepares what the program may reach, and adds the proxy's address to its environment.
func (r *running) openRoutes(in *confined) error {
	direct := in.Network.Loopback()
	if err := checkConnect(slices.Concat(in.Connect, direct)); err != nil {
		return err
	}
	if len(in.Connect) == 0 && in.Network.Zero() {
		return nil
	}
	f := newForwarder()
	passing := func(dial dialer, addresses []string) {
		for _, a := range addresses {
			in.routes = append(in.routes, route{a, func(l net.Listener) { f.serve(l, dial, a) }})
		}
	}
	out := egress.Dialer{Rule: in.Network}
	passing(new(net.Dialer).DialContext, in.Connect)
	passing(out.DialContext, slices.DeleteFunc(direct, func(a string) bool { return slices.Contains(in.Connect, a) }))
	if !in.Network.Zero() {
		log := in.Log
		if log == nil {
			log = slog.New(slog.DiscardHandler)
		}
		proxy := egress.NewProxy(out, "sandbox.network", log.With("program", in.Name))
		r.clean = append(r.clean, proxy.Close)
		at := in.freeAddress()
		in.routes = append(in.routes, route{at, func(l net.Listener) { f.wg.Go(func() { _ = proxy.Serve(l) }) }}) // it ends with the proxy
		in.Env = append(proxyEnvironment(at), in.Env...)
	}
	r.clean = append(r.clean, f.close) // it waits until the proxy has ended
	if len(in.routes) > maxRoutes {
		return errors.New("too many addresses of this machine")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	in.self, in.channel = self, os.NewFile(uintptr(pair[0]), "listeners")
	in.channelInside = in.add(os.NewFile(uintptr(pair[1]), "listeners"))
	ways, channel := in.routes, in.channel
	f.wg.Go(func() {
		defer f.hold(channel)()
		for i, l := range receive(channel) {
			ways[i].serve(l)
		}
	})
	return nil
}

// freeAddress returns an unused address inside.
func (c *confined) freeAddress() string {
	for port := proxyPort; ; port++ {
		a := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if !slices.ContainsFunc(c.routes, func(w route) bool { return w.address == a }) {
			return a
		}
	}
}

// proxyEnvironment returns the usual variables that name a program's proxy.
func proxyEnvironment(address string) []string {
	url, none := "http://"+address, "localhost,127.0.0.1,::1"
	return []string{"HTTP_PROXY=" + url, "http_proxy=" + url, "HTTPS_PROXY=" + url, "https_proxy=" + url,
		"NO_PROXY=" + none, "no_proxy=" + none, "NODE_USE_ENV_PROXY=1"}
}

// receive returns the listeners that arrive through a socket. There are none if the program has
// ended before.
func receive(channel *os.File) []net.Listener {
	raw, err := channel.SyscallConn()
	if err != nil {
		return nil
	}
	rights := make([]byte, unix.CmsgSpace(4*maxRoutes))
	var n int
	var got error
	err = raw.Read(func(fd uintptr) bool {
		_, n, _, _, got = unix.Recvmsg(int(fd), make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(got, unix.EAGAIN)
	})
	if errors.Join(err, got) != nil {
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) == 0 {
		return nil
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil
	}
	var out []net.Listener
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "listener")
		l, err := net.FileListener(f)
		f.Close()
		if err != nil {
			break // the listeners that follow would be taken for other addresses
		}
		out = append(out, l)
	}
	return out
}
