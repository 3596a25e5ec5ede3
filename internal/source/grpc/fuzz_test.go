package grpc

import (
	"encoding/json"
	"os"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"steward/internal/fault"
	"steward/internal/tool"
)

// Any answer of a server becomes JSON or an error.
func FuzzAnswer(f *testing.F) {
	in := describing(f, "testdata/kinds.proto", "testdata/old.proto")
	all, question := messageOf(f, in, "kinds.v1.All"), messageOf(f, in, "old.Question")
	for _, seed := range []string{`{}`, `{"anInt64":"1","trees":[{"name":"x"}],"any":{"@type":"type.googleapis.com/kinds.v1.Tree","name":"x"}}`, `{"at":"2026-01-01T00:00:00Z","free":{"a":1}}`} {
		m := dynamicpb.NewMessage(all)
		if err := (protojson.UnmarshalOptions{Resolver: resolver{Types: in.types}}).Unmarshal([]byte(seed), m); err != nil {
			f.Fatal(err)
		}
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{1<<3 | 2, 1, 'x', 4<<3 | 3, 4<<3 | 4})
	f.Add([]byte{0xa2, 6, 1, 'x'})
	r := resolver{Types: in.types, opaque: opaque()}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, md := range []string{"all", "question"} {
			d := all
			if md == "question" {
				d = question
			}
			text, err := answer(d, r, b)
			if err == nil && !json.Valid(text) {
				t.Fatalf("%x became %s", b, text)
			}
			if err != nil && fault.Of(err).Message == "" {
				t.Fatalf("%x: %v", b, err)
			}
		}
	})
}

// Any description of a server becomes tools or is refused.
func FuzzDescription(f *testing.F) {
	for _, file := range []string{"kinds", "old", "edition", "hash"} {
		path, err := os.Getwd()
		if err != nil {
			f.Fatal(err)
		}
		protos, _, err := compile("", Declaration{}, []string{path + "/testdata/" + file + ".proto"})
		if err != nil {
			f.Fatal(err)
		}
		b, err := proto.Marshal(protos[file+".proto"])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	s := open(f, tool.Env{}, "host: x:1")
	f.Fuzz(func(t *testing.T, b []byte) {
		file := new(descriptorpb.FileDescriptorProto)
		if proto.Unmarshal(b, file) != nil {
			return
		}
		for _, lenient := range []bool{false, true} {
			in, refused := link(map[string]*descriptorpb.FileDescriptorProto{file.GetName(): file}, lenient)
			o := s.offering(in)
			for _, spec := range o.specs {
				if _, _, err := tool.CheckSpec(spec); err != nil {
					t.Fatalf("%s: %v\n%s", spec.Name, err, spec.Input)
				}
			}
			for _, err := range append(refused, o.refused...) {
				if fault.Of(err).Code == "internal" {
					t.Fatal(err)
				}
			}
		}
	})
}
