package grpc

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/test/must"
)

// schemaOf returns the schema of a message, indented.
func schemaOf(t testing.TB, in *described, name string) map[string]any {
	t.Helper()
	b := must.Get(new(schemaBuilder).input(messageOf(t, in, name), nil))
	must.Get(tool.NewValidator(b))
	var out map[string]any
	must.Do(t, json.Unmarshal(b, &out))
	return out
}

func messageOf(t testing.TB, in *described, name string) protoreflect.MessageDescriptor {
	t.Helper()
	d := must.Get(in.files.FindDescriptorByName(protoreflect.FullName(name)))
	return d.(protoreflect.MessageDescriptor)
}

func TestSchemaOfEveryKind(t *testing.T) {
	props := schemaOf(t, describing(t, "testdata/kinds.proto"), "kinds.v1.All")["properties"].(map[string]any)
	for name, want := range map[string]string{
		"aDouble":       `{"type":"number"}`,
		"aFloat":        `{"type":"number"}`,
		"anInt32":       `{"type":"integer","minimum":-2147483648,"maximum":2147483647}`,
		"aSfixed32":     `{"type":"integer","minimum":-2147483648,"maximum":2147483647}`,
		"aUint32":       `{"type":"integer","minimum":0,"maximum":4294967295}`,
		"anInt64":       `{"anyOf":[{"type":"integer"},{"type":"string","pattern":"^-?[0-9]+$"}]}`,
		"aUint64":       `{"anyOf":[{"type":"integer","minimum":0},{"type":"string","pattern":"^[0-9]+$"}]}`,
		"aBool":         `{"type":"boolean"}`,
		"aString":       `{"type":"string","description":"What it is called."}`,
		"someBytes":     `{"type":"string","description":"Bytes in base64."}`,
		"colour":        `{"type":"string","description":"How to paint.\nRED: like blood","enum":["COLOUR_UNSPECIFIED","RED","GREEN"]}`,
		"words":         `{"type":"array","items":{"type":"string"}}`,
		"trees":         `{"type":"array","items":{"$ref":"#/$defs/kinds_v1_Tree"}}`,
		"byNumber":      `{"type":"object","description":"The keys are whole numbers.","additionalProperties":{"type":"string"}}`,
		"byBool":        `{"type":"object","description":"The keys are \"true\" and \"false\".","additionalProperties":{"type":"string","description":"How to paint.\nRED: like blood","enum":["COLOUR_UNSPECIFIED","RED","GREEN"]}}`,
		"byName":        `{"type":"object","additionalProperties":{"$ref":"#/$defs/kinds_v1_Tree"}}`,
		"first":         `{"type":"string","description":"The first way.\nGive at most one of first, second."}`,
		"second":        `{"$ref":"#/$defs/kinds_v1_Tree","description":"Give at most one of first, second."}`,
		"at":            `{"type":"string","format":"date-time","description":"A time as 2006-01-02T15:04:05Z."}`,
		"lasts":         `{"type":"string","pattern":"^-?[0-9]+(\\.[0-9]{1,9})?s$","description":"A time span in seconds, as 1.5s."}`,
		"free":          `{"type":"object","description":"Any JSON object."}`,
		"value":         `{"description":"Any JSON value."}`,
		"list":          `{"type":"array","items":{"description":"Any JSON value."}}`,
		"mask":          `{"type":"string","description":"Names of fields in camelCase, with commas between, dots for fields of fields."}`,
		"any":           `{"type":"object","description":"A message of any type: its members, and \"@type\": \"type.googleapis.com/package.Message\"."}`,
		"empty":         `{"type":"object","properties":{},"additionalProperties":false}`,
		"wrappedString": `{"type":"string"}`, "wrappedBool": `{"type":"boolean"}`, "wrappedDouble": `{"type":"number"}`,
		"wrappedInt64": `{"anyOf":[{"type":"integer"},{"type":"string","pattern":"^-?[0-9]+$"}]}`,
		"wrappedBytes": `{"type":"string","description":"Bytes in base64."}`,
		"nullValue":    `{"type":"null"}`,
		"otherName":    `{"type":"string"}`,
		"old":          `{"type":"string","description":"Deprecated."}`,
	} {
		var w any
		if err := json.Unmarshal([]byte(want), &w); err != nil {
			t.Fatal(name, err)
		}
		got := must.Get(json.Marshal(props[name]))
		canon := must.Get(json.Marshal(w))
		if string(got) != string(canon) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, canon)
		}
		delete(props, name)
	}
	for name := range props {
		if !strings.HasPrefix(name, "aS") && !strings.HasPrefix(name, "aF") {
			t.Errorf("%s is not looked at", name)
		}
	}
}

func TestSchemaOfRecursion(t *testing.T) {
	in := describing(t, "testdata/kinds.proto", "testdata/old.proto", "testdata/edition.proto")
	tree := must.Get(new(schemaBuilder).input(messageOf(t, in, "kinds.v1.Tree"), nil))
	def := `"properties":{"name":{"type":"string"},"children":{"type":"array","description":"below it","items":{"$ref":"#/$defs/kinds_v1_Tree"}},"named":{"type":"object","additionalProperties":{"$ref":"#/$defs/kinds_v1_Tree"}}},"additionalProperties":false`
	want := `{"type":"object","description":"A tree.",` + def + `,"required":["name"],"$defs":{"kinds_v1_Tree":{"type":"object","description":"A tree.",` + def + `}}}`
	if string(tree) != want {
		t.Errorf("got  %s\nwant %s", tree, want)
	}
	old := schemaOf(t, in, "old.Question")
	if fmt.Sprint(old["required"]) != "[what]" || fmt.Sprint(old["$defs"].(map[string]any)["old_Question"].(map[string]any)["required"]) != "[what]" {
		t.Errorf("required of proto2: %v", old)
	}
	if got := fmt.Sprint(old["properties"].(map[string]any)["times"], old["properties"].(map[string]any)["mood"]); !strings.Contains(got, "Default: 3.") || !strings.Contains(got, "Default: SAD.") {
		t.Errorf("defaults of proto2: %s", got)
	}
	ed := schemaOf(t, in, "edition.Request")
	if fmt.Sprint(ed["required"]) != "[must implicit]" {
		t.Errorf("required of an edition: %v", ed["required"])
	}
}

// A schema that would get long uses references, and omits deep levels.
func TestSchemaOfMuch(t *testing.T) {
	var b strings.Builder
	b.WriteString(`syntax = "proto3"; package big;`)
	for i := range 30 { // each refers to the next one twice: 2^30 if written out
		fmt.Fprintf(&b, "message M%d { optional string a = 1; optional string b = 2; M%d x = 3; M%d y = 4; }\n", i, i+1, i+1)
	}
	b.WriteString("message M30 { optional string a = 1; }\n")
	b.WriteString("message Wide {")
	for i := range 2000 {
		fmt.Fprintf(&b, "optional string field_number_%d = %d;\n", i, i+1)
	}
	b.WriteString("} message HasWide { Wide wide = 1; string other = 2; }\n enum Many { MANY_ZERO = 0;")
	for i := range 300 {
		fmt.Fprintf(&b, "MANY_%d = %d;\n", i+1, i+1)
	}
	b.WriteString("} message HasMany { Many many = 1; }")
	in := describingText(t, b.String())
	m := schemaOf(t, in, "big.M0")
	if defs := m["$defs"].(map[string]any); len(defs) < 5 || len(defs) > 30 {
		t.Errorf("%d definitions", len(defs))
	}
	if got := schemaOf(t, in, "big.HasWide"); !strings.Contains(fmt.Sprint(got), "its members are not listed here") {
		t.Errorf("a wide message below: %v", got)
	}
	_, err := new(schemaBuilder).input(messageOf(t, in, "big.Wide"), nil)
	if !fault.HasCode(err, "grpc_method_unusable") {
		t.Errorf("a wide message: %v", err)
	}
	if got := fmt.Sprint(schemaOf(t, in, "big.HasMany")); !strings.Contains(got, "such as MANY_ZERO, MANY_1") {
		t.Errorf("many values: %s", got)
	}
}

// Strict providers accept only names of [a-zA-Z0-9_.-]{1,64}.
func TestPropertyNames(t *testing.T) {
	in := describingText(t, `syntax = "proto3"; package n;
		message A { optional string plain = 1 [json_name = "@odd"]; optional string `+strings.Repeat("x", 80)+` = 2; }`)
	if got := fmt.Sprint(schemaOf(t, in, "n.A")["properties"]); got != "map[plain:map[type:string]]" {
		t.Errorf("properties = %s", got)
	}
	in = describingText(t, `syntax = "proto2"; package n; message A { required string `+strings.Repeat("x", 80)+` = 2; }`)
	if _, err := new(schemaBuilder).input(messageOf(t, in, "n.A"), nil); !fault.HasCode(err, "grpc_method_unusable") {
		t.Errorf("a required field without a name: %v", err)
	}
}

func TestShapes(t *testing.T) {
	in := describingText(t, `syntax = "proto3"; package s;
		message A { B b = 1; } message B { C c = 1; D d = 2; } message C { A a = 1; } message D { string x = 1; string y = 2; }
		message E { A a = 1; D d = 2; map<string, E> e = 3; }  message F { D d = 1; }`)
	sh := &shapes{}
	for name, want := range map[string]bool{"A": true, "B": true, "C": true, "D": false, "E": true, "F": false} {
		if got := sh.recursive(messageOf(t, in, "s."+name)); got != want {
			t.Errorf("recursive(%s) = %v", name, got)
		}
	}
	if got := sh.fields(messageOf(t, in, "s.F")); got != 3 {
		t.Errorf("fields = %d", got)
	}
}

func TestDescriptions(t *testing.T) {
	path := protoFile(t, `syntax = "proto3"; package p;
// About the
//   service.
service S {
  rpc Bare(E) returns (E);
  rpc Many(E) returns (stream E);
  // Says `+strings.Repeat("much ", 400)+`
  rpc Long(E) returns (E); // behind
  rpc Behind(E) returns (E); // behind it
}
message E {}`)
	s := open(t, tool.Env{}, "host: x:1\nprotos: ["+path+"]\ndescription: At our house.")
	for _, spec := range announce(t, s).Specs {
		if len(spec.Description) > maxDescription+3 || !strings.HasPrefix(spec.Description, "At our house.\n") {
			t.Errorf("%s: %s", spec.Name, spec.Description)
		}
		want := map[string]string{
			"test.bare":   "Calls Bare of the service p.S with a E.\nThe service: About the\nservice.",
			"test.behind": "behind it",
			"test.many":   "The service: About the\nservice.\nAnswers a list of E.",
			"test.long":   "Says much",
		}[spec.Name]
		if !strings.Contains(spec.Description, want) {
			t.Errorf("%s: %q, want %q", spec.Name, spec.Description, want)
		}
	}
}
