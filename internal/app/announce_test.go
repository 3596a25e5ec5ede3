package app

import (
	"net"
	"net/netip"
	"testing"

	"log/slog"
)

func TestAnnounceNothingThatOthersCannotReach(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 10500}
	for _, listen := range []string{"127.0.0.1:10500", "localhost:10500", "[::1]:10500"} {
		stop, err := announce(wyomingService, listen, at, slog.New(slog.DiscardHandler))
		if err != nil || stop() != nil {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

func TestReachable(t *testing.T) {
	if got := reachable(netip.MustParseAddr("192.168.1.20")); len(got) != 1 || got[0].String() != "192.168.1.20" {
		t.Errorf("got %v", got)
	}
	for _, ip := range reachable(netip.IPv6Unspecified()) {
		if ip.IsLoopback() || ip.IsLinkLocalUnicast() {
			t.Errorf("%v is announced", ip)
		}
	}
	if name := hostName(); name == "" || len(name) > 40 || notInHostNames.MatchString(name) {
		t.Errorf("the name is %q", name)
	}
}
