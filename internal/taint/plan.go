package taint

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/tool"
)

// The tools with which a model declares a plan in advance and has foreign text read on its behalf.
const (
	PlanTool    = "plan.fix"
	ExtractTool = "text.extract"
)

// Limits of a plan.
const (
	MaxSteps = 40
	maxDepth = 16 // of references and lists inside an argument
)

// Plan lists the calls that a model, or a planner in its place, declared before it read any foreign
// content.
type Plan struct {
	Steps []Step `json:"steps"`
}

// Step is one call, or with Each one call for each element of a list.
type Step struct {
	ID   string `json:"id"`
	Tool string `json:"tool"`
	// Args are the arguments. Values in them are literal, except for {"$from": STEP, "field":
	// POINTER} (the value at that place in the result of an earlier step; "" is its whole text),
	// {"$item": POINTER} (the same in the element, with Each) and {"$join": [...]} (the
	// concatenation of these texts).
	Args     json.RawMessage `json:"args,omitempty"`
	Each     *Field          `json:"for_each,omitempty"`
	Optional bool            `json:"optional,omitempty"` // later steps may be taken without it
}

// Field is a place in the result of an earlier step: a JSON pointer (RFC 6901);
// "" is the whole text.
type Field struct {
	From  string `json:"$from"`
	Field string `json:"field"`
}

// PlanSchema is the JSON Schema of a Plan.
const PlanSchema = `{"type":"object","properties":{"steps":{"type":"array","minItems":1,"maxItems":40,` +
	`"description":"the calls that you will make, in order",` +
	`"items":{"type":"object","properties":{` +
	`"id":{"type":"string","pattern":"^[a-z][a-z0-9_]{0,39}$","description":"a short name of the step"},` +
	`"tool":{"type":"string","description":"the tool's name"},` +
	`"args":{"type":"object","description":"its arguments: exactly those of the call that you will make; in place of any value {\"$from\": STEP, \"field\": POINTER} names a field of an earlier step's result (JSON pointer; \"\" is the whole text), {\"$item\": POINTER} one of the element with for_each, and {\"$join\": [...]} joins texts"},` +
	`"for_each":{"type":"object","properties":{"$from":{"type":"string"},"field":{"type":"string"}},"required":["$from","field"],"additionalProperties":false,"description":"one call for each element of this list"},` +
	`"optional":{"type":"boolean","description":"the steps after it may be taken without it"}},` +
	`"required":["id","tool","args"],"additionalProperties":false}}},"required":["steps"],"additionalProperties":false}`

// ParsePlan reads and checks a plan. Errors: Invalid, plan_invalid, in words that a model can act
// on.
func ParsePlan(b []byte) (Plan, error) {
	if !utf8.Valid(b) { // which encoding/json would put up with
		return Plan{}, invalid("the plan is not UTF-8")
	}
	var p Plan
	if err := json.Unmarshal(b, &p); err != nil {
		return Plan{}, invalid("cannot read the plan: %w", err)
	}
	if len(p.Steps) == 0 {
		return Plan{}, invalid("the plan has no steps")
	}
	if len(p.Steps) > MaxSteps {
		return Plan{}, invalid("the plan has %d steps; the limit is %d", len(p.Steps), MaxSteps)
	}
	for i := range p.Steps {
		if err := p.check(i); err != nil {
			return Plan{}, err
		}
	}
	return p, nil
}

func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, "plan_invalid", "invalid plan: "+format, args...).
		WithHint("send steps with id, tool and args; see the description of %s", PlanTool)
}

// check checks the step at i.
func (p *Plan) check(i int) error {
	s := &p.Steps[i]
	s.Tool = tool.FromWire(s.Tool)
	switch {
	case s.ID == "":
		return invalid("step %d has no id", i+1)
	case p.before(s.ID, i) != nil:
		return invalid("duplicate step id %q", s.ID)
	case s.Tool == "":
		return invalid("the step %s has no tool", s.ID)
	case s.Tool == PlanTool:
		return invalid("the step %s creates another plan", s.ID)
	}
	if s.Each != nil {
		if err := p.checkField(i, *s.Each); err != nil {
			return err
		}
	}
	if len(s.Args) == 0 {
		s.Args = json.RawMessage("{}")
	}
	v, err := decode(s.Args)
	if err != nil {
		return invalid("the arguments of the step %s: %w", s.ID, err)
	}
	args, ok := v.(map[string]any)
	if !ok {
		return invalid("the arguments of the step %s are not an object", s.ID)
	}
	items := 0
	if err := p.walk(i, args, &items, maxDepth); err != nil {
		return err
	}
	switch {
	case s.Each == nil && items > 0:
		return invalid("the step %s has an $item but no for_each", s.ID)
	case s.Each != nil && items == 0:
		return invalid("the step %s has a for_each but no $item in its arguments", s.ID)
	}
	if from, ok := args["step"].(string); ok && s.Tool == ExtractTool { // it reads an earlier result by itself
		field, _ := args["field"].(string)
		return p.checkField(i, Field{From: from, Field: field})
	}
	return nil
}

// walk checks the references in a value and counts the items.
func (p *Plan) walk(i int, v any, items *int, depth int) error {
	id := p.Steps[i].ID
	if depth == 0 {
		return invalid("the arguments of the step %s are nested too deeply", id)
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			if err := p.walk(i, x, items, depth-1); err != nil {
				return err
			}
		}
	case map[string]any:
		r, isRef := reference(v)
		if !isRef {
			for name, x := range v {
				if strings.HasPrefix(name, "$") {
					return invalid("the step %s: %s is not a reference", id, name)
				}
				if err := p.walk(i, x, items, depth-1); err != nil {
					return err
				}
			}
			return nil
		}
		switch {
		case r.join != nil:
			return p.walk(i, r.join, items, depth-1)
		case r.item != nil:
			*items++
			return pointer(id, *r.item)
		}
		return p.checkField(i, r.field)
	}
	return nil
}

func (p *Plan) checkField(i int, f Field) error {
	id := p.Steps[i].ID
	if p.before(f.From, i) == nil {
		return invalid("the step %s refers to the result of %q, which is not an earlier step", id, f.From)
	}
	return pointer(id, f.Field)
}

func pointer(id, p string) error {
	if p != "" && p[0] != '/' {
		return invalid("the step %s: the field %q is not a JSON pointer: it must begin with a slash, or be empty for the whole text", id, p)
	}
	return nil
}

// before returns the step with an id among the first n.
func (p *Plan) before(id string, n int) *Step {
	for i := range p.Steps[:n] {
		if p.Steps[i].ID == id {
			return &p.Steps[i]
		}
	}
	return nil
}

// Tools returns the names of the tools that the plan uses, each once.
func (p Plan) Tools() []string {
	var out []string
	for _, s := range p.Steps {
		if !slices.Contains(out, s.Tool) {
			out = append(out, s.Tool)
		}
	}
	return out
}

// ref is a reference in place of a value.
type ref struct {
	field Field
	item  *string
	join  []any
}

// reference reads an object as a reference. It returns false if the object is a literal value.
func reference(m map[string]any) (ref, bool) {
	if from, ok := m["$from"].(string); ok {
		field, isText := m["field"].(string)
		return ref{field: Field{from, field}}, len(m) == 1 || isText && len(m) == 2
	}
	if item, ok := m["$item"].(string); ok && len(m) == 1 {
		return ref{item: &item}, true
	}
	if join, ok := m["$join"].([]any); ok && len(m) == 1 {
		return ref{join: join}, true
	}
	return ref{}, false
}

// decode reads one JSON value; numbers keep their digits.
func decode(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	if err == nil && dec.More() {
		err = fault.New(fault.Invalid, "plan_invalid", "there is more than one value")
	}
	return v, err
}

// at returns the part of a value at a JSON pointer (RFC 6901).
func at(v any, p string) (any, bool) {
	if p == "" {
		return v, true
	}
	for word := range jsontext.Pointer(p).Tokens() {
		switch x := v.(type) {
		case map[string]any:
			y, ok := x[word]
			if !ok {
				return nil, false
			}
			v = y
		case []any:
			n, err := strconv.Atoi(word)
			if err != nil || strconv.Itoa(n) != word || n < 0 || n >= len(x) { // RFC 6901: no sign, no leading zero
				return nil, false
			}
			v = x[n]
		default:
			return nil, false
		}
	}
	return v, true
}
