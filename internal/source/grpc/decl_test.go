package grpc

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/tool"
)

func TestDeclarations(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "hash.proto", read(t, "testdata/hash.proto"))
	write(t, dir, "empty.proto", `syntax = "proto3";`)
	write(t, dir, "empty.pem", "")
	for decl, says := range map[string]string{
		"{}":                       "is missing",
		"host: localhost":          "is not HOST:PORT",
		"host: ftp://x:1":          "scheme",
		"host: 'https://user@x:1'": "is not HOST:PORT",
		"host: 'x:'":               "is not HOST:PORT",
		"host: 'http://x'":         "is not HOST:PORT",
		"host: x:1\ncall: M":       "is not a method",
		"host: x:1\nname: y":       "needs call",
		"host: x:1\ncall: a.S.M\nservices: [a.S]":                          "exclude each other",
		"host: x:1\ncall: a.S.M\nname: other.tool":                         "in a category that is not test",
		"host: x:1\neffects: {M: maybe}":                                   `is "maybe"`,
		"host: x:1\nmetadata: {Upper: x}":                                  "is not a metadata name",
		"host: x:1\nmetadata: {grpc-timeout: x}":                           "is not a metadata name",
		"host: x:1\nmetadata: {traceparent: x}":                            "is set by Steward",
		"host: x:1\nmetadata: {a: '${not closed'}":                         "without the name of a secret",
		"host: x:1\nmetadata: {a: \"x\\r\\nb: c\"}":                        "printable ASCII",
		"host: x:1\ntimeout: -1s":                                          "negative",
		"host: x:1\nmax_bytes: 100000000":                                  "at most",
		"host: x:1\nca: none.pem":                                          "cannot be read",
		"host: x:1\nca: empty.pem":                                         "has no certificates",
		"host: x:1\nprotos: [none.proto]":                                  "there is no file",
		"host: x:1\nprotos: ['[']":                                         "is not a file pattern",
		"host: x:1\nprotos: [hash.proto]\nreflection: true":                "exclude each other",
		"host: x:1\nprotos: [hash.proto]\ncall: toolbox.Hash.Md5Hash":      "there is no service toolbox.Hash (there are toolbox.HashTools; did you mean toolbox.HashTools?",
		"host: x:1\nprotos: [hash.proto]\ncall: toolbox.HashTools.Md6Hash": "did you mean toolbox.HashTools.Md5Hash?",
		"host: x:1\nprotos: [empty.proto]":                                 "there is no method",
		"host: x:1\nhots: y":                                               "hots",
	} {
		_, err := openBy(new(Kit), tool.Env{Dir: dir}, decl)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", decl, err, says)
		}
		if e := fault.Of(err); says != "hots" && (e.Code == "internal" || e.Remedy == "") {
			t.Errorf("%s: %+v", decl, e)
		}
	}
	if _, err := openBy(new(Kit), tool.Env{Name: "äö"}, "host: x:1"); !fault.HasCode(err, "grpc_declaration_invalid") {
		t.Errorf("a name without letters: %v", err)
	}
}

func TestHosts(t *testing.T) {
	for host, want := range map[string]target{
		"localhost:1":         {address: "localhost:1"},
		"http://[::1]:50051/": {address: "[::1]:50051"},
		"grpc://a.b:1":        {address: "a.b:1"},
		"https://a.b":         {address: "a.b:443", tls: true},
		"grpcs://a.b:8443":    {address: "a.b:8443", tls: true},
		"unix:/run/x.sock":    {address: "unix:/run/x.sock"},
	} {
		s := open(t, tool.Env{}, "host: '"+host+"'")
		if s.to != want {
			t.Errorf("%s: %+v, want %+v", host, s.to, want)
		}
		if warned, local := len(s.Warnings()) > 0, want.tls || want.local(); warned == local {
			t.Errorf("%s: warnings %q", host, s.Warnings())
		}
	}
	var log bytes.Buffer
	s := open(t, tool.Env{Log: slog.New(slog.NewTextHandler(&log, nil))}, "host: far.example:1\nmetadata: {authorization: 'Bearer ${A} ${B}', x: '${A}'}")
	w := strings.Join(s.Warnings(), "\n")
	if !strings.Contains(w, "are not encrypted") || !strings.Contains(w, "the secrets A, B go to far.example:1 unencrypted") || !strings.Contains(log.String(), "unencrypted") {
		t.Errorf("warnings = %s\nlog = %s", w, log.String())
	}
}

func TestKeysThatMeanNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "tools/hash.proto", read(t, "testdata/hash.proto"))
	s := open(t, tool.Env{Dir: dir}, "host: x:1\neffects: {Sha25Hash: query, toolbox.HashTools.Md5Hash: query}\nrequired: {nothing: [x]}\nservices: [toolbox.HashTools]")
	a := announce(t, s)
	if len(a.Specs) != 2 || len(a.Refused) != 2 || a.Specs[0].Effect != tool.Query || a.Specs[1].Effect != tool.Action {
		t.Errorf("announced %+v, refused %v", a.Specs, a.Refused)
	}
	if !strings.Contains(a.Refused[0].Error(), "did you mean Sha256Hash?") {
		t.Errorf("refused %v", a.Refused)
	}
	s = open(t, tool.Env{Dir: dir}, "host: x:1\nrequired: {Md5Hash: [inputs], Sha256Hash: []}\nservices: [toolbox.HashTools]")
	a = announce(t, s)
	if len(a.Specs) != 1 || strings.Contains(string(a.Specs[0].Input), "required") || !strings.Contains(a.Refused[0].Error(), "did you mean input?") {
		t.Errorf("announced %s, refused %v", a.Specs[0].Input, a.Refused)
	}
	s = open(t, tool.Env{Dir: dir}, "host: x:1\nreflection: true\nservices: [a.B]")
	if s.fixed != nil {
		t.Error("the folder's files are used although the server is to be asked")
	}
}

func TestNamesThatCollide(t *testing.T) {
	path := protoFile(t, `syntax = "proto3"; package p;
		service A { rpc GetX(E) returns (E); rpc Get_X(E) returns (E); rpc Fine(E) returns (E); }
		message E {}`)
	s := open(t, tool.Env{}, "host: x:1\nprotos: ["+path+"]")
	a := announce(t, s)
	if len(a.Specs) != 1 || len(a.Refused) != 1 || !fault.HasCode(a.Refused[0], "tool_conflict") || !strings.Contains(a.Refused[0].Error(), "p.A.GetX and p.A.Get_X would both be the tool test.get_x") {
		t.Errorf("announced %v, refused %v", namesOf(a.Specs), a.Refused)
	}
	long := protoFile(t, `syntax = "proto3"; package p; service A { rpc `+strings.Repeat("Long", 20)+`(E) returns (E); } message E {}`)
	s = open(t, tool.Env{}, "host: x:1\nprotos: ["+long+"]")
	if a := announce(t, s); len(a.Specs) != 1 || !strings.HasPrefix(a.Specs[0].Name, "test.long_long_") || len(tool.WireName(a.Specs[0].Name)) > 64 ||
		a.Specs[0].FullName != "test.long"+strings.Repeat("_long", 19) {
		t.Errorf("announced %v, refused %v", namesOf(a.Specs), a.Refused)
	}
	s = open(t, tool.Env{}, "host: x:1\nprotos: ["+long+"]\ncall: p.A."+strings.Repeat("Long", 20)+"\nname: short")
	if a := announce(t, s); len(a.Specs) != 1 || a.Specs[0].Name != "test.short" {
		t.Errorf("announced %v", namesOf(a.Specs))
	}
}

func TestProtosThatDoNotHold(t *testing.T) {
	for source, says := range map[string]string{
		"syntax = \"proto3\";\nmessage A {\n  int99 x = 1;\n}\n":                                              "bad.proto:3:3: ",
		"syntax = \"proto3\";\nimport \"gone.proto\";\n":                                                      "gone.proto",
		"syntax = \"proto3\";\nimport \"../up.proto\";\n":                                                     "is outside the folders",
		"syntax = \"proto3\";\npackage google.protobuf;\nservice S { rpc M(T) returns (T); }\nmessage T {}\n": "reserved package",
		"not a proto": "bad.proto:1:1",
	} {
		dir := t.TempDir()
		write(t, dir, "tools/bad.proto", source)
		_, err := openBy(new(Kit), tool.Env{Dir: dir}, "host: x:1")
		if err == nil || !strings.Contains(err.Error(), says) || !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if e := fault.Of(err); e.Code == "grpc_proto_invalid" && (e.Details["line"] == nil || !strings.HasSuffix(e.Details["file"].(string), "tools/bad.proto")) {
			t.Errorf("%s: details %v", source, e.Details)
		}
	}
	dir := t.TempDir()
	write(t, dir, "tools/bad.proto", "syntax = \"proto3\";\n"+strings.Repeat("message A { int99 x = 1; }\n", 30))
	_, err := openBy(new(Kit), tool.Env{Dir: dir}, "host: x:1")
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) || len(many.Unwrap()) != 8 {
		t.Errorf("error = %v", err)
	}
	for _, much := range []string{strings.Repeat("//\n", maxProtoFile), strings.Repeat("/", maxProtoLine+1)} {
		write(t, dir, "tools/bad.proto", much)
		if _, err = openBy(new(Kit), tool.Env{Dir: dir}, "host: x:1"); err == nil || !strings.Contains(err.Error(), "bytes") {
			t.Errorf("error = %v", err)
		}
	}
}

func TestImports(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "shared/common/part.proto", `syntax = "proto3"; package common; message Part { string x = 1; }`)
	write(t, dir, "api/svc.proto", `syntax = "proto3"; package svc; import "common/part.proto"; service Svc { rpc Do(common.Part) returns (common.Part); }`)
	s := open(t, tool.Env{Dir: dir}, "host: x:1\nprotos: ['api/*.proto', api/svc.proto]\nimports: [shared]")
	if a := announce(t, s); len(a.Specs) != 1 || len(s.Files()) != 2 {
		t.Errorf("announced %v, files %v", namesOf(a.Specs), s.Files())
	}
}
