// Package egress decides which connections may be made on behalf of a model, a foreign program,
// or fetched content.
//
// A Rule is what a person has allowed: nothing, any public host, or a list of hosts and ports. A
// Dialer resolves a name, checks every address that it gets against the rule, and dials exactly
// the address that it checked, so that a name that changes its address in between (DNS rebinding)
// gains nothing. Used as http.Transport.DialContext it checks redirects as well. A Proxy serves a
// Dialer as an HTTP proxy to one program that has no network of its own.
//
// There are three classes of addresses. Public ones may be reached by any rule that names the
// host. Private ones (loopback, RFC 1918, CGNAT, ULA, link-local, documentation and benchmark
// ranges, and all addresses of this machine's own interfaces) may be reached only if the rule
// names the host literally with its port. Metadata services of clouds, unspecified, multicast and
// broadcast addresses, and the ports that this process listens on, are never reached. An IPv6
// address that carries an IPv4 address (mapped, NAT64, 6to4) has the stricter class of the two.
package egress

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"steward/internal/fault"
)

// Rule says where connections may go. The zero value allows nothing.
type Rule struct {
	public bool
	hosts  []host
}

// host is one entry of a list.
type host struct {
	name     string     // lower case, without a final dot; for a wildcard, the part after "*."
	wildcard bool       // any name below it
	addr     netip.Addr // for an entry that is an IP address
	port     uint16     // 0: 80 and 443
}

// maxHosts bounds the entries of a list.
const maxHosts = 256

// Declared reads a rule from a declaration: true for any public host, false or nothing for none,
// otherwise a host or a list of hosts. Error code: network_rule_invalid.
func Declared(v any) (Rule, error) {
	var public bool
	var one string
	var list []string
	b, err := json.Marshal(v)
	switch {
	case err == nil && json.Unmarshal(b, &public) == nil:
		return Rule{public: public}, nil
	case err == nil && json.Unmarshal(b, &one) == nil:
		return List(one)
	case err == nil && json.Unmarshal(b, &list) == nil:
		return List(list...)
	}
	return Rule{}, badRule(fmt.Sprint(v), "it is not true, false or a list of hosts")
}

// List makes a rule from hosts: "example.org" (ports 80 and 443), "example.org:8443",
// "*.example.org" (all names below it, but not itself), and IP addresses in place of names, with
// IPv6 in brackets if a port follows.
func List(hosts ...string) (Rule, error) {
	if len(hosts) > maxHosts {
		return Rule{}, badRule(fmt.Sprintf("%d hosts", len(hosts)), fmt.Sprintf("at most %d are allowed", maxHosts))
	}
	var r Rule
	for _, text := range hosts {
		h, why := parseHost(text)
		if why != "" {
			return Rule{}, badRule(text, why)
		}
		r.hosts = append(r.hosts, h)
	}
	return r, nil
}

// Public makes a rule that allows any public host, and the hosts of a list. Error code:
// network_rule_invalid.
func Public(hosts ...string) (Rule, error) {
	r, err := List(hosts...)
	r.public = true
	return r, err
}

func badRule(text, why string) error {
	return fault.New(fault.Invalid, "network_rule_invalid", "%.200q cannot be allowed: %s", text, why).
		WithHint(`write true for any public host, or a list such as ["api.example.org", "*.example.net:8443", "192.168.1.20:8123"]`)
}

func parseHost(text string) (h host, why string) {
	name := text
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		name = a.String()
	} else if at := strings.LastIndexByte(text, ':'); at >= 0 {
		port, err := strconv.ParseUint(text[at+1:], 10, 16)
		if err != nil || port == 0 {
			return host{}, "its port is not a number from 1 to 65535"
		}
		name, h.port = strings.Trim(text[:at], "[]"), uint16(port)
	}
	if a, err := netip.ParseAddr(name); err == nil {
		if a.Zone() != "" {
			return host{}, "an address with a zone belongs to one interface"
		}
		h.addr = a.Unmap()
		return h, ""
	}
	name = plainName(name)
	if rest, ok := strings.CutPrefix(name, "*."); ok {
		h.wildcard, name = true, rest
	}
	if why := badName(name); why != "" {
		return host{}, why
	}
	h.name = name
	return h, ""
}

// badName says why a text is not a valid host name.
func badName(name string) string {
	if name == "" || len(name) > 253 {
		return "it is not a host name"
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return "it is not a host name"
		}
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		case c >= 0x80:
			return "write its ASCII form (xn--…)"
		default:
			return "it is not a host name; * stands for all names below one, as in *.example.org"
		}
	}
	return ""
}

// plainName normalises a name for comparison.
func plainName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// Zero reports whether the rule allows nothing.
func (r Rule) Zero() bool { return !r.public && len(r.hosts) == 0 }

// String describes for a person what the rule allows.
func (r Rule) String() string {
	if r.public {
		return "any public host"
	}
	var out []string
	for _, h := range r.hosts {
		out = append(out, h.String())
	}
	return strings.Join(out, ", ")
}

func (h host) String() string {
	name := h.name
	switch {
	case h.wildcard:
		name = "*." + name
	case h.addr.IsValid():
		name = h.addr.String()
	}
	if h.port == 0 {
		return name
	}
	return net.JoinHostPort(name, strconv.Itoa(int(h.port)))
}

// Loopback returns the entries that name a loopback address and a port, as addresses:
// "127.0.0.1:8080". Programs reach these without a proxy.
func (r Rule) Loopback() []string {
	var out []string
	for _, h := range r.hosts {
		switch {
		case h.port == 0 || h.wildcard:
		case h.addr.IsValid() && h.addr.IsLoopback():
			out = append(out, h.String())
		case h.name == "localhost":
			out = append(out, net.JoinHostPort("127.0.0.1", strconv.Itoa(int(h.port))))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// allows reports whether the rule names a host, given as a name or as an address. literal says
// whether it names it literally with its port, which opens private addresses too.
func (r Rule) allows(name string, addr netip.Addr, port uint16) (named, literal bool) {
	named = r.public
	for _, h := range r.hosts {
		if h.port != port && (h.port != 0 || port != 80 && port != 443) {
			continue
		}
		switch {
		case addr.IsValid() && h.addr != addr.Unmap():
		case !addr.IsValid() && h.wildcard && !strings.HasSuffix(name, "."+h.name):
		case !addr.IsValid() && !h.wildcard && h.name != name:
		default:
			named = true
			literal = literal || !h.wildcard && h.port != 0
		}
	}
	return named, literal
}
