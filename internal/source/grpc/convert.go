package grpc

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"steward/internal/fault"
	"steward/internal/tool"
)

// Limits on messages.
const (
	maxNesting = 100
	maxValues  = 500_000 // fields and list items of an answer, a message counted as several
	perMessage = 5
)

// resolver finds the types of Any messages and of extensions: the described ones, and Google's own.
type resolver struct {
	*dynamicpb.Types
	// opaque stands in for unknown types, so that an answer with one can still be shown; nil: an
	// unknown type is an error.
	opaque protoreflect.MessageType
}

func (r resolver) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	return r.FindMessageByURL(string(name))
}

func (r resolver) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if mt, err := r.Types.FindMessageByURL(url); err == nil {
		return mt, nil
	}
	name := url[strings.LastIndexByte(url, '/')+1:]
	if strings.HasPrefix(name, "google.protobuf.") || strings.HasPrefix(name, "google.rpc.") {
		if mt, err := protoregistry.GlobalTypes.FindMessageByURL(url); err == nil {
			return mt, nil
		}
	}
	if r.opaque != nil {
		return r.opaque, nil
	}
	return nil, protoregistry.NotFound
}

// opaque returns the type that stands in for unknown ones. It has no fields.
func opaque() protoreflect.MessageType {
	d, refused := link(map[string]*descriptorpb.FileDescriptorProto{"unknown.proto": {
		Name: proto.String("unknown.proto"), Package: proto.String("unknown"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Message")}},
	}}, false)
	if len(refused) > 0 {
		panic(refused[0]) // of a constant: cannot fail
	}
	mt, err := d.types.FindMessageByName("unknown.Message")
	if err != nil {
		panic(err)
	}
	return mt
}

// request converts arguments into the message of a call. Errors are Invalid, args_invalid, and
// state what to correct.
func request(md protoreflect.MessageDescriptor, r resolver, args []byte) ([]byte, error) {
	m := dynamicpb.NewMessage(md)
	err := protojson.UnmarshalOptions{Resolver: r, RecursionLimit: maxNesting}.Unmarshal(args, m)
	if err != nil {
		return nil, argumentsError(err)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, argumentsError(err)
	}
	return b, nil
}

var protoPrefix = regexp.MustCompile(`^proto:\s*(\(line \d+:\d+\):\s*)?`)

// withoutPrefix returns the text of an error of the protobuf library without its prefix.
func withoutPrefix(err error) string {
	return clip(protoPrefix.ReplaceAllString(strings.ReplaceAll(err.Error(), "\u00a0", " "), ""), 500)
}

// argumentsError returns the error for arguments that do not fit a message. The schema has caught most of
// them before; what remains are members that exclude each other, and levels below the schema's.
func argumentsError(err error) error {
	return fault.New(fault.Invalid, "args_invalid", "the arguments do not fit: %s", withoutPrefix(err)).
		WithHint("fix this and call the tool again")
}

// answer converts a server's message to JSON. Unset fields are written with their defaults, which
// a model cannot know.
func answer(md protoreflect.MessageDescriptor, r resolver, b []byte) ([]byte, error) {
	if n := estimateValues(md, b, 0); n > maxValues {
		return nil, fault.New(fault.TooLarge, "grpc_answer_too_large", "the answer has more than %d values", maxValues).
			WithHint("ask for less at once")
	}
	m := dynamicpb.NewMessage(md)
	err := proto.UnmarshalOptions{Resolver: r, RecursionLimit: maxNesting, AllowPartial: true}.Unmarshal(b, m)
	if err != nil {
		return nil, fault.New(fault.Internal, "grpc_answer_invalid", "the answer is not a %s: %s", md.FullName(), withoutPrefix(err))
	}
	out, err := protojson.MarshalOptions{Resolver: r, EmitDefaultValues: true, AllowPartial: true}.Marshal(m)
	if err != nil {
		return nil, fault.New(fault.Internal, "grpc_answer_invalid", "the answer cannot be written as JSON: %s", withoutPrefix(err))
	}
	v := jsontext.Value(out)
	if err := v.Compact(); err != nil {
		return nil, fault.New(fault.Internal, "grpc_answer_invalid", "the answer cannot be written as JSON: %w", err)
	}
	return bytes.TrimSpace(v), nil
}

// estimateValues estimates how many values a message has before it is decoded, because a byte on the wire
// can become a hundred in memory. It stops soon after maxValues. Malformed messages are left to
// the decoder.
func estimateValues(md protoreflect.MessageDescriptor, b []byte, depth int) (n int) {
	for len(b) > 0 && n <= maxValues && depth <= maxNesting {
		num, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return n
		}
		b = b[size:]
		size = protowire.ConsumeFieldValue(num, typ, b)
		if size < 0 {
			return n
		}
		value := b[:size]
		b = b[size:]
		n++
		fd := md.Fields().ByNumber(num)
		if fd == nil || fd.Message() == nil && !fd.IsList() {
			continue
		}
		switch {
		case fd.Message() != nil && typ == protowire.BytesType:
			inner, _ := protowire.ConsumeBytes(value)
			n += perMessage + estimateValues(fd.Message(), inner, depth+1)
		case fd.Message() != nil && typ == protowire.StartGroupType:
			inner, _ := protowire.ConsumeGroup(num, value)
			n += perMessage + estimateValues(fd.Message(), inner, depth+1)
		case typ == protowire.BytesType && fd.IsPacked():
			n += packed(fd.Kind(), value)
		}
	}
	return n
}

// packed returns how many numbers a packed list has.
func packed(k protoreflect.Kind, value []byte) (n int) {
	inner, _ := protowire.ConsumeBytes(value)
	switch k {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return len(inner) / 4
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return len(inner) / 8
	}
	for _, c := range inner {
		if c < 0x80 {
			n++ // the last byte of a varint
		}
	}
	return n
}

// suggest returns "; did you mean x?" if a name resembles a known one.
func suggest(name string, known []string) string {
	near := tool.SimilarNames(clip(name, 200), known, 1)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + near[0] + "?"
}

// list joins at most so many names for a person.
func list(names []string, most int) string {
	names = slices.Sorted(slices.Values(names))
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
