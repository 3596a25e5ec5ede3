package websocket_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"steward/internal/policy"
	"steward/internal/server/auth"
	wsserver "steward/internal/server/websocket"
	"steward/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// serve runs the server for the caller that the header X-User names ("local"
// without one). "admin" is the local user as an administrator, and "robot" is a
// service.
func serve(t *testing.T, o wsserver.Options) (*wsserver.Server, string) {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	if d, ok := o.Node.(wsserver.Approvals); ok && o.Approvals == nil {
		o.Approvals = d
	}
	server := wsserver.Handler(o)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := r.Header.Get("X-User")
		if user == "" {
			user = "local"
		}
		who := auth.Caller{User: user}
		if user == "admin" {
			who = auth.Caller{User: "local", Admin: true}
		}
		if user == "robot" {
			who.Roles = []string{policy.RoleService}
		}
		server.ServeHTTP(w, r.WithContext(auth.With(r.Context(), who)))
	}))
	t.Cleanup(func() {
		ctx := context.Background()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		s.Close()
		if d, ok := o.Node.(*double); ok {
			d.running.Wait()
		}
	})
	return server, "ws" + strings.TrimPrefix(s.URL, "http")
}

// client is a client of the documented protocol.
type client struct {
	t *testing.T
	*websocket.Conn
}

type frame map[string]any

func dial(t *testing.T, url, user string) *client {
	t.Helper()
	h := http.Header{}
	if user != "" {
		h.Set("X-User", user)
	}
	return dialWith(t, url, h)
}

func dialWith(t *testing.T, url string, h http.Header) *client {
	t.Helper()
	ctx := t.Context()
	ws, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: h})
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	t.Cleanup(func() { ws.CloseNow() })
	return &client{t, ws}
}

func (c *client) send(text string) {
	c.t.Helper()
	c.sendAs(websocket.MessageText, text)
}

func (c *client) sendAs(typ websocket.MessageType, text string) {
	c.t.Helper()
	ctx := c.t.Context()
	if err := c.Write(ctx, typ, []byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) read() (frame, error) {
	ctx := context.Background()
	typ, b, err := c.Read(ctx)
	if err != nil {
		return nil, err
	}
	if typ != websocket.MessageText {
		c.t.Fatalf("a frame of type %v", typ)
	}
	var f frame
	if err := json.Unmarshal(b, &f); err != nil {
		c.t.Fatalf("%s: %v", b, err)
	}
	return f, nil
}

func (c *client) next() frame {
	c.t.Helper()
	f, err := c.read()
	if err != nil {
		c.t.Fatal(err)
	}
	return f
}

// want reads the next frame and checks some of its members.
func (c *client) want(members frame) frame {
	c.t.Helper()
	f := c.next()
	for k, v := range members {
		if !reflect.DeepEqual(f[k], v) {
			c.t.Fatalf("%s is %v, want %v, in %v", k, f[k], v, f)
		}
	}
	return f
}

// ask sends a frame and checks some members of the next frame that arrives.
func (c *client) ask(text string, members frame) frame {
	c.t.Helper()
	c.send(text)
	return c.want(members)
}

// wantClosed reads until the connection is closed and returns the code.
func (c *client) wantClosed() websocket.StatusCode {
	c.t.Helper()
	for {
		if _, err := c.read(); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}
