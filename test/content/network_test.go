package content

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"steward/test/edge"
)

// inside are addresses of this machine and its network, in all the ways of writing them. PORT is where a
// server listens that nobody has allowed.
var inside = []string{
	"http://127.0.0.1:PORT/", "http://localhost:PORT/", "http://LOCALHOST.:PORT/", "http://[::1]:PORT/", "http://[::ffff:127.0.0.1]:PORT/", "http://[::ffff:7f00:1]:PORT/",
	"http://[::127.0.0.1]:PORT/", "http://2130706433:PORT/", "http://0x7f000001:PORT/", "http://0x7f.1:PORT/", "http://0177.0.0.1:PORT/", "http://127.1:PORT/", "http://0:PORT/", "http://0.0.0.0:PORT/",
	"http://[::]:PORT/", "http://①②⑦.⓪.⓪.①:PORT/", "http://127。0。0。1:PORT/", "http://[fe80::1%25lo]:PORT/", "http://[64:ff9b::127.0.0.1]:PORT/", "http://[2002:7f00:1::]:PORT/",
	"http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/latest/meta-data/", "http://metadata.google.internal/", "http://10.0.0.1/", "http://192.168.1.1/", "http://172.16.0.1/", "http://100.64.0.1/",
	"http://ann@127.0.0.1:PORT/", "file:///etc/passwd", "gopher://127.0.0.1:PORT/", "ftp://127.0.0.1:PORT/", "STEWARD/api/v1/profile",
}

// Neither a model nor a redirect leads to this machine or its network, however the address is written.
func TestAddressesInside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	var reached atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(s.Close)
	port := s.URL[strings.LastIndexByte(s.URL, ':')+1:]
	w.mux.HandleFunc("/to", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Location", r.FormValue("to"))
		rw.WriteHeader(http.StatusFound)
	})
	w.mux.HandleFunc("/loop/", func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, r.URL.Path+"x", http.StatusFound) })
	w.page("/fine", "text/plain", "It is fine.")
	w.Serve()
	refused := regexp.MustCompile(`network_denied|network_unreachable|url_invalid|page_redirects|page_unreachable`)
	for _, to := range inside {
		to = strings.NewReplacer("PORT", port, "STEWARD", w.URL).Replace(to)
		for _, at := range []string{to, w.site + "/to?to=" + url.QueryEscape(to)} {
			if a := w.do("web.fetch", args{"url": at}); !refused.MatchString(a.Text) {
				t.Errorf("%s: %.300s", at, a.Text)
			}
		}
	}
	if a := w.do("web.fetch", args{"url": w.site + "/loop/"}); !strings.Contains(a.Text, "page_redirects") {
		t.Errorf("a loop: %.300s", a.Text)
	}
	if a := w.do("web.fetch", args{"url": w.site + "/to?to=/fine"}); !strings.Contains(a.Text, "It is fine.") {
		t.Errorf("no redirect is followed, so that the test shows nothing: %.300s", a.Text)
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("the server inside was reached %d times", n)
	}
}

// insideFlag says that this process runs in a network of its own.
const insideFlag = "STEWARD_TEST_OWN_NETWORK"

// A name that leads elsewhere when it is asked for again (DNS rebinding) gains nothing. The test runs itself
// in a network of its own, where it is the name server.
func TestANameThatChangesItsAddress(t *testing.T) {
	t.Parallel()
	if os.Getenv(insideFlag) != "" {
		rebound(t)
		return
	}
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(conf, []byte("nameserver 127.0.0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bwrap", "--unshare-user", "--uid", "0", "--gid", "0", "--unshare-net", "--cap-add", "CAP_NET_BIND_SERVICE", "--dev-bind", "/", "/", "--ro-bind", conf, at,
		"--setenv", insideFlag, "yes", "--setenv", "STEWARD_PROGRAMS_ARE_BUILT", "yes", "--die-with-parent", os.Args[0], "-test.run", "^TestANameThatChangesItsAddress$", "-test.v")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestANameThatChangesItsAddress") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func rebound(t *testing.T) {
	var reached, asked atomic.Int32
	web, err := net.Listen("tcp", "127.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: web, Config: &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		fmt.Fprint(rw, "This is inside.")
	})}}
	s.Start()
	t.Cleanup(s.Close)
	names, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { names.Close(); <-done }) //nolint:errcheck // it is over
	go func() {
		defer close(done)
		for b := make([]byte, 1500); ; {
			n, from, err := names.ReadFrom(b)
			if err != nil {
				return
			}
			if answer := resolved(b[:n], asked.Add(1)); answer != nil {
				names.WriteTo(answer, from) //nolint:errcheck // the asker waits in vain then, and says so
			}
		}
	}()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		return edge.Steps(edge.Call{Name: "web.fetch", Args: args{"url": in.User()}})(in)
	})})
	n.Write("web: {hosts: ['127.0.0.1:80']}\n", ".config", "steward", "steward.yaml")
	n.Serve()
	if a := n.Ask("http://127.0.0.1/", nil); !strings.Contains(a.Text, "This is inside.") {
		t.Errorf("the server inside cannot be reached at all, so that the test shows nothing: %s", a.Text)
	}
	reached.Store(0)
	for _, name := range []string{"changes.example", "both.example", "private.example"} {
		for range 3 {
			if a := n.Ask("http://"+name+"/", nil); !strings.Contains(a.Text, "[error") {
				t.Errorf("%s: %s", name, a.Text)
			}
		}
	}
	if asked.Load() < 6 || reached.Load() > 0 {
		t.Errorf("%d names were asked for, and the server inside was reached %d times", asked.Load(), reached.Load())
	}
}

// resolved answers a question for an address: a public one at first, and one inside each second time. For
// both.example the answer has both, and for private.example only the one inside.
func resolved(question []byte, turn int32) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	q := m.Questions[0]
	add := func(address string) {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: netip.MustParseAddr(address).As4()}})
		}
	}
	switch public := "93.184.216.34"; {
	case strings.HasPrefix(q.Name.String(), "both."):
		add(public)
		add("127.0.0.1")
	case strings.HasPrefix(q.Name.String(), "private."), turn%4 > 1: // each look-up asks twice: A and AAAA
		add("127.0.0.1")
	default:
		add(public)
	}
	b, err := m.Pack()
	if err != nil {
		return nil
	}
	return b
}
