package resource_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	_ "steward/test/seed"
)

// typeName and idText generate the types and ids of elements, including ids that
// look like something else.
var typeName = rapid.OneOf(
	rapid.SampledFrom([]string{"common.Conversation", "common.Message", "plan.Task", "llm.Usage"}),
	rapid.StringMatching(`([a-z0-9_][a-zA-Z0-9_]{0,5}\.){1,3}[A-Z][A-Za-z0-9_]{0,6}`),
)

var idText = rapid.OneOf(
	rapid.Just("0198c9a2-7f3e-7b11-8c7e-5a3f1d2b4c6d"),
	rapid.Just("0198C9A2-7F3E-7B11-8C7E-5A3F1D2B4C6D"),
	rapid.SampledFrom([]string{"a", "ab", "common.Message.1", ".", "é", "\xf0\x9f\x98\x80", "\x01", "a:b?c#d"}),
	rapid.StringMatching(`[^/\x00]{1,40}`),
)

func uris() *rapid.Generator[resource.URI] {
	return rapid.Custom(func(t *rapid.T) resource.URI {
		var u resource.URI
		for range rapid.IntRange(0, 5).Draw(t, "depth") {
			u = u.Child(typeName.Draw(t, "type"), idText.Draw(t, "id"))
		}
		return u
	})
}

func TestTextAndKeyAreTheSameURI(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := uris().Draw(t, "uri")
		if got, err := resource.Parse(u.String()); err != nil || got != u {
			t.Fatalf("%s is read as %s, %v", u, got, err)
		}
		if got, err := resource.FromKey(u.Key()); err != nil || got != u {
			t.Fatalf("the key of %s is read as %s, %v", u, got, err)
		}
		b, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		var back resource.URI
		if err := json.Unmarshal(b, &back); err != nil || back != u {
			t.Fatalf("%s is read as %s, %v", b, back, err)
		}
	})
}

func TestPaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := uris().Draw(t, "uri")
		typ, name := typeName.Draw(t, "type"), idText.Draw(t, "id")
		c := u.Child(typ, name)
		if c.Type() != typ || c.ID() != name || c.Last() != (resource.Element{Type: typ, ID: name}) {
			t.Fatalf("the last step of %s is %v", c, c.Last())
		}
		if c.Parent() != u || !c.Under(u) || !c.Under(c) || u.Under(c) || c.Zero() {
			t.Fatalf("%s and its child %s", u, c)
		}
		if got := c.Elements(); len(got) != len(u.Elements())+1 || got[len(got)-1] != c.Last() {
			t.Fatalf("the steps of %s are %v", c, got)
		}
		if got, ok := c.Find(typ); !ok || got != c {
			t.Fatalf("Find(%s) in %s is %s, %v", typ, c, got, ok)
		}
		if _, ok := c.Find("no.Such"); ok {
			t.Fatal("found what is not there")
		}
	})
}

// A key is a prefix of another key exactly if the other resource lies below its own.
// Prefix scans rely on this.
func TestAKeyIsAPrefixOfItsDescendantsOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := uris().Draw(t, "a"), uris().Draw(t, "b")
		if rapid.Bool().Draw(t, "related") {
			b = a.Child(typeName.Draw(t, "type"), idText.Draw(t, "id"))
		}
		ancestor := false
		for x := b; ; x = x.Parent() {
			ancestor = ancestor || x == a
			if x.Zero() {
				break
			}
		}
		if got := bytes.HasPrefix(b.Key(), a.Key()); got != ancestor || b.Under(a) != ancestor {
			t.Fatalf("%s below %s: %v, want %v", b, a, got, ancestor)
		}
		for _, e := range b.Key()[:min(1, len(b.Key()))] {
			if e == 0xff {
				t.Fatalf("the key %x begins with ff", b.Key())
			}
		}
	})
}

func TestRoot(t *testing.T) {
	var root resource.URI
	if !root.Zero() || root.String() != "cld:" || root.Parent() != root || root.Type() != "" || root.ID() != "" || len(root.Elements()) != 0 {
		t.Errorf("the root: %s", root)
	}
	if got, err := resource.Parse("cld:"); err != nil || got != root {
		t.Errorf("Parse: %v, %v", got, err)
	}
	conv := resource.Root("common.Conversation", "c")
	msg := conv.Child("common.Interaction", "i").ChildID("common.Message", id.Derive("m"))
	if got, ok := msg.Find("common.Conversation"); !ok || got != conv {
		t.Errorf("Find: %s, %v", got, ok)
	}
	nested := resource.Root("plan.Task", "1").Child("plan.Task", "2").Child("common.Message", "m")
	if got, _ := nested.Find("plan.Task"); got.ID() != "2" {
		t.Errorf("the nearest task is %s", got)
	}
	if got := msg.String(); got != "cld:common.Conversation.c/common.Interaction.i/common.Message."+id.Derive("m").String() {
		t.Errorf("String: %s", got)
	}
	if n := len(conv.ChildID("common.Message", id.New()).Key()); n > 24 {
		t.Errorf("a well-known type and a UUID take %d bytes", n)
	}
}

// Existing databases contain the keys: they must never change. The types with a
// code of one byte are in the order of their codes; a new one comes last.
func TestKeysStayAsTheyAre(t *testing.T) {
	for i, typ := range []string{
		"common.Conversation", "common.Interaction", "common.Message", "common.Branch",
		"agent.Run", "agent.Agent", "effect.Intent", "effect.Approval",
		"tool.Tool", "tool.Overflow", "plan.Plan", "plan.Task",
		"identity.User", "identity.Key", "identity.Group", "common.Request",
		"llm.Usage", "common.Mark", "common.Pin",
	} {
		if got, want := string(resource.Root(typ, "x").Key()), string([]byte{byte(i + 1)})+"\x02x\x00"; got != want {
			t.Errorf("the key of a %s is %q, want %q", typ, got, want)
		}
	}
	for want, u := range map[string]resource.URI{
		"\x01\x02c\x00": resource.Root("common.Conversation", "c"),
		"\x7fa.B\x00\x02x\x00\x03\x01\x01\x98\xc9\xa2\x7f\x3e\x7b\x11\x8c\x7e\x5a\x3f\x1d\x2b\x4c\x6d": resource.Root("a.B", "x").
			Child("common.Message", "0198c9a2-7f3e-7b11-8c7e-5a3f1d2b4c6d"),
		"\x7fcommon.Trust\x00\x02m\x00": resource.Root("common.Trust", "m"), // without a code, as all later types until they are listed above
	} {
		if got := string(u.Key()); got != want {
			t.Errorf("the key of %s is %q, want %q", u, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		in string
		at int
	}{
		{"", 0},
		{"http://x", 0},
		{"CLD:common.Message.1", 0},
		{"cld:x", 5},
		{"cld:common.Message", 18},
		{"cld:common.Message.", 19},
		{"cld:Message.1", 4},
		{"cld:common.message.1", 20},
		{"cld:common..Message.1", 4},
		{"cld:com-mon.Message.1", 4},
		{"cld:common.Me$sage.1", 4},
		{"cld:.Message.1", 4},
		{"cld:common.Message.1/", 21},
		{"cld:common.Message.1//common.Message.2", 21},
		{"cld:common.Message.1/x", 22},
		{"cld:common.Message.a\x00b", 19},
		{"cld:common.Message.\xff", 19},
		{"cld:common.Message." + strings.Repeat("x", 513), 19},
	} {
		u, err := resource.Parse(c.in)
		if !fault.HasCode(err, "uri_invalid") || !u.Zero() {
			t.Errorf("Parse(%.60q) = %s, %v", c.in, u, err)
			continue
		}
		if got := fault.Of(err).Details["position"]; got != c.at {
			t.Errorf("Parse(%.60q): the fault is at %v, want %d: %v", c.in, got, c.at, err)
		}
		if len(err.Error()) > 1200 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		keep := resource.Root("a.B", "c")
		if err := keep.UnmarshalText([]byte(c.in)); err == nil || keep != resource.Root("a.B", "c") {
			t.Errorf("UnmarshalText(%.60q) leaves %s, %v", c.in, keep, err)
		}
	}
}

func TestChildPanicsOnWhatParseRefuses(t *testing.T) {
	for _, c := range [][2]string{{"x", "1"}, {"", "1"}, {"common.message", "1"}, {"a.B", ""}, {"a.B", "x/y"}, {"a.B", "\x00"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Child(%q) did not panic", c)
				}
			}()
			resource.Root(c[0], c[1])
		}()
	}
}

func TestFromKeyRefuses(t *testing.T) {
	uuid := id.Derive("x")
	for _, key := range []string{
		"\x00", "\x12", "\xff", "\x01", "\x01\x03", "\x01\x01short", "\x01\x02open", "\x01\x02\x00", "\x7f", "\x7fa.B", "\x7fab\x00\x02x\x00",
		"\x01\x02a/b\x00", "\x01\x02c\x00\x00",
		// Other encodings of existing keys.
		"\x7fcommon.Conversation\x00\x02c\x00",
		"\x01\x02" + uuid.String() + "\x00",
	} {
		if u, err := resource.FromKey([]byte(key)); !fault.HasCode(err, "uri_key_broken") {
			t.Errorf("FromKey(%q) = %s, %v", key, u, err)
		}
	}
}

func TestMetadata(t *testing.T) {
	if got := (resource.Metadata{}).Description(); got != "" {
		t.Errorf("nothing is described as %q", got)
	}
	m := resource.Metadata{Purpose: "p", Instructions: "i", Applicability: "a", Evaluation: "e"}
	if got := m.Description(); got != "p\na\ni\ne" {
		t.Errorf("Description = %q", got)
	}
	m = resource.Metadata{Instructions: "i", Evaluation: "e"}
	if got := m.Description(); got != "i\ne" {
		t.Errorf("Description = %q", got)
	}
	if resource.UserSpace("ann") != "user:ann" {
		t.Error("UserSpace")
	}
}

// FuzzParse: a URI has one text form and one key.
func FuzzParse(f *testing.F) {
	f.Add("cld:common.Conversation.0198c9a2-7f3e-7b11-8c7e-5a3f1d2b4c6d/common.Message.x")
	f.Add("cld:a.b.C.d.E.f/x_1.Y2.z")
	f.Add("cld:")
	f.Add("cld:common.Message.1/")
	f.Fuzz(func(t *testing.T, s string) {
		u, err := resource.Parse(s)
		if err != nil {
			if !fault.HasCode(err, "uri_invalid") {
				t.Fatal(err)
			}
			return
		}
		if u.String() != s {
			t.Fatalf("%q is read as %q", s, u)
		}
		if again, err := resource.FromKey(u.Key()); err != nil || again != u {
			t.Fatalf("%q: %v, %v", s, again, err)
		}
	})
}

// FuzzFromKey: if FromKey accepts a key, Key returns the same key.
func FuzzFromKey(f *testing.F) {
	f.Add(resource.Root("common.Conversation", "c").ChildID("a.B", id.Derive("x")).Key())
	f.Add([]byte("\x7fcommon.Conversation\x00\x02c\x00"))
	f.Fuzz(func(t *testing.T, key []byte) {
		u, err := resource.FromKey(key)
		if err != nil {
			return
		}
		if again, err := resource.Parse(u.String()); err != nil || !slices.Equal(again.Key(), key) {
			t.Fatalf("%q is read as %s: %v", key, u, err)
		}
	})
}
