package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"steward/internal/fault"
	"steward/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names resolves from a table. Each look-up takes the next list of a name.
type names map[string][][]string

func (n names) LookupNetIP(_ context.Context, _, name string) ([]netip.Addr, error) {
	lists := n[name]
	if len(lists) == 0 {
		return nil, errors.New("no such host")
	}
	if len(lists) > 1 {
		n[name] = lists[1:]
	}
	var out []netip.Addr
	for _, a := range lists[0] {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

// foreign is a machine with one interface, on which Steward listens at 7420.
func foreign() (machine, error) {
	return machine{addrs: []netip.Addr{netip.MustParseAddr("93.184.216.40")}, listen: func(port uint16) error {
		if port == 7420 {
			return fault.New(fault.Denied, "network_denied", "port 7420 is Steward's own")
		}
		return nil
	}}, nil
}

func TestRulesAreRead(t *testing.T) {
	for text, want := range map[string]string{
		"Example.ORG.": "example.org", "example.org:8443": "example.org:8443", "*.example.org:99": "*.example.org:99",
		"10.0.0.1:80": "10.0.0.1:80", "[fd00::1]:443": "[fd00::1]:443", "fd00::1": "fd00::1", "::ffff:10.0.0.1": "10.0.0.1",
	} {
		if r, err := List(text); err != nil || r.String() != want {
			t.Errorf("%s: %s, %v", text, r, err)
		}
	}
	for _, bad := range []any{"", "a b", "*", "*.*.org", "a.*.org", "http://example.org", "example.org:0", "example.org:99999", "example.org:http",
		"fe80::1%eth0", "bücher.de", "a..b", 7, []any{true}, make([]string, maxHosts+1)} {
		if _, err := Declared(bad); !fault.HasCode(err, "network_rule_invalid") {
			t.Errorf("%.40v: %v", bad, err)
		}
	}
	for _, none := range []any{nil, false, []any{}} {
		if r, err := Declared(none); err != nil || !r.Zero() {
			t.Errorf("%v: %v, %v", none, r, err)
		}
	}
	if r, err := Declared(true); err != nil || r.Zero() || r.String() != "any public host" {
		t.Error(r, err)
	}
	r, err := Declared([]any{"localhost:8123", "127.0.0.1:8123", "[::1]:99", "localhost", "*.localhost:5", "example.org"})
	if got := strings.Join(r.Loopback(), " "); err != nil || got != "127.0.0.1:8123 [::1]:99" {
		t.Error(got, err)
	}
}

// Addresses that may be dialled, for each kind of rule and address.
func TestWhatMayBeReached(t *testing.T) {
	all := names{"public.test": {{"93.184.216.34"}}, "home.test": {{"192.168.1.2"}}, "both.test": {{"10.0.0.1", "93.184.216.34"}},
		"meta.test": {{"169.254.169.254"}}, "six.test": {{"64:ff9b::5db8:d822"}}, "evil.test": {{"64:ff9b::7f00:1"}}, "none.test": {{}}, "self.test": {{"93.184.216.40"}}}
	for _, c := range []struct {
		rule    any
		address string
		want    string // the addresses, or a word of the refusal
	}{
		{nil, "public.test:443", "not on the list of allowed hosts"},
		{true, "public.test:443", "93.184.216.34:443"}, {true, "public.test:9999", "93.184.216.34:9999"}, {true, "PUBLIC.test.:443", "93.184.216.34:443"},
		{true, "93.184.216.34:80", "93.184.216.34:80"}, {true, "[2606:4700::1]:443", "[2606:4700::1]:443"},
		{true, "both.test:443", "93.184.216.34:443"}, {true, "six.test:443", "[64:ff9b::5db8:d822]:443"},
		{true, "home.test:443", "private"}, {true, "evil.test:443", "private"}, {true, "self.test:443", "this machine"}, {true, "meta.test:80", "metadata"},
		{true, "none.test:80", "no address"}, {true, "gone.test:80", "resolved"}, {true, "public.test", "HOST:PORT"}, {true, "a b:80", "not a host name"}, {true, "public.test:0", "HOST:PORT"},
		{"public.test", "public.test:443", "93.184.216.34:443"}, {"public.test", "public.test:80", "93.184.216.34:80"}, {"public.test", "public.test:8080", "not on the list of allowed hosts"},
		{"public.test:8080", "public.test:8080", "93.184.216.34:8080"}, {"public.test:8080", "public.test:443", "not on the list of allowed hosts"},
		{"public.test", "93.184.216.34:443", "not on the list of allowed hosts"}, {"*.test", "public.test:443", "93.184.216.34:443"}, {"*.public.test", "public.test:443", "not on the list of allowed hosts"},
		{"home.test:443", "home.test:443", "192.168.1.2:443"}, {"home.test", "home.test:443", "private"}, {"*.test:443", "home.test:443", "private"},
		{"127.0.0.1:8123", "127.0.0.1:8123", "127.0.0.1:8123"}, {"127.0.0.1:8123", "[::ffff:127.0.0.1]:8123", "127.0.0.1:8123"}, {"127.0.0.1", "127.0.0.1:80", "private"},
		{"127.0.0.1:7420", "127.0.0.1:7420", "Steward's own"}, {"[::1]:7420", "[::1]:7420", "Steward's own"}, {"93.184.216.40:7420", "93.184.216.40:7420", "Steward's own"},
		{"[64:ff9b::7f00:1]:7420", "[64:ff9b::7f00:1]:7420", "Steward's own"}, {"192.168.1.9:7420", "192.168.1.9:7420", "192.168.1.9:7420"},
		{"169.254.169.254:80", "169.254.169.254:80", "metadata"}, {"[fd00:ec2::254]:80", "[fd00:ec2::254]:80", "metadata"}, {"meta.test:80", "meta.test:80", "metadata"},
		{"[64:ff9b::a9fe:a9fe]:80", "[64:ff9b::a9fe:a9fe]:80", "metadata"}, {"[2002:a9fe:a9fe::1]:80", "[2002:a9fe:a9fe::1]:80", "metadata"}, {"[::a9fe:a9fe]:80", "[::a9fe:a9fe]:80", "metadata"},
		{"0.0.0.0:80", "0.0.0.0:80", "single machine"}, {"0.1.2.3:80", "0.1.2.3:80", "single machine"}, {"[::]:80", "[::]:80", "single machine"}, {"224.0.0.1:80", "224.0.0.1:80", "single machine"},
		{"255.255.255.255:80", "255.255.255.255:80", "single machine"}, {"[ff02::1]:80", "[ff02::1]:80", "single machine"},
	} {
		rule := must.Get(Declared(c.rule))
		got, err := Dialer{Rule: rule, Resolver: all, machine: foreign}.Check(t.Context(), c.address)
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%v: %s: %s, want %q", c.rule, c.address, text, c.want)
		}
	}
	for _, a := range []string{"127.0.0.1", "127.9.9.9", "10.1.1.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.1", "100.127.255.255", "169.254.1.1", "192.0.0.1",
		"198.18.0.1", "198.19.255.255", "192.0.2.1", "203.0.113.9", "240.0.0.1", "::1", "fc00::1", "fdff::1", "fe80::1", "fec0::1", "2001::1", "2001:2::1", "2001:db8::1",
		"2002:5db8:d822::1", "64:ff9b:1::1", "::ffff:10.0.0.1", "::5db8:d822", "3fff::1", "100::1"} {
		if _, err := (Dialer{Rule: Rule{public: true}, machine: foreign}).Check(t.Context(), net.JoinHostPort(a, "443")); !fault.HasCode(err, "network_denied") {
			t.Errorf("%s may be reached by whoever may reach any public host", a)
		}
	}
	broken := Dialer{Rule: Rule{public: true}, machine: func() (machine, error) { return machine{}, errors.New("no /proc") }}
	if _, err := broken.Check(t.Context(), "93.184.216.34:80"); !fault.HasCode(err, "network_denied") {
		t.Error(err)
	}
}

// The checked address is the one that is dialled, so a name that changes its address gains nothing.
func TestANameThatChangesItsAddress(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	d := Dialer{Rule: Rule{public: true}, Resolver: names{"rebind.test": {{"192.0.2.1"}, {"127.0.0.1"}}}, machine: foreign}
	for range 3 {
		if _, err := d.DialContext(t.Context(), "tcp", "rebind.test:"+port); !fault.HasCode(err, "network_denied") {
			t.Error(err)
		}
	}
	rule := must.Get(List("once.test:" + port))
	d = Dialer{Rule: rule, Resolver: names{"once.test": {{"127.0.0.1"}, {"192.0.2.1"}}}, machine: foreign}
	conn := must.Get(d.DialContext(t.Context(), "tcp4", "once.test:"+port))
	conn.Close()
	d.Resolver = names{"once.test": {{"127.0.0.1"}}}
	if _, err := d.DialContext(t.Context(), "tcp6", "once.test:"+port); !fault.HasCode(err, "network_unreachable") {
		t.Error(err)
	}
	if _, err := d.DialContext(t.Context(), "udp", "once.test:"+port); !fault.HasCode(err, "network_denied") {
		t.Error(err)
	}
}

// Ports that this process listens on are never reached.
func TestOwnPortsAreNotReached(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	rule := must.Get(List(l.Addr().String()))
	if _, err := (Dialer{Rule: rule}).DialContext(t.Context(), "tcp", l.Addr().String()); !fault.HasCode(err, "network_denied") {
		t.Error(err)
	}
	l.Close()
	if _, err := (Dialer{Rule: rule}).DialContext(t.Context(), "tcp", l.Addr().String()); !fault.HasCode(err, "network_unreachable") {
		t.Errorf("a port that nobody listens on: %v", err)
	}
}

// proxied serves a proxy for a list of hosts and returns a client of it.
func proxied(t *testing.T, log io.Writer, list ...string) (*http.Client, string) {
	t.Helper()
	rule := must.Get(List(list...))
	p := NewProxy(Dialer{Rule: rule, Resolver: names{"moved.test": {{"127.0.0.1"}}}, machine: foreign}, "sandbox.network", slog.New(slog.NewTextHandler(log, nil)))
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	done := make(chan error, 1)
	go func() { done <- p.Serve(l) }()
	at := &url.URL{Scheme: "http", Host: l.Addr().String()}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(at)}, Timeout: time.Minute}
	t.Cleanup(func() {
		p.Close()
		client.CloseIdleConnections()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return client, at.Host
}

func TestAProxyForAList(t *testing.T) {
	var log strings.Builder
	var other *httptest.Server
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, other.URL, http.StatusFound)
			return
		}
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Host, b, r.Header.Get("Proxy-Connection"))
	})
	plain, secure := httptest.NewServer(serve), httptest.NewTLSServer(serve)
	other = httptest.NewServer(serve)
	defer plain.Close()
	defer secure.Close()
	defer other.Close()
	in, tls := plain.Listener.Addr().String(), secure.Listener.Addr().String()
	client, at := proxied(t, &log, in, tls)
	client.Transport.(*http.Transport).TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig

	whole := func(res *http.Response) (status int, body string) {
		defer res.Body.Close()
		return res.StatusCode, string(must.Get(io.ReadAll(res.Body)))
	}
	_, body := whole(must.Get(client.Post(plain.URL, "text/plain", strings.NewReader("hello"))))
	if want := "POST " + in + " hello "; body != want {
		t.Errorf("%q, want %q", body, want)
	}
	whole(must.Get(client.Get(secure.URL)))
	for _, path := range []string{other.URL, plain.URL + "/away", // redirects are checked like first requests
		"http://" + strings.Replace(in, "127.0.0.1", "127.0.0.2", 1)} {
		status, body := whole(must.Get(client.Get(path)))
		if status != http.StatusForbidden || !strings.Contains(body, "sandbox.network") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if _, err := client.Get("https://moved.test"); err == nil || !strings.Contains(err.Error(), "not on the list of allowed hosts") {
		t.Errorf("a refused CONNECT says %v", err)
	}
	if n := strings.Count(log.String(), "denied a connection"); n != 3 {
		t.Errorf("%d refusals are logged: %s", n, &log)
	}
	if status, body := whole(must.Get(http.Get("http://" + at))); status != http.StatusBadRequest {
		t.Errorf("%d %s", status, body)
	}
	plain.Close()
	if status, body := whole(must.Get(client.Get(plain.URL))); status != http.StatusBadGateway {
		t.Errorf("a host that is down: %d %s", status, body)
	}
	http.DefaultClient.CloseIdleConnections()
}

// Closing a proxy ends its tunnels, and the end of one side reaches the other.
func TestATunnelEnds(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	rule := must.Get(List(l.Addr().String()))
	p := NewProxy(Dialer{Rule: rule, machine: foreign}, "sandbox.network", slog.New(slog.DiscardHandler))
	at := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	go p.Serve(at) //nolint:errcheck // Close ends it
	open := func() (net.Conn, *bufio.Reader) {
		c := must.Get(net.Dial("tcp", at.Addr().String()))
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\nearly ", l.Addr())
		r := bufio.NewReader(c)
		if res, err := http.ReadResponse(r, &http.Request{Method: "CONNECT"}); err != nil || res.StatusCode != 200 {
			t.Fatal(res, err)
		}
		return c, r
	}
	c, r := open()
	fmt.Fprint(c, "late")
	c.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(r); err != nil || string(b) != "early late" {
		t.Errorf("%q %v", b, err)
	}
	c.Close()
	c, r = open()
	defer c.Close()
	p.Close()
	if _, err := io.Copy(io.Discard, r); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
}

// A tool that takes a URL uses the same dialer.
func TestATransportForURLsOfOthers(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	tr := Dialer{Rule: Rule{public: true}}.Transport()
	defer tr.CloseIdleConnections()
	t.Setenv("HTTP_PROXY", s.URL)
	if _, err := (&http.Client{Transport: tr}).Get(s.URL); !fault.HasCode(err, "network_denied") {
		t.Error(err)
	}
}
