package forward

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/coder/websocket"
	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/policy"
	"steward/internal/server/auth"
	"steward/internal/store/cluster"
	_ "steward/test/seed"
)

// town is a cluster in memory: its nodes dial each other over TCP.
type town struct {
	mu      sync.Mutex
	holders map[cluster.Piece]string
	nodes   map[string]*node
}

// node is a node of it, seen from which the others are reached.
type node struct {
	town   *town
	name   string
	f      *Forwarder
	inside *httptest.Server // for the other nodes
	public *httptest.Server
	asked  chan string // the users whose requests it answered
}

func (n *node) Reach(ctx context.Context, p cluster.Piece) (string, bool, error) {
	n.town.mu.Lock()
	defer n.town.mu.Unlock()
	at := n.town.holders[p]
	if at == "" {
		return "", false, fault.New(fault.Unavailable, "no_worker", "no node works for %s", Name(p))
	}
	return at, at == n.name, nil
}

func (n *node) Dial(ctx context.Context, name string) (net.Conn, error) {
	n.town.mu.Lock()
	to := n.town.nodes[name]
	n.town.mu.Unlock()
	if to == nil {
		return nil, errors.New("nobody answers")
	}
	return new(net.Dialer).DialContext(ctx, "tcp", to.inside.Listener.Addr().String())
}

func (tn *town) move(user, name string) {
	tn.mu.Lock()
	defer tn.mu.Unlock()
	tn.holders[Of(user)] = name
}

func (tn *town) die(name string) {
	tn.mu.Lock()
	n := tn.nodes[name]
	delete(tn.nodes, name)
	tn.mu.Unlock()
	n.inside.CloseClientConnections()
}

type people struct{}

func (people) Principal(_ context.Context, user string) (policy.Principal, error) {
	if user == "boss" {
		return policy.Principal{User: user, Roles: []string{policy.RoleAdmin}}, nil
	}
	return policy.Principal{User: user, Roles: []string{policy.RoleMember}}, nil
}

func (people) Authenticate(_ context.Context, secret string) (string, error) {
	user, ok := strings.CutPrefix(secret, identity.Prefix)
	if !ok {
		return "", fault.New(fault.Unauthentic, "key_unknown", "unknown API key")
	}
	return user, nil
}

// build makes a cluster of nodes with the handlers of h, which are behind a Guard at "/" of each node.
func build(t *testing.T, h func(n *node) http.Handler, names ...string) *town {
	t.Helper()
	tn := &town{holders: map[cluster.Piece]string{}, nodes: map[string]*node{}}
	for _, name := range names {
		n := &node{town: tn, name: name, asked: make(chan string, 100)}
		n.f = New(Options{Nodes: n, Patience: time.Second, Look: 10 * time.Millisecond})
		t.Cleanup(n.f.Close)
		guard := auth.New(auth.Options{Keys: people{}, People: people{}, Places: n.f, AnyHost: true, Logger: slog.New(slog.DiscardHandler)})
		mux := guard.Wrap(h(n), nil)
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		protocols.SetUnencryptedHTTP2(true)
		n.inside = httptest.NewUnstartedServer(mux)
		n.inside.Config.BaseContext = func(net.Listener) context.Context { return auth.Trust(context.Background()) }
		n.public = httptest.NewUnstartedServer(auth.Untrusted(mux))
		for _, s := range []*httptest.Server{n.inside, n.public} {
			s.Config.Protocols = protocols
			s.Start()
			t.Cleanup(s.Close)
		}
		tn.nodes[name] = n
	}
	return tn
}

// says answers with the name of the node, the caller, and the body.
func says(n *node) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := auth.From(r.Context())
		if err != nil {
			auth.WriteError(w, r, nil, err)
			return
		}
		n.asked <- c.User
		b, err := io.ReadAll(r.Body)
		if err != nil {
			auth.WriteError(w, r, nil, err)
			return
		}
		fmt.Fprintf(w, "%s %s %t %v %s %s", n.name, c.User, c.Admin, c.Roles, r.Host, b)
	})
}

func ask(t *testing.T, n *node, user, path, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, n.public.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+identity.Prefix+user)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(b)
}

func TestARequestIsAnsweredWhereItsUserIs(t *testing.T) {
	tn := build(t, says, "a", "b")
	a, b := tn.nodes["a"], tn.nodes["b"]
	tn.move("ada", "b")
	tn.move("boss", "a")
	for _, n := range []*node{a, b} {
		host := strings.TrimPrefix(n.public.URL, "http://")
		if status, text := ask(t, n, "ada", "/", "hello"); status != 200 || text != "b ada false [member] "+host+" hello" {
			t.Errorf("from %s: %d %s", n.name, status, text)
		}
	}
	large := strings.Repeat("x", 1<<20)
	if status, text := ask(t, a, "ada", "/", large); status != 200 || !strings.HasSuffix(text, large) {
		t.Errorf("a large body: %d, %d bytes", status, len(text))
	}
	if _, text := ask(t, b, "boss", "/", ""); !strings.HasPrefix(text, "a boss true") {
		t.Error(text)
	}
	if _, text := ask(t, a, "boss", "/api/v1/users/ada", ""); !strings.HasPrefix(text, "b boss true") {
		t.Error("what admins do about a user is done where the user is:", text)
	}
	if _, text := ask(t, b, "ada", "/api/v1/users/boss", ""); !strings.HasPrefix(text, "b ada") {
		t.Error("only admins reach the node of another user:", text)
	}
	for _, path := range []string{"/api/v1/log-level", "/api/v1/settings/models.default", "/api/v1/models/default", "/api/v1/providers"} {
		if _, text := ask(t, b, "boss", path, ""); !strings.HasPrefix(text, "b boss") {
			t.Errorf("what is about a node stays there: %s: %s", path, text)
		}
	}
	if status, text := ask(t, a, "eve", "/", ""); status != http.StatusServiceUnavailable || !strings.Contains(text, "no_worker") {
		t.Error(status, text)
	}
}

func TestAForgedHeaderGainsNothing(t *testing.T) {
	tn := build(t, says, "a", "b")
	a := tn.nodes["a"]
	tn.move("ada", "b")
	tn.move("eve", "a")
	boss := http.Header{}
	auth.Forward(boss, httptest.NewRequest("GET", "/", nil), auth.Caller{User: "boss", Admin: true, Roles: []string{policy.RoleAdmin}})
	forged := boss.Get(auth.ForwardedHeader)
	for _, user := range []string{"ada", "eve"} { // passed on, and answered here
		if status, text := ask(t, a, user, "/", "", auth.ForwardedHeader, forged); status != 200 || !strings.Contains(text, " "+user+" false [member]") {
			t.Errorf("%d %s", status, text)
		}
	}
	if status, _ := ask(t, a, "", "/", "", auth.ForwardedHeader, forged, "Authorization", ""); status != http.StatusUnauthorized {
		t.Errorf("without a credential: %d", status)
	}
	if status, _ := ask(t, a, "", "/", "", auth.ForwardedHeader, forged, "Authorization", "", "Connection", auth.ForwardedHeader); status != http.StatusUnauthorized {
		t.Errorf("as a header of the connection: %d", status)
	}
}

// A request at the listener of the cluster without the header of its caller is refused, whatever credential it has.
func TestTheListenerOfTheClusterWantsTheHeader(t *testing.T) {
	tn := build(t, says, "a")
	tn.move("boss", "a")
	for _, header := range []string{"", "%%%", "e30=", "bnVsbA=="} {
		r, _ := http.NewRequest(http.MethodGet, tn.nodes["a"].inside.URL, nil)
		r.Header.Set("Authorization", "Bearer "+identity.Prefix+"boss")
		if header != "" {
			r.Header.Set(auth.ForwardedHeader, header)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: %d", header, a.StatusCode)
		}
	}
}

func TestARequestFollowsItsUser(t *testing.T) {
	tn := build(t, says, "a", "b", "c")
	tn.move("ada", "b")
	tn.die("b")
	go func() {
		time.Sleep(50 * time.Millisecond)
		tn.move("ada", "c")
	}()
	if status, text := ask(t, tn.nodes["a"], "ada", "/", "again"); status != 200 || !strings.HasPrefix(text, "c ada") || !strings.HasSuffix(text, "again") {
		t.Errorf("%d %s", status, text)
	}
}

func TestALostRequestIsNotRepeated(t *testing.T) {
	began := make(chan string, 2)
	tn := build(t, func(n *node) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			began <- n.name
			<-r.Context().Done()
		})
	}, "a", "b", "c")
	tn.move("ada", "b")
	go func() {
		<-began
		tn.move("ada", "c") // the node is stopped, but not gone
	}()
	status, text := ask(t, tn.nodes["a"], "ada", "/", "once")
	if status != http.StatusServiceUnavailable || !strings.Contains(text, "node_lost") || !strings.Contains(text, `"retry":"backoff"`) {
		t.Errorf("%d %s", status, text)
	}
	select {
	case name := <-began:
		t.Error("it began again at", name)
	default:
	}
}

func TestStreamsAndWebSockets(t *testing.T) {
	tn := build(t, func(n *node) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, _ := auth.From(r.Context())
			if r.URL.Path == "/stream" {
				for i := 0; ; i++ { // each event arrives before the next one is written
					fmt.Fprintf(w, "data: %d\n\n", i)
					http.NewResponseController(w).Flush()
					select {
					case <-n.asked:
						continue
					case <-r.Context().Done():
						return
					}
				}
			}
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			go func() {
				<-c.Left()
				ws.Close(websocket.StatusServiceRestart, "elsewhere")
			}()
			for {
				kind, b, err := ws.Read(context.WithoutCancel(r.Context()))
				if err != nil {
					return
				}
				ws.Write(context.Background(), kind, append([]byte(n.name+" "+c.User+" "), b...))
			}
		})
	}, "a", "b")
	a, b := tn.nodes["a"], tn.nodes["b"]
	tn.move("ada", "b")
	ctx := t.Context()

	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, a.public.URL+"/stream", nil)
	r.Header.Set("Authorization", "Bearer "+identity.Prefix+"ada")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for i := range 3 {
		if !lines.Scan() || lines.Text() != fmt.Sprintf("data: %d", i) {
			t.Fatalf("event %d: %q %v", i, lines.Text(), lines.Err())
		}
		lines.Scan()
		b.asked <- "next"
	}

	ws, _, err := websocket.Dial(ctx, a.public.URL+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + identity.Prefix + "ada"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	ws.Write(ctx, websocket.MessageText, []byte("hi"))
	if _, got, err := ws.Read(ctx); err != nil || string(got) != "b ada hi" {
		t.Fatalf("%s %v", got, err)
	}
	if !b.f.Busy(Of("ada")) || a.f.Busy(Of("ada")) {
		t.Error("the node that answers is busy, and no other one")
	}
	b.f.Release(ctx, Of("ada"))
	if _, _, err := ws.Read(ctx); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Error("the client is told to connect again:", err)
	}
	if b.f.Busy(Of("ada")) {
		t.Error("it still answers something")
	}
}

// What a connection says arrives whole, whatever arrives at a time, and so does why it ended.
func TestPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []byte
		var parts []io.Reader
		for _, size := range rapid.SliceOfN(rapid.SampledFrom([]int{1, 10, 1023, 1024, 1025, 5000, 32 << 10, 32<<10 + 1, 100_000}), 0, 20).Draw(t, "sizes") {
			b := bytes.Repeat([]byte{byte(len(want))}, size)
			want = append(want, b...)
			parts = append(parts, bytes.NewReader(b))
		}
		var wrong error
		if rapid.Bool().Draw(t, "broken") {
			wrong = errors.New("it broke")
			parts = append(parts, iotest.ErrReader(wrong))
		}
		var got bytes.Buffer
		n, err := pass(&got, io.MultiReader(parts...))
		if n != int64(len(want)) || !errors.Is(err, wrong) || !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("%d of %d bytes, %v", n, len(want), err)
		}
	})
	r, w := io.Pipe()
	r.CloseWithError(io.ErrClosedPipe)
	if n, err := pass(w, strings.NewReader("hello")); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a closed connection takes %d bytes: %v", n, err)
	}
}

// gRPC speaks HTTP/2, says more than once while it listens, and ends with trailers.
func TestCallsInBothDirections(t *testing.T) {
	tn := build(t, func(n *node) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			http.NewResponseController(w).Flush()
			buf := make([]byte, 1)
			for {
				k, err := r.Body.Read(buf)
				w.Write(buf[:k])
				http.NewResponseController(w).Flush()
				if err != nil {
					break
				}
			}
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		})
	}, "a", "b")
	tn.move("ada", "b")
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: p}}
	send, body := io.Pipe()
	r, _ := http.NewRequest(http.MethodPost, tn.nodes["a"].public.URL+"/tool.Tool/X", send)
	r.Header.Set("Authorization", "Bearer "+identity.Prefix+"ada")
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	got := make([]byte, 1)
	for _, c := range []byte("abc") {
		body.Write([]byte{c})
		if _, err := io.ReadFull(answer.Body, got); err != nil || got[0] != c {
			t.Fatalf("%c %v", got[0], err)
		}
	}
	body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.Trailer.Get("Grpc-Status") != "0" || answer.ProtoMajor != 2 {
		t.Errorf("%v %v %s", err, answer.Trailer, answer.Proto)
	}
}

// What programs post without a credential goes to the node that has the duty.
func TestARequestIsAnsweredWhereTheDutyIs(t *testing.T) {
	channels := cluster.Piece{Duty: cluster.Channels}
	tn := build(t, func(n *node) http.Handler { return says(n) }, "a", "b")
	tn.holders[channels] = "b"
	events := map[string]http.Handler{}
	for _, n := range tn.nodes {
		events[n.name] = n.f.At(channels, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s: %s %s %s %v", n.name, r.URL.Path, r.Header.Get("Steward-Signature"), body, err)
		}))
		n.inside.Config.Handler = events[n.name]
	}
	post := func(at string) (int, string) {
		r := httptest.NewRequest(http.MethodPost, "http://steward.example/channels/phone", strings.NewReader("event"))
		r.Header.Set("Steward-Signature", "s")
		w := httptest.NewRecorder()
		events[at].ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, at := range []string{"a", "b"} {
		if status, body := post(at); status != http.StatusOK || body != "b: /channels/phone s event <nil>" {
			t.Errorf("at %s: %d %s", at, status, body)
		}
	}
	delete(tn.holders, channels)
	if status, body := post("a"); status != http.StatusServiceUnavailable || !strings.Contains(body, "no_worker") {
		t.Errorf("%d %s", status, body)
	}
}
