package rpc

import (
	"net/http/httptest"
	"testing"

	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/reflect/protoreflect"

	"steward/proto"
)

// TestWhoMayBeSilent: everybody who may send more than one message, and nobody
// else.
func TestWhoMayBeSilent(t *testing.T) {
	files, err := proto.Files()
	if err != nil {
		t.Fatal(err)
	}
	all, err := Methods()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		d, err := files.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			t.Fatal(err)
		}
		m := d.(protoreflect.MethodDescriptor)
		path := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
		if talks := Talks(httptest.NewRequest("POST", path, nil)); talks != m.IsStreamingClient() {
			t.Errorf("%s: %v", path, talks)
		}
	}
	if !Talks(httptest.NewRequest("POST", reflection.ServerReflection_ServerReflectionInfo_FullMethodName, nil)) {
		t.Error("reflection is a conversation")
	}
}
