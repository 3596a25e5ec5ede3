package plan

// State is where a task stands.
type State string

// The states.
const (
	Pending   State = "pending"   // it waits for what comes before it, or for room
	Running   State = "running"   // an agent works on it, or its subtasks are being worked on
	Judging   State = "judging"   // its output is being judged
	Paused    State = "paused"    // by a person; nothing below it is begun
	Done      State = "done"      // its output stands
	Failed    State = "failed"    // it has no output that stands
	Skipped   State = "skipped"   // a task that had to come before it has failed
	Cancelled State = "cancelled" // by a person, or by the task above it
)

// Next returns the states that may follow a state.
//
//	pending ──▶ running ─┬──▶ judging ─┬─▶ done
//	   ▲  ▲        │ ▲   └─▶ done      ├─▶ running (corrections)
//	   │  └─paused◀┘ └──────────────── └─▶ failed
//	   └── failed, skipped, cancelled (a person retries them)
//
// Running can follow itself, when the task is taken up after a crash. Whatever
// is not over can be cancelled. A pending task is skipped if it cannot begin any
// more.
func Next(from State) []State {
	switch from {
	case Pending:
		return []State{Running, Paused, Skipped, Cancelled, Failed}
	case Running:
		return []State{Running, Judging, Paused, Done, Failed, Cancelled}
	case Judging:
		return []State{Judging, Running, Done, Failed, Paused, Cancelled}
	case Paused:
		return []State{Pending, Cancelled}
	case Failed, Skipped, Cancelled:
		return []State{Pending}
	}
	return nil
}

// Over reports whether the task is over unless a person retries it.
func (s State) Over() bool {
	return s == Done || s == Failed || s == Skipped || s == Cancelled
}
