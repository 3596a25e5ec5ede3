package egress

import (
	"net/netip"
	"slices"
)

var (
	zero      = netip.MustParsePrefix("0.0.0.0/8") // "this network": reaches this machine
	broadcast = netip.MustParseAddr("255.255.255.255")
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
	global    = netip.MustParsePrefix("2000::/3") // all routed IPv6 addresses
)

// specialRanges returns the ranges that are not publicly routed (IANA's registries of special-purpose
// addresses) and that netip does not know.
func specialRanges() []netip.Prefix {
	var out []netip.Prefix
	for _, s := range []string{
		"100.64.0.0/10",   // shared by carriers (CGNAT)
		"192.0.0.0/24",    // protocol assignments
		"192.0.2.0/24",    // documentation
		"192.88.99.0/24",  // relays of 6to4
		"198.18.0.0/15",   // benchmarks
		"198.51.100.0/24", // documentation
		"203.0.113.0/24",  // documentation
		"240.0.0.0/4",     // reserved
		"2001::/23",       // protocol assignments, Teredo and benchmarks among them
		"2001:db8::/32",   // documentation
		"2002::/16",       // 6to4
		"3fff::/20",       // documentation
	} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// public reports whether an address is publicly routed.
func public(a netip.Addr) bool {
	a = a.Unmap()
	if a.Zone() != "" || a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || zero.Contains(a) {
		return false
	}
	if a.Is6() && !global.Contains(a) && !nat64.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(specialRanges(), func(p netip.Prefix) bool { return p.Contains(a) })
}

// embeddedIPv4 returns the IPv4 address that an IPv6 address carries, if any.
func embeddedIPv4(a netip.Addr) []netip.Addr {
	if !a.Is6() {
		return nil
	}
	b := a.As16()
	v4 := func(from int) []netip.Addr { return []netip.Addr{netip.AddrFrom4([4]byte(b[from : from+4]))} }
	switch {
	case a.Is4In6(), nat64.Contains(a), compatible(b):
		return v4(12)
	case sixToFour.Contains(a):
		return v4(2)
	}
	return nil
}

// compatible reports whether an address has the old form ::1.2.3.4.
func compatible(b [16]byte) bool {
	return [12]byte(b[:12]) == [12]byte{} && [2]byte(b[12:14]) != [2]byte{}
}

// metadata reports whether an address is a cloud's metadata service, which gives a machine its
// credentials: AWS, Azure, Google, Alibaba, Oracle and similar ones.
func metadata(a netip.Addr) bool {
	switch a.WithZone("").String() {
	case "169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.169.123", "169.254.0.23", "169.254.10.10",
		"100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fe80::a9fe:a9fe":
		return true
	}
	return false
}
