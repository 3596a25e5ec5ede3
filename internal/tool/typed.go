package tool

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"

	"steward/internal/fault"
	"steward/internal/strict"
)

// New makes a tool from a Go function. The input schema is derived from the struct In, unless
// spec.Input is set: members are named by json tags, those with omitzero or omitempty are optional, and
// these tags describe them:
//
//	jsonschema:"what it is"    the description
//	enum:"a,b,c"               the only values
//	min:"0" max:"10"           bounds of a number
//	minlen:"1" maxlen:"100"    bounds of a text's characters or a list's items
//	pattern:"^[a-z]+$"         a regular expression
//	format:"date"              the kind of text
//	default:"value"            the meaning of a missing member
//
// A type with a method JSONSchema() string has its own schema. Arguments are decoded strictly: unknown
// members, members in another case, duplicates and trailing data are refused with an error that states
// what to correct.
//
// The model is shown Out: a Result unchanged, a string as text, anything else as JSON. Errors: Invalid,
// tool_schema_invalid and those of CheckSpec.
func New[In, Out any](spec Spec, fn func(ctx context.Context, in Invocation, args In) (Out, error)) (Tool, error) {
	if spec.Input == nil {
		schema, err := SchemaFor(reflect.TypeFor[In]())
		if err != nil {
			return nil, err
		}
		spec.Input = schema
	}
	spec, v, err := settled(spec)
	if err != nil {
		return nil, err
	}
	return &typed[In, Out]{spec: spec, v: v, fn: fn}, nil
}

type typed[In, Out any] struct {
	spec Spec
	v    *Validator
	fn   func(context.Context, Invocation, In) (Out, error)
}

func (t *typed[In, Out]) Spec() Spec { return t.spec }

// Check implements Checker. Arguments that the schema admits but the Go type does not are refused here
// for an action, before anything is recorded, and for a query when it is called.
func (t *typed[In, Out]) Check(args []byte) error {
	if err := t.v.Validate(args); err != nil || t.spec.Effect == Query {
		return err
	}
	_, err := t.decode(args)
	return err
}

func (t *typed[In, Out]) Call(ctx context.Context, in Invocation) (Result, error) {
	if err := t.v.admit(&in); err != nil {
		return Result{}, err
	}
	args, err := t.decode(in.Args)
	if err != nil {
		return Result{}, err
	}
	out, err := t.fn(ctx, in, args)
	if err != nil {
		return Result{}, err
	}
	return encode(out)
}

func (t *typed[In, Out]) decode(args []byte) (In, error) {
	var in In
	if err := jsonv2.Unmarshal(args, &in, jsonv2.RejectUnknownMembers(true)); err != nil {
		return in, decodeError(err)
	}
	return in, nil
}

// decodeError returns the error for arguments that the schema admits but the Go type does not, such as a
// number that is too large for an int.
func decodeError(err error) error {
	var coded *fault.Error
	if errors.As(err, &coded) {
		return coded
	}
	var sem *jsonv2.SemanticError
	if !errors.As(err, &sem) {
		return fault.New(fault.Invalid, "args_invalid", "the arguments do not fit: %w", err)
	}
	path := ""
	for tok := range sem.JSONPointer.Tokens() {
		path = strict.Join(path, tok)
	}
	if path == "" {
		path = "the arguments"
	}
	what := "does not fit"
	if sem.Err != nil {
		what = sem.Err.Error()
	}
	return fault.New(fault.Invalid, "args_invalid", "the arguments do not fit: %s: %s", path, what).
		WithHint("fix these and call the tool again")
}

func encode[Out any](out Out) (Result, error) {
	switch out := any(out).(type) {
	case Result:
		return out, nil
	case string:
		return Text(out), nil
	}
	b, err := json.Marshal(out)
	if err != nil {
		return Result{}, fault.New(fault.Internal, "tool_output_invalid", "the tool's output cannot be written as JSON: %w", err)
	}
	return Text(string(b)), nil
}
