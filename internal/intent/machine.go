package intent

import (
	"slices"

	"steward/internal/fault"
)

// next is the state machine: it returns the states that may follow a state. A state with
// none is final.
//
//	proposed ─┬─────────────────────────▶ executing ─┬─▶ done
//	          ├─▶ approved ─────────────▶            ├─▶ failed
//	          └─▶ awaiting_approval ─▶ approved      └─▶ unknown ─▶ done, failed
//
// Proposed goes straight to executing if policy allows it and the delivery is inline.
// Awaiting can follow itself, when the question is asked again after a crash. It can
// follow approved, when the approval no longer covers what would be done. Executing can
// follow itself, when the receiver allows a repetition. An action that has not begun can
// be denied, cancelled or expire. A person resolves unknown.
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

// InFlight reports whether Steward still has work to do on the intent.
func (s State) InFlight() bool {
	return s == Proposed || s == Awaiting || s == Approved || s == Executing
}

// Settled reports whether Steward has no more work to do. Unknown counts as settled,
// although it waits for a person.
func (s State) Settled() bool { return s.Known() && !s.InFlight() }

// Mark returns the state as it is stored on the resource. It is empty once neither Steward
// nor a person has anything left to do.
func (s State) Mark() string {
	if s.InFlight() || s == Unknown {
		return string(s)
	}
	return ""
}

// Advance returns an error unless an intent may go from one state to the other. The error
// is a Conflict with the code intent_transition_illegal.
func Advance(from, to State) error {
	if slices.Contains(next(from), to) {
		return nil
	}
	e := fault.New(fault.Conflict, "intent_transition_illegal", "an intent that is %s cannot become %s", from, to).
		Detail("from", string(from)).Detail("to", string(to))
	if from.Settled() && from != Unknown {
		return e.WithHint("it is settled; request the action again")
	}
	return e.WithHint("reload the intent and decide again")
}
