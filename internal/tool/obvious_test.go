package tool

import (
	"fmt"
	"reflect"
	"testing"
)

// goodSchemas are taken, the first ones obviously.
var goodSchemas = []struct {
	schema  string
	obvious bool
}{
	{`{"type":"object"}`, true},
	{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","title":"t","description":"d","properties":{},"required":[],"additionalProperties":false}`, true},
	{`{"type":"object","properties":{"a":{"type":"string","minLength":1,"maxLength":9,"format":"date-time","default":null},
		"b":{"type":"array","minItems":0,"maxItems":3,"items":{"type":"integer","minimum":-1.5,"maximum":10,"enum":[1,"x",{"y":[]}]}},
		"c":{"description":"anything"},"d":{"type":"object","additionalProperties":{"type":"boolean"}}},"required":["a","b"]} `, true},
	{`{"type":"object","minimum":1e3}`, false},
	{`{"type":"object","properties":{"a":{"type":["string","null"]},"b":true,"c":{"$ref":"#/properties/a"},"d":{"pattern":"^a+$"}}}`, false},
	{`{"type":"object","properties":{"a":{"$schema":"x"}}}`, false},
	{`{"type":"object","x-own":1}`, false},
}

// badSchemas are refused, by Add too.
var badSchemas = []string{
	``, `null`, `[]`, `true`, `"x"`, `{`, `{}`, `{"type":"string"}`, `{"type":"thing"}`, `{"type":null}`, `{"type":"object"}{}`, `{"type":"object"},`, `{"type":"object"} x`,
	`{"type":"object","required":"a"}`, `{"type":"object","required":[1]}`, `{"type":"object","required":["a"`, `{"type":"object","properties":[]}`,
	`{"type":"object","properties":{"a":1}}`, `{"type":"object","properties":{"a":{"pattern":"("}}}`, `{"type":"object","minLength":1.5}`,
	`{"type":"object","minLength":"1"}`, `{"type":"object","minimum":"1"}`, `{"type":"object","description":1}`, `{"type":"object","items":7}`,
	`{"type":"object","additionalProperties":"no"}`, `{"type":"object","enum":1}`, `{"type":"object","enum":[1`, `{"type":"object","properties":{"a":{}`,
	`{"type":"object","$ref":"https://x.example/schema"}`, `{"type":"object","default":}`, `{"type":1}`, `{"type":"object","title":`,
}

func TestObvious(t *testing.T) {
	for _, c := range goodSchemas {
		if got := obvious([]byte(c.schema)); got != c.obvious {
			t.Errorf("%s: obvious is %v", c.schema, got)
		}
		if _, err := NewValidator([]byte(c.schema)); err != nil {
			t.Errorf("%s: %v", c.schema, err)
		}
	}
	for _, s := range badSchemas {
		_, err := NewValidator([]byte(s))
		if obvious([]byte(s)) || err == nil {
			t.Errorf("%s is taken", s)
		}
	}
	deep := `{"type":"object"}`
	for range maxDepth + 2 {
		deep = fmt.Sprintf(`{"type":"object","properties":{"a":%s}}`, deep)
	}
	if obvious([]byte(deep)) {
		t.Error("it goes down without end")
	}
}

// TestLazyValidators: one that is compiled later says what one says that is
// compiled at once.
func TestLazyValidators(t *testing.T) {
	for _, c := range goodSchemas {
		now, err := NewValidator([]byte(c.schema))
		if err != nil {
			t.Fatal(err)
		}
		later, err := lazyValidator([]byte(c.schema))
		if err != nil || (later.later != nil) != c.obvious {
			t.Fatalf("%s: %v", c.schema, err)
		}
		for _, args := range []string{`{}`, `{"a":"x","b":[1]}`, `{"a":1}`, `[]`, `{"z":1}`} {
			if got, want := later.Validate([]byte(args)), now.Validate([]byte(args)); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s: %v, not %v", c.schema, args, got, want)
			}
		}
		if later.has("a") != now.has("a") || later.has("") {
			t.Errorf("%s: has differs", c.schema)
		}
	}
	broken := &Validator{later: func() (*Validator, error) { return NewValidator(nil) }}
	if broken.Validate([]byte(`{}`)) == nil || broken.has("a") {
		t.Error("one that cannot be compiled admits something")
	}
}
