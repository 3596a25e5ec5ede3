package grpc

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"steward/internal/fault"
	"steward/internal/tool"
)

// method is a method that has become a tool.
type method struct {
	desc   protoreflect.MethodDescriptor
	path   string // /package.Service/Method
	full   string // package.Service.Method
	safe   bool   // it may be called again
	stream bool   // the server sends a stream of messages
	spec   tool.Spec
	print  string // fingerprint of the spec, for comparison
}

// offer is what a source offers at one moment. Immutable.
type offer struct {
	methods     map[string]*method // by the tool's name
	specs       []tool.Spec        // sorted by name
	refused     []error
	ask         resolver // for arguments
	answerTypes resolver // for answers
	sum         string   // over all that is offered

	generation uint64 // the generation of the connection over which it was learned
	at         time.Time
}

// chosen returns the methods that a declaration names, in order, and errors for those that do not
// exist.
func (d Declaration) chosen(in *described) (out []protoreflect.MethodDescriptor, missing []error) {
	services := in.services()
	if d.Call != "" {
		service := serviceOf(d.Call)
		name := d.Call[len(service)+1:]
		s, ok := services[protoreflect.FullName(service)]
		if !ok {
			return nil, []error{unknownCall("service", service, nameList(services))}
		}
		m := s.Methods().ByName(protoreflect.Name(name))
		if m == nil {
			return nil, []error{unknownCall("method", d.Call, methodList(s))}
		}
		return []protoreflect.MethodDescriptor{m}, nil
	}
	wanted := d.Services
	if len(wanted) == 0 {
		for _, name := range nameList(services) {
			if !infrastructure(name) {
				wanted = append(wanted, name)
			}
		}
	}
	for _, name := range wanted {
		s, ok := services[protoreflect.FullName(name)]
		if !ok {
			missing = append(missing, unknownCall("service", name, nameList(services)))
			continue
		}
		for i := range s.Methods().Len() {
			out = append(out, s.Methods().Get(i))
		}
	}
	return out, missing
}

// infrastructure reports whether a service is one of gRPC's own, whose methods become tools only
// if the declaration names it.
func infrastructure(service string) bool {
	return slices.ContainsFunc([]string{"grpc.reflection.", "grpc.health.", "grpc.channelz.", "grpc.lb."}, func(p string) bool {
		return strings.HasPrefix(service, p)
	})
}

func nameList(services map[protoreflect.FullName]protoreflect.ServiceDescriptor) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(services)) {
		out = append(out, string(name))
	}
	return out
}

func methodList(s protoreflect.ServiceDescriptor) (out []string) {
	for i := range s.Methods().Len() {
		out = append(out, string(s.Methods().Get(i).FullName()))
	}
	return out
}

func unknownCall(what, name string, known []string) error {
	e := fault.New(fault.NotFound, "grpc_call_unknown", "there is no %s %s", what, clip(name, 200))
	if len(known) == 0 {
		return e.WithHint("no services are described")
	}
	return e.WithHint("there are %s%s", list(known, 20), suggest(name, known))
}

// offering turns a description into tools.
func (s *source) offering(in *described) *offer {
	o := &offer{methods: map[string]*method{}, ask: resolver{Types: in.types}, answerTypes: resolver{Types: in.types, opaque: s.opaque}, at: time.Now()}
	methods, missing := s.decl.chosen(in)
	o.refused = missing
	names := s.names(methods)
	same := map[string]*method{}
	w := &schemaBuilder{}
	for _, desc := range methods {
		m, err := s.tool(w, desc, names[desc.FullName()])
		if err != nil {
			o.refused = append(o.refused, err)
			continue
		}
		if other := same[m.spec.Name]; other != nil {
			delete(o.methods, m.spec.Name)
			o.refused = append(o.refused, fault.New(fault.Conflict, "tool_conflict", "%s and %s would both be the tool %s", other.full, m.full, m.spec.Name).
				WithHint("declare one of them with call and name").Detail("tool", m.spec.Name))
			continue
		}
		same[m.spec.Name], o.methods[m.spec.Name] = m, m
	}
	o.refused = append(o.refused, s.unusedKeys(methods, names)...)
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(o.methods)) {
		o.specs = append(o.specs, o.methods[name].spec)
		fmt.Fprintln(h, o.methods[name].print)
	}
	o.sum = hex.EncodeToString(h.Sum(nil))
	return o
}

// names returns the tools' names of methods.
func (s *source) names(methods []protoreflect.MethodDescriptor) map[protoreflect.FullName]string {
	category, out := word(s.env.Name), map[protoreflect.FullName]string{}
	if s.decl.Name != "" && len(methods) == 1 {
		name := s.decl.Name
		if _, rest, dotted := strings.Cut(name, "."); dotted {
			name = rest
		}
		out[methods[0].FullName()] = category + "." + word(name)
		return out
	}
	in := map[string]map[protoreflect.FullName]bool{} // the services that have a method of this name
	for _, m := range methods {
		short := word(string(m.Name()))
		if in[short] == nil {
			in[short] = map[protoreflect.FullName]bool{}
		}
		in[short][m.Parent().FullName()] = true
	}
	for _, m := range methods {
		short := word(string(m.Name()))
		if len(in[short]) > 1 {
			short = word(string(m.Parent().Name())) + "_" + short
		}
		out[m.FullName()] = category + "." + short
	}
	return out
}

// keysOf returns the names by which a declaration may refer to a method.
func keysOf(m protoreflect.MethodDescriptor, name string) []string {
	_, short, _ := strings.Cut(name, ".")
	return []string{string(m.FullName()), string(m.Parent().Name()) + "." + string(m.Name()), string(m.Name()), name, short}
}

// tool makes the tool of a method, or returns why it cannot be one.
func (s *source) tool(w *schemaBuilder, desc protoreflect.MethodDescriptor, name string) (*method, error) {
	service := string(desc.Parent().FullName())
	m := &method{desc: desc, path: "/" + service + "/" + string(desc.Name()), full: string(desc.FullName()), stream: desc.IsStreamingServer()}
	refuse := func(kind fault.Kind, code, remedy, format string, args ...any) (*method, error) {
		return nil, fault.New(kind, code, "%s cannot become a tool: "+format, append([]any{m.full}, args...)...).
			WithHint("%s", remedy).Detail("tool", name).Detail("method", m.full)
	}
	if desc.IsStreamingClient() {
		return refuse(fault.Unsupported, "grpc_streaming_unsupported", "use a method that takes one message", "it takes a stream of messages")
	}
	if desc.Output().IsPlaceholder() {
		return refuse(fault.Invalid, "grpc_method_unusable", "give its .proto files under protos", "the type %s is not described", desc.Output().FullName())
	}
	whole := name
	category, rest, _ := strings.Cut(name, ".")
	name, full := tool.QualifiedName(category, rest)
	if s.decl.Bare && full == "" {
		name, full = rest, name
	}
	level := idempotency(desc)
	var required *[]string
	keys := keysOf(desc, whole)
	if _, r, ok := tool.BestMatch(s.decl.Required, keys...); ok {
		required = &r
	}
	m.safe = level != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
	input, err := w.input(desc.Input(), required)
	if err != nil {
		return refuse(fault.Of(err).Kind, fault.Of(err).Code, "leave it out, or change the service", "%w", err)
	}
	spec := tool.Spec{
		Name: name, FullName: full, Description: s.description(desc), Input: input, Effect: tool.Action, Timeout: s.decl.Timeout,
		Origin: "grpc:" + s.env.Name, Async: s.decl.Async, AsyncAfter: s.decl.AsyncAfter, Host: s.host(),
	}
	if level == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
		spec.Effect = tool.Query
	}
	s.decl.Effect(&spec, keys...)
	if err := s.decl.Apply(&spec, s.env, declaredTidy(desc), false, keys...); err != nil {
		return refuse(fault.Invalid, fault.Of(err).Code, fault.Of(err).Remedy, "%w", err)
	}
	if s.decl.Trusted && s.decl.Yields == nil {
		spec.Yields = 0
	}
	if spec.Effect == tool.Action {
		spec.Delivery, spec.Dedupes = tool.Inline, s.decl.Dedupes
	}
	spec.Version = versionOf(m, spec)
	m.spec = spec
	// The schema is valid as generated; compiling it is left to the registry.
	spec.Input = []byte(`{"type":"object"}`)
	if _, _, err = tool.CheckSpec(spec); err != nil {
		return refuse(fault.Invalid, fault.Of(err).Code, "declare it with call and name", "%w", err)
	}
	m.print = tool.Identity(m.spec)
	return m, nil
}

// host returns where the server is.
func (s *source) host() string {
	if host, _, err := net.SplitHostPort(s.to.address); err == nil {
		return host
	}
	return ""
}

// versionOf returns a version that changes when another method is called, or when the method
// means something else.
func versionOf(m *method, s tool.Spec) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%t\x00%s\x00%s\x00%s\x00%s\x00%s", m.full, m.stream, m.desc.Output().FullName(), s.Name, s.Description, s.Effect, s.Input)
	return hex.EncodeToString(h.Sum(nil)[:6])
}

const maxDescription = 1000 // bytes: the limit of the strictest provider

// description describes a method for a model.
func (s *source) description(m protoreflect.MethodDescriptor) string {
	if s.decl.Call != "" && s.decl.Description != "" {
		return clip(s.decl.Description, maxDescription)
	}
	parts := []string{s.decl.Description, comment(m, maxDescription)}
	if parts[1] == "" {
		parts[1] = fmt.Sprintf("Calls %s of the service %s with a %s.", m.Name(), m.Parent().FullName(), m.Input().Name())
		if about := comment(m.Parent(), 300); about != "" {
			parts = append(parts, "The service: "+about)
		}
	}
	if m.IsStreamingServer() {
		parts = append(parts, fmt.Sprintf("Answers a list of %s.", m.Output().Name()))
	}
	parts = slices.DeleteFunc(parts, func(p string) bool { return strings.TrimSpace(p) == "" })
	return clip(strings.Join(parts, "\n"), maxDescription)
}

// unusedKeys returns errors for keys of the declaration that match no method, which would silently
// have no effect.
func (s *source) unusedKeys(methods []protoreflect.MethodDescriptor, names map[protoreflect.FullName]string) (out []error) {
	var known []string
	for _, m := range methods {
		known = append(known, keysOf(m, names[m.FullName()])...)
	}
	keys := slices.AppendSeq(s.decl.Overrides.Patterns(), maps.Keys(s.decl.Required))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		if !tool.PatternMatches(key, known...) {
			out = append(out, badDeclaration("the declaration names %q, which is not a method or tool of this source", key).WithHint("correct or remove it%s", suggest(key, known)))
		}
	}
	return out
}

// word returns a name as a word of a tool's name. It is empty for a name beyond ASCII, which
// descriptors and the catalog do not have.
func word(name string) string {
	w, err := tool.Word(name)
	if err != nil {
		return ""
	}
	return w
}

// clip shortens a text from outside, at a rune boundary, and makes it valid UTF-8.
func clip(s string, n int) string {
	return tool.Clip(strings.ToValidUTF8(s, "\uFFFD"), n)
}

// serviceOf returns the service of a full method name.
func serviceOf(call string) string { return call[:strings.LastIndexByte(call, '.')] }
