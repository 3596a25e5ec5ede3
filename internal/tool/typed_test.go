package tool

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/test/must"
)

type level string

func (level) JSONSchema() string { return `{"type":"string","enum":["low","high"]}` }

type inner struct {
	Name string `json:"name" jsonschema:"whose" minlen:"2" maxlen:"5" pattern:"^[a-z]+$"`
}

type sample struct {
	Count  int            `json:"count" jsonschema:"how many" min:"1" max:"10"`
	Mode   string         `json:"mode,omitzero" enum:"fast,slow" default:"fast"`
	Level  level          `json:"level,omitzero"`
	Tags   []string       `json:"tags,omitzero" minlen:"1" maxlen:"2"`
	Inner  *inner         `json:"inner,omitzero"`
	Many   []inner        `json:"many,omitempty"`
	By     map[string]int `json:"by,omitzero"`
	Share  float64        `json:"share,omitzero" enum:"0.5,1"`
	Hidden string         `json:"-"`
}

func mustNew[In, Out any](t testing.TB, name string, fn func(context.Context, Invocation, In) (Out, error)) Tool {
	t.Helper()
	tl := must.Get(New(Spec{Name: name, Description: "A tool.", Effect: Query}, fn))
	return tl
}

func TestSchemaFromTypes(t *testing.T) {
	got := must.Get(SchemaFor(reflect.TypeFor[sample]()))
	want := `{"type":"object","properties":{` +
		`"count":{"type":"integer","description":"how many","minimum":1,"maximum":10},` +
		`"mode":{"type":"string","default":"fast","enum":["fast","slow"]},` +
		`"level":{"type":"string","enum":["low","high"]},` +
		`"tags":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":2},` +
		`"inner":{"type":"object","properties":{"name":{"type":"string","description":"whose","minLength":2,"maxLength":5,"pattern":"^[a-z]+$"}},"required":["name"],"additionalProperties":false},` +
		`"many":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string","description":"whose","minLength":2,"maxLength":5,"pattern":"^[a-z]+$"}},"required":["name"],"additionalProperties":false}},` +
		`"by":{"type":"object","additionalProperties":{"type":"integer"}},` +
		`"share":{"type":"number","enum":[0.5,1]}},` +
		`"required":["count"],"additionalProperties":false}`
	if !sameValue(t, got, []byte(want)) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !strings.HasPrefix(string(got), `{"type":"object","properties":{"count"`) {
		t.Errorf("members do not stand in the order of the fields: %s", got)
	}
	again, _ := SchemaFor(reflect.TypeFor[sample]())
	if string(again) != string(got) {
		t.Error("the same type gives different bytes")
	}
}

type badLevel string

func (badLevel) JSONSchema() string { return `{` }

func TestSchemaRefuses(t *testing.T) {
	type badMin struct {
		N int `json:"n" min:"x"`
	}
	type badEnum struct {
		N int `json:"n" enum:"1,x"`
	}
	type badLen struct {
		S string `json:"s" minlen:"x"`
	}
	type badDefault struct {
		N int `json:"n" default:"{"`
	}
	type badOwn struct {
		L []badLevel `json:"l"`
	}
	type badType struct {
		C chan int `json:"c"`
	}
	type deep struct {
		M map[string]badMin `json:"m"`
	}
	type deeper struct {
		M [2]*deep `json:"m"`
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[badMin](), reflect.TypeFor[badEnum](), reflect.TypeFor[badLen](),
		reflect.TypeFor[badDefault](), reflect.TypeFor[badOwn](), reflect.TypeFor[badType](), reflect.TypeFor[deeper]()} {
		if _, err := SchemaFor(typ); !fault.HasCode(err, "tool_schema_invalid") {
			t.Errorf("%v: %v", typ, err)
		}
	}
}

func TestArgumentErrorsTellWhatToMend(t *testing.T) {
	tl := mustNew(t, "a.b", func(_ context.Context, _ Invocation, in sample) (string, error) { return "ok", nil })
	for _, c := range []struct {
		args string
		says []string
	}{
		{`{}`, []string{"count: is missing; expected integer (how many)"}},
		{`{"count":"3"}`, []string{`count: expected integer, got string "3"`}},
		{`{"count":0}`, []string{"count: expected at least 1, got 0"}},
		{`{"count":11}`, []string{"count: expected at most 10, got 11"}},
		{`{"count":1.5}`, []string{"count: expected integer, got number 1.5"}},
		{`{"Count":1}`, []string{"count: is missing", "Count: is unknown", "did you mean count?"}},
		{`{"count":1,"mod":"fast"}`, []string{"mod: is unknown; known are by, count", "did you mean mode?"}},
		{`{"count":1,"mode":"Fast"}`, []string{`mode: expected one of ["fast","slow"], got "Fast"`}},
		{`{"count":1,"level":"mid"}`, []string{`level: expected one of`}},
		{`{"count":1,"tags":[]}`, []string{"tags: expected at least 1 items, got 0"}},
		{`{"count":1,"tags":["a","b","c"]}`, []string{"tags: expected at most 2 items, got 3"}},
		{`{"count":1,"tags":["a",2]}`, []string{"tags[1]: expected string, got integer 2"}},
		{`{"count":1,"tags":"a"}`, []string{`tags: expected array, got string "a"`}},
		{`{"count":1,"inner":{"name":"x"}}`, []string{"inner.name: expected at least 2 characters, got 1"}},
		{`{"count":1,"inner":{"name":"toolong"}}`, []string{"inner.name: expected at most 5 characters, got 7"}},
		{`{"count":1,"inner":{"name":"ABC"}}`, []string{"inner.name: expected text that matches"}},
		{`{"count":1,"many":[{"name":"ab"},{}]}`, []string{"many[1].name: is missing; expected string (whose)"}},
		{`{"count":1,"by":{"x":"y"}}`, []string{"by.x: expected integer"}},
		{`{"count":null,"inner":null}`, []string{"count: expected integer, got null", "inner: expected object, got null"}},
		{`[1]`, []string{"the arguments: expected object, got array"}},
		{`"{\"count\":1}"`, []string{"a string that holds JSON", "send the object itself"}},
		{`{"count":1,"count":2}`, []string{"occurs twice"}},
		{`{"count":1} trailing`, []string{"not valid JSON"}},
		{`{"count":true,"mode":false,"tags":{},"by":[]}`, []string{"count:", "mode:", "tags:", "by:"}},
	} {
		_, err := tl.Call(context.Background(), Invocation{Args: []byte(c.args)})
		if !fault.HasCode(err, "args_invalid") {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v\ndoes not say %q", c.args, err, s)
			}
		}
		canon, err := Canonical([]byte(c.args))
		if err == nil && tl.(Checker).Check(canon) == nil {
			t.Errorf("%s: Check admits it", c.args)
		}
	}
	must.Get(tl.Call(context.Background(), Invocation{Args: []byte(`{"count":1,"tags":["a"],"many":[],"by":{}}`)}))
}

func TestFaultsAreBounded(t *testing.T) {
	tl := mustNew(t, "a.b", func(_ context.Context, _ Invocation, in sample) (string, error) { return "ok", nil })
	args := `{"count":1,"many":[` + strings.Repeat(`{},`, 1000) + `{}]}`
	_, err := tl.Call(context.Background(), Invocation{Args: []byte(args)})
	if err == nil || len(err.Error()) > 2000 {
		t.Errorf("%d bytes of error", len(err.Error()))
	}
	_, err = tl.Call(context.Background(), Invocation{Args: []byte(`{"count":"` + strings.Repeat("é", 5000) + `"}`)})
	if err == nil || len(err.Error()) > 1000 {
		t.Errorf("a long value is repeated in full: %d bytes", len(err.Error()))
	}
}

func TestDecodeErrorsOfTheGoType(t *testing.T) {
	tl := mustNew(t, "a.b", func(_ context.Context, _ Invocation, in struct {
		N int64  `json:"n"`
		D picky  `json:"d,omitzero"`
		P *picky `json:"p,omitzero"`
	}) (int64, error) {
		return in.N, nil
	})
	for args, says := range map[string]string{
		`{"n":12345678901234567890}`: "n:",
		`{"n":1,"d":"x"}`:            "picky",
	} {
		if _, err := tl.Call(context.Background(), Invocation{Args: []byte(args)}); !fault.HasCode(err, "args_invalid") && !fault.HasCode(err, "picky") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", args, err)
		}
	}
	strict, err := New(Spec{Name: "a.b", Description: "x", Effect: Action}, func(context.Context, Invocation, struct {
		N int64 `json:"n"`
	}) (string, error) {
		return "", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := strict.(Checker).Check([]byte(`{"n":12345678901234567890}`)); !fault.HasCode(err, "args_invalid") {
		t.Errorf("an action's check admits it: %v", err)
	}
}

type picky string

func (picky) JSONSchema() string { return `{"type":"string"}` }
func (*picky) UnmarshalJSON([]byte) error {
	return fault.New(fault.Invalid, "picky", "picky does not like it")
}

func TestOutputs(t *testing.T) {
	ctx := context.Background()
	call := func(tl Tool) (Result, error) { return tl.Call(ctx, Invocation{Args: []byte(`{}`)}) }
	type none struct{}
	for _, c := range []struct {
		tool Tool
		want string
	}{
		{mustNew(t, "a.b", func(context.Context, Invocation, none) (string, error) { return "a\"b", nil }), `a"b`},
		{mustNew(t, "a.b", func(context.Context, Invocation, none) (map[string]int, error) {
			return map[string]int{"b": 1, "a": 2}, nil
		}), `{"a":2,"b":1}`},
		{mustNew(t, "a.b", func(context.Context, Invocation, none) (Result, error) { return Text("as it is"), nil }), `as it is`},
	} {
		res, err := call(c.tool)
		if err != nil || res.Content[0].(*message.Text).Text != c.want {
			t.Errorf("%+v, %v; want %s", res, err, c.want)
		}
	}
	boom := errors.New("boom")
	if _, err := call(mustNew(t, "a.b", func(context.Context, Invocation, none) (string, error) { return "", boom })); !errors.Is(err, boom) {
		t.Error(err)
	}
	if _, err := call(mustNew(t, "a.b", func(context.Context, Invocation, none) (float64, error) { return math.NaN(), nil })); !fault.HasCode(err, "tool_output_invalid") {
		t.Error(err)
	}
}

func TestToolGetsCanonicalArguments(t *testing.T) {
	var seen string
	tl := mustNew(t, "a.b", func(_ context.Context, in Invocation, _ map[string]int) (string, error) {
		seen = string(in.Args)
		return "", nil
	})
	if _, err := tl.Call(context.Background(), Invocation{Args: []byte(`{"b":1.0, "a":2}`)}); err != nil || seen != `{"a":2,"b":1}` {
		t.Errorf("%s, %v", seen, err)
	}
	if _, err := tl.Call(context.Background(), Invocation{Args: []byte(`{"b":1}`)}.Checked()); err != nil || seen != `{"b":1}` {
		t.Errorf("%s, %v", seen, err)
	}
}

func TestNewRefuses(t *testing.T) {
	fn := func(context.Context, Invocation, sample) (string, error) { return "", nil }
	if _, err := New(Spec{Name: "nodots", Description: "x", Effect: Query}, fn); !fault.HasCode(err, "tool_name_invalid") {
		t.Error(err)
	}
	bad := func(context.Context, Invocation, struct{ C chan int }) (string, error) { return "", nil }
	if _, err := New(Spec{Name: "a.b", Description: "x", Effect: Query}, bad); !fault.HasCode(err, "tool_schema_invalid") {
		t.Error(err)
	}
	own := must.Get(New(Spec{Name: "a.b", Description: "x", Effect: Query, Input: []byte(`{"type":"object","required":["z"]}`)}, fn))
	if err := own.(Checker).Check([]byte(`{}`)); err == nil || !strings.Contains(err.Error(), "z: is missing") {
		t.Errorf("a schema of one's own is not used: %v", err)
	}
}

func TestCertain(t *testing.T) {
	plain := errors.New("plain")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{plain, false},
		{NotDone(plain), true},
		{fault.New(fault.Invalid, "x", "x: %w", NotDone(plain)), true},
		{fault.New(fault.Unavailable, "x", "x"), false},
		{fault.New(fault.Timeout, "x", "x"), false},
		{fault.New(fault.Internal, "x", "x"), false},
		{fault.New(fault.Cancelled, "x", "x"), false},
		{fault.New(fault.Conflict, "x", "x"), true},
		{fault.New(fault.Denied, "x", "x"), true},
		{context.DeadlineExceeded, false},
		{context.Canceled, false},
	} {
		if CertainlyNotDone(c.err) != c.want {
			t.Errorf("Certain(%v) = %v", c.err, !c.want)
		}
	}
	if !errors.Is(NotDone(plain), plain) || NotDone(plain).Error() != "plain" {
		t.Error("NotDone hides the error")
	}
}
