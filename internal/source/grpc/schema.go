package grpc

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/reflect/protoreflect"

	"steward/internal/fault"
)

// Limits on a schema.
const (
	maxSchema     = 32 << 10 // bytes: deeper levels are left out until it fits
	inlineFields  = 200      // up to so many fields in total, messages are written out where they are used
	maxEnumValues = 200
	maxComment    = 600 // bytes of a field's description
)

// schema is a JSON Schema with only the keywords that all providers accept: no $ref except to
// $defs, no oneOf, no lists of types, no property names beyond [a-zA-Z0-9_.-]{1,64}. The same
// schema is always written as the same bytes, because approvals hash them.
type schema struct {
	Ref         string      `json:"$ref,omitzero"`
	Type        string      `json:"type,omitzero"`
	Description string      `json:"description,omitzero"`
	Enum        []string    `json:"enum,omitempty"`
	Format      string      `json:"format,omitzero"`
	Pattern     string      `json:"pattern,omitzero"`
	Minimum     *int64      `json:"minimum,omitzero"`
	Maximum     *int64      `json:"maximum,omitzero"`
	AnyOf       []*schema   `json:"anyOf,omitempty"`
	Items       *schema     `json:"items,omitzero"`
	Properties  *properties `json:"properties,omitzero"`           // not nil: there are no others
	Others      any         `json:"additionalProperties,omitzero"` // false, or the schema of a map's values
	Required    []string    `json:"required,omitempty"`
	Defs        properties  `json:"$defs,omitempty"` // sorted by name
}

// properties keeps the order of the fields, in which a model writes them.
type properties []property

// property is a schema with its name.
type property struct {
	name   string
	schema *schema
}

// MarshalJSONTo implements json.MarshalerTo.
func (list properties) MarshalJSONTo(enc *jsontext.Encoder) error {
	err := enc.WriteToken(jsontext.BeginObject)
	for _, p := range list {
		err = errors.Join(err, enc.WriteToken(jsontext.String(p.name)), jsonv2.MarshalEncode(enc, p.schema))
	}
	return errors.Join(err, enc.WriteToken(jsontext.EndObject))
}

// closed returns the schema of an object without further properties.
func closed(description string) *schema {
	return &schema{Type: "object", Description: description, Properties: &properties{}, Others: false}
}

// schemaBuilder writes schemas, and caches what it has learned about messages. Not safe for concurrent
// use.
type schemaBuilder struct {
	shapes  shapes
	written map[protoreflect.FullName][]byte
}

// input returns the schema of a method's request. required, if not nil, replaces the required
// arguments of the descriptor. Errors are Invalid, grpc_method_unusable.
func (s *schemaBuilder) input(md protoreflect.MessageDescriptor, required *[]string) ([]byte, error) {
	if wellKnownSchema(md) != nil {
		if md.FullName() != "google.protobuf.Empty" && md.FullName() != "google.protobuf.Struct" {
			return nil, fault.New(fault.Invalid, "grpc_method_unusable", "its request is a %s, which is not a JSON object", md.FullName())
		}
	}
	if out := s.written[md.FullName()]; out != nil && required == nil {
		return out, nil
	}
	for _, depth := range []int{16, 6, 3, 2, 1, 0} {
		b := &builder{shapes: &s.shapes, root: md, depth: depth, refs: s.shapes.fields(md) > inlineFields, defs: map[string]*schema{}, names: map[protoreflect.FullName]string{}}
		root, err := b.request(required)
		if err != nil {
			return nil, err
		}
		out, err := jsonv2.Marshal(root, jsontext.AllowInvalidUTF8(true)) // invalid bytes are replaced
		if err != nil {
			return nil, fault.New(fault.Invalid, "grpc_method_unusable", "the schema of its request cannot be written: %w", err)
		}
		if len(out) > maxSchema {
			continue
		}
		if s.written == nil {
			s.written = map[protoreflect.FullName][]byte{}
		}
		if required == nil {
			s.written[md.FullName()] = out
		}
		return out, nil
	}
	return nil, fault.New(fault.Invalid, "grpc_method_unusable", "the schema of its request %s is larger than %d bytes", md.FullName(), maxSchema)
}

// builder builds one schema.
type builder struct {
	shapes *shapes
	root   protoreflect.MessageDescriptor
	depth  int
	refs   bool // messages are written once, under $defs
	defs   map[string]*schema
	names  map[protoreflect.FullName]string // of defs
}

// request returns the schema of the root message.
func (b *builder) request(required *[]string) (*schema, error) {
	root, err := b.message(b.root, 0)
	if err != nil {
		return nil, err
	}
	c := *root
	if required != nil {
		if c.Required, err = b.named(*required); err != nil {
			return nil, err
		}
	} else {
		c.Required = append(slices.Clone(c.Required), b.impliedRequired()...)
	}
	for _, name := range slices.Sorted(maps.Keys(b.defs)) {
		c.Defs = append(c.Defs, property{name, b.defs[name]})
	}
	return &c, nil
}

// named returns the properties that a declaration makes required.
func (b *builder) named(required []string) ([]string, error) {
	out := []string{}
	for _, name := range required {
		fd := fieldOf(b.root, name)
		if fd == nil {
			return nil, fault.New(fault.Invalid, "grpc_declaration_invalid", "required names %q, and %s has no such field", name, b.root.FullName()).
				WithHint("correct it%s", suggest(name, fieldNames(b.root)))
		}
		out = append(out, nameOf(fd))
	}
	return out, nil
}

// impliedRequired returns the fields of a request that the schema requires although protobuf does not:
// texts, bytes and numbers that are not marked optional. A missing one would silently go to the
// server as "" or 0. If the request has field behaviours, they alone decide; and the fields for
// paging and filtering (https://google.aip.dev/132, /158) are always optional.
func (b *builder) impliedRequired() (out []string) {
	fields := b.root.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if len(annotated(fd)) > 0 {
			return nil
		}
		if fd.HasPresence() || fd.Cardinality() == protoreflect.Repeated || deprecated(fd) {
			continue
		}
		if fd.Kind() == protoreflect.BoolKind || fd.Kind() == protoreflect.EnumKind {
			continue // false and the first value are meaningful
		}
		if slices.Contains([]protoreflect.Name{"page_size", "page_token", "filter", "order_by", "skip"}, fd.Name()) {
			continue
		}
		if name := nameOf(fd); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// message returns the schema of a message at a depth.
func (b *builder) message(md protoreflect.MessageDescriptor, depth int) (*schema, error) {
	if md.IsPlaceholder() {
		return nil, fault.New(fault.Invalid, "grpc_method_unusable", "the type %s is not described", md.FullName())
	}
	if w := wellKnownSchema(md); w != nil {
		return w, nil
	}
	if depth > b.depth {
		return &schema{Type: "object", Description: "a message " + string(md.FullName()) + "; its members are not listed here"}, nil
	}
	out := closed(comment(md, maxComment))
	fields := md.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		name := nameOf(fd)
		must := fd.Cardinality() == protoreflect.Required || slices.Contains(annotated(fd), annotations.FieldBehavior_REQUIRED)
		if name == "" {
			if fd.Cardinality() == protoreflect.Required {
				return nil, fault.New(fault.Invalid, "grpc_method_unusable", "the required field %s has a name that cannot be shown to models", fd.FullName())
			}
			continue
		}
		s, err := b.field(fd, depth+1)
		if err != nil {
			return nil, err
		}
		*out.Properties = append(*out.Properties, property{name, s})
		if must {
			out.Required = append(out.Required, name)
		}
	}
	return out, nil
}

// field returns the schema of a field with its description.
func (b *builder) field(fd protoreflect.FieldDescriptor, depth int) (*schema, error) {
	var s *schema
	value := fd
	if fd.IsMap() {
		value = fd.MapValue()
	}
	s, err := b.value(value, depth)
	if err != nil {
		return nil, err
	}
	switch {
	case fd.IsMap():
		s = &schema{Type: "object", Others: s}
	case fd.IsList():
		s = &schema{Type: "array", Items: s}
	}
	c := *s
	c.Description = describe(fd, s.Description)
	return &c, nil
}

// describe returns the description of a field.
func describe(fd protoreflect.FieldDescriptor, own string) string {
	parts := []string{comment(fd, maxComment)}
	if parts[0] == "" || wellKnownSchema(fd.Message()) != nil || fd.Enum() != nil || fd.Kind() == protoreflect.BytesKind {
		parts = append(parts, own)
	}
	if fd.IsMap() {
		switch k := fd.MapKey().Kind(); k {
		case protoreflect.StringKind:
		case protoreflect.BoolKind:
			parts = append(parts, `The keys are "true" and "false".`)
		default:
			parts = append(parts, "The keys are whole numbers.")
		}
	}
	if o := fd.ContainingOneof(); o != nil && !o.IsSynthetic() {
		var names []string
		for i := range o.Fields().Len() {
			names = append(names, nameOf(o.Fields().Get(i)))
		}
		parts = append(parts, "Give at most one of "+strings.Join(names, ", ")+".")
	}
	if fd.HasDefault() && fd.Kind() != protoreflect.BytesKind {
		value := fd.Default().String()
		if v := fd.DefaultEnumValue(); v != nil {
			value = string(v.Name())
		}
		parts = append(parts, "Default: "+clip(value, 80)+".")
	}
	if slices.Contains(annotated(fd), annotations.FieldBehavior_OUTPUT_ONLY) {
		parts = append(parts, "Set by the server.")
	}
	if deprecated(fd) {
		parts = append(parts, "Deprecated.")
	}
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	return clip(strings.Join(parts, "\n"), 2*maxComment)
}

// value returns the schema of one value of a field.
func (b *builder) value(fd protoreflect.FieldDescriptor, depth int) (*schema, error) {
	switch fd.Kind() {
	case protoreflect.EnumKind:
		return enum(fd.Enum())
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return b.reference(fd.Message(), depth)
	}
	return scalar(fd.Kind()), nil
}

// reference returns the schema of a field's message, or a reference to it if the message contains
// itself or the schema would get long.
func (b *builder) reference(md protoreflect.MessageDescriptor, depth int) (*schema, error) {
	if md.IsPlaceholder() || wellKnownSchema(md) != nil || !b.shapes.recursive(md) && !(b.refs && md.Fields().Len() > 3) {
		return b.message(md, depth)
	}
	if name, ok := b.names[md.FullName()]; ok {
		return &schema{Ref: "#/$defs/" + name}, nil
	}
	name := strings.ReplaceAll(string(md.FullName()), ".", "_")
	for b.defs[name] != nil {
		name += "_"
	}
	b.names[md.FullName()] = name
	b.defs[name] = &schema{} // reserves the name
	s, err := b.message(md, depth)
	if err != nil {
		return nil, err
	}
	b.defs[name] = s
	return &schema{Ref: "#/$defs/" + name}, nil
}

func enum(ed protoreflect.EnumDescriptor) (*schema, error) {
	if ed.IsPlaceholder() {
		return nil, fault.New(fault.Invalid, "grpc_method_unusable", "the type %s is not described", ed.FullName())
	}
	if ed.FullName() == "google.protobuf.NullValue" {
		return &schema{Type: "null"}, nil
	}
	s := &schema{Type: "string", Description: comment(ed, maxComment)}
	var said []string
	for i := range ed.Values().Len() {
		v := ed.Values().Get(i)
		s.Enum = append(s.Enum, string(v.Name()))
		if c := comment(v, 120); c != "" {
			said = append(said, string(v.Name())+": "+strings.ReplaceAll(c, "\n", " "))
		}
	}
	if len(s.Enum) > maxEnumValues {
		s.Description += "\nThe name of a value of " + string(ed.FullName()) + ", such as " + strings.Join(s.Enum[:20], ", ")
		s.Enum = nil
	}
	s.Description = clip(strings.TrimSpace(s.Description+"\n"+strings.Join(said, "\n")), 2*maxComment)
	return s, nil
}

func scalar(k protoreflect.Kind) *schema {
	bounds := func(lo, hi int64) *schema { return &schema{Type: "integer", Minimum: &lo, Maximum: &hi} }
	zero := int64(0)
	switch k {
	case protoreflect.BoolKind:
		return &schema{Type: "boolean"}
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return bounds(-1<<31, 1<<31-1)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return bounds(0, 1<<32-1)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return &schema{AnyOf: []*schema{{Type: "integer"}, {Type: "string", Pattern: "^-?[0-9]+$"}}}
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return &schema{AnyOf: []*schema{{Type: "integer", Minimum: &zero}, {Type: "string", Pattern: "^[0-9]+$"}}}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return &schema{Type: "number"}
	case protoreflect.BytesKind:
		return &schema{Type: "string", Description: "Bytes in base64."}
	}
	return &schema{Type: "string"}
}

// wellKnownSchema returns the schema of a well-known type, which has a JSON form of its own
// (https://protobuf.dev/programming-guides/json/), and nil for other messages.
func wellKnownSchema(md protoreflect.MessageDescriptor) *schema {
	if md == nil || md.ParentFile() == nil || md.ParentFile().Package() != "google.protobuf" {
		return nil
	}
	switch md.Name() {
	case "Timestamp":
		return &schema{Type: "string", Format: "date-time", Description: "A time as 2006-01-02T15:04:05Z."}
	case "Duration":
		return &schema{Type: "string", Pattern: `^-?[0-9]+(\.[0-9]{1,9})?s$`, Description: "A time span in seconds, as 1.5s."}
	case "FieldMask":
		return &schema{Type: "string", Description: "Names of fields in camelCase, with commas between, dots for fields of fields."}
	case "Struct":
		return &schema{Type: "object", Description: "Any JSON object."}
	case "Value":
		return &schema{Description: "Any JSON value."}
	case "ListValue":
		return &schema{Type: "array", Items: &schema{Description: "Any JSON value."}}
	case "Empty":
		return closed("")
	case "Any":
		return &schema{Type: "object", Description: `A message of any type: its members, and "@type": "type.googleapis.com/package.Message".`}
	case "BoolValue", "StringValue", "BytesValue", "FloatValue", "DoubleValue", "Int32Value", "Int64Value", "UInt32Value", "UInt64Value":
		return scalar(md.Fields().ByNumber(1).Kind())
	}
	return nil
}

var propertyName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// nameOf returns the JSON name of a field. It is empty if providers accept neither of its names.
func nameOf(fd protoreflect.FieldDescriptor) string {
	for _, name := range []string{fd.JSONName(), fd.TextName()} {
		if propertyName.MatchString(name) && fieldOf(fd.ContainingMessage(), name) == fd {
			return name
		}
	}
	return ""
}

// fieldOf returns the field with a name in JSON, or nil.
func fieldOf(md protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if fd := md.Fields().ByJSONName(name); fd != nil {
		return fd
	}
	return md.Fields().ByTextName(name)
}

func fieldNames(md protoreflect.MessageDescriptor) (out []string) {
	for i := range md.Fields().Len() {
		if name := nameOf(md.Fields().Get(i)); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// shapes knows which messages contain themselves, and how many fields they have when written out.
// It is filled on demand. Not safe for concurrent use.
type shapes struct {
	known map[protoreflect.FullName]*shape
	stack []*shape
	next  int
}

// shape describes a message. Groups of messages that contain each other are found by Tarjan's
// algorithm.
type shape struct {
	index, low int
	open       bool // its group is not complete yet
	recursive  bool
	fields     int // of the message and all below it, saturated; those below a recursion do not count
}

const maxFields = 1 << 20

func (s *shapes) recursive(md protoreflect.MessageDescriptor) bool { return s.of(md).recursive }
func (s *shapes) fields(md protoreflect.MessageDescriptor) int     { return s.of(md).fields }

func (s *shapes) of(md protoreflect.MessageDescriptor) *shape {
	if have, ok := s.known[md.FullName()]; ok {
		return have
	}
	if s.known == nil {
		s.known = map[protoreflect.FullName]*shape{}
	}
	s.next++
	own := &shape{index: s.next, low: s.next, open: true}
	s.known[md.FullName()] = own
	s.stack = append(s.stack, own)
	fields := md.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		own.fields = min(own.fields+1, maxFields)
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		sub := fd.Message()
		if sub == nil || sub.IsPlaceholder() || wellKnownSchema(sub) != nil {
			continue
		}
		before := len(s.known)
		child := s.of(sub)
		if fresh := len(s.known) > before; fresh && child.open {
			own.low = min(own.low, child.low)
		} else if child.open {
			own.low = min(own.low, child.index)
		}
		if child == own {
			own.recursive = true
		}
		own.fields = min(own.fields+child.fields, maxFields)
	}
	if own.low == own.index {
		s.closeGroup(own)
	}
	return own
}

// closeGroup takes a complete group from the stack.
func (s *shapes) closeGroup(first *shape) {
	for i := len(s.stack) - 1; ; i-- {
		member := s.stack[i]
		member.open = false
		if member != first || i < len(s.stack)-1 {
			member.recursive = true
		}
		if member == first {
			s.stack = s.stack[:i]
			return
		}
	}
}
