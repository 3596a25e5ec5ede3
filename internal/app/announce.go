package app

import (
	"log/slog"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"

	"github.com/hashicorp/mdns"

	"steward/internal/fault"
	"steward/internal/server/auth"
)

// wyomingService is the name by which Home Assistant looks for servers of the Wyoming protocol.
const wyomingService = "_wyoming._tcp"

// announce tells the local network by mDNS that a service listens at an address, until it is stopped. A service that
// only this machine reaches is not announced.
func announce(service, listen string, at net.Addr, log *slog.Logger) (stop func() error, err error) {
	stop = func() error { return nil }
	here, err := netip.ParseAddrPort(at.String())
	if err != nil || !auth.BeyondLoopback(listen) {
		return stop, nil
	}
	name, ips := hostName(), reachable(here.Addr())
	if len(ips) == 0 {
		return stop, nil
	}
	zone, err := mdns.NewMDNSService("steward-"+name, service, "local.", name+".local.", int(here.Port()), ips, []string{"steward"})
	if err == nil {
		var s *mdns.Server
		if s, err = mdns.NewServer(&mdns.Config{Zone: zone, Logger: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}); err == nil {
			return s.Shutdown, nil
		}
	}
	return stop, fault.New(fault.Unavailable, "announce_failed", "%s cannot be announced by mDNS: %w", service, err).
		WithHint("enter the address %s by hand where it is to be used", here)
}

var notInHostNames = regexp.MustCompile(`[^A-Za-z0-9-]+`)

// hostName returns the first part of this machine's name.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "host"
	}
	name, _, _ = strings.Cut(name, ".")
	if name = strings.Trim(notInHostNames.ReplaceAllString(name, "-"), "-"); name == "" {
		return "host"
	}
	return name[:min(len(name), 40)]
}

// maxAnnounced bounds the addresses that are announced.
const maxAnnounced = 16

// reachable returns the addresses at which other machines reach a listener: its own, or if it listens on all, those
// of this machine.
func reachable(listens netip.Addr) (ips []net.IP) {
	if !listens.IsUnspecified() {
		return []net.IP{listens.Unmap().AsSlice()}
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && len(ips) < maxAnnounced {
			ips = append(ips, n.IP)
		}
	}
	return ips
}
