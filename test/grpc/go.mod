// Example servers of grpc-go, as services that are not ours. A module of its
// own, so that their dependencies stay out of Steward's.
module steward/test/grpc

go 1.26.0

replace steward => ../..

require (
	github.com/goccy/go-yaml v1.19.2
	steward v0.0.0
)

require (
	github.com/bufbuild/protocompile v0.14.1 // indirect
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/grpc v1.85.0 // indirect
	google.golang.org/grpc/examples v0.0.0-20260825154716-030ee8becb20 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

tool (
	google.golang.org/grpc/examples/features/error_details/server
	google.golang.org/grpc/examples/features/reflection/server
	google.golang.org/grpc/examples/route_guide/server
)
