// Package taint determines which parts of a tool call were fixed before anything untrusted was
// read: the tool and the arguments that came from the user's own words, or that a plan made
// before then named, by value or by the field of a result from which they come (CaMeL,
// https://arxiv.org/abs/2503.18813).
package taint

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/tool"
)

// Of returns where a call comes from. turn is the recorded turn that contains the call, in order,
// at least up to the message with the call; later messages do not count. spec and args are those
// of the call, with canonical arguments. Each call carries the labels of everything that its
// model was shown, so this is a pure function of the record and returns the same after a restart.
//
// A call is fixed if nothing untrusted had been shown when the model made it, or if it is a step
// of the turn's plan: the tool is the step's, and each argument equals what the plan says, by
// value or as the field of the result of the call that was the plan's earlier step. Being equal
// to a value that was read is not enough. A target (tool.Spec.Targets) that comes from a field of
// an untrusted result is never fixed.
func Of(turn []*message.Message, call message.Ref, spec tool.Spec, args []byte) policy.Flow {
	if clean(turn, call) {
		return policy.Flow{Fixed: true}
	}
	r := before(turn, call)
	if r.plan == nil {
		return open("it was decided after something of others had been read", "")
	}
	return r.judge(spec, args)
}

// Literal reports whether a call that Of finds fixed contains nothing that was read in the turn,
// only the user's or the plan's own words. Data sent by it is as clean as they are.
func Literal(turn []*message.Message, call message.Ref, name string, args []byte) bool {
	if clean(turn, call) {
		return true
	}
	r := before(turn, call)
	if r.plan == nil {
		return false
	}
	b, _ := r.bind(name, args)
	return b != nil && len(b.untrusted) == 0
}

// clean reports whether nothing untrusted had been shown when a call was made: the call's block
// has the labels of everything that was.
func clean(turn []*message.Message, call message.Ref) bool {
	for _, m := range turn {
		if m.ID == call.Message && call.Block >= 0 && call.Block < len(m.Blocks) {
			return !m.Blocks[call.Block].Base().Labels.Has(message.Untrusted)
		}
	}
	return false
}

func open(why string, where ...string) policy.Flow {
	return policy.Flow{Open: where, Why: why}
}

// judge determines where the next call comes from.
func (r *replay) judge(spec tool.Spec, args []byte) policy.Flow {
	b, miss := r.bind(spec.Name, args)
	if b == nil {
		return miss
	}
	var targets []string
	for _, name := range b.untrusted {
		if isTarget(spec, name) {
			targets = append(targets, pointerTo(name))
		}
	}
	if len(targets) > 0 {
		slices.Sort(targets)
		return open("the plan takes from text of others where it would go: "+strings.Join(targets, ", "), targets...)
	}
	return policy.Flow{Fixed: true}
}

// isTarget reports whether an argument names a recipient or destination. For a foreign tool that
// does not declare its targets, every argument counts as one.
func isTarget(spec tool.Spec, arg string) bool {
	if spec.Targets == nil && spec.Origin != "" && spec.Origin != tool.OriginOwn && !strings.HasPrefix(spec.Origin, "domain:") {
		return true
	}
	return slices.Contains(spec.Targets, arg)
}

// pointerTo returns the JSON pointer to an argument.
func pointerTo(arg string) string { return string(jsontext.Pointer("").AppendToken(arg)) }
