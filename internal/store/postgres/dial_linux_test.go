package postgres

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A connection to a server that has vanished ends soon, on both sides.
func TestASilentServerIsGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	config, err := parse("postgres://steward@" + l.Addr().String() + "/x")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := config.ConnConfig.DialFunc(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	got := map[int]int{unix.TCP_USER_TIMEOUT: 0, unix.TCP_KEEPIDLE: 0, unix.TCP_KEEPINTVL: 0, unix.TCP_KEEPCNT: 0}
	err = raw.Control(func(fd uintptr) {
		for option := range got {
			if got[option], err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got[unix.TCP_USER_TIMEOUT] != int(silence/time.Millisecond) || got[unix.TCP_KEEPIDLE] != 10 || got[unix.TCP_KEEPINTVL] != 5 || got[unix.TCP_KEEPCNT] != 3 {
		t.Error(got)
	}
	for _, name := range []string{"tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count"} {
		if config.ConnConfig.RuntimeParams[name] == "" {
			t.Errorf("the server is not told %s", name)
		}
	}
}
