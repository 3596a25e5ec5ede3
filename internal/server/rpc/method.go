package rpc

import (
	"context"
	"encoding/json"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"steward/internal/fault"
)

// Steward has no generated code for its own services. Their messages are dynamic, made of the descriptors
// of the .proto files, and a method reads and writes them in their JSON form, as plain structs whose tags
// are the names of the .proto files.

// method serves one method, described by its descriptor.
type method func(f *Server, d protoreflect.MethodDescriptor, o connect.HandlerOption) http.Handler

// procedure returns the path of a method, such as "/tool.Tool/ListTools".
func procedure(d protoreflect.MethodDescriptor) string {
	return "/" + string(d.Parent().FullName()) + "/" + string(d.Name())
}

// described returns the options that make dynamic messages of a method.
func described(d protoreflect.MethodDescriptor, o connect.HandlerOption) connect.HandlerOption {
	idempotency := connect.IdempotencyUnknown
	if m, ok := d.Options().(*descriptorpb.MethodOptions); ok && m.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
		idempotency = connect.IdempotencyNoSideEffects // it may be called by GET
	}
	return connect.WithHandlerOptions(o, connect.WithSchema(d), connect.WithIdempotency(idempotency),
		connect.WithRequestInitializer(func(_ connect.Spec, m any) error {
			if in, ok := m.(*dynamicpb.Message); ok {
				*in = *dynamicpb.NewMessage(d.Input())
			}
			return nil
		}))
}

// unary returns a method with one request and one response.
func unary[I, O any](do func(*Server, context.Context, *I) (O, error)) method {
	return func(f *Server, d protoreflect.MethodDescriptor, o connect.HandlerOption) http.Handler {
		return connect.NewUnaryHandlerSimple(procedure(d), func(ctx context.Context, m *dynamicpb.Message) (*dynamicpb.Message, error) {
			var in I
			if err := read(m, &in); err != nil {
				return nil, err
			}
			out, err := do(f, ctx, &in)
			if err != nil {
				return nil, err
			}
			return written(d.Output(), out)
		}, described(d, o))
	}
}

// streaming returns a method that answers one request with many messages, which it passes to send.
func streaming[I, O any](do func(f *Server, ctx context.Context, in *I, send func(O) error) error) method {
	return func(f *Server, d protoreflect.MethodDescriptor, o connect.HandlerOption) http.Handler {
		return connect.NewServerStreamHandlerSimple(procedure(d), func(ctx context.Context, m *dynamicpb.Message, out *connect.ServerStream[dynamicpb.Message]) error {
			var in I
			if err := read(m, &in); err != nil {
				return connectError(err)
			}
			return do(f, ctx, &in, func(x O) error {
				m, err := written(d.Output(), x)
				if err != nil {
					return connectError(err)
				}
				return out.Send(m)
			})
		}, described(d, o))
	}
}

// read converts a request. Messages may hold what JSON cannot, such as a time before the year 1.
func read(m *dynamicpb.Message, into any) error {
	b, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(m)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return fault.New(fault.Invalid, "request_invalid", "the request cannot be read: %w", err).WithHint("compare it with the .proto file")
	}
	return nil
}

// written converts a response. Invalid UTF-8 becomes U+FFFD.
func written(d protoreflect.MessageDescriptor, from any) (*dynamicpb.Message, error) {
	m := dynamicpb.NewMessage(d)
	b, err := json.Marshal(from)
	if err == nil {
		err = protojson.Unmarshal(b, m)
	}
	if err != nil {
		return nil, fault.New(fault.Internal, "response_broken", "the response cannot be sent: %w", err)
	}
	return m, nil
}
