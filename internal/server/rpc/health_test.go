package rpc

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"steward/internal/server/auth"
	"steward/proto"
)

func badTime() *timestamppb.Timestamp { return &timestamppb.Timestamp{Nanos: -1} }

func TestHealth(t *testing.T) {
	var broken atomic.Bool
	ready := func(context.Context) error {
		if broken.Load() {
			return errors.New("the store is gone")
		}
		return nil
	}
	s := serve(t, auth.Options{Keys: keys{}}, Options{Ready: ready, Every: 5 * time.Millisecond})
	c := health.NewHealthClient(s.conn)
	ctx := t.Context()
	for _, service := range []string{"", "tool.Tool", "search.Search", "event.Event"} {
		if got, err := c.Check(ctx, &health.HealthCheckRequest{Service: service}); err != nil || got.Status != health.HealthCheckResponse_SERVING {
			t.Errorf("%s: %v, %v", service, got, err)
		}
	}
	if _, err := c.Check(ctx, &health.HealthCheckRequest{Service: "nothing"}); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown service: %v", err)
	}
	if code, _, body := s.post("/grpc.health.v1.Health/Check", "{}"); code != http.StatusOK || !strings.Contains(body, "SERVING") {
		t.Errorf("JSON: %d %s", code, body)
	}
	watch := func(service string, header ...string) health.Health_WatchClient {
		w, err := c.Watch(metadata.AppendToOutgoingContext(ctx, header...), &health.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	told := func(w health.Health_WatchClient) health.HealthCheckResponse_ServingStatus {
		m, err := w.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return m.Status
	}
	if _, err := watch("").Recv(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("watched without a key: %v", err)
	}
	w := watch("", "authorization", "Bearer "+annas)
	first := told(w)
	broken.Store(true)
	then := told(w)
	if first != health.HealthCheckResponse_SERVING || then != health.HealthCheckResponse_NOT_SERVING {
		t.Errorf("watched: %v, %v", first, then)
	}
	list, err := c.List(ctx, &health.HealthListRequest{})
	if err != nil || len(list.Statuses) != 9 || list.Statuses["tool.Tool"].Status != health.HealthCheckResponse_NOT_SERVING {
		t.Errorf("%v, %v", list, err)
	}
	other := watch("nothing", "authorization", "Bearer "+annas)
	if got := told(other); got != health.HealthCheckResponse_SERVICE_UNKNOWN {
		t.Errorf("an unknown service: %v", got)
	}
	away, leave := context.WithCancel(ctx)
	gone, err := c.Watch(metadata.AppendToOutgoingContext(away, "authorization", "Bearer "+annas), &health.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	told(gone)
	leave()
	s.server.Close()
	for _, w := range []health.Health_WatchClient{w, other} {
		if _, err := w.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("at the end: %v", err)
		}
	}
}

// TestReflection asks as grpcurl does.
func TestReflection(t *testing.T) {
	s := serve(t, auth.Options{Keys: keys{}}, Options{})
	ask := func(key string, in ...*reflection.ServerReflectionRequest) (out []*reflection.ServerReflectionResponse, err error) {
		ctx := t.Context()
		if key != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
		}
		stream, err := reflection.NewServerReflectionClient(s.conn).ServerReflectionInfo(ctx)
		if err != nil {
			return nil, err
		}
		for _, m := range in {
			_ = stream.Send(m) // Recv says why it failed
			answer, err := stream.Recv()
			if err != nil {
				return nil, err
			}
			out = append(out, answer)
		}
		return out, stream.CloseSend()
	}
	list := &reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_ListServices{}}
	if _, err := ask("", list); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a key: %v", err)
	}
	symbol := func(name string) *reflection.ServerReflectionRequest {
		return &reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name}}
	}
	got, err := ask(annas, list, symbol("search.Search"), symbol("tool.Tool.ExecuteTool"), symbol("grpc.health.v1.Health"), symbol("no.Such"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range got[0].GetListServicesResponse().Service {
		names = append(names, s.Name)
	}
	for _, want := range []string{"tool.Tool", "search.Search", "memory.Memory", "event.Event", "plan.Plan", "assistant.Assistant", "grpc.health.v1.Health"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %v", want, names)
		}
	}
	for i, answer := range got[1:4] {
		if len(answer.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
			t.Errorf("symbol %d: %v", i, answer)
		}
	}
	if got[4].GetErrorResponse().GetErrorCode() != int32(codes.NotFound) {
		t.Errorf("what is not there: %v", got[4])
	}
}

// TestWhoMayBeSilent: only clients that may send several messages.
func TestWhoMayBeSilent(t *testing.T) {
	files, err := proto.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Methods() {
		d, err := files.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			t.Fatal(err)
		}
		m := d.(protoreflect.MethodDescriptor)
		path := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
		if talks := MayPause(httptest.NewRequest("POST", path, nil)); talks != m.IsStreamingClient() {
			t.Errorf("%s: %v", path, talks)
		}
	}
	if !MayPause(httptest.NewRequest("POST", reflection.ServerReflection_ServerReflectionInfo_FullMethodName, nil)) {
		t.Error("reflection is a conversation")
	}
}
