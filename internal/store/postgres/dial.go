package postgres

import (
	"net"
	"time"
)

// silence is how long a server may not be heard of until a connection to it is given up. Without that, a call would wait
// for a machine that has lost its power, or a network that has forgotten the connection, for a quarter of an hour.
const silence = 20 * time.Second

// dialer returns what connects to the server.
func dialer() *net.Dialer {
	return &net.Dialer{Control: giveUp, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}}
}
