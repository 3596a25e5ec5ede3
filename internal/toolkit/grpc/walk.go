package grpc

import (
	"fmt"
	"maps"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxFaults is how many faults of one call a model is told at once.
const maxFaults = 8

// walker finds what of JSON does not fit a message, where the library's own
// error would not tell a model what to write instead.
type walker struct{ faults []string }

func (w *walker) add(path, format string, args ...any) {
	if path == "" {
		path = "the arguments"
	}
	if len(w.faults) < maxFaults {
		w.faults = append(w.faults, path+": "+fmt.Sprintf(format, args...))
	}
}

func (w *walker) root(md protoreflect.MessageDescriptor, args []byte) {
	var v any
	if err := jsonv2.Unmarshal(args, &v); err != nil {
		w.add("", "%s", clip(err.Error(), 300))
		return
	}
	w.message(md, v, "", 0)
}

func (w *walker) message(md protoreflect.MessageDescriptor, v any, path string, depth int) {
	if special(md) != nil || depth > maxNesting {
		return
	}
	o, ok := v.(map[string]any)
	if !ok {
		w.add(path, "expected an object, got %s", kindOf(v))
		return
	}
	chosen := map[protoreflect.FullName]string{} // of each oneof
	for _, name := range slices.Sorted(maps.Keys(o)) {
		at := name
		if path != "" {
			at = path + "." + name
		}
		fd := fieldOf(md, name)
		if fd == nil {
			w.unknown(md, name, at)
			continue
		}
		if one := fd.ContainingOneof(); one != nil && !one.IsSynthetic() && o[name] != nil {
			if other := chosen[one.FullName()]; other != "" {
				w.add(at, "it and %s exclude each other; give one of them", other)
			}
			chosen[one.FullName()] = name
		}
		w.field(fd, o[name], at, depth)
	}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if fd.Cardinality() != protoreflect.Required {
			continue
		}
		if o[fd.JSONName()] == nil && o[fd.TextName()] == nil {
			w.add(path, "%s is missing", fd.JSONName())
		}
	}
}

func (w *walker) unknown(md protoreflect.MessageDescriptor, name, at string) {
	if len(name) > 0 && name[0] == '[' {
		return // an extension: the library knows
	}
	names := fieldNames(md)
	if len(names) == 0 {
		w.add(at, "is not known here; a %s has no fields", md.FullName())
		return
	}
	w.add(at, "is not known here; known are %s%s", list(names, 40), suggest(name, names))
}

func (w *walker) field(fd protoreflect.FieldDescriptor, v any, path string, depth int) {
	switch {
	case v == nil:
	case fd.IsMap():
		o, ok := v.(map[string]any)
		if !ok {
			w.add(path, "expected an object, got %s", kindOf(v))
			return
		}
		for _, key := range slices.Sorted(maps.Keys(o)) {
			w.value(fd.MapValue(), o[key], path+"."+key, depth)
		}
	case fd.IsList():
		l, ok := v.([]any)
		if !ok {
			w.add(path, "expected an array, got %s", kindOf(v))
			return
		}
		for i, item := range l {
			w.value(fd, item, fmt.Sprintf("%s[%d]", path, i), depth)
		}
	default:
		w.value(fd, v, path, depth)
	}
}

func (w *walker) value(fd protoreflect.FieldDescriptor, v any, path string, depth int) {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		w.message(fd.Message(), v, path, depth+1)
	case protoreflect.EnumKind:
		name, ok := v.(string)
		if !ok || fd.Enum().Values().ByName(protoreflect.Name(name)) != nil {
			return
		}
		var names []string
		for i := range fd.Enum().Values().Len() {
			names = append(names, string(fd.Enum().Values().Get(i).Name()))
		}
		w.add(path, "expected one of %s, got %q%s", list(names, 40), clip(name, 80), suggest(name, names))
	}
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case float64:
		return "a number"
	case []any:
		return "an array"
	}
	return "an object"
}
