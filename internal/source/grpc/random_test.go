package grpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"steward/internal/tool"
	"steward/test/must"
	_ "steward/test/seed"
)

// wellKnown returns Google's types that random messages use, with their files.
func wellKnown() map[string]string {
	return map[string]string{
		".google.protobuf.Timestamp": "timestamp", ".google.protobuf.Duration": "duration", ".google.protobuf.Struct": "struct",
		".google.protobuf.Value": "struct", ".google.protobuf.ListValue": "struct", ".google.protobuf.FieldMask": "field_mask",
		".google.protobuf.Any": "any", ".google.protobuf.Empty": "empty", ".google.protobuf.StringValue": "wrappers",
		".google.protobuf.Int64Value": "wrappers", ".google.protobuf.BytesValue": "wrappers", ".google.protobuf.DoubleValue": "wrappers",
	}
}

// randomFile draws a file of messages that name each other and themselves.
func randomFile(t *rapid.T) *descriptorpb.FileDescriptorProto {
	syntax := rapid.SampledFrom([]string{"proto2", "proto3"}).Draw(t, "syntax")
	f := &descriptorpb.FileDescriptorProto{Name: proto.String("r.proto"), Package: proto.String("r"), Syntax: proto.String(syntax)}
	zero := int32(0)
	f.EnumType = []*descriptorpb.EnumDescriptorProto{{Name: proto.String("E"), Value: []*descriptorpb.EnumValueDescriptorProto{
		{Name: proto.String("ZERO"), Number: &zero}, {Name: proto.String("MINUS"), Number: proto.Int32(-1)}, {Name: proto.String("MANY"), Number: proto.Int32(math.MaxInt32)}}}}
	n := rapid.IntRange(1, 4).Draw(t, "messages")
	for i := range n {
		f.MessageType = append(f.MessageType, randomType(t, f, syntax, i, n))
	}
	slices.Sort(f.Dependency)
	f.Dependency = slices.Compact(f.Dependency)
	return f
}

func randomType(t *rapid.T, f *descriptorpb.FileDescriptorProto, syntax string, i, n int) *descriptorpb.DescriptorProto {
	m := &descriptorpb.DescriptorProto{Name: proto.String(fmt.Sprint("M", i))}
	var synthetic []*descriptorpb.OneofDescriptorProto
	oneof := rapid.Bool().Draw(t, "oneof")
	if oneof {
		m.OneofDecl = []*descriptorpb.OneofDescriptorProto{{Name: proto.String("choice")}}
	}
	inOneof := 0
	for j := range rapid.IntRange(1, 6).Draw(t, "fields") {
		fd := &descriptorpb.FieldDescriptorProto{Name: proto.String(fmt.Sprintf("field_%d", j)), Number: proto.Int32(int32(j + 1)),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if rapid.IntRange(0, 9).Draw(t, "renamed") == 0 {
			fd.JsonName = proto.String(rapid.SampledFrom([]string{"other", "@odd", "a b", "UPPER", "x.y-z"}).Draw(t, "json name") + fmt.Sprint(j))
		}
		randomKind(t, f, fd, n)
		switch shape := rapid.SampledFrom([]string{"plain", "optional", "repeated", "map", "oneof", "required"}).Draw(t, "shape"); {
		case shape == "repeated":
			fd.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		case shape == "map":
			asMap(t, m, fd, j)
		case shape == "oneof" && oneof && (inOneof == 0 || m.Field[j-1].OneofIndex != nil && !m.Field[j-1].GetProto3Optional()): // fields of a oneof must be adjacent
			fd.OneofIndex, inOneof = proto.Int32(0), inOneof+1
		case shape == "required" && syntax == "proto2" && fd.TypeName == nil:
			fd.Label = descriptorpb.FieldDescriptorProto_LABEL_REQUIRED.Enum()
		case shape == "optional" && syntax == "proto3":
			fd.Proto3Optional = proto.Bool(true)
			synthetic = append(synthetic, &descriptorpb.OneofDescriptorProto{Name: proto.String(fmt.Sprint("_f", j))})
			fd.OneofIndex = proto.Int32(int32(len(synthetic) - 1))
		}
		m.Field = append(m.Field, fd)
	}
	if oneof && inOneof == 0 {
		m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{Name: proto.String("last"), Number: proto.Int32(99), OneofIndex: proto.Int32(0),
			Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()})
	}
	for _, fd := range m.Field { // synthetic oneofs come after the real ones
		if fd.GetProto3Optional() {
			*fd.OneofIndex += int32(len(m.OneofDecl))
		}
	}
	m.OneofDecl = append(m.OneofDecl, synthetic...)
	return m
}

func randomKind(t *rapid.T, f *descriptorpb.FileDescriptorProto, fd *descriptorpb.FieldDescriptorProto, n int) {
	var names []string
	for name := range wellKnown() {
		names = append(names, name)
	}
	slices.Sort(names)
	switch k := rapid.IntRange(1, 22).Draw(t, "kind"); {
	case k == 10 || k == 11 || k >= 19 && k <= 20: // a message
		fd.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
		fd.TypeName = proto.String(fmt.Sprint(".r.M", rapid.IntRange(0, n-1).Draw(t, "type")))
	case k > 20:
		fd.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
		fd.TypeName = proto.String(rapid.SampledFrom(names).Draw(t, "well-known"))
		f.Dependency = append(f.Dependency, "google/protobuf/"+wellKnown()[fd.GetTypeName()]+".proto")
	case k == 14:
		fd.Type, fd.TypeName = descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum(), proto.String(".r.E")
	default:
		fd.Type = descriptorpb.FieldDescriptorProto_Type(k).Enum()
	}
}

// asMap makes a field a map with the field's kind as value.
func asMap(t *rapid.T, m *descriptorpb.DescriptorProto, fd *descriptorpb.FieldDescriptorProto, j int) {
	entry := fmt.Sprintf("Field%dEntry", j)
	key := rapid.SampledFrom([]descriptorpb.FieldDescriptorProto_Type{descriptorpb.FieldDescriptorProto_TYPE_STRING,
		descriptorpb.FieldDescriptorProto_TYPE_INT64, descriptorpb.FieldDescriptorProto_TYPE_BOOL, descriptorpb.FieldDescriptorProto_TYPE_UINT32}).Draw(t, "key")
	optional := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
	m.NestedType = append(m.NestedType, &descriptorpb.DescriptorProto{Name: &entry, Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
		Field: []*descriptorpb.FieldDescriptorProto{
			{Name: proto.String("key"), Number: proto.Int32(1), Type: &key, Label: optional},
			{Name: proto.String("value"), Number: proto.Int32(2), Type: fd.Type, TypeName: fd.TypeName, Label: optional}}})
	fd.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	fd.Type, fd.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(".r."+m.GetName()+"."+entry)
}

// fill draws the fields of a message.
func fill(t *rapid.T, m protoreflect.Message, depth int) {
	md := m.Descriptor()
	if fillSpecial(t, m) {
		return
	}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		deep := fd.Message() != nil && depth <= 0
		if fd.IsMap() {
			deep = fd.MapValue().Message() != nil && depth <= 0
		}
		if nameOf(fd) == "" || fd.Cardinality() != protoreflect.Required && (deep || rapid.Bool().Draw(t, "left out")) {
			continue
		}
		switch {
		case fd.IsMap():
			for range rapid.IntRange(0, 2).Draw(t, "entries") {
				m.Mutable(fd).Map().Set(draw(t, fd.MapKey(), nil, 0).MapKey(), draw(t, fd.MapValue(), m.Mutable(fd).Map().NewValue, depth-1))
			}
		case fd.IsList():
			for range rapid.IntRange(0, 2).Draw(t, "items") {
				m.Mutable(fd).List().Append(draw(t, fd, m.Mutable(fd).List().NewElement, depth-1))
			}
		default:
			m.Set(fd, draw(t, fd, func() protoreflect.Value { return m.NewField(fd) }, depth-1))
		}
	}
}

func draw(t *rapid.T, fd protoreflect.FieldDescriptor, empty func() protoreflect.Value, depth int) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		v := empty()
		fill(t, v.Message(), depth)
		return v
	case protoreflect.EnumKind:
		vals := fd.Enum().Values()
		return protoreflect.ValueOfEnum(vals.Get(rapid.IntRange(0, vals.Len()-1).Draw(t, "enum")).Number())
	case protoreflect.BoolKind:
		return protoreflect.ValueOf(rapid.Bool().Draw(t, "bool"))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOf(rapid.Int32().Draw(t, "int32"))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOf(rapid.Uint32().Draw(t, "uint32"))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOf(rapid.Int64().Draw(t, "int64"))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOf(rapid.Uint64().Draw(t, "uint64"))
	case protoreflect.FloatKind:
		return protoreflect.ValueOf(rapid.Float32().Draw(t, "float") + 0) // no -0, which canonical JSON does not have
	case protoreflect.DoubleKind:
		return protoreflect.ValueOf(rapid.Float64().Draw(t, "double") + 0)
	case protoreflect.BytesKind:
		return protoreflect.ValueOf(rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "bytes"))
	}
	return protoreflect.ValueOf(rapid.StringN(0, 8, -1).Draw(t, "string"))
}

// fillSpecial draws a well-known type in its range.
func fillSpecial(t *rapid.T, m protoreflect.Message) bool {
	set := func(name string, v any) {
		m.Set(m.Descriptor().Fields().ByName(protoreflect.Name(name)), protoreflect.ValueOf(v))
	}
	switch m.Descriptor().FullName() {
	case "google.protobuf.Timestamp":
		set("seconds", rapid.Int64Range(-62135596800, 253402300799).Draw(t, "seconds"))
		set("nanos", rapid.Int32Range(0, 999999999).Draw(t, "nanos"))
	case "google.protobuf.Duration":
		d := rapid.Int64().Draw(t, "duration")
		set("seconds", d/1e9)
		set("nanos", int32(d%1e9))
	case "google.protobuf.FieldMask":
		m.Mutable(m.Descriptor().Fields().ByName("paths")).List().Append(protoreflect.ValueOf("a_b.c"))
	case "google.protobuf.Any":
		d := durationpb.New(1500)
		b := must.Get(anypb.New(d))
		set("type_url", b.TypeUrl)
		set("value", b.Value)
	case "google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue":
		v := map[protoreflect.Name]string{"Struct": `{"a":[1,null,{"b":"x"}]}`, "Value": `"text"`, "ListValue": `[true,{}]`}[m.Descriptor().Name()]
		must.Do(t, protojson.Unmarshal([]byte(v), m.Interface()))
	case "google.protobuf.Empty":
	default:
		return false
	}
	return true
}

// The JSON form of a random message of a random type is admitted by the schema, and converts back to an
// equal message.
func TestRandomMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := randomFile(t)
		in, refused := link(map[string]*descriptorpb.FileDescriptorProto{"r.proto": f}, false)
		if len(refused) > 0 {
			t.Fatal(refused[0])
		}
		d := must.Get(in.files.FindDescriptorByName("r.M0"))
		md := d.(protoreflect.MessageDescriptor)
		schema, err := new(schemaBuilder).input(md, nil)
		if err != nil {
			if slices.ContainsFunc(f.MessageType, func(m *descriptorpb.DescriptorProto) bool { return len(m.Field) > 0 }) && !bytes.Contains([]byte(err.Error()), []byte("cannot be shown to models")) {
				t.Fatal(err)
			}
			return
		}
		spec, v, err := tool.CheckSpec(tool.Spec{Name: "r.m", Description: "x", Effect: tool.Query, Input: schema})
		if err != nil || !bytes.Equal(spec.Input, schema) {
			t.Fatal(err)
		}
		strictWords(t, schema)
		m := dynamicpb.NewMessage(md)
		fill(t, m, 3)
		r := resolver{Types: in.types}
		wire := must.Get(proto.Marshal(m))
		text := must.Get(answer(md, r, wire))
		if odd(text) {
			return // a field that has no name usable by models is set
		}
		args := must.Get(tool.Canonical(text))
		if err := v.Validate(args); err != nil {
			t.Fatalf("%s\nis not admitted by\n%s\n%v", args, schema, err)
		}
		again, err := request(md, r, args)
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		back := dynamicpb.NewMessage(md)
		if err := (proto.UnmarshalOptions{Resolver: r}).Unmarshal(again, back); err != nil || !proto.Equal(m, back) {
			t.Fatalf("%v\nbecame\n%v\n%v", m, back, err)
		}
		if text2, err := answer(md, r, again); err != nil || !bytes.Equal(text, text2) {
			t.Fatalf("%s\nbecame\n%s\n%v", text, text2, err)
		}
	})
}

// odd reports whether JSON has members whose names are not those of the schema.
func odd(text []byte) bool {
	return bytes.Contains(text, []byte(`"@odd`)) || bytes.Contains(text, []byte(`"a b`))
}

// strictWords fails if a schema has keywords that a provider does not accept.
func strictWords(t *rapid.T, schema []byte) {
	var v any
	must.Do(t, json.Unmarshal(schema, &v))
	var walk func(v any, names bool)
	walk = func(v any, names bool) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x, false)
			}
		case map[string]any:
			for k, x := range v {
				if names {
					if !propertyName.MatchString(k) {
						t.Fatalf("the property %q", k)
					}
					walk(x, false)
					continue
				}
				known := []string{"$ref", "$defs", "type", "description", "enum", "format", "pattern", "minimum", "maximum", "anyOf", "items", "properties", "additionalProperties", "required"}
				if _, list := x.([]any); !slices.Contains(known, k) || k == "type" && list {
					t.Fatalf("the keyword %s: %v", k, x)
				}
				if k != "enum" && k != "required" {
					walk(x, k == "properties" || k == "$defs")
				}
			}
		}
	}
	walk(v, false)
}
