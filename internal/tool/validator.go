package tool

import (
	"encoding/json"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"

	"steward/internal/fault"
)

// Validator checks arguments against a compiled schema. Safe for concurrent use.
type Validator struct {
	schema   *jsonschema.Schema
	resolved *jsonschema.Resolved
	refers   any // the decoded schema, if it has references; see checkEffort

	later func() (*Validator, error) // compiles a validator at its first use; nil: it is compiled
}

// compiled returns the validator after compiling its schema if necessary.
func (v *Validator) compiled() (*Validator, error) {
	if v.later == nil {
		return v, nil
	}
	return v.later()
}

// NewValidator compiles an object schema (JSON Schema, draft 7 or 2020-12). References to other
// documents are refused, never fetched. Errors: Invalid, code tool_schema_invalid.
func NewValidator(schema []byte) (*Validator, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, badSchema("%w", err)
	}
	if s.Type != "object" {
		return nil, badSchema(`its type is not "object"`)
	}
	refers, err := referring(schema)
	if err != nil {
		return nil, badSchema("%w", err)
	}
	s.Schema = draft(s.Schema)
	r, err := s.Resolve(nil)
	if err != nil {
		return nil, badSchema("%w", err)
	}
	return &Validator{schema: &s, resolved: r, refers: refers}, nil
}

func badSchema(format string, args ...any) error {
	return fault.New(fault.Invalid, "tool_schema_invalid", "the input schema is invalid: "+format, args...).
		WithHint(`give a JSON Schema with "type": "object"`)
}

// draft maps the spellings of $schema in use to those that the validator knows. Other drafts are read
// as 2020-12, with which they share the common keywords.
func draft(uri string) string {
	if strings.Contains(uri, "draft-07") {
		return "http://json-schema.org/draft-07/schema#"
	}
	return ""
}

// admit makes the arguments of a call canonical and checks them, unless that was done before.
func (v *Validator) admit(in *Invocation) (err error) {
	if in.checked {
		return nil
	}
	if in.Args, err = Canonical(in.Args); err != nil {
		return err
	}
	return v.Validate(in.Args)
}

// Validate checks that the arguments are one JSON object that the schema admits. The error (Invalid,
// code args_invalid) states what to correct: the path, what was expected, and what came.
// Arguments that would take too long to check are refused, too (TooLarge, args_too_complex).
func (v *Validator) Validate(args []byte) error {
	v, err := v.compiled()
	if err != nil {
		return err
	}
	var val any
	if err := jsonv2.Unmarshal(args, &val); err != nil {
		return badJSON(args, err)
	}
	if s, ok := val.(string); ok && strings.HasPrefix(strings.TrimSpace(s), "{") {
		return fault.New(fault.Invalid, "args_invalid", "the arguments are a string that holds JSON").
			WithHint("send the object itself, not quoted")
	}
	if err := checkEffort(v.refers, val, len(args)); err != nil {
		return err
	}
	if err = v.resolved.Validate(val); err == nil {
		return nil
	}
	faults := explain(v.schema, val)
	if len(faults) == 0 {
		faults = []string{Clip(err.Error(), 500)}
	}
	return fault.New(fault.Invalid, "args_invalid", "the arguments do not fit: %s", strings.Join(faults, "; ")).
		Detail("faults", faults).WithHint("fix these and call the tool again")
}
