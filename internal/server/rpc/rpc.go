// Package rpc is the server for programs that speak gRPC, gRPC-Web, or Connect's JSON over HTTP, all
// on Steward's one port. It serves the tools, the search in messages by words and by vectors, context windows, events, plans and agents (the .proto files are
// in proto/), with gRPC's reflection and health. docs/reference/rpc.md describes it.
package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/reflect/protoreflect"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/search"
	"steward/internal/server/auth"
	"steward/internal/tool"
	"steward/internal/work"
	"steward/proto"
)

// Node is the part of the runtime that the server uses.
type Node interface {
	ExecuteTool(ctx context.Context, user string, e work.Execution) (work.Executed, error)
	ToolList(ctx context.Context, user, agent, namespace string) ([]tool.Spec, error)
	Search(ctx context.Context, user string, q search.Query) (search.Page, error)
	Context(ctx context.Context, user string, conv id.ID) (client.Context, error)
	QueryItems(ctx context.Context, user string, q search.ItemQuery) (search.ItemPage, error)
}

// Options configure the server. Node and Guard are required.
type Options struct {
	Node   Node
	Events Events                      // nil: events are not served
	Work   Work                        // nil: neither are plans and agents
	Guard  *auth.Guard                 // authenticates callers; health needs no key
	Ready  func(context.Context) error // the status that health reports; nil: always ready
	Every  time.Duration               // how often a watched status is checked; 0: 5 seconds
	Logger *slog.Logger                // nil: slog.Default()
}

// maxRequest is the size limit of a request, in bytes.
const maxRequest = 4 << 20

// Server serves the services. It is safe for concurrent use.
type Server struct {
	Options
	ends context.Context // done once the server is closed
	end  context.CancelFunc
}

// New returns the server.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Ready == nil {
		o.Ready = func(context.Context) error { return nil }
	}
	if o.Every <= 0 {
		o.Every = 5 * time.Second
	}
	f := &Server{Options: o}
	f.ends, f.end = context.WithCancel(context.Background())
	return f
}

// Close ends the streams, which otherwise last for as long as their clients like, so that the HTTP
// server can shut down. It does not affect calls.
func (f *Server) Close() { f.end() }

// methods returns Steward's own methods.
func methods() map[protoreflect.FullName]method {
	return map[protoreflect.FullName]method{
		"tool.Tool.ExecuteTool":       unary((*Server).executeTool),
		"tool.Tool.ListTools":         unary((*Server).listTools),
		"search.Search.QueryMessages": unary((*Server).queryMessages),
		"memory.Memory.GetWindow":     unary((*Server).getWindow),
		"vector.Vector.QueryItems":    unary((*Server).queryItems),
		"event.Event.Publish":         unary((*Server).publish),
		"event.Event.Subscribe":       streaming((*Server).subscribe),

		"plan.Plan.Process":                  streaming((*Server).planned),
		"plan.Plan.ListTasks":                unary((*Server).listTasks),
		"assistant.Assistant.Process":        streaming((*Server).process),
		"assistant.Assistant.ListAssistants": unary((*Server).listAssistants),
	}
}

// services returns the names of the services that reflection lists.
func services() []string {
	names := []string{health.Health_ServiceDesc.ServiceName}
	for name := range methods() {
		names = append(names, string(name.Parent()))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Methods returns the names of all methods that the server serves, such as "tool.Tool.ListTools",
// sorted and without those of reflection. It reads the table that Mount uses.
func Methods() []string {
	all := []string{}
	for name := range methods() {
		all = append(all, string(name))
	}
	for _, m := range health.Health_ServiceDesc.Methods {
		all = append(all, health.Health_ServiceDesc.ServiceName+"."+m.MethodName)
	}
	for _, m := range health.Health_ServiceDesc.Streams {
		all = append(all, health.Health_ServiceDesc.ServiceName+"."+m.StreamName)
	}
	slices.Sort(all)
	return all
}

// Mount adds the services to a mux, each under its own name as in gRPC. For gRPC, the HTTP server must
// speak HTTP/2 without TLS (http.Server.Protocols); for the other protocols HTTP/1.1 is enough.
func (f *Server) Mount(mux *http.ServeMux) error {
	files, err := proto.Files()
	if err != nil {
		return err
	}
	opts := connect.WithHandlerOptions(
		connect.WithReadMaxBytes(maxRequest),
		connect.WithInterceptors(connect.UnaryInterceptorFunc(f.coded)),
		connect.WithRecover(f.recovered))
	reflector := grpcreflect.NewReflector(grpcreflect.NamerFunc(services), grpcreflect.WithDescriptorResolver(files))
	add := func(path string, h http.Handler) { mux.Handle(path, f.guarded(h)) }
	for name, m := range methods() {
		d, err := files.FindDescriptorByName(name)
		if err != nil {
			return fmt.Errorf("the method %s: %w", name, err)
		}
		own := d.(protoreflect.MethodDescriptor)
		add(procedure(own), m(f, own, opts))
	}
	for _, name := range services() {
		add("/"+name+"/", http.HandlerFunc(methodNotFound))
	}
	add(grpcreflect.NewHandlerV1(reflector, opts))
	add(grpcreflect.NewHandlerV1Alpha(reflector, opts))
	f.mountHealth(mux, opts)
	return nil
}

// guarded puts the guard before a handler. Refusals are written in the client's protocol.
func (f *Server) guarded(h http.Handler) http.Handler {
	refusals := connect.NewErrorWriter()
	return f.Guard.Wrap(private(bounded(h)), func(w http.ResponseWriter, r *http.Request, err error) {
		if !refusals.IsSupported(r) || fault.HasCode(err, "media_type") {
			auth.WriteError(w, r, f.Logger, err)
			return
		}
		auth.Log(r, f.Logger, err)
		refusals.Write(w, r, connectError(err)) // fails only if the client has gone
	})
}

// bounded makes a request wait for room in memory before more than a little of it is read. A packed one may
// be as large as is allowed.
func bounded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := auth.From(r.Context())
		if err != nil || !c.Bounded() {
			h.ServeHTTP(w, r)
			return
		}
		for _, name := range []string{"Content-Encoding", "Grpc-Encoding", "Connect-Content-Encoding"} {
			if packing := r.Header.Get(name); packing != "" && packing != "identity" {
				if err := c.ReserveRequest(r.Context(), maxRequest); err != nil {
					connect.NewErrorWriter().Write(w, r, connectError(err)) // fails only if the client has gone
					return
				}
			}
		}
		r = r.WithContext(r.Context()) // a copy
		r.Body = c.Body(r.Context(), r.Body, maxRequest)
		h.ServeHTTP(w, r)
	})
}

// storing begins a call that stores something, in a turn of its own. end must be called when it has ended.
func storing(ctx context.Context, size int) (c auth.Caller, end func(), err error) {
	if c, err = auth.From(ctx); err == nil {
		err = c.Store(ctx, int64(size))
	}
	if err == nil {
		end, err = c.Turn(ctx)
	}
	return c, end, err
}

// private keeps answers out of caches, because Connect sends queries by GET.
func private(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		h.ServeHTTP(w, r)
	})
}

// methodNotFound answers requests for methods that do not exist.
func methodNotFound(w http.ResponseWriter, r *http.Request) {
	connect.NewErrorWriter().Write(w, r, connectError(fault.New(fault.Unsupported, "method_unknown", "there is no method %.200s", r.URL.Path).
		WithHint("docs/reference/rpc.md and server reflection list the methods"))) // fails only if the client has gone
}

// coded converts the errors of calls to those of RPCs, and logs internal ones.
func (f *Server) coded(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, r)
		if err == nil {
			return res, nil
		}
		if fault.Is(err, fault.Internal) {
			f.Logger.ErrorContext(ctx, "call failed", "procedure", r.Spec().Procedure, "error", err)
		}
		return nil, connectError(err)
	}
}

// recovered reports a panic as an internal error.
func (f *Server) recovered(ctx context.Context, spec connect.Spec, _ http.Header, p any) error {
	f.Logger.ErrorContext(ctx, "a call panicked", "procedure", spec.Procedure, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return connectError(fmt.Errorf("panic: %v", p))
}

// errClosing is the error of streams that end because the server is closed.
func errClosing() error {
	return connectError(fault.New(fault.Unavailable, "closing", "Steward is closing").Retrying(fault.RetryBackoff, 0))
}

// MayPause reports whether a request is a stream of messages from the client, which may pause between
// them. Only reflection is: Steward's own methods and those of health take one message.
func MayPause(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/grpc.reflection.") }
