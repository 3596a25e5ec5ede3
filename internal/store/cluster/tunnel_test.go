package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coder/websocket"
	"golang.org/x/net/nettest"
)

// pair returns two nodes that do not work, and the listener of the second.
func (w *world) pair() (a, b *Cluster, l net.Listener) {
	w.Helper()
	idle := func(o *Options) { o.Works = false }
	a, _ = w.node("a", idle)
	b, _ = w.node("b", idle)
	return a, b, b.Listen()
}

// connect returns both ends of a connection.
func (w *world) connect(a *Cluster, l net.Listener) (near, far *conn) {
	w.Helper()
	n, err := a.Dial(w.Context(), "b")
	if err != nil {
		w.Fatal(err)
	}
	f, err := l.Accept()
	if err != nil {
		w.Fatal(err)
	}
	return n.(*conn), f.(*conn)
}

func TestTheTunnelIsANetConn(t *testing.T) {
	w := newWorld(t)
	a, _, l := w.pair()
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		c1, err = a.Dial(t.Context(), "b")
		if err != nil {
			return nil, nil, nil, err
		}
		c2, err = l.Accept()
		return c1, c2, func() { _ = c1.Close(); _ = c2.Close() }, err
	})
	if n := len(a.tunnels.list()); n != 0 || a.tunnels.unread != 0 {
		t.Errorf("%d connections and %d bytes are left", n, a.tunnels.unread)
	}
}

func TestTheTunnelClosesHalf(t *testing.T) {
	w := newWorld(t)
	a, _, l := w.pair()
	near, far := w.connect(a, l)
	text := bytes.Repeat([]byte("steward"), 100_000)
	go func() {
		_, _ = near.Write(text)
		_ = near.CloseWrite()
	}()
	got, err := io.ReadAll(far)
	if err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := far.Write([]byte("answer")); err != nil {
		t.Error(err)
	}
	_ = far.Close()
	if got, err := io.ReadAll(near); err != nil || string(got) != "answer" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := near.Write([]byte("x")); err == nil {
		t.Error("a write to a closed connection succeeds")
	}
	_ = near.Close()
}

func TestAGapBreaksTheTunnel(t *testing.T) {
	w := newWorld(t)
	a, _, l := w.pair()
	near, far := w.connect(a, l)
	lose := func() { // as if the servers had lost a frame
		near.mu.Lock()
		defer near.mu.Unlock()
		near.sent++
	}
	_, _ = near.Write([]byte("one"))
	b := make([]byte, 3)
	if _, err := io.ReadFull(far, b); err != nil || string(b) != "one" {
		t.Fatal(err)
	}
	lose()
	_, _ = near.Write([]byte("three"))
	if n, err := far.Read(b); err == nil || n > 0 {
		t.Errorf("%q was read behind the gap", b[:n])
	}
	if _, err := near.Read(b); err == nil {
		t.Error("the other side does not notice")
	}
	near, far = w.connect(a, l)
	lose() // the last frame: the next probe tells
	if _, err := far.Read(b); err == nil {
		t.Error("the lost end is not noticed")
	}
	_ = near
}

func TestTheTunnelToANodeThatEndsBreaks(t *testing.T) {
	w := newWorld(t)
	a, b, l := w.pair()
	near, _ := w.connect(a, l)
	b.nc.Close() // without a word
	if _, err := near.Read(make([]byte, 1)); err == nil {
		t.Error("the loss of the node is not noticed")
	}
	if _, err := a.Dial(t.Context(), "b"); err == nil {
		t.Error("a node that has ended can be dialled")
	}
}

func TestHTTPRunsOverTheTunnel(t *testing.T) {
	w := newWorld(t)
	a, _, l := w.pair()
	mux := http.NewServeMux()
	mux.HandleFunc("/sum", func(rw http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		n, err := io.Copy(h, r.Body)
		fmt.Fprintf(rw, "%d %x %v %s", n, h.Sum(nil), err, r.Proto)
	})
	mux.HandleFunc("/echo", func(rw http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(rw, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }()
		for {
			kind, b, err := ws.Read(r.Context())
			if err != nil {
				return
			}
			if err := ws.Write(r.Context(), kind, b); err != nil {
				return
			}
		}
	})
	var both http.Protocols
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	srv := httptest.NewUnstartedServer(mux)
	_ = srv.Listener.Close()
	srv.Listener = l
	srv.Config.Protocols = &both
	srv.Start()
	defer srv.Close()
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		var p http.Protocols
		p.SetHTTP1(proto == "HTTP/1.1")
		p.SetUnencryptedHTTP2(proto != "HTTP/1.1")
		tr := &http.Transport{Protocols: &p, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return a.Dial(ctx, "b") }}
		client := &http.Client{Transport: tr}
		for range 3 {
			r, err := client.Post("http://b/sum", "", bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r.Body)
			_ = r.Body.Close()
			if want := fmt.Sprintf("%d %x <nil> %s", len(body), sha256.Sum256(body), proto); err != nil || string(got) != want {
				t.Errorf("%s: %q %v, want %q", proto, got, err, want)
			}
		}
		if proto == "HTTP/1.1" {
			ctx := t.Context()
			ws, _, err := websocket.Dial(ctx, "ws://b/echo", &websocket.DialOptions{HTTPClient: client})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 100 {
				if err := ws.Write(ctx, websocket.MessageText, fmt.Append(nil, i)); err != nil {
					t.Fatal(err)
				}
				if _, b, err := ws.Read(ctx); err != nil || string(b) != fmt.Sprint(i) {
					t.Fatal(string(b), err)
				}
			}
			_ = ws.CloseNow()
		}
		tr.CloseIdleConnections()
	}
}
