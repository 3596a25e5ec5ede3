package websocket_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/message"
	"steward/internal/server/auth"
	wsserver "steward/internal/server/websocket"
	"steward/internal/turn"
	"steward/test/served"
)

// One connection follows a bounded number of conversations. It drops the least
// recently used idle one, and keeps those that are busy.
func TestTooManyConversations(t *testing.T) {
	d := newDouble(nil)
	for range 1030 {
		if _, err := d.Send(t.Context(), "local", turn.Input{Content: []message.Block{&message.Text{Text: "x"}}}); err != nil {
			t.Fatal(err)
		}
	}
	convs := make([]string, 0, 1030)
	for x := range d.talks {
		convs = append(convs, x.String())
	}
	_, url := serve(t, wsserver.Options{Node: d})
	c := dial(t, url, "")
	quiet := func(x string) { // follows an idle conversation
		c.ask(`{"type":"resume","conversation_id":"`+x+`","cursor":"now","id":"r"}`, frame{"type": "ok"})
	}
	for _, x := range append(convs[:1024:1024], convs[0]) {
		quiet(x)
	}
	quiet(convs[1024]) // replaces convs[1]
	for _, f := range []struct {
		conv  string
		heard bool
	}{{convs[1], false}, {convs[0], true}} {
		conv, _ := id.Parse(f.conv)
		if _, err := d.Send(t.Context(), "local", turn.Input{Conversation: conv, Content: []message.Block{&message.Text{Text: "x"}}}); err != nil {
			t.Fatal(err)
		}
		if f.heard {
			c.want(frame{"type": "user", "conversation_id": f.conv}) // nothing comes before it
		}
	}

	busy := dial(t, url, "")
	for _, x := range convs[2:1026] { // each has a turn without an end
		busy.ask(`{"type":"resume","conversation_id":"`+x+`","id":"r"}`, frame{"type": "ok"})
		busy.want(frame{"type": "user"})
	}
	busy.ask(`{"type":"resume","conversation_id":"`+convs[1026]+`","cursor":"now"}`, frame{"type": "error", "code": "too_many_conversations"})
	busy.ask(`{"type":"message","conversation_id":"`+convs[1027]+`","content":"x"}`, frame{"type": "error", "code": "too_many_conversations"})
	busy.send(`{"type":"message","content":"x"}`) // a new conversation is known only after it is accepted
	busy.want(frame{"type": "accepted"})
	busy.want(frame{"type": "error", "code": "too_many_conversations"})
	busy.ask(`{"type":"message","conversation_id":"`+convs[2]+`","content":"x"}`, frame{"type": "accepted"})
}

// An endless frame ends the connection; one that ends is only refused.
func TestEndlessFrame(t *testing.T) {
	_, url := serve(t, wsserver.Options{Node: newDouble(nil), MaxMessage: 1000})
	other := dial(t, url, "")
	c := dial(t, url, "")
	go func() {
		w, err := c.Writer(context.Background(), websocket.MessageText)
		for err == nil {
			_, err = w.Write(make([]byte, 1000))
		}
	}()
	if code := c.wantClosed(); code != websocket.StatusMessageTooBig && code != -1 {
		t.Errorf("closed with %d", code)
	}
	other.ask(strings.Repeat("x", 7999), frame{"type": "error", "code": "too_large"})
	other.ask(`{"type":"ping"}`, frame{"type": "pong"})
}

// gated is a listener whose connections write only while the gate is open,
// whatever their deadline. It simulates a client that does not read, without the
// kernel's buffers in between.
type gated struct {
	net.Listener
	gate    sync.RWMutex
	blocked chan struct{} // receives a value when a write waits
}

type gatedConn struct {
	net.Conn
	l *gated
}

func (l *gated) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return gatedConn{c, l}, err
}

func (c gatedConn) Write(p []byte) (int, error) {
	if !c.l.gate.TryRLock() {
		select {
		case c.l.blocked <- struct{}{}:
		default:
		}
		c.l.gate.RLock()
	}
	defer c.l.gate.RUnlock()
	return c.Conn.Write(p)
}

func (gatedConn) SetWriteDeadline(time.Time) error { return nil }

// long is a turn of 200 pieces that cannot be joined.
func long(d *double, t accepted) {
	text := strings.Repeat("x", 100)
	for range 200 {
		msg := d.newID()
		d.text(t, msg, turn.FrameToken, 0, text, len(text))
	}
	d.complete(t, d.newID(), "done", message.StopEnd)
}

func listen(t *testing.T, server *wsserver.Server, wrap func(net.Listener) net.Listener) string {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.ServeHTTP(w, r.WithContext(auth.With(r.Context(), auth.Caller{User: "local"})))
	}))
	s.Listener = wrap(s.Listener)
	s.Start()
	t.Cleanup(s.Close)
	return "ws" + strings.TrimPrefix(s.URL, "http")
}

// A client that does not read for a while is disconnected with a special code, and
// can resume where it was.
func TestSlowClient(t *testing.T) {
	const patience = 20 * time.Millisecond
	d := newDouble(long)
	server := wsserver.Handler(wsserver.Options{Node: d, WriteTimeout: patience, PingEvery: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	var door *gated
	url := listen(t, server, func(l net.Listener) net.Listener {
		door = &gated{Listener: l, blocked: make(chan struct{}, 1)}
		return door
	})
	c := dial(t, url, "")
	door.gate.Lock()
	c.send(`{"type":"message","content":"x"}`)
	<-door.blocked
	<-time.After(20 * patience) // longer than the patience, even on a busy machine
	door.gate.Unlock()
	frames, conv, cursor := 0, "", ""
	for {
		f, err := c.read()
		if err != nil {
			if code := websocket.CloseStatus(err); code != wsserver.CloseSlow {
				t.Fatalf("after %d frames: %v", frames, err)
			}
			break
		}
		conv, cursor = f["conversation_id"].(string), f["cursor"].(string)
		if f["type"] == "token" {
			frames++
		}
	}
	if frames == 200 {
		t.Error("nothing was held back")
	}
	other := wsserver.Handler(wsserver.Options{Node: d, PingEvery: time.Hour, Logger: slog.New(slog.DiscardHandler)}) // a server with the default patience
	c = dial(t, listen(t, other, func(l net.Listener) net.Listener { return l }), "")
	c.send(`{"type":"resume","conversation_id":"` + conv + `","cursor":"` + cursor + `"}`)
	for c.next()["type"] != "complete" {
		frames++
	}
	if frames != 200 {
		t.Errorf("%d pieces over both connections, want 200", frames)
	}
	c.CloseNow()
	for _, s := range []*wsserver.Server{server, other} {
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
	d.running.Wait()
}

// small makes the kernel's buffers small, so that a client that does not read is
// noticed soon.
type small struct{ net.Listener }

func (l small) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4096)
	}
	return c, err
}

// A client that never reads again is dropped and blocks nothing else.
func TestDeadClient(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	d := newDouble(func(d *double, t accepted) {
		for range 30 {
			msg := d.newID()
			d.text(t, msg, turn.FrameToken, 0, big, len(big))
		}
		d.complete(t, d.newID(), "done", message.StopEnd)
	})
	server := wsserver.Handler(wsserver.Options{Node: d, WriteTimeout: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	url := listen(t, server, func(l net.Listener) net.Listener { return small{l} })
	dead := dial(t, url, "")
	dead.ask(`{"type":"message","content":"x"}`, frame{"type": "accepted"})
	d.running.Wait() // the turn does not wait for the client
	for server.Connections() > 0 {
		<-time.After(time.Millisecond)
	}
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestShutdown(t *testing.T) {
	d := newDouble(answer("Hi."))
	d.hold = make(chan struct{})
	server, url := serve(t, wsserver.Options{Node: d})
	var clients []*client
	for range 5 {
		c := dial(t, url, "")
		c.send(`{"type":"message","content":"never accepted"}`)
		c.ask(`{"type":"ping"}`, frame{"type": "pong"})
		clients = append(clients, c)
	}
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			if code := c.wantClosed(); code != websocket.StatusGoingAway {
				t.Errorf("closed with %d", code)
			}
		})
	}
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if len(d.talks) != 0 {
		t.Error("a message that was not acknowledged was recorded")
	}
	res, err := http.Get(strings.Replace(url, "ws", "http", 1))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != 503 || !strings.Contains(string(body), `"closing"`) {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
}

// A client that does not answer the close handshake is dropped in the end.
func TestShutdownOfADeafClient(t *testing.T) {
	server, url := serve(t, wsserver.Options{Node: newDouble(nil)})
	c := dial(t, url, "")
	c.ask(`{"type":"ping"}`, frame{"type": "pong"}) // from now on it reads nothing and answers nothing
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

var revoked = error(fault.New(fault.Unauthentic, "key_revoked", "this key was revoked"))

// A connection does not outlive its key.
func TestRevokedKey(t *testing.T) {
	broken := error(fault.New(fault.Unavailable, "store_broken", "no answer"))
	for name, c := range map[string]struct {
		err  *error
		ping time.Duration
		code websocket.StatusCode
	}{
		"at the next frame":        {&revoked, time.Hour, wsserver.CloseRevoked},
		"soon":                     {&revoked, time.Millisecond, wsserver.CloseRevoked},
		"soon, whatever the pings": {&revoked, time.Minute, wsserver.CloseRevoked},
		"when it cannot be looked": {&broken, time.Hour, websocket.StatusInternalError},
	} {
		t.Run(name, func(t *testing.T) {
			keys := &served.Keys{User: "ana"}
			server := wsserver.Handler(wsserver.Options{Node: newDouble(nil), PingEvery: c.ping, Logger: slog.New(slog.DiscardHandler)})
			s := httptest.NewServer(auth.New(auth.Options{Keys: keys, Logger: slog.New(slog.DiscardHandler)}).Wrap(server, nil))
			defer s.Close()
			ws, _, err := websocket.Dial(t.Context(), s.URL, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + identity.NewSecret()}}})
			if err != nil {
				t.Fatal(err)
			}
			defer ws.CloseNow()
			cl := &client{t, ws}
			cl.ask(`{"type":"ping"}`, frame{"type": "pong"})
			keys.Gone.Store(c.err)
			if c.ping == time.Hour {
				cl.send(`{"type":"message","content":"x"}`)
			}
			if code := cl.wantClosed(); code != c.code {
				t.Errorf("closed with %d", code)
			}
		})
	}
}

// The server sends pings, and notices a client that is gone.
func TestPings(t *testing.T) {
	_, url := serve(t, wsserver.Options{Node: newDouble(nil), PingEvery: time.Millisecond})
	pinged := make(chan struct{}, 100)
	ws, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{OnPingReceived: func(context.Context, []byte) bool {
		select {
		case pinged <- struct{}{}:
		default:
		}
		return true
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	ctx := ws.CloseRead(t.Context())
	for range 3 {
		select {
		case <-pinged:
		case <-ctx.Done():
			t.Fatal("the connection ended")
		}
	}
}

func TestSilentClientIsNoticed(t *testing.T) {
	_, url := serve(t, wsserver.Options{Node: newDouble(nil), PingEvery: time.Millisecond, WriteTimeout: time.Millisecond})
	ws, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{OnPingReceived: func(context.Context, []byte) bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t, ws}
	if code := c.wantClosed(); code != -1 {
		t.Errorf("closed with %d", code)
	}
}

func TestHandshake(t *testing.T) {
	server, url := serve(t, wsserver.Options{Node: newDouble(nil)})
	res, err := http.Get(strings.Replace(url, "ws", "http", 1))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("got %d for a plain request", res.StatusCode)
	}
	w := httptest.NewRecorder()
	server.ServeHTTP(w, httptest.NewRequest("GET", "/ws", nil))
	if w.Code != 401 || !strings.Contains(w.Body.String(), "unauthenticated") {
		t.Errorf("got %d %s without a guard", w.Code, w.Body)
	}
	// A ResponseWriter that cannot be hijacked.
	r := httptest.NewRequest("GET", "/ws", nil)
	for k, v := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
		r.Header.Set(k, v)
	}
	w = httptest.NewRecorder()
	server.ServeHTTP(w, r.WithContext(auth.With(r.Context(), auth.Caller{User: "local"})))
	if !strings.Contains(w.Body.String(), "Internal Server Error") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
