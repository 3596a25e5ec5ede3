package tool

import (
	"fmt"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/test/must"
)

func TestASchemaThatRefersToItselfWithoutEndIsRefused(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object","$ref":"#"}`,
		`{"type":"object","allOf":[{"$ref":"#"}]}`,
		`{"type":"object","anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#/$defs/b"}},"b":{"if":{"$ref":"#/$defs/a"}}}}`,
		`{"type":"object","dependentSchemas":{"x":{"$ref":"#"}}}`,
		multiplying(40),
		`{"type":"object","properties":` + strings.Repeat(`{"a":{"properties":`, 300) + `{}` + strings.Repeat(`}}`, 300) + `}`,
	} {
		if _, err := NewValidator([]byte(schema)); !fault.HasCode(err, "tool_schema_invalid") {
			t.Errorf("%.120s: %v", schema, err)
		}
	}
}

func TestAPartOfASchemaThatRefersToItselfWithoutEndAdmitsNothing(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object","properties":{"x":{"$ref":"#/$defs/a~1b"}},"$defs":{"a/b":{"oneOf":[{"type":"null"},{"$ref":"#/$defs/a~1b"}]}}}`,
		`{"type":"object","properties":{"x":{"$ref":"#loop"}},"$defs":{"l":{"$anchor":"loop","allOf":[{"$ref":"#loop"}]}}}`,
		`{"type":"object","properties":{"x":{"allOf":[{"$ref":"#/properties/x/allOf/0"}]}}}`,
	} {
		v, err := NewValidator([]byte(schema))
		if err == nil {
			err = v.Validate([]byte(`{"x":1}`))
		}
		if !fault.HasCode(err, "args_too_complex") {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

// multiplying returns a schema of n definitions, each of which applies the next one twice.
func multiplying(n int) string {
	var defs []string
	for i := range n {
		defs = append(defs, fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	return fmt.Sprintf(`{"type":"object","$ref":"#/$defs/d0","$defs":{%s,"d%d":{}}}`, strings.Join(defs, ","), n)
}

func TestASchemaOfATreeHolds(t *testing.T) {
	v := must.Get(NewValidator([]byte(`{"type":"object","properties":{"left":{"$ref":"#"},"right":{"$ref":"#"},"tags":{"type":"array","items":{"anyOf":[{"type":"string"},{"$ref":"#"}]}}}}`)))
	if err := v.Validate([]byte(`{"left":{"right":{"tags":["x",{"left":{}}]}}}`)); err != nil {
		t.Error(err)
	}
	if err := v.Validate([]byte(`{"left":{"right":{"tags":[1]}}}`)); err == nil {
		t.Error("a number passed")
	}
	must.Get(NewValidator([]byte(multiplying(8))))
}

// A schema that refers to itself several times below a property takes time that multiplies with each
// level. The cost is computed before the validation.
func TestArgumentsThatTakeTooLongToCheckAreRefused(t *testing.T) {
	nested := func(depth int) []byte {
		return []byte(strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth))
	}
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`,
		`{"type":"object","additionalProperties":{"anyOf":[{"type":"integer"},{"$ref":"#"},{"not":{"$ref":"#"}}]}}`,
		`{"type":"object","patternProperties":{"a":{"$ref":"#/$defs/x"},"^a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":["object","integer"],"patternProperties":{"a":{"$ref":"#/$defs/x"},"^a":{"$ref":"#/$defs/x"}}}}}`,
	} {
		v := must.Get(NewValidator([]byte(schema)))
		if err := v.Validate(nested(5)); fault.HasCode(err, "args_too_complex") {
			t.Errorf("%s: %v", schema, err)
		}
		if err := v.Validate(nested(200)); !fault.HasCode(err, "args_too_complex") {
			t.Errorf("%s: %v", schema, err)
		}
	}
	v := must.Get(NewValidator([]byte(`{"type":"object","properties":{"left":{"$ref":"#"},"right":{"$ref":"#"},"list":{"type":"array","items":{"$ref":"#"}}}}`)))
	long := `{"list":[` + strings.TrimSuffix(strings.Repeat(`{"left":{"list":[{},{}]}},`, 50_000), ",") + `]}`
	for _, args := range []string{long, strings.Repeat(`{"left":`, 500) + `{}` + strings.Repeat("}", 500)} {
		if err := v.Validate([]byte(args)); err != nil {
			t.Errorf("what costs in proportion is refused: %v", err)
		}
	}
}
