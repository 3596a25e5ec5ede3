package grpc

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"steward/internal/tool"
)

// thousand is a service of a thousand methods with ten messages of many kinds.
func thousand() string {
	var b strings.Builder
	b.WriteString(`syntax = "proto3"; package bench; import "google/protobuf/timestamp.proto";`)
	for i := range 10 {
		fmt.Fprintf(&b, `
// A message of the kind %d.
message M%d {
  // What it is called.
  optional string name = 1;
  int64 number = 2;
  repeated M%d more = 3; // and others
  map<string, int32> counts = 4;
  google.protobuf.Timestamp at = 5;
  oneof either { string text = 6; bytes data = 7; }
  E e = 8;
}`, i, i, max(i-1, 0))
	}
	b.WriteString("enum E { ZERO = 0; ONE = 1; }\nservice Big {\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "  // Does the thing %d.\n  rpc DoThing%d(M%d) returns (M%d);\n", i, i, i%10, i%10)
	}
	b.WriteString("}\n")
	return b.String()
}

// Opening a source of a thousand methods: parsing, schemas, checks.
func BenchmarkOpenThousandMethods(b *testing.B) {
	path := protoFile(b, thousand())
	b.ReportAllocs()
	for b.Loop() {
		s, err := openBy(new(Kit), tool.Env{}, "host: localhost:1\nprotos: ["+path+"]")
		if err != nil {
			b.Fatal(err)
		}
		if n := len(s.(*source).fixed.specs); n != 1000 {
			b.Fatal(n)
		}
	}
}

// The schema of one method among a thousand.
func BenchmarkSchema(b *testing.B) {
	in := describingText(b, thousand())
	md := messageOf(b, in, "bench.M5")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := new(schemer).input(md, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// Finding an approved tool again, of a thousand.
func BenchmarkLookUp(b *testing.B) {
	path := protoFile(b, thousand())
	s := open(b, tool.Env{}, "host: localhost:1\nprotos: ["+path+"]")
	var reg tool.Registry
	for _, spec := range announce(b, s).Specs {
		if err := reg.Add(s.Tool(spec)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		t, ok := reg.Get("test.do_thing512")
		if !ok || s.fixed.methods[t.Spec().Name] == nil {
			b.Fatal("not there")
		}
	}
}

// A call over the loopback, arguments and answer converted.
func BenchmarkCall(b *testing.B) {
	srv := serve(b, describing(b, "testdata/kinds.proto"), serving{handle: map[string]handler{"Keep": echo}})
	s := open(b, tool.Env{}, "host: "+srv.address)
	tl := s.Tool(specOf(b, s, "test.keep"))
	args := []byte(`{"name":"a","children":[{"name":"b"},{"name":"c"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tl.Call(context.Background(), tool.Invocation{Args: args}); err != nil {
			b.Fatal(err)
		}
	}
}
