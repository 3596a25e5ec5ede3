package intent

import (
	"slices"

	"steward/internal/fault"
)

// next is the machine: from each state the states that may follow. A state
// without an entry is final.
//
//	proposed ─┬─────────────────────────▶ executing ─┬─▶ done
//	          ├─▶ approved ─────────────▶            ├─▶ failed
//	          └─▶ awaiting_approval ─▶ approved      └─▶ unknown ─▶ done, failed
//
// Proposed goes to executing at once where policy allows it and the delivery
// is inline. Awaiting follows itself when the question is asked again after a
// crash, and approved when the approval no longer covers what would be done.
// Executing follows itself when the receiver lets it be repeated. What has not
// begun may be denied, cancelled or expire. A person resolves unknown.
func next(from State) []State {
	switch from {
	case Proposed:
		return []State{Awaiting, Approved, Executing, Denied, Cancelled, Failed}
	case Awaiting:
		return []State{Awaiting, Approved, Denied, Cancelled, Expired}
	case Approved:
		return []State{Executing, Awaiting, Denied, Cancelled, Expired}
	case Executing:
		return []State{Executing, Done, Failed, Unknown}
	case Unknown:
		return []State{Done, Failed}
	}
	return nil
}

// States returns all states.
func States() []State {
	return []State{Proposed, Awaiting, Approved, Executing, Done, Failed, Unknown, Denied, Cancelled, Expired}
}

// Known reports whether s is one of the states.
func (s State) Known() bool { return slices.Contains(States(), s) }

// InFlight reports whether Steward still has something to do.
func (s State) InFlight() bool {
	return s == Proposed || s == Awaiting || s == Approved || s == Executing
}

// Settled reports whether Steward has nothing more to do. Unknown is settled
// in this sense, and waits for a person.
func (s State) Settled() bool { return s.Known() && !s.InFlight() }

// Mark is the state as it rides on the resource: empty once nobody has
// anything to do any more.
func (s State) Mark() string {
	if s.InFlight() || s == Unknown {
		return string(s)
	}
	return ""
}

// Advance reports whether an intent may go from one state to the other. The
// error is a Conflict with the code intent_transition_illegal.
func Advance(from, to State) error {
	if slices.Contains(next(from), to) {
		return nil
	}
	e := fault.New(fault.Conflict, "intent_transition_illegal", "an intent that is %s cannot become %s", from, to).
		Detail("from", string(from)).Detail("to", string(to))
	if from.Settled() && from != Unknown {
		return e.WithHint("it is settled; ask for the action anew")
	}
	return e.WithHint("read the intent again and decide anew")
}
