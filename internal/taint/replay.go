package taint

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

// replay goes through a recorded turn, and binds its calls to the steps of its plan.
type replay struct {
	plan  *Plan
	bound [][]*binding // by step
	all   []*binding   // of the turn's calls, in the order in which they were made
}

// binding is a call that is a step of the plan.
type binding struct {
	step, element int // element: with Each
	call          message.Ref
	result        *message.ToolResult // nil: none yet
	untrusted     []string            // arguments that hold something from an untrusted result
}

// before replays a turn up to a call.
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

// all replays a whole turn.
func all(turn []*message.Message) *replay { return before(turn, message.Ref{}) }

// see processes a message that precedes the call in question.
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

// calls processes the calls of a message that precede a block.
func (r *replay) calls(m *message.Message, before int) {
	for _, c := range m.Calls() {
		if c.Block >= before {
			return
		}
		r.call(c)
	}
}

// call processes a call.
func (r *replay) call(c message.Call) {
	name := tool.FromWire(c.Name)
	if name == PlanTool {
		if !c.Labels.Has(message.Untrusted) {
			r.fix(c.Args) // its result says whether it was accepted: see result
			r.all = append(r.all, &binding{step: -1, call: c.Ref})
		}
		return
	}
	args, err := tool.Canonical(orEmpty(c.Args))
	if err != nil || r.plan == nil {
		return
	}
	if b, _ := r.bind(name, args); b != nil {
		b.call = c.Ref
		r.bound[b.step] = append(r.bound[b.step], b)
		r.all = append(r.all, b)
	}
}

func orEmpty(args []byte) []byte {
	if len(args) == 0 {
		return []byte("{}")
	}
	return args
}

// fix makes a plan the turn's plan. An invalid plan also removes the one before it, because it is
// then unclear what was meant.
func (r *replay) fix(b []byte) {
	r.plan, r.bound = nil, nil
	if p, err := ParsePlan(b); err == nil {
		r.plan, r.bound = &p, make([][]*binding, len(p.Steps))
	}
}

// result processes the result of a call. A result of PlanTool after something untrusted was read
// holds the plan of a separate planner that had seen only the user's words. The first such plan
// of a turn counts, and none counts if the model had made a plan itself.
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

// bind finds the step of the plan that a call is. It returns nil if there is none, and says why.
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
		if why := r.blockedReason(i); why != "" {
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

// blockedReason says why a step cannot be taken now, or returns "" if it can.
func (r *replay) blockedReason(i int) string {
	for j := range i {
		if s := &r.plan.Steps[j]; !s.Optional && !r.begun(j) {
			return fmt.Sprintf("the step %s of the plan comes first", s.ID)
		}
	}
	return ""
}

// begun reports whether later steps may follow a step: it was taken, or its list is empty.
func (r *replay) begun(i int) bool {
	if slices.ContainsFunc(r.bound[i], func(b *binding) bool { return !b.hadNoEffect() }) {
		return true
	}
	if s := &r.plan.Steps[i]; s.Each != nil {
		list, _, err := r.list(*s.Each)
		return err == nil && len(list) == 0
	}
	return false
}

// hadNoEffect reports whether the call certainly had no effect, so that the step may be taken again.
func (b *binding) hadNoEffect() bool {
	if b.result == nil {
		return false
	}
	switch b.result.Status {
	case message.Failed, message.DeniedCall, message.Unavailable, message.Interrupted:
		return true
	}
	return false
}

// match compares a call with each element of a step that can be taken. It also returns the
// arguments that differ from the step.
func (r *replay) match(i int, got map[string]json.RawMessage) (*binding, []string) {
	s := &r.plan.Steps[i]
	if s.Each == nil {
		if slices.ContainsFunc(r.bound[i], func(b *binding) bool { return !b.hadNoEffect() }) {
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
		if slices.ContainsFunc(r.bound[i], func(b *binding) bool { return b.element == n && !b.hadNoEffect() }) {
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

// same reports whether a value equals one in a call's canonical arguments.
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

// list returns the elements for which a step is to be taken, and whether they come from an
// untrusted result.
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

// value returns the value at a field of the result of a step's call, and whether it is untrusted.
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
	b := r.goodResult(i)
	if b == nil {
		return nil, false, errNone
	}
	res, dirty := b.result, b.dirty()
	if f.Field == "" {
		if res.Rest != "" { // the block does not hold all of it
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

// dirty reports whether the result of a call is foreign content: it is labelled so, or was made
// from something that is.
func (b *binding) dirty() bool {
	return len(b.untrusted) > 0 || b.result != nil && message.LabelsOf([]message.Block{b.result}).Has(message.Untrusted)
}

// goodResult returns the call of a step that has a good result, or nil.
func (r *replay) goodResult(i int) *binding {
	for _, b := range r.bound[i] {
		if b.result != nil && b.result.Status == message.OK {
			return b
		}
	}
	return nil
}

// textsOf returns the texts of the good results of a step with Each, in the order of its
// elements.
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

// resolver computes the values that a plan describes.
type resolver struct {
	*replay
	item      any
	itemDirty bool
	dirty     bool // something untrusted was used
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

// follow returns the value of a reference.
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

// Result returns the text of a step's result in a turn, or the part at a field of it, with the
// labels and the sources of its origin, for a reader that stands in for the model. It returns false if
// there is no such result (yet).
func Result(turn []*message.Message, f Field) (text string, labels message.Labels, sources []string, ok bool) {
	r := all(turn)
	if r.plan == nil {
		return "", 0, nil, false
	}
	v, _, err := r.value(f)
	if err != nil {
		return "", 0, nil, false
	}
	for _, b := range r.bound[slices.IndexFunc(r.plan.Steps, func(s Step) bool { return s.ID == f.From })] {
		if b.result != nil {
			labels |= message.LabelsOf([]message.Block{b.result})
			sources = message.JoinSources(sources, message.SourcesOf([]message.Block{b.result}))
		}
		if b.dirty() {
			labels |= message.Untrusted
		}
	}
	switch v := v.(type) {
	case string:
		return v, labels, sources, true
	case []any:
		x := resolver{replay: r}
		if text, err := x.join([]any{v}); err == nil {
			return text.(string), labels, sources, true
		}
	}
	b, err := json.Marshal(v)
	return string(b), labels, sources, err == nil
}

// Planned reports whether a turn has a valid plan.
func Planned(turn []*message.Message) bool {
	return all(turn).plan != nil
}
