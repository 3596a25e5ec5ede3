package rpc

import (
	"context"
	"net/http"
	"slices"
	"time"

	"connectrpc.com/connect"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/reflect/protoreflect"

	"steward/internal/fault"
)

// readyWithin is how long a check of the status may take.
const readyWithin = 5 * time.Second

// mountHealth adds gRPC's health service
// (https://github.com/grpc/grpc/blob/master/doc/health-checking.md). Like /readyz, Check and List need
// no key. Watch does, because it holds a connection.
func (f *Server) mountHealth(mux *http.ServeMux, opts connect.HandlerOption) {
	name := "/" + health.Health_ServiceDesc.ServiceName + "/"
	methods := health.File_grpc_health_v1_health_proto.Services().ByName("Health").Methods()
	schema := func(method string) connect.HandlerOption {
		return connect.WithHandlerOptions(opts, connect.WithSchema(methods.ByName(protoreflect.Name(method))))
	}
	mux.Handle(name+"Check", private(connect.NewUnaryHandlerSimple(name+"Check", f.check, schema("Check"))))
	mux.Handle(name+"List", private(connect.NewUnaryHandlerSimple(name+"List", f.list, schema("List"))))
	mux.Handle(name+"Watch", f.guarded(connect.NewServerStreamHandlerSimple(name+"Watch", f.watch, schema("Watch"))))
}

func (f *Server) check(ctx context.Context, in *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	if !hasService(in.GetService()) {
		return nil, fault.New(fault.NotFound, "service_unknown", "there is no service %.200q", in.GetService()).
			WithHint("leave the service out to check all of Steward")
	}
	return &health.HealthCheckResponse{Status: f.status(ctx)}, nil
}

func (f *Server) list(ctx context.Context, _ *health.HealthListRequest) (*health.HealthListResponse, error) {
	st := f.status(ctx)
	out := &health.HealthListResponse{Statuses: map[string]*health.HealthCheckResponse{"": {Status: st}}}
	for _, s := range services() {
		out.Statuses[s] = &health.HealthCheckResponse{Status: st}
	}
	return out, nil
}

// watch sends the status now and whenever it changes.
func (f *Server) watch(ctx context.Context, in *health.HealthCheckRequest, out *connect.ServerStream[health.HealthCheckResponse]) error {
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	last := health.HealthCheckResponse_ServingStatus(-1)
	for {
		now := health.HealthCheckResponse_SERVICE_UNKNOWN
		if hasService(in.GetService()) {
			now = f.status(ctx)
		}
		if now != last {
			if err := out.Send(&health.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			last = now
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-f.ends.Done():
			return errClosing()
		}
	}
}

func hasService(service string) bool { return service == "" || slices.Contains(services(), service) }

func (f *Server) status(ctx context.Context) health.HealthCheckResponse_ServingStatus {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if f.Ready(ctx) != nil {
		return health.HealthCheckResponse_NOT_SERVING
	}
	return health.HealthCheckResponse_SERVING
}
