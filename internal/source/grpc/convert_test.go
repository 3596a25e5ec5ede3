package grpc

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"

	"steward/internal/fault"
	"steward/test/must"
)

// The error tells a model what to correct, even for rules that the schema does not describe.
func TestMisfits(t *testing.T) {
	in := describing(t, "testdata/kinds.proto", "testdata/old.proto")
	r := resolver{Types: in.types}
	for _, c := range []struct{ message, args, says string }{
		{"kinds.v1.All", `{"wordz":[]}`, `unknown field "wordz"`},
		{"kinds.v1.All", `{"trees":[{"children":[{"nmae":"x"}]}]}`, `unknown field "nmae"`},
		{"kinds.v1.All", `{"first":"a","second":{}}`, `"second"`},
		{"kinds.v1.All", `{"colour":"GREN"}`, "GREN"},
		{"kinds.v1.All", `{"byBool":{"true":"PINK"}}`, "PINK"},
		{"kinds.v1.All", `{"byBool":{"yes":"RED"}}`, "yes"},
		{"kinds.v1.All", `{"words":"x"}`, `unexpected token "x"`},
		{"kinds.v1.All", `{"byName":[]}`, "unexpected token ["},
		{"kinds.v1.All", `{"second":true}`, "unexpected token true"},
		{"kinds.v1.All", `{"trees":[null]}`, "unexpected token null"},
		{"kinds.v1.All", `{"anInt32":"x"}`, "anInt32"},
		{"kinds.v1.All", `{"aUint64":-1}`, "-1"},
		{"kinds.v1.All", `{"at":"yesterday"}`, "yesterday"},
		{"kinds.v1.All", `{"lasts":"1h"}`, "1h"},
		{"kinds.v1.All", `{"someBytes":"%"}`, "someBytes"},
		{"kinds.v1.All", `{"any":{"@type":"type.googleapis.com/no.Such"}}`, "no.Such"},
		{"kinds.v1.All", `{"empty":{"x":1}}`, "x"},
		{"kinds.v1.All", `{"words":[],"words":[]}`, "duplicate"},
		{"kinds.v1.All", `{"anInt32":1,"an_int32":1}`, "an_int32"},
		{"kinds.v1.All", `[]`, "unexpected token ["},
		{"kinds.v1.All", `{`, "unexpected"},
		{"kinds.v1.All", `{"trees":` + strings.Repeat(`[{"children":`, 200) + `[]` + strings.Repeat(`}]`, 200) + `}`, "depth"},
		{"old.Question", `{"times":1}`, "old.Question.what"},
		{"old.Question", `{"what":"x","[old.none]":1}`, "old.none"},
		{"google.protobuf.Empty", `{"x":1}`, "x"},
	} {
		_, err := request(messageOf(t, in, c.message), r, []byte(c.args))
		if e := fault.Of(err); err == nil || e.Code != "args_invalid" || !strings.Contains(e.Message, c.says) || len(e.Message) > 3000 {
			t.Errorf("%.80s: %v, want %q", c.args, err, c.says)
		}
	}
}

// All spellings of a value that ProtoJSON allows are accepted.
func TestLenientArguments(t *testing.T) {
	in := describing(t, "testdata/kinds.proto", "testdata/old.proto", "testdata/edition.proto")
	r := resolver{Types: in.types, opaque: opaque()}
	for _, c := range []struct{ message, args, want string }{
		{"kinds.v1.CountReply", `{"n":9007199254740993}`, `{"n":"9007199254740993","last":false}`},
		{"kinds.v1.CountReply", `{"n":"1","last":null}`, `{"n":"1","last":false}`},
		{"kinds.v1.CountReply", `{"n":1e3}`, `{"n":"1000","last":false}`},
		{"old.Question", `{"what":"x","part":[{"text":"y","inner":{"what":"z"}}],"[old.more]":"m"}`,
			`{"what":"x","part":[{"text":"y","inner":{"what":"z","part":[]}}],"[old.more]":"m"}`},
		{"edition.Request", `{"must":"m","delimited":{"text":"x"},"spread":[1],"closed":"TWO"}`,
			`{"implicit":"","must":"m","delimited":{"text":"x"},"spread":[1],"closed":"TWO"}`},
	} {
		md := messageOf(t, in, c.message)
		b, err := request(md, r, []byte(c.args))
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		if got, err := answer(md, r, b); err != nil || string(got) != c.want {
			t.Errorf("%s became %s, %v, want %s", c.args, got, err, c.want)
		}
	}
}

// An answer with unknown types is shown as far as possible.
func TestAnswersOfUnknownTypes(t *testing.T) {
	in := describing(t, "testdata/kinds.proto")
	md := messageOf(t, in, "kinds.v1.All")
	m := dynamicpb.NewMessage(md)
	m.Set(md.Fields().ByName("any"), valueOf((&anypb.Any{TypeUrl: "type.googleapis.com/no.Such", Value: []byte{8, 1}}).ProtoReflect()))
	m.SetUnknown([]byte{0xf8, 0x3f, 1}) // a field of a newer version
	b := must.Get(proto.Marshal(m))
	got, err := answer(md, resolver{Types: in.types, opaque: opaque()}, b)
	if err != nil || !strings.Contains(string(got), `"any":{"@type":"type.googleapis.com/no.Such"}`) {
		t.Errorf("answer = %s, %v", got, err)
	}
}

func TestWeigh(t *testing.T) {
	in := describing(t, "testdata/kinds.proto", "testdata/old.proto")
	packed := describingText(t, `syntax = "proto3"; package p; message P { repeated int32 a = 1; repeated double b = 2; repeated float c = 3; }`)
	for _, c := range []struct {
		in   *described
		name string
		b    []byte
		want int
	}{
		{in, "kinds.v1.Tree", []byte{1<<3 | 2, 1, 'x'}, 1},
		{in, "kinds.v1.Tree", []byte{2<<3 | 2, 3, 1<<3 | 2, 1, 'x', 2<<3 | 2, 0}, 3 + 2*perMessage},
		{in, "old.Question", []byte{4<<3 | 3, 1<<3 | 2, 1, 'x', 4<<3 | 4}, 2 + perMessage},
		{in, "old.Question", []byte{4<<3 | 3, 1<<3 | 2}, 0},
		{in, "old.Question", []byte{0xff}, 0},
		{packed, "p.P", []byte{1<<3 | 2, 3, 1, 0x80, 1, 2<<3 | 2, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3<<3 | 2, 4, 0, 0, 0, 0}, 3 + 2 + 2 + 1},
	} {
		if got := estimateValues(messageOf(t, c.in, c.name), c.b, 0); got != c.want {
			t.Errorf("weigh(%x) = %d, want %d", c.b, got, c.want)
		}
	}
}
