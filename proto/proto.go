// Package proto provides the descriptors of Steward's gRPC services for reflection. The .proto files beside
// it are the source; gen generates everything else from them.
package proto

import (
	_ "embed"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

//go:embed descriptors.binpb
var descriptors []byte

// Resolver finds descriptors. It is a protodesc.Resolver.
type Resolver struct{ own *protoregistry.Files }

// Files returns the descriptors of Steward's services, and after them all others of the program. Unlike the
// descriptors in generated code, they have the comments of the .proto files.
func Files() (*Resolver, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(descriptors, &set); err != nil {
		return nil, fmt.Errorf("the descriptors of Steward's services: %w", err)
	}
	own, err := protodesc.NewFiles(&set)
	if err != nil {
		return nil, fmt.Errorf("the descriptors of Steward's services: %w", err)
	}
	return &Resolver{own}, nil
}

// FindFileByPath implements protodesc.Resolver.
func (r *Resolver) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if f, err := r.own.FindFileByPath(path); err == nil {
		return f, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

// FindDescriptorByName implements protodesc.Resolver.
func (r *Resolver) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := r.own.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}
