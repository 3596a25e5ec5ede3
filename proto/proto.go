// Package proto has the .proto files of Steward's gRPC services, and makes their descriptors.
package proto

import (
	"context"
	"embed"
	"fmt"
	"io"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

//go:embed *.proto
var sources embed.FS

// Resolver finds descriptors. It is a protodesc.Resolver.
type Resolver struct{ own linker.Resolver }

// Files compiles the .proto files, which takes a few milliseconds, and returns the descriptors of Steward's
// services, and after them all others of the program. They have the comments of the files, for reflection.
func Files() (*Resolver, error) {
	c := protocompile.Compiler{SourceInfoMode: protocompile.SourceInfoStandard,
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			Accessor: func(name string) (io.ReadCloser, error) { return sources.Open(name) },
		})}
	files, err := c.Compile(context.Background(), "common.proto", "tool.proto", "search.proto", "vector.proto", "memory.proto", "event.proto", "message.proto", "plan.proto", "assistant.proto")
	if err != nil {
		return nil, fmt.Errorf("the descriptors of Steward's services: %w", err)
	}
	return &Resolver{files.AsResolver()}, nil
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
