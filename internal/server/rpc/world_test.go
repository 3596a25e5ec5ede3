package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/search"
	"steward/internal/server/auth"
	"steward/internal/tool"
	"steward/internal/work"
	"steward/test/leak"
	"steward/test/locked"
)

func TestMain(m *testing.M) { leak.Main(m) }

// node is a runtime whose answers a test sets.
type node struct {
	execute func(ctx context.Context, user string, e work.Execution) (work.Executed, error)
	list    func(user, agent, namespace string) ([]tool.Spec, error)
	find    func(user string, q search.Query) (search.Page, error)
	window  func(user string, conv id.ID) (client.Context, error)
	items   func(user string, q search.ItemQuery) (search.ItemPage, error)
}

func (n *node) ExecuteTool(ctx context.Context, user string, e work.Execution) (work.Executed, error) {
	return n.execute(ctx, user, e)
}
func (n *node) ToolList(_ context.Context, user, agent, namespace string) ([]tool.Spec, error) {
	return n.list(user, agent, namespace)
}
func (n *node) QueryItems(_ context.Context, user string, q search.ItemQuery) (search.ItemPage, error) {
	return n.items(user, q)
}
func (n *node) Search(_ context.Context, user string, q search.Query) (search.Page, error) {
	return n.find(user, q)
}

func (n *node) Context(_ context.Context, user string, conv id.ID) (client.Context, error) {
	return n.window(user, conv)
}

// keys knows one key, anna's.
type keys struct{}

const annas = identity.Prefix + "annas"

func (keys) Authenticate(_ context.Context, secret string) (string, error) {
	if secret != annas {
		return "", fault.New(fault.Unauthentic, "key_unknown", "unknown API key").WithHint("make one")
	}
	return "anna", nil
}

// world is a server that can be called.
type world struct {
	t      *testing.T
	node   *node
	server *Server
	http   *httptest.Server
	logs   *locked.Buffer
	conn   *grpc.ClientConn
}

func serve(t *testing.T, guard auth.Options, o Options) *world {
	s := &world{t: t, node: &node{}, logs: &locked.Buffer{}}
	guard.Logger = slog.New(slog.NewTextHandler(s.logs, nil))
	mine := guard.Keys == nil // without keys, all calls use the token
	if mine {
		guard.Token = func() (string, error) { return "token", nil }
	}
	o.Node, o.Guard, o.Logger = s.node, auth.New(guard), guard.Logger
	s.server = New(o)
	mux := http.NewServeMux()
	if err := s.server.Mount(mux); err != nil {
		t.Fatal(err)
	}
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mine {
			r.Header.Set("Authorization", "Bearer token")
		}
		mux.ServeHTTP(w, r)
	}))
	s.http.Config.Protocols = new(http.Protocols)
	s.http.Config.Protocols.SetHTTP1(true)
	s.http.Config.Protocols.SetUnencryptedHTTP2(true)
	s.http.Start()
	t.Cleanup(s.http.Close)
	var err error
	s.conn, err = grpc.NewClient(strings.TrimPrefix(s.http.URL, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.conn.Close() })
	return s
}

// grpc calls as grpc-go does; header is "name", "value", ….
func (s *world) grpc(method string, in, out proto.Message, header ...string) error {
	ctx := s.t.Context()
	return s.conn.Invoke(metadata.AppendToOutgoingContext(ctx, header...), method, in, out)
}

// post calls as curl does, with JSON.
func (s *world) post(path, body string, header ...string) (int, http.Header, string) {
	s.t.Helper()
	return s.do(http.MethodPost, path, strings.NewReader(body), append([]string{"Content-Type", "application/json"}, header...)...)
}

func (s *world) do(method, path string, body io.Reader, header ...string) (int, http.Header, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.http.URL+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	res, err := s.http.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

// web calls as a browser does over gRPC-Web
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md): the answer
// and the trailers.
func (s *world) web(method string, in, out proto.Message, header ...string) map[string]string {
	s.t.Helper()
	msg, err := proto.Marshal(in)
	if err != nil {
		s.t.Fatal(err)
	}
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(msg)))
	status, h, body := s.do(http.MethodPost, method, bytes.NewReader(append(frame, msg...)),
		append([]string{"Content-Type", "application/grpc-web+proto", "X-Grpc-Web", "1"}, header...)...)
	if status != http.StatusOK {
		s.t.Fatalf("gRPC-Web: status %d: %s", status, body)
	}
	trailers := map[string]string{}
	for name := range h {
		trailers[strings.ToLower(name)] = h.Get(name)
	}
	for rest := []byte(body); len(rest) > 0; {
		n := binary.BigEndian.Uint32(rest[1:5])
		part := rest[5 : 5+n]
		if rest[0]&0x80 == 0 {
			if err := proto.Unmarshal(part, out); err != nil {
				s.t.Fatal(err)
			}
		}
		for line := range strings.SplitSeq(string(part), "\r\n") {
			if name, value, ok := strings.Cut(line, ":"); ok && rest[0]&0x80 != 0 {
				trailers[strings.ToLower(name)] = strings.TrimSpace(value)
			}
		}
		rest = rest[5+n:]
	}
	return trailers
}
