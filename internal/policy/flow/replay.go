package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/tool"
)

// replay goes through a turn as it was recorded, and binds its calls to the
// steps of its plan.
type replay struct {
	plan  *Plan
	bound [][]*binding // by step
	all   []*binding   // of calls in the turn, by the time of their making
}

// binding is a call that is a step of the plan.
type binding struct {
	step, element int // element: with Each
	call          message.Ref
	result        *message.ToolResult // nil: none yet
	untrusted     []string            // arguments that hold something from an untrusted result
}

// before goes through a turn up to a call.
func before(turn []*message.Message, call message.Ref) *replay {
	r := &replay{}
	for _, m := range turn {
		if m.ID == call.Message {
			r.calls(m, call.Block)
			break
		}
		r.see(m)
	}
	return r
}

// all goes through a whole turn.
func all(turn []*message.Message) *replay { return before(turn, message.Ref{}) }

// see takes in a message that was before the call in question.
func (r *replay) see(m *message.Message) {
	switch m.Role {
	case message.Assistant:
		r.calls(m, len(m.Blocks))
	case message.Tool:
		if res := m.Result(); res != nil {
			r.result(res)
		}
	}
}

// calls takes in the calls of a message that stand before a block.
func (r *replay) calls(m *message.Message, before int) {
	for _, c := range m.Calls() {
		if c.Block >= before {
			return
		}
		name := tool.FromWire(c.Name)
		if name == PlanTool {
			if !c.Labels.Has(message.Untrusted) {
				r.fix(c.Args) // whether it was noted, its result says: see result
				r.all = append(r.all, &binding{step: -1, call: c.Ref})
			}
			continue
		}
		args, err := tool.Canonical(orEmpty(c.Args))
		if err != nil || r.plan == nil {
			continue
		}
		if b, _ := r.bind(name, args); b != nil {
			b.call = c.Ref
			r.bound[b.step] = append(r.bound[b.step], b)
			r.all = append(r.all, b)
		}
	}
}

func orEmpty(args []byte) []byte {
	if len(args) == 0 {
		return []byte("{}")
	}
	return args
}

// fix takes a plan as the turn's. One that does not hold takes away the one
// before it: nobody knows any more what was meant.
func (r *replay) fix(b []byte) {
	r.plan, r.bound = nil, nil
	if p, err := ParsePlan(b); err == nil {
		r.plan, r.bound = &p, make([][]*binding, len(p.Steps))
	}
}

// result takes in the result of a call. That of PlanTool after something
// untrusted was read holds the plan that a planner apart has made, who had seen
// the user's words alone; the first one of a turn counts, and none does where
// the model had made one itself.
func (r *replay) result(res *message.ToolResult) {
	for _, b := range r.all {
		if b.call == res.Call {
			b.result = res
			if b.step < 0 && res.Status != message.OK {
				r.plan, r.bound = nil, nil
			}
			return
		}
	}
	if r.plan == nil && res.Name == PlanTool && res.Origin == "tool:"+PlanTool && res.Status == message.OK &&
		!message.LabelsOf([]message.Block{res}).Has(message.Untrusted) {
		r.fix([]byte(res.Text()))
	}
}

// bind finds the step of the plan that a call is. It is nil where it is none;
// then it says why not.
func (r *replay) bind(name string, args []byte) (*binding, policy.Flow) {
	miss := open(fmt.Sprintf("the plan that was made before anything of others was read has no such call of %s", name), "")
	var got map[string]json.RawMessage
	if json.Unmarshal(args, &got) != nil {
		return nil, miss
	}
	near := false
	for i := range r.plan.Steps {
		s := &r.plan.Steps[i]
		if s.Tool != name {
			continue
		}
		if why := r.waits(i); why != "" {
			if !near {
				miss = open(why, "")
			}
			continue
		}
		b, differ := r.match(i, got)
		if b != nil {
			return b, policy.Flow{}
		}
		if len(differ) > 0 && !near {
			near = true
			miss = open(fmt.Sprintf("the step %s of the plan says something else of %s", s.ID, strings.Join(differ, ", ")), differ...)
		}
	}
	return nil, miss
}

// waits says why a step cannot be taken now; empty: it can.
func (r *replay) waits(i int) string {
	for j := range i {
		if s := &r.plan.Steps[j]; !s.Optional && !r.begun(j) {
			return fmt.Sprintf("the step %s of the plan comes first", s.ID)
		}
	}
	return ""
}

// begun reports whether a step was taken, as far as the steps after it go.
func (r *replay) begun(i int) bool {
	if slices.ContainsFunc(r.bound[i], func(b *binding) bool { return !b.void() }) {
		return true
	}
	if s := &r.plan.Steps[i]; s.Each != nil {
		list, _, err := r.list(*s.Each)
		return err == nil && len(list) == 0
	}
	return false
}

// void reports whether the call came to nothing, so that the step may be taken
// again.
func (b *binding) void() bool {
	if b.result == nil {
		return false
	}
	switch b.result.Status {
	case message.Failed, message.DeniedCall, message.Unavailable, message.Interrupted:
		return true
	}
	return false
}

// match compares a call with a step that can be taken: with each of its
// elements. Differ are the arguments that are not as the step says.
func (r *replay) match(i int, got map[string]json.RawMessage) (*binding, []string) {
	s := &r.plan.Steps[i]
	if s.Each == nil {
		if slices.ContainsFunc(r.bound[i], func(b *binding) bool { return !b.void() }) {
			return nil, nil
		}
		return r.equal(i, 0, got, nil, false)
	}
	list, dirty, err := r.list(*s.Each)
	if err != nil {
		return nil, nil
	}
	var differ []string
	for n, item := range list {
		if slices.ContainsFunc(r.bound[i], func(b *binding) bool { return b.element == n && !b.void() }) {
			continue
		}
		b, d := r.equal(i, n, got, item, dirty)
		if b != nil {
			return b, nil
		}
		if differ == nil || len(d) < len(differ) {
			differ = d
		}
	}
	return nil, differ
}

// equal compares the arguments of a call with those of a step.
func (r *replay) equal(i, n int, got map[string]json.RawMessage, item any, dirty bool) (*binding, []string) {
	b := &binding{step: i, element: n}
	v, err := decode(r.plan.Steps[i].Args)
	if err != nil {
		return nil, nil
	}
	want, _ := v.(map[string]any)
	var differ []string
	for name := range got {
		if _, ok := want[name]; !ok {
			differ = append(differ, pointerTo(name))
		}
	}
	for name, template := range want {
		x := resolver{replay: r, item: item, itemDirty: dirty}
		value, err := x.resolve(template)
		if err != nil || !same(value, got[name]) {
			differ = append(differ, pointerTo(name))
			continue
		}
		if x.dirty {
			b.untrusted = append(b.untrusted, name)
		}
	}
	if len(differ) > 0 {
		slices.Sort(differ)
		return nil, differ
	}
	return b, nil
}

// same reports whether a value is written as in a call's canonical arguments.
func same(v any, got json.RawMessage) bool {
	b, err := json.Marshal(v)
	if err != nil || got == nil {
		return false
	}
	a, err := tool.Canonical(b)
	if err != nil {
		return false
	}
	c, err := tool.Canonical(got)
	return err == nil && string(a) == string(c)
}

var errNone = errors.New("there is no such value")

// list returns the elements that a step is to be taken for, and whether they
// come from an untrusted result.
func (r *replay) list(f Field) ([]any, bool, error) {
	v, dirty, err := r.value(f)
	if err != nil {
		return nil, dirty, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, dirty, errNone
	}
	return list, dirty, nil
}

// value returns what stands at a field of the result of the call that was the
// step, and whether that is untrusted.
func (r *replay) value(f Field) (any, bool, error) {
	i := slices.IndexFunc(r.plan.Steps, func(s Step) bool { return s.ID == f.From })
	if i < 0 {
		return nil, false, errNone
	}
	if r.plan.Steps[i].Each != nil {
		if f.Field != "" {
			return nil, false, errNone
		}
		texts, dirty := r.textsOf(i)
		return texts, dirty, nil
	}
	b := r.good(i)
	if b == nil {
		return nil, false, errNone
	}
	res, dirty := b.result, b.dirty()
	if f.Field == "" {
		if res.Rest != "" { // not all of it stands there
			return nil, dirty, errNone
		}
		return res.Text(), dirty, nil
	}
	v, err := decode([]byte(res.Text()))
	if err != nil {
		return nil, dirty, errNone
	}
	v, ok := at(v, f.Field)
	if !ok {
		return nil, dirty, errNone
	}
	return v, dirty, nil
}

// dirty reports whether the result of a call is somebody else's word: it is
// labelled so, or was made of something that is.
func (b *binding) dirty() bool {
	return len(b.untrusted) > 0 || b.result != nil && message.LabelsOf([]message.Block{b.result}).Has(message.Untrusted)
}

// good returns the call of a step that has a good result; nil: there is none.
func (r *replay) good(i int) *binding {
	for _, b := range r.bound[i] {
		if b.result != nil && b.result.Status == message.OK {
			return b
		}
	}
	return nil
}

// textsOf returns the texts of the good results of a step with Each, in the
// order of its elements.
func (r *replay) textsOf(i int) (texts []any, dirty bool) {
	bs := slices.Clone(r.bound[i])
	slices.SortStableFunc(bs, func(a, b *binding) int { return a.element - b.element })
	texts = []any{}
	for _, b := range bs {
		if b.result == nil || b.result.Status != message.OK {
			continue
		}
		texts = append(texts, b.result.Text())
		dirty = dirty || b.dirty()
	}
	return texts, dirty
}

// resolver makes a value of what a plan says.
type resolver struct {
	*replay
	item      any
	itemDirty bool
	dirty     bool // something untrusted went in
}

func (x *resolver) resolve(v any) (any, error) {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			y, err := x.resolve(v[i])
			if err != nil {
				return nil, err
			}
			out[i] = y
		}
		return out, nil
	case map[string]any:
		if r, ok := reference(v); ok {
			return x.follow(r)
		}
		out := make(map[string]any, len(v))
		for name := range v {
			y, err := x.resolve(v[name])
			if err != nil {
				return nil, err
			}
			out[name] = y
		}
		return out, nil
	}
	return v, nil
}

// follow returns what a reference names.
func (x *resolver) follow(r ref) (any, error) {
	switch {
	case r.join != nil:
		return x.join(r.join)
	case r.item != nil:
		x.dirty = x.dirty || x.itemDirty
		v, ok := at(x.item, *r.item)
		if !ok {
			return nil, errNone
		}
		return v, nil
	}
	v, dirty, err := x.value(r.field)
	x.dirty = x.dirty || dirty
	return v, err
}

// join joins texts and numbers.
func (x *resolver) join(parts []any) (any, error) {
	var b strings.Builder
	for _, p := range parts {
		v, err := x.resolve(p)
		if err != nil {
			return nil, err
		}
		switch v := v.(type) {
		case string:
			b.WriteString(v)
		case json.Number:
			b.WriteString(v.String())
		case []any: // of a step with for_each
			for i, y := range v {
				text, ok := y.(string)
				if !ok {
					return nil, errNone
				}
				if i > 0 {
					b.WriteString("\n\n")
				}
				b.WriteString(text)
			}
		default:
			return nil, errNone
		}
	}
	return b.String(), nil
}

// Result returns the text of a step's result in a turn, or what stands at a
// field of it, for who reads it in the model's stead, with the labels of where
// it comes from. False: there is none (yet).
func Result(turn []*message.Message, f Field) (string, message.Labels, bool) {
	r := all(turn)
	if r.plan == nil {
		return "", 0, false
	}
	v, _, err := r.value(f)
	if err != nil {
		return "", 0, false
	}
	var labels message.Labels
	for _, b := range r.bound[slices.IndexFunc(r.plan.Steps, func(s Step) bool { return s.ID == f.From })] {
		if b.result != nil {
			labels |= message.LabelsOf([]message.Block{b.result})
		}
		if b.dirty() {
			labels |= message.Untrusted
		}
	}
	switch v := v.(type) {
	case string:
		return v, labels, true
	case []any:
		x := resolver{replay: r}
		if text, err := x.join([]any{v}); err == nil {
			return text.(string), labels, true
		}
	}
	b, err := json.Marshal(v)
	return string(b), labels, err == nil
}

// Planned reports whether a turn has a plan that counts.
func Planned(turn []*message.Message) bool {
	return all(turn).plan != nil
}
