package auth

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"steward/internal/fault"
)

// place checks which host a request is addressed to and which web page made it. Neither a name that
// somebody else's DNS points at this server (DNS rebinding) nor a foreign page in a browser may act
// as the local user. done says that the request was a CORS preflight and has been answered.
func (g *Guard) place(w http.ResponseWriter, r *http.Request) (done bool, err error) {
	if !g.hostAllowed(r) {
		return false, fault.New(fault.Denied, "host_refused", "unknown host %.100q", r.Host).
			WithHint("use the address that Steward listens on, or add the name to the setting hosts")
	}
	origin := r.Header.Get("Origin")
	if site := r.Header.Get("Sec-Fetch-Site"); origin == "" && (site == "cross-site" || site == "same-site") {
		return false, fault.New(fault.Denied, "origin_refused", "a page of another origin made this request").
			WithHint("use Steward's own page, or add the page's origin to the setting origins and have it send CORS requests")
	}
	if origin == "" || sameHost(origin, r.Host) {
		return false, nil
	}
	if !g.originConfigured(origin) {
		return false, fault.New(fault.Denied, "origin_refused", "pages from %.100q may not call Steward", origin).
			WithHint("add the page's origin to the setting origins")
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Retry-After, Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false, nil
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, "+
		"Connect-Protocol-Version, Connect-Timeout-Ms, Grpc-Timeout, X-Grpc-Web, X-User-Agent")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true, nil
}

// hostAllowed reports whether the request was sent to one of our names.
func (g *Guard) hostAllowed(r *http.Request) bool {
	if g.o.AnyHost && len(g.o.Hosts) == 0 {
		return true
	}
	name, port := splitHost(r.Host, defaultPort(r))
	if g.o.AnyIP && net.ParseIP(name) != nil {
		return true
	}
	for _, h := range g.o.Hosts {
		want, wantPort := splitHost(h, port)
		if strings.EqualFold(name, want) && port == wantPort {
			return true
		}
	}
	if !loopbackName(name) {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return true // not behind a net/http server, so there is no port to compare
	}
	_, listens, err := net.SplitHostPort(local.String())
	return err != nil || port == listens
}

func defaultPort(r *http.Request) string {
	if r.TLS != nil {
		return "443"
	}
	return "80"
}

// splitHost splits "name", "name:port", "[::1]" or "[::1]:port".
func splitHost(host, otherwise string) (name, port string) {
	if name, port, err := net.SplitHostPort(host); err == nil {
		return name, port
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), otherwise
}

func loopbackName(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}

// sameHost reports whether a page's origin is the host that the page calls.
func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false
	}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
	}
	theirs, theirPort := splitHost(u.Host, port)
	ours, ourPort := splitHost(host, port)
	return strings.EqualFold(theirs, ours) && theirPort == ourPort
}

func (g *Guard) originConfigured(origin string) bool {
	for _, o := range g.o.Origins {
		if strings.EqualFold(strings.TrimSuffix(o, "/"), origin) {
			return true
		}
	}
	return false
}

// BeyondLoopback reports whether other machines can reach a listen address ("HOST:PORT"). An
// address that cannot be parsed counts as reachable.
func BeyondLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err != nil || !loopbackName(host)
}
