package tool

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/test/must"
)

// untyped is a tool that does not come from New.
type untyped struct {
	spec Spec
	got  []string
}

func (p *untyped) Spec() Spec { return p.spec }
func (p *untyped) Call(_ context.Context, in Invocation) (Result, error) {
	p.got = append(p.got, string(in.Args))
	return Text("ran"), nil
}

type settling struct{ *untyped }

func (s settling) Settle(context.Context, Invocation) (bool, Result, error) {
	return true, Text("it happened"), nil
}

func named(name string) *untyped {
	return &untyped{spec: Spec{Name: name, Description: "A tool.", Effect: Query,
		Input: []byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)}}
}

func TestRegistryRefuses(t *testing.T) {
	var r Registry
	must.Do(t, r.Add(named("a.b")))
	with := func(change func(*Spec)) Tool {
		p := named("x.y")
		change(&p.spec)
		return p
	}
	for _, c := range []struct {
		tool Tool
		code string
	}{
		{nil, "tool_missing"},
		{named("a.b"), "tool_conflict"},
		{named(""), "tool_name_invalid"},
		{named("a"), "tool_name_invalid"},
		{named("a."), "tool_name_invalid"},
		{named(".a"), "tool_name_invalid"},
		{named("a..b"), "tool_name_invalid"},
		{named("a__b"), "tool_name_invalid"},
		{named("a__b.c"), "tool_name_invalid"},
		{named("a_.b"), "tool_name_invalid"}, // its wire name a___b would be read as a._b
		{named("A.b"), "tool_name_invalid"},
		{named("a.b-c"), "tool_name_invalid"},
		{named("a.ü"), "tool_name_invalid"},
		{named("a." + strings.Repeat("b", 62)), "tool_name_invalid"},
		{named(strings.Repeat("ü", 200) + ".b"), "tool_name_invalid"},
		{with(func(s *Spec) { s.Description = " \n" }), "tool_description_missing"},
		{with(func(s *Spec) { s.Effect = "" }), "tool_effect_invalid"},
		{with(func(s *Spec) { s.Effect = "write" }), "tool_effect_invalid"},
		{with(func(s *Spec) { s.Delivery = Inline }), "tool_delivery_invalid"},
		{with(func(s *Spec) { s.Effect, s.Delivery = Action, "later" }), "tool_delivery_invalid"},
		{with(func(s *Spec) { s.Timeout = -1 }), "tool_limits_invalid"},
		{with(func(s *Spec) { s.Concurrency = -1 }), "tool_limits_invalid"},
		{with(func(s *Spec) { s.ResultCap = -1 }), "tool_limits_invalid"},
		{with(func(s *Spec) { s.Input = nil }), "tool_schema_invalid"},
		{with(func(s *Spec) { s.Input = []byte(`{"type":"string"}`) }), "tool_schema_invalid"},
		{with(func(s *Spec) { s.Input = []byte(`true`) }), "tool_schema_invalid"},
	} {
		err := r.Add(c.tool)
		if !fault.HasCode(err, c.code) {
			t.Errorf("%+v: %v; want %s", c.tool, err, c.code)
		}
	}
	if got := r.Names(); !slices.Equal(got, []string{"a.b"}) {
		t.Errorf("refused tools are there: %v", got)
	}
	if err := r.Add(named("a." + strings.Repeat("b", 61))); err != nil {
		t.Errorf("64 bytes in wire form: %v", err)
	}
	if err := r.Add(named("a._b")); err != nil {
		t.Error(err)
	}
}

// CheckSpec finds faults deep within a schema. A registered tool reports them when it is called.
func TestBadSchemas(t *testing.T) {
	for _, schema := range []string{``, `null`, `[]`, `{`, `{}`, `{"type":"thing"}`, `{"type":"object"}{}`, `{"type":"object"} x`, `{"type":"object","required":"a"}`,
		`{"type":"object","properties":[]}`, `{"type":"object","properties":{"a":1}}`, `{"type":"object","properties":{"a":{"pattern":"("}}}`,
		`{"type":"object","properties":{"a":{"$ref":"http://example.com/x"}}}`, `{"type":"object","minLength":1.5}`, `{"type":"object","enum":1}`} {
		p := named("a.b")
		p.spec.Input = []byte(schema)
		if _, _, err := CheckSpec(p.spec); !fault.HasCode(err, "tool_schema_invalid") {
			t.Errorf("%s: %v", schema, err)
		}
		var r Registry
		err := r.Add(p)
		if got, ok := r.Get("a.b"); ok {
			_, err = got.Call(t.Context(), Invocation{Args: []byte(`{"n":1}`)})
		}
		if !fault.HasCode(err, "tool_schema_invalid") {
			t.Errorf("%s is called: %v", schema, err)
		}
	}
}

func TestWireNamesOfRegisteredToolsAreReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Registry
		wire := map[string]string{}
		for _, n := range rapid.SliceOfN(rapid.StringMatching(`[a_]{1,3}(\.[a_]{1,3}){1,2}`), 1, 20).Draw(t, "names") {
			if r.Add(named(n)) != nil {
				continue
			}
			if FromWire(WireName(n)) != n {
				t.Fatalf("%s comes back as %s", n, FromWire(WireName(n)))
			}
			if other, taken := wire[WireName(n)]; taken {
				t.Fatalf("%s and %s have one wire name", n, other)
			}
			wire[WireName(n)] = n
		}
	})
}

func TestRegistryGetAndSpecs(t *testing.T) {
	var r Registry
	if _, ok := r.Get("a.b"); ok {
		t.Error("the empty registry has a tool")
	}
	for _, n := range []string{"m.c", "a.z", "m.a", "b.b"} {
		must.Do(t, r.Add(named(n)))
	}
	names := func(specs []Spec) (out []string) {
		for _, s := range specs {
			out = append(out, s.Name)
		}
		return out
	}
	if got := names(r.Specs()); !slices.Equal(got, []string{"a.z", "b.b", "m.a", "m.c"}) {
		t.Error(got)
	}
	got, ok := r.Get("m.a")
	if !ok || got.Spec().Name != "m.a" || got.Spec().Version == "" {
		t.Errorf("%+v, %v", got, ok)
	}
	before := r.Names()
	if !r.Remove("m.a") || r.Remove("m.a") {
		t.Error("Remove")
	}
	if len(before) != 4 || before[2] != "m.a" {
		t.Error("a list that was handed out has changed")
	}
	if _, ok := r.Get("m.a"); ok {
		t.Error("a removed tool is still there")
	}
}

func TestVersionFollowsTheDefinition(t *testing.T) {
	version := func(change func(*Spec)) string {
		p := named("a.b")
		change(&p.spec)
		s, _, err := CheckSpec(p.spec)
		must.Do(t, err)
		return s.Version
	}
	base := version(func(*Spec) {})
	if base != version(func(s *Spec) { s.Timeout = time.Second }) {
		t.Error("a limit changes the version")
	}
	for i, change := range []func(*Spec){
		func(s *Spec) { s.Description = "Another." },
		func(s *Spec) { s.Input = []byte(`{"type":"object"}`) },
		func(s *Spec) { s.Effect = Action },
		func(s *Spec) { s.Version = "7" },
	} {
		if version(change) == base {
			t.Errorf("change %d keeps the version", i)
		}
	}
}

// Aliases name the real tools in lists, unless a tool has the name itself.
func TestAliases(t *testing.T) {
	with := func(names ...string) *Registry {
		var r Registry
		for _, n := range names {
			must.Do(t, r.Add(named(n)))
		}
		return &r
	}
	own := with("web.search", "web.fetch", "weather.forecast", "notify.send", "memory.save", "memory.search")
	for _, c := range []struct{ patterns, want string }{
		{"search.web_search", "web.search"}, {"search", "web.fetch web.search"}, {"notification", "notify.send"},
		{"weather.get_forecast", "weather.forecast"}, {"weather", "weather.forecast"}, {"memory", "memory.save memory.search"}, {"save_memory", "memory.save"}, {"search_memories", "memory.search"}, {"timer", ""},
		{"web.* !search.web_search", "web.fetch"},
	} {
		var names []string
		for _, s := range must.Get(own.Select(strings.Fields(c.patterns)...)) {
			names = append(names, s.Name)
		}
		if got := strings.Join(names, " "); got != c.want || !own.Knows(strings.Fields(c.patterns)[0]) {
			t.Errorf("%s: %s, want %s", c.patterns, got, c.want)
		}
	}
	for _, missing := range []string{"calendar.create_event", "smart_home.light", "web"} {
		if _, err := own.Select(missing); !fault.HasCode(err, "tool_unknown") || own.Knows(missing) {
			t.Errorf("%s: %v", missing, err)
		}
	}
	if got := must.Get(with("memory.recall", "notes.append").Select("memory.*")); len(got) != 1 || got[0].Name != "memory.recall" {
		t.Errorf("a server's own tools: %v", got)
	}
}

func TestSelect(t *testing.T) {
	var r Registry
	for _, n := range []string{"math.add", "math.sub", "files.read", "files.write", "home.light.on"} {
		must.Do(t, r.Add(named(n)))
	}
	for _, c := range []struct {
		patterns string
		want     string
	}{
		{"", "files.read files.write home.light.on math.add math.sub"},
		{"*", "files.read files.write home.light.on math.add math.sub"},
		{"math.add", "math.add"},
		{"math.* files.read", "files.read math.add math.sub"},
		{"home.*", "home.light.on"},
		{"*.on", "home.light.on"},
		{"files.* !files.write", "files.read"},
		{"!files.*", "home.light.on math.add math.sub"},
		{"math.* !math.* math.add", "math.add"},
		{"nothing.*", ""},
		{"math.add !not.there", "math.add"},
	} {
		got, err := r.Select(strings.Fields(c.patterns)...)
		var names []string
		for _, s := range got {
			names = append(names, s.Name)
		}
		if err != nil || strings.Join(names, " ") != c.want {
			t.Errorf("Select(%s) = %v, %v; want %s", c.patterns, names, err, c.want)
		}
	}
	_, err := r.Select("math.ad")
	if !fault.HasCode(err, "tool_unknown") || !strings.Contains(err.Error(), "did you mean math.add") {
		t.Error(err)
	}
	if _, err = r.Select("zzzzzzzzzz.qqqqqqqqqqqqq"); !fault.HasCode(err, "tool_unknown") {
		t.Error(err)
	}
	if _, err := r.Select("[a"); !fault.HasCode(err, "tool_pattern_invalid") {
		t.Error(err)
	}
}

func TestRegistryChecksForToolsThatDoNot(t *testing.T) {
	var r Registry
	p := named("a.b")
	must.Do(t, r.Add(settling{p}))
	got, _ := r.Get("a.b")
	if err := got.(Checker).Check([]byte(`{"n":"x"}`)); !fault.HasCode(err, "args_invalid") {
		t.Error(err)
	}
	ctx := context.Background()
	for _, bad := range []string{`{"n":"x"}`, `{"n":1,"n":1}`} {
		if _, err := got.Call(ctx, Invocation{Args: []byte(bad)}); !fault.HasCode(err, "args_invalid") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	must.Get(got.Call(ctx, Invocation{Args: []byte(`{ "n" : 1.0 }`)}))
	must.Get(got.Call(ctx, Invocation{Args: []byte(`{"n":2}`)}.Checked()))
	if !slices.Equal(p.got, []string{`{"n":1}`, `{"n":2}`}) {
		t.Errorf("the tool got %v", p.got)
	}
	s, ok := SettlerOf(got)
	if !ok {
		t.Fatal("the settler is hidden")
	}
	if happened, _, err := s.Settle(ctx, Invocation{}); !happened || err != nil {
		t.Error(happened, err)
	}
	if _, ok := SettlerOf(named("a.b")); ok {
		t.Error("a plain tool settles")
	}
	if _, ok := SettlerOf(nil); ok {
		t.Error("no tool settles")
	}
	must.Do(t, r.Add(mustNew(t, "c.d", func(context.Context, Invocation, sample) (string, error) { return "", nil })))
	got, _ = r.Get("c.d")
	if err := got.(Checker).Check([]byte(`{"count":0}`)); err == nil {
		t.Error("the tool's own check is not used")
	}
}

func TestRegistryIsSafeForConcurrentUse(t *testing.T) {
	var r Registry
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				name := fmt.Sprintf("g%d.t%d", g, i)
				if err := r.Add(named(name)); err != nil {
					t.Error(err)
				}
				if _, ok := r.Get(name); !ok {
					t.Errorf("%s is not there", name)
				}
				must.Get(r.Select(fmt.Sprintf("g%d.*", g)))
				_ = r.Specs()
			}
		})
	}
	wg.Wait()
	if n := len(r.Names()); n != 400 || !slices.IsSorted(r.Names()) {
		t.Errorf("%d tools", n)
	}
}

func TestNear(t *testing.T) {
	names := []string{"math.multiply", "math.add", "files.read", "time.now"}
	for _, c := range []struct {
		name string
		want []string
	}{
		{"math.multipy", []string{"math.multiply"}},
		{"math__multiply", []string{"math.multiply"}},
		{"multiply", []string{"math.multiply"}},
		{"file.read", []string{"files.read"}},
		{"fiels.read", []string{"files.read"}},
		{"weather.forecast", []string{}},
	} {
		if got := SimilarNames(c.name, names, 1); !reflect.DeepEqual(got, c.want) {
			t.Errorf("Near(%s) = %v; want %v", c.name, got, c.want)
		}
	}
}

func TestValidatorKeywords(t *testing.T) {
	v, err := NewValidator([]byte(`{"$schema":"http://json-schema.org/draft-07/schema","type":"object",
		"definitions":{"p":{"type":"integer","multipleOf":5}},
		"properties":{
			"ref":{"$ref":"#/definitions/p"},
			"const":{"const":"x"},
			"more":{"exclusiveMinimum":1,"exclusiveMaximum":3},
			"any":{"anyOf":[{"type":"string"},{"type":"integer"}]},
			"all":{"allOf":[{"type":"string"},{"minLength":2}]},
			"union":{"type":["string","null"]},
			"free":{"type":"object","properties":{}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for args, says := range map[string]string{
		`{"ref":3}`:      "ref: expected a multiple of 5, got 3",
		`{"const":"y"}`:  `const: expected "x", got "y"`,
		`{"more":1}`:     "more: expected more than 1, got 1",
		`{"more":3}`:     "more: expected less than 3, got 3",
		`{"any":true}`:   "any", // the library's own words
		`{"all":"x"}`:    "all: expected at least 2 characters",
		`{"union":1}`:    "union: expected string or null, got integer 1",
		`{"free":false}`: "free: expected object, got boolean false",
		`{"a":`:          "not valid JSON",
	} {
		if err := v.Validate([]byte(args)); !fault.HasCode(err, "args_invalid") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", args, err, says)
		}
	}
	if err := v.Validate([]byte(`{"ref":10,"const":"x","more":2,"any":"s","all":"xx","union":null,"free":{"x":1},"other":1}`)); err != nil {
		t.Error(err)
	}
	v = must.Get(NewValidator([]byte(`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","$defs":{"d":{"type":"boolean"}},"properties":{"b":{"$ref":"#/$defs/d"},"t":{"prefixItems":[{"type":"string"}]},"u":{"$ref":"#/properties/b"}},"additionalProperties":false}`)))
	for args, says := range map[string]string{
		`{"b":1}`:   "b: expected boolean",
		`{"t":[1]}`: "t[0]: expected string",
		`{"u":1}`:   "boolean",
	} {
		if err := v.Validate([]byte(args)); !fault.HasCode(err, "args_invalid") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", args, err, says)
		}
	}
	empty := must.Get(NewValidator([]byte(`{"type":"object","additionalProperties":false}`)))
	if err := empty.Validate([]byte(`{"x":1}`)); err == nil || !strings.Contains(err.Error(), "takes no arguments") {
		t.Error(err)
	}
}

func TestAddFrom(t *testing.T) {
	mk := func(name string) Tool {
		x, err := New(Spec{Name: name, Description: "It says its name.", Effect: Query},
			func(context.Context, Invocation, struct{}) (string, error) { return name, nil })
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	var a, b Registry
	for _, name := range []string{"one.say", "two.say", "three.say"} {
		must.Do(t, a.Add(mk(name)))
	}
	must.Do(t, b.AddFrom(&a, "one.say", "three.say"))
	from, _ := a.Get("one.say")
	if got, ok := b.Get("one.say"); !ok || got != from {
		t.Error("it does not stand there as it does in the other registry")
	}
	if got := b.Names(); !slices.Equal(got, []string{"one.say", "three.say"}) {
		t.Errorf("names: %v", got)
	}
	if err := b.AddFrom(&a, "two.say", "one.say"); !fault.HasCode(err, "tool_conflict") {
		t.Errorf("a name twice: %v", err)
	}
	if _, ok := b.Get("two.say"); !ok {
		t.Error("what stands before the conflict was not added")
	}
	if err := b.AddFrom(&a, "four.say"); !fault.HasCode(err, "tool_unknown") {
		t.Errorf("a name that is not there: %v", err)
	}
}
