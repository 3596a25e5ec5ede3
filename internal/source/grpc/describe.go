package grpc

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"steward/internal/fault"
)

// described holds the descriptors of services, from .proto files or from a server. Immutable.
type described struct {
	files *protoregistry.Files
	types *dynamicpb.Types
}

// link builds descriptors from files by name. Files of google.protobuf are replaced by this
// program's own, because the JSON conversion relies on their types; missing imports of Google's
// other files are filled in. An invalid file and those that import it are left out, and reported
// in refused. If lenient is set, other missing imports leave placeholders instead.
func link(files map[string]*descriptorpb.FileDescriptorProto, lenient bool) (in *described, refused []error) {
	l := fileLinker{files: files, lenient: lenient, done: map[string]error{}, out: new(protoregistry.Files)}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := l.add(name); err != nil {
			refused = append(refused, err)
		}
	}
	return &described{files: l.out, types: dynamicpb.NewTypes(l.out)}, refused
}

// fileLinker adds each file after its imports.
type fileLinker struct {
	files   map[string]*descriptorpb.FileDescriptorProto
	lenient bool
	done    map[string]error // by name; errLinking while a file's imports are added
	out     *protoregistry.Files
}

var errLinking = errors.New("it is imported in a circle")

func (l *fileLinker) add(name string) error {
	if err, ok := l.done[name]; ok {
		return err
	}
	l.done[name] = errLinking
	err := l.link(name)
	if err != nil && err != errNoFile {
		err = badDescription("the file %q is invalid: %w", clip(name, 200), err)
	}
	l.done[name] = err
	return err
}

func (l *fileLinker) link(name string) error {
	f, ok := l.files[name]
	if own := builtinFile(name, ok); own != nil {
		f = own
	} else if !ok {
		return errNoFile
	} else if f.GetPackage() == "google.protobuf" || strings.HasPrefix(f.GetPackage(), "google.protobuf.") {
		return errors.New("it defines types in the reserved package google.protobuf")
	}
	for _, dep := range f.GetDependency() {
		switch err := l.add(dep); {
		case err == errNoFile && l.lenient, err == nil:
		case err == errNoFile, err == errLinking:
			return fmt.Errorf("its import %q: %w", clip(dep, 200), err)
		default: // has an entry of its own in refused
			return fmt.Errorf("its import %q is invalid", clip(dep, 200))
		}
	}
	fd, err := protodesc.FileOptions{AllowUnresolvable: l.lenient}.New(f, l.out)
	if err != nil {
		return err
	}
	return l.out.RegisterFile(fd)
}

var errNoFile = errors.New("there is no such file")

func badDescription(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "grpc_description_invalid", format, args...).
		WithHint("correct the service's .proto files, or what its server reports of them")
}

// builtinFile returns this program's own copy of a file of Google's: always for google/protobuf, and
// for others of google only if there is no other copy (have).
func builtinFile(name string, have bool) *descriptorpb.FileDescriptorProto {
	if !strings.HasPrefix(name, "google/protobuf/") && (have || !strings.HasPrefix(name, "google/")) {
		return nil
	}
	fd, err := protoregistry.GlobalFiles.FindFileByPath(name)
	if err != nil {
		return nil
	}
	return protodesc.ToFileDescriptorProto(fd)
}

// services returns the described services by name.
func (d *described) services() map[protoreflect.FullName]protoreflect.ServiceDescriptor {
	out := map[protoreflect.FullName]protoreflect.ServiceDescriptor{}
	d.files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			out[s.FullName()] = s
		}
		return true
	})
	return out
}

// comment returns the comment before a descriptor, or else the one after it.
func comment(d protoreflect.Descriptor, most int) string {
	f := d.ParentFile()
	if f == nil || f.IsPlaceholder() {
		return ""
	}
	loc := f.SourceLocations().ByDescriptor(d)
	text := loc.LeadingComments
	if strings.TrimSpace(text) == "" {
		text = loc.TrailingComments
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return clip(strings.TrimSpace(strings.Join(lines, "\n")), most)
}

// annotated returns the google.api.field_behavior annotations of a field.
func annotated(fd protoreflect.FieldDescriptor) []annotations.FieldBehavior {
	opts, ok := fd.Options().(*descriptorpb.FieldOptions)
	if !ok || opts == nil {
		return nil
	}
	list, _ := proto.GetExtension(opts, annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	return list
}

// idempotency returns the declared idempotency level of a method.
func idempotency(m protoreflect.MethodDescriptor) descriptorpb.MethodOptions_IdempotencyLevel {
	opts, _ := m.Options().(*descriptorpb.MethodOptions)
	return opts.GetIdempotencyLevel()
}

// deprecated reports whether a field is marked so.
func deprecated(fd protoreflect.FieldDescriptor) bool {
	opts, _ := fd.Options().(*descriptorpb.FieldOptions)
	return opts.GetDeprecated()
}
