package auth_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/server/auth"
)

func TestParsePeers(t *testing.T) {
	for text, ok := range map[string]bool{"192.168.1.20": true, "192.168.1.0/24": true, "::1": true, "fd00::/8": true, "::ffff:10.0.0.1": true,
		"": false, "host": false, "192.168.1.0/33": false, "fe80::1%eth0": false, "*": false} {
		if p, err := auth.ParsePeers([]string{text}); (err == nil) != ok || ok && len(p) != 1 {
			t.Errorf("%q: %v %v", text, p, err)
		}
	}
}

// listen accepts connections of peers and greets each.
func listen(t *testing.T, most int, peers ...string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := auth.ParsePeers(peers)
	if err != nil {
		t.Fatal(err)
	}
	in := auth.Peers{Allowed: allowed, Most: most, Log: slog.New(slog.DiscardHandler)}.Listen(ln)
	t.Cleanup(func() { in.Close() })
	go func() {
		for {
			c, err := in.Accept()
			if err != nil {
				return
			}
			go func() {
				io.WriteString(c, "hello")
				io.Copy(io.Discard, c) // until the client has gone
				c.Close()
				c.Close() // a second time gives no place back
			}()
		}
	}()
	return ln.Addr().String()
}

// greeted connects and returns whether the server says something.
func greeted(t *testing.T, at string) (net.Conn, bool) {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	_, err = io.ReadFull(c, make([]byte, 5))
	return c, err == nil
}

func TestPeers(t *testing.T) {
	for peer, want := range map[string]bool{"127.0.0.1": true, "127.0.0.0/8": true, "::ffff:127.0.0.1": true, "10.0.0.0/8": false, "::1": false} {
		if _, ok := greeted(t, listen(t, 0, peer)); ok != want {
			t.Errorf("%s: %v", peer, ok)
		}
	}
	if _, ok := greeted(t, listen(t, 0)); ok {
		t.Error("without peers somebody is let in")
	}
}

// A connection too many is closed, and each that ends makes room for one.
func TestPeersAreBounded(t *testing.T) {
	at := listen(t, 2, "127.0.0.1")
	first, ok := greeted(t, at)
	if _, second := greeted(t, at); !ok || !second {
		t.Fatal("the first two are not let in")
	}
	if _, ok := greeted(t, at); ok {
		t.Fatal("a third is let in")
	}
	first.Close()
	for {
		if _, ok := greeted(t, at); ok {
			break // the place was given back
		}
		if t.Context().Err() != nil {
			t.Fatal("the place is not given back")
		}
	}
	if _, ok := greeted(t, at); ok {
		t.Error("two places were given back")
	}
}

// people knows the admin ana, and that bob is disabled.
type people struct{}

func (people) Principal(_ context.Context, user string) (policy.Principal, error) {
	if user == "bob" {
		return policy.Principal{}, fault.New(fault.Denied, "user_disabled", "bob is disabled")
	}
	return policy.Principal{User: user, Roles: []string{policy.RoleAdmin}}, nil
}

func (people) Version() uint64 { return 1 }

func TestPeersSpeakAsOneUser(t *testing.T) {
	g := auth.New(auth.Options{AnyIP: true, People: people{}, Logger: slog.New(slog.DiscardHandler)})
	for user, want := range map[string]int{"ana": 200, "bob": 403} {
		h := g.WrapUser(user, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c, err := auth.From(r.Context()); err != nil || c.User != user || c.Admin {
				t.Errorf("%+v %v", c, err)
			}
		}), func(w http.ResponseWriter, r *http.Request, err error) {
			auth.WriteError(w, r, slog.New(slog.DiscardHandler), err)
		})
		for host, want := range map[string]int{"192.168.1.2:11434": want, "[::1]": want, "localhost": want, "evil.example": 403} {
			r := httptest.NewRequest("GET", "/", nil)
			r.Host = host
			r.Header.Set("Authorization", "Bearer whatever")
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%s at %s: %d", user, host, w.Code)
			}
		}
	}
}
