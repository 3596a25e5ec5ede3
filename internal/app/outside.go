package app

import (
	"context"
	"net"
	"net/http"
	"time"

	"steward/internal/egress"
)

// Outside is how a process reaches what is around it: other machines, and changes of its folders. The zero
// value means TCP and the notifications of the system.
//
// A test on a virtual clock (testing/synctest) has a network in memory instead, and polls. Such a clock
// stands still while a goroutine waits for a socket or for the file system.
type Outside struct {
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Listen func(network, address string) (net.Listener, error)
	Poll   time.Duration // how often folders are read again
}

func (o Outside) dialer(rule egress.Rule) egress.Dialer {
	return egress.Dialer{Rule: rule, Connect: o.Dial}
}

func (o Outside) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if o.Dial != nil {
		return o.Dial(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

func (o Outside) listen(address string) (net.Listener, error) {
	if o.Listen != nil {
		return o.Listen("tcp", address)
	}
	return net.Listen("tcp", address)
}

// through makes a client of models connect as the process does.
func (o Outside) through(c *http.Client) *http.Client {
	if t, ok := c.Transport.(*http.Transport); ok && o.Dial != nil {
		t.DialContext = o.Dial
	}
	return c
}
