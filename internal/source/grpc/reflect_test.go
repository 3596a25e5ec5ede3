package grpc

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/test/must"
)

// liar answers the reflection protocol as a test specifies.
type liar struct {
	reflection.UnimplementedServerReflectionServer
	answer func(*reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse
}

func (l liar) ServerReflectionInfo(s rpc.BidiStreamingServer[reflection.ServerReflectionRequest, reflection.ServerReflectionResponse]) error {
	for {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		a := l.answer(r)
		if a == nil {
			return nil
		}
		if err := s.Send(a); err != nil {
			return err
		}
	}
}

func lying(t testing.TB, answer func(*reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse) *source {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	srv := rpc.NewServer(rpc.WaitForHandlers(true))
	reflection.RegisterServerReflectionServer(srv, liar{answer: answer})
	var done sync.WaitGroup
	done.Go(func() { srv.Serve(l) })
	t.Cleanup(func() { srv.Stop(); done.Wait() })
	return open(t, tool.Env{}, "host: "+l.Addr().String())
}

func services(names ...string) *reflection.ServerReflectionResponse {
	list := &reflection.ListServiceResponse{}
	for _, n := range names {
		list.Service = append(list.Service, &reflection.ServiceResponse{Name: n})
	}
	return &reflection.ServerReflectionResponse{MessageResponse: &reflection.ServerReflectionResponse_ListServicesResponse{ListServicesResponse: list}}
}

func filesOf(t testing.TB, files ...*descriptorpb.FileDescriptorProto) *reflection.ServerReflectionResponse {
	t.Helper()
	r := &reflection.FileDescriptorResponse{}
	for _, f := range files {
		b, err := proto.Marshal(f)
		if err != nil {
			t.Error(err)
		}
		r.FileDescriptorProto = append(r.FileDescriptorProto, b)
	}
	return &reflection.ServerReflectionResponse{MessageResponse: &reflection.ServerReflectionResponse_FileDescriptorResponse{FileDescriptorResponse: r}}
}

func refusal(c codes.Code) *reflection.ServerReflectionResponse {
	return &reflection.ServerReflectionResponse{MessageResponse: &reflection.ServerReflectionResponse_ErrorResponse{
		ErrorResponse: &reflection.ErrorResponse{ErrorCode: int32(c), ErrorMessage: "no"}}}
}

// fileOf is a file with a service S of one method M in a package.
func fileOf(name, pkg string, deps ...string) *descriptorpb.FileDescriptorProto {
	return &descriptorpb.FileDescriptorProto{
		Name: proto.String(name), Package: proto.String(pkg), Syntax: proto.String("proto3"), Dependency: deps,
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("R")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: proto.String("M"), InputType: proto.String("." + pkg + ".R"), OutputType: proto.String("." + pkg + ".R")}}}},
	}
}

func TestReflectionThatLies(t *testing.T) {
	weird := fileOf("google/protobuf/timestamp.proto", "google.protobuf")
	weird.MessageType[0].Name = proto.String("Timestamp")
	user := fileOf("a.proto", "a", "google/protobuf/timestamp.proto")
	user.MessageType[0].Field = []*descriptorpb.FieldDescriptorProto{{Name: proto.String("at"), Number: proto.Int32(1), TypeName: proto.String(".google.protobuf.Timestamp"), Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()}}
	holed := fileOf("h.proto", "h", "gone.proto")
	holed.MessageType[0].Field = []*descriptorpb.FieldDescriptorProto{{Name: proto.String("x"), Number: proto.Int32(1), TypeName: proto.String(".gone.X"), Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()}}
	holed.Service[0].Method = append(holed.Service[0].Method, &descriptorpb.MethodDescriptorProto{Name: proto.String("N"), InputType: proto.String(".gone.X"), OutputType: proto.String(".h.R")},
		&descriptorpb.MethodDescriptorProto{Name: proto.String("O"), InputType: proto.String(".google.protobuf.Empty"), OutputType: proto.String(".gone.X")})
	fine := fileOf("fine.proto", "fine")
	for _, c := range []struct {
		name    string
		service []string
		files   []*descriptorpb.FileDescriptorProto
		tools   int
		refused int
		fails   string
	}{
		{"a circle of imports", []string{"a.S", "fine.S"}, []*descriptorpb.FileDescriptorProto{fileOf("a.proto", "a", "b.proto"), fileOf("b.proto", "b", "a.proto"), fine}, 1, 2, ""},
		{"an import of itself", []string{"a.S"}, []*descriptorpb.FileDescriptorProto{fileOf("a.proto", "a", "a.proto")}, 0, 1, ""},
		{"its own timestamp", []string{"a.S"}, []*descriptorpb.FileDescriptorProto{user, weird}, 1, 0, ""},
		{"types of Google's", []string{"google.protobuf.S"}, []*descriptorpb.FileDescriptorProto{fileOf("evil.proto", "google.protobuf")}, 0, 1, ""},
		{"two of a name", []string{"a.S"}, []*descriptorpb.FileDescriptorProto{fileOf("a.proto", "a"), fileOf("a.proto", "other")}, 0, 0, "two different files"},
		{"the same type twice", []string{"a.S"}, []*descriptorpb.FileDescriptorProto{fileOf("a.proto", "a"), fileOf("b.proto", "a")}, 1, 1, ""},
		{"another service", []string{"b.S"}, []*descriptorpb.FileDescriptorProto{fileOf("a.proto", "a")}, 1, 0, ""},
		{"a missing import", []string{"h.S"}, []*descriptorpb.FileDescriptorProto{holed}, 0, 3, ""},
		{"an invalid file", []string{"a.S", "fine.S"}, []*descriptorpb.FileDescriptorProto{{Name: proto.String("a.proto"), Syntax: proto.String("proto9")}, fine}, 1, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := lying(t, func(r *reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse {
				switch r.MessageRequest.(type) {
				case *reflection.ServerReflectionRequest_ListServices:
					return services(c.service...)
				case *reflection.ServerReflectionRequest_FileContainingSymbol:
					return filesOf(t, c.files...)
				}
				return refusal(codes.NotFound)
			})
			a, err := s.Announce(t.Context())
			if c.fails != "" {
				if wantCode(t, err, fault.Invalid, "grpc_description_invalid"); !strings.Contains(err.Error(), c.fails) {
					t.Errorf("error = %v", err)
				}
				return
			}
			if err != nil || len(a.Specs) != c.tools || len(a.Refused) != c.refused {
				t.Fatalf("announced %v, refused %v, %v", namesOf(a.Specs), a.Refused, err)
			}
			for _, err := range a.Refused {
				if e := fault.Of(err); e.Code == "internal" || e.Remedy == "" {
					t.Errorf("refused with %+v", e)
				}
			}
		})
	}
}

func TestReflectionWithoutEnd(t *testing.T) {
	n := 0
	s := lying(t, func(r *reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse {
		if r.GetListServices() != "" {
			return services("a.S")
		}
		n++
		return filesOf(t, fileOf(fmt.Sprintf("%d.proto", n-1), fmt.Sprintf("p%d", n-1), fmt.Sprintf("%d.proto", n)))
	})
	_, err := s.Announce(t.Context())
	wantCode(t, err, fault.Invalid, "grpc_description_invalid")

	s = lying(t, func(*reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse {
		names := make([]string, maxServices+1)
		for i := range names {
			names[i] = fmt.Sprint("s", i)
		}
		return services(names...)
	})
	_, err = s.Announce(t.Context())
	wantCode(t, err, fault.Invalid, "grpc_description_invalid")
}

func TestReflectionThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		answer  func(r *reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse
		code    string
		refused int
	}{
		"ends": {func(*reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse { return nil }, "grpc_description_invalid", 0},
		"refuses": {func(*reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse {
			return refusal(codes.PermissionDenied)
		}, "grpc_permission_denied", 0},
		"does not know its service": {func(r *reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse {
			if r.GetListServices() != "" {
				return services("a.S")
			}
			return refusal(codes.NotFound)
		}, "", 1},
		"junk": {func(r *reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse {
			if r.GetListServices() != "" {
				return services("a.S")
			}
			return &reflection.ServerReflectionResponse{MessageResponse: &reflection.ServerReflectionResponse_FileDescriptorResponse{
				FileDescriptorResponse: &reflection.FileDescriptorResponse{FileDescriptorProto: [][]byte{{0xff}}}}}
		}, "grpc_description_invalid", 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := lying(t, c.answer).Announce(t.Context())
			if c.code == "" && err == nil && len(a.Refused) == c.refused {
				return
			}
			if !fault.HasCode(err, c.code) {
				t.Errorf("error = %v, refused %v", err, a.Refused)
			}
		})
	}
	srv := serve(t, describing(t, "testdata/hash.proto"), serving{reflection: "none"})
	_, err := open(t, tool.Env{}, "host: "+srv.address).Announce(t.Context())
	if e := wantCode(t, err, fault.Unsupported, "grpc_no_reflection"); !strings.Contains(e.Remedy, "protos") {
		t.Errorf("remedy = %q", e.Remedy)
	}
}
