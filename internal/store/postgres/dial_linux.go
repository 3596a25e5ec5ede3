package postgres

import (
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// giveUp ends a connection whose other side does not acknowledge what was sent.
// Otherwise Linux tries for a quarter of an hour.
func giveUp(network, _ string, c syscall.RawConn) (err error) {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	bad := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence/time.Millisecond))
	})
	if bad != nil {
		return bad
	}
	return err
}
