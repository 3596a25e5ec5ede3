package grpc

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	v1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	v1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/test/leak"
	"steward/test/must"
)

// aside is an address for a server that later reuses its port. Everything else uses 127.0.0.1, so that
// nothing else takes the port in between.
const aside = "127.0.0.77:0"

func TestMain(m *testing.M) { leak.Main(m) }

// handler answers a call with any number of messages.
type handler func(ctx context.Context, in *dynamicpb.Message, send func(proto.Message) error) error

// server is a real gRPC server with services from .proto files.
type server struct {
	*rpc.Server
	address string
	in      *described
	mu      sync.Mutex
	seen    metadata.MD // of the last call
	calls   atomic.Int64
	handle  map[string]handler // by method name
	conns   *closing
}

// closing is a listener that can break its connections.
type closing struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *closing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		l.conns = append(l.conns, c)
		l.mu.Unlock()
	}
	return c, err
}

func (l *closing) breakAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	l.conns = nil
}

// serving says how a server is started.
type serving struct {
	listen     string // empty: a free port
	handle     map[string]handler
	reflection string // "v1" (the default), "v1alpha", "none"
	options    []rpc.ServerOption
	services   []string // that reflection names; none: all
}

func describing(t testing.TB, files ...string) *described {
	t.Helper()
	paths := []string{}
	for _, f := range files {
		path := must.Get(filepath.Abs(f))
		paths = append(paths, path)
	}
	protos, _, err := compile("", Declaration{}, paths)
	must.Do(t, err)
	in, refused := link(protos, false)
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	return in
}

func describingText(t testing.TB, source string) *described {
	t.Helper()
	return describing(t, protoFile(t, source))
}

func protoFile(t testing.TB, source string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.proto")
	must.Do(t, os.WriteFile(path, []byte(source), 0o600))
	return path
}

func serve(t testing.TB, in *described, how serving) *server {
	t.Helper()
	if how.listen == "" {
		how.listen = "127.0.0.1:0"
	}
	l := must.Get(net.Listen("tcp", how.listen))
	s := &server{address: l.Addr().String(), in: in, handle: how.handle, conns: &closing{Listener: l}}
	s.Server = rpc.NewServer(append(how.options, rpc.UnknownServiceHandler(s.unknown), rpc.WaitForHandlers(true))...)
	opts := reflection.ServerOptions{Services: named{s, how.services}, DescriptorResolver: in.files}
	switch how.reflection {
	case "":
		v1.RegisterServerReflectionServer(s, reflection.NewServerV1(opts))
	case "v1alpha":
		v1alpha.RegisterServerReflectionServer(s, reflection.NewServer(opts))
	}
	var done sync.WaitGroup
	done.Go(func() {
		if err := s.Serve(s.conns); err != nil && !errors.Is(err, rpc.ErrServerStopped) { // stopped before it began to serve
			t.Error(err)
		}
	})
	t.Cleanup(func() { s.Stop(); done.Wait() })
	return s
}

// named lists the services for reflection.
type named struct {
	s    *server
	only []string
}

func (n named) GetServiceInfo() map[string]rpc.ServiceInfo {
	out := map[string]rpc.ServiceInfo{}
	for name := range n.s.in.services() {
		if n.only == nil || slices.Contains(n.only, string(name)) {
			out[string(name)] = rpc.ServiceInfo{}
		}
	}
	maps.Copy(out, n.s.Server.GetServiceInfo())
	return out
}

func (s *server) unknown(_ any, stream rpc.ServerStream) error {
	path, _ := rpc.MethodFromServerStream(stream)
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "."))
	d, err := s.in.files.FindDescriptorByName(name)
	m, ok := d.(protoreflect.MethodDescriptor)
	if err != nil || !ok || s.handle[string(m.Name())] == nil {
		return status.Errorf(codes.Unimplemented, "no %s here", name)
	}
	s.calls.Add(1)
	md, _ := metadata.FromIncomingContext(stream.Context())
	s.mu.Lock()
	s.seen = md
	s.mu.Unlock()
	in := dynamicpb.NewMessage(m.Input())
	if err := stream.RecvMsg(in); err != nil {
		return err
	}
	return s.handle[string(m.Name())](stream.Context(), in, func(m proto.Message) error { return stream.SendMsg(m) })
}

func (s *server) metadata(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.seen.Get(name), ",")
}

// message makes a message of a type by setting fields.
func (s *server) message(name string, fields map[string]any) *dynamicpb.Message {
	d, err := s.in.files.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		panic(err)
	}
	m := dynamicpb.NewMessage(d.(protoreflect.MessageDescriptor))
	for field, v := range fields {
		m.Set(m.Descriptor().Fields().ByName(protoreflect.Name(field)), protoreflect.ValueOf(v))
	}
	return m
}

func echo(_ context.Context, in *dynamicpb.Message, send func(proto.Message) error) error {
	return send(in)
}

// open opens a source from a declaration in YAML, which is closed with the test.
func open(t testing.TB, env tool.Env, decl string) *source {
	t.Helper()
	kit := new(Kit)
	s := must.Get(openBy(kit, env, decl))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if len(kit.conns) != 0 {
			t.Errorf("%d connections are left", len(kit.conns))
		}
	})
	s.(*source).patience = time.Hour // tests that wait have no limit of their own
	return s.(*source)
}

func openBy(kit *Kit, env tool.Env, decl string) (tool.Source, error) {
	if env.Name == "" {
		env.Name = "test"
	}
	return kit.Open(env, func(into any) error { return yaml.UnmarshalWithOptions([]byte(decl), into, yaml.Strict()) })
}

func announce(t testing.TB, s tool.Source) tool.Announcement {
	t.Helper()
	a := must.Get(s.Announce(t.Context()))
	return a
}

// specOf returns an announced spec.
func specOf(t testing.TB, s tool.Source, name string) tool.Spec {
	t.Helper()
	a := announce(t, s)
	for _, spec := range a.Specs {
		if spec.Name == name {
			return spec
		}
	}
	t.Fatalf("no %s among %v; refused %v", name, namesOf(a.Specs), a.Refused)
	return tool.Spec{}
}

func namesOf(specs []tool.Spec) (out []string) {
	for _, s := range specs {
		out = append(out, s.Name)
	}
	return out
}

// call calls a tool with canonical arguments.
func call(ctx context.Context, tl tool.Tool, args string) (string, error) {
	canon, err := tool.Canonical([]byte(args))
	if err != nil {
		return "", err
	}
	if err := tl.(tool.Checker).Check(canon); err != nil {
		return "", err
	}
	res, err := tl.Call(ctx, tool.Invocation{Args: canon, Key: "key-1"})
	var out []string
	for _, b := range res.Content {
		out = append(out, b.(*message.Text).Text)
	}
	return strings.Join(out, "\n"), err
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// broken waits until a source has noticed that its connection is gone.
func broken(t testing.TB, s *source) {
	t.Helper()
	c := must.Get(s.connection())
	for c.cc.GetState() == connectivity.Ready {
		c.cc.WaitForStateChange(t.Context(), connectivity.Ready)
	}
}

func wantCode(t testing.TB, err error, kind fault.Kind, code string) *fault.Error {
	t.Helper()
	if !fault.Is(err, kind) || !fault.HasCode(err, code) {
		t.Fatalf("error = %v (%+v), want %s %s", err, fault.Of(err), kind, code)
	}
	return fault.Of(err)
}
