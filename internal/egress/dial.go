package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"steward/internal/fault"
)

// Timeouts for making a connection: for one address, and in all.
const (
	dialEach = 10 * time.Second
	dialAll  = 30 * time.Second
)

// maxAddresses is how many addresses of a name are tried.
const maxAddresses = 8

// Resolver looks up names; net.DefaultResolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer connects to the addresses that its rule allows.
type Dialer struct {
	Rule     Rule
	Resolver Resolver // nil: net.DefaultResolver
	// Connect connects to an address that is allowed; nil: over TCP.
	Connect func(ctx context.Context, network, address string) (net.Conn, error)

	machine func() (machine, error) // nil: this one; for tests
}

// Transport returns a transport that connects through the dialer and ignores the environment's
// proxies. Redirects are checked like first requests.
func (d Dialer) Transport() *http.Transport {
	return &http.Transport{DialContext: d.DialContext, ForceAttemptHTTP2: true, MaxIdleConns: 32, IdleConnTimeout: 90 * time.Second,
		TLSHandshakeTimeout: dialAll, MaxResponseHeaderBytes: 256 << 10}
}

// DialContext connects to an address HOST:PORT over TCP. Error codes:
// network_denied (Denied), network_unreachable (Unavailable).
func (d Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, fault.New(fault.Unsupported, "network_denied", "connections over %s are not allowed", network)
	}
	ctx, cancel := context.WithTimeout(ctx, dialAll)
	defer cancel()
	to, err := d.Check(ctx, address)
	if err != nil {
		return nil, err
	}
	connect := d.Connect
	if connect == nil {
		connect = (&net.Dialer{Timeout: dialEach}).DialContext
	}
	var errs []error
	for _, a := range to {
		if network == "tcp4" && !a.Addr().Is4() || network == "tcp6" && a.Addr().Is4() {
			continue
		}
		conn, err := connect(ctx, "tcp", a.String())
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, fault.New(fault.Unavailable, "network_unreachable", "%s cannot be reached: %w", address, errors.Join(errs...))
}

// Check returns the addresses of HOST:PORT that may be dialled. Error codes: see DialContext.
func (d Dialer) Check(ctx context.Context, address string) ([]netip.AddrPort, error) {
	name, text, err := net.SplitHostPort(address)
	port, perr := strconv.ParseUint(text, 10, 16)
	if err != nil || perr != nil || port == 0 {
		return nil, denied(address, "it is not HOST:PORT")
	}
	name = plainName(name)
	addr, err := netip.ParseAddr(name)
	if err != nil {
		addr = netip.Addr{}
		if why := badName(name); why != "" {
			return nil, denied(address, why)
		}
	}
	named, literal := d.Rule.allows(name, addr, uint16(port))
	if !named {
		return nil, denied(address, "it is not on the list of allowed hosts")
	}
	addrs := []netip.Addr{addr}
	if !addr.IsValid() {
		if addrs, err = d.lookup(ctx, name); err != nil {
			return nil, fault.New(fault.Unavailable, "network_unreachable", "the name %s cannot be resolved: %w", name, err)
		}
	}
	of := d.machine
	if of == nil {
		of = thisMachine
	}
	here, err := of()
	if err != nil {
		return nil, denied(address, "cannot determine the addresses of this machine: "+err.Error())
	}
	var good []netip.AddrPort
	var why string
	for _, a := range addrs[:min(len(addrs), maxAddresses)] {
		to := netip.AddrPortFrom(a.Unmap(), uint16(port))
		if say := here.refuses(to, literal); say != "" {
			why = say
			continue
		}
		good = append(good, to)
	}
	if len(good) == 0 {
		return nil, denied(address, why)
	}
	return good, nil
}

func (d Dialer) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	r := d.Resolver
	if r == nil {
		r = net.DefaultResolver
	}
	addrs, err := r.LookupNetIP(ctx, "ip", name)
	if err == nil && len(addrs) == 0 {
		err = errors.New("it has no address")
	}
	return addrs, err
}

func denied(address, why string) error {
	return fault.New(fault.Denied, "network_denied", "%.300s may not be reached: %s", address, why)
}

// machine is what a computer knows about its own addresses and ports.
type machine struct {
	addrs  []netip.Addr            // of its interfaces
	listen func(port uint16) error // returns an error if this process listens on a port
}

// thisMachine reads the interfaces each time, because they come and go.
func thisMachine() (machine, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return machine{}, err
	}
	m := machine{listen: ownPort}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			m.addrs = append(m.addrs, p.Addr().Unmap())
		}
	}
	return m, nil
}

// refuses says why an address may not be dialled, or returns "". literal means that the rule
// names the address itself.
func (m machine) refuses(to netip.AddrPort, literal bool) string {
	all := append([]netip.Addr{to.Addr()}, embeddedIPv4(to.Addr())...)
	own := false
	for _, a := range all {
		own = own || a.IsLoopback() || slices.Contains(m.addrs, a.WithZone(""))
		switch {
		case metadata(a):
			return a.String() + " is a metadata service"
		case a.IsUnspecified(), a.IsMulticast(), zero.Contains(a), a == broadcast:
			return a.String() + " is not the address of a single machine"
		}
	}
	if own || slices.ContainsFunc(all, func(a netip.Addr) bool { return !public(a) }) {
		if !literal {
			return fmt.Sprintf("%s belongs to this machine or to a private network, which must be allowed by address and port", to.Addr())
		}
	}
	if own {
		if err := m.listen(to.Port()); err != nil {
			return err.Error()
		}
	}
	return ""
}
