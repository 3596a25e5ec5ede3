package grpc

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"steward/internal/fault"
)

// Limits on a server's description of itself.
const (
	reflectionTimeout = 15 * time.Second
	maxReflected      = 32 << 20 // bytes in all
	maxReflectedFiles = 5000
	maxServices       = 2000
)

// reflected is a server's description of itself.
type reflected struct {
	services []string // sorted
	files    map[string]*descriptorpb.FileDescriptorProto
	missing  bool    // the server does not provide an imported file
	refused  []error // services that it names but does not describe
}

// reflectionMethods returns the methods of the two versions of the reflection protocol, whose
// messages are the same on the wire (https://grpc.io/docs/guides/reflection/).
func reflectionMethods() []string {
	return []string{reflection.ServerReflection_ServerReflectionInfo_FullMethodName,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}
}

// reflect asks a server for its services and the files that describe them: the wanted ones, or all
// except gRPC's own.
func reflect(ctx context.Context, cc *rpc.ClientConn, wanted []string) (*reflected, error) {
	var err error
	for _, method := range reflectionMethods() {
		q := &reflectionClient{files: map[string]*descriptorpb.FileDescriptorProto{}, asked: map[string]bool{}}
		var out *reflected
		if out, err = q.all(ctx, cc, method, wanted); err == nil {
			return out, nil
		}
		if status.Code(err) != codes.Unimplemented {
			break
		}
	}
	if status.Code(err) == codes.Unimplemented {
		return nil, fault.New(fault.Unsupported, "grpc_no_reflection", "the server does not describe its services (reflection)").
			WithHint("turn reflection on in the server, or name its .proto files under protos")
	}
	return nil, err
}

// reflectionClient asks questions over one stream of the reflection protocol.
type reflectionClient struct {
	stream rpc.BidiStreamingClient[reflection.ServerReflectionRequest, reflection.ServerReflectionResponse]
	files  map[string]*descriptorpb.FileDescriptorProto
	asked  map[string]bool
	todo   []string // imports to ask for
	bytes  int
}

func (q *reflectionClient) all(ctx context.Context, cc *rpc.ClientConn, method string, wanted []string) (*reflected, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	s, err := cc.NewStream(ctx, &rpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, rpc.MaxCallRecvMsgSize(maxReflected))
	if err != nil {
		return nil, err
	}
	q.stream = &rpc.GenericClientStream[reflection.ServerReflectionRequest, reflection.ServerReflectionResponse]{ClientStream: s}
	out := &reflected{files: q.files}
	if out.services, err = q.services(); err != nil {
		return nil, err
	}
	if len(wanted) == 0 {
		for _, name := range out.services {
			if !infrastructure(name) {
				wanted = append(wanted, name)
			}
		}
	}
	for _, name := range wanted {
		if !slices.Contains(out.services, name) {
			continue // Declaration.chosen reports it
		}
		refused, err := q.ask(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name}})
		if err != nil {
			return nil, err
		}
		if refused != nil {
			out.refused = append(out.refused, badDescription("the server lists the service %s but does not describe it: %w", clip(name, 200), refused))
		}
	}
	out.missing, err = q.imports()
	return out, err
}

func (q *reflectionClient) services() ([]string, error) {
	answer, err := q.exchange(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_ListServices{ListServices: "*"}})
	if err != nil {
		return nil, err
	}
	if e := answer.GetErrorResponse(); e != nil {
		return nil, status.Error(codes.Code(e.GetErrorCode()), e.GetErrorMessage())
	}
	var names []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	if len(names) > maxServices {
		return nil, badDescription("the server reports %d services, more than %d", len(names), maxServices)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// imports asks for imported files until all are there. It reports whether the server does not
// provide some of them.
func (q *reflectionClient) imports() (missing bool, err error) {
	for len(q.todo) > 0 {
		dep := q.todo[0]
		q.todo = q.todo[1:]
		if q.files[dep] != nil || q.asked[dep] || strings.HasPrefix(dep, "google/protobuf/") {
			continue // received with another file, or our own
		}
		q.asked[dep] = true
		refused, err := q.ask(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_FileByFilename{FileByFilename: dep}})
		if err != nil {
			return false, err
		}
		if refused != nil && builtinFile(dep, false) == nil {
			missing = true
		}
	}
	return missing, nil
}

// ask asks for files and keeps them. refused is the server's refusal.
func (q *reflectionClient) ask(r *reflection.ServerReflectionRequest) (refused error, err error) {
	answer, err := q.exchange(r)
	if err != nil {
		return nil, err
	}
	if e := answer.GetErrorResponse(); e != nil {
		return status.Error(codes.Code(e.GetErrorCode()), clip(e.GetErrorMessage(), 500)), nil
	}
	for _, b := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		if q.bytes += len(b); q.bytes > maxReflected || len(q.files) >= maxReflectedFiles {
			return nil, badDescription("the server's reflection data exceed %d bytes or %d files", maxReflected, maxReflectedFiles)
		}
		f := new(descriptorpb.FileDescriptorProto)
		if err := proto.Unmarshal(b, f); err != nil {
			return nil, badDescription("a file that the server reports cannot be read: %w", err)
		}
		before := q.files[f.GetName()]
		if before != nil && !proto.Equal(before, f) {
			return nil, badDescription("the server reports two different files named %q", clip(f.GetName(), 200))
		}
		if before == nil {
			q.files[f.GetName()] = f
			q.todo = append(q.todo, f.GetDependency()...)
		}
	}
	return nil, nil
}

func (q *reflectionClient) exchange(r *reflection.ServerReflectionRequest) (*reflection.ServerReflectionResponse, error) {
	if err := q.stream.Send(r); err != nil && err != io.EOF {
		return nil, err
	} // after io.EOF, Recv returns the reason
	answer, err := q.stream.Recv()
	if err == io.EOF {
		return nil, badDescription("the server ended the reflection stream early")
	}
	return answer, err
}
