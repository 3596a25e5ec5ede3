package record

import (
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
)

// The types of goals and projects.
const (
	TypeGoal    = "goals.Goal"
	TypeProject = "goals.Project"
)

// The kinds of efforts.
const (
	KindGoal    = "goal"    // a long-term objective
	KindProject = "project" // a medium-term initiative, which may belong to a goal
)

// The statuses of an effort. The state of its resource is the same while nothing has ended it, else empty.
const (
	EffortActive    = "active"
	EffortPaused    = "paused"
	EffortCompleted = "completed"
	EffortDropped   = "dropped"
	EffortArchived  = "archived" // it is over, and no longer of interest
)

// Effort is a goal or a project of a user.
type Effort struct {
	ID          id.ID          `json:"id"`
	Kind        string         `json:"kind"`
	User        string         `json:"user"`
	Title       string         `json:"title"`
	Description string         `json:"description,omitzero"`
	Status      string         `json:"status"`
	Due         string         `json:"due,omitzero"` // a day: 2026-12-31
	Created     time.Time      `json:"created"`
	Changed     time.Time      `json:"changed"`         // the last change
	Ended       time.Time      `json:"ended,omitzero"`  // when it was completed, dropped or archived
	Labels      message.Labels `json:"labels,omitzero"` // of everything that its texts come from
	Sources     []string       `json:"sources,omitempty"`
	Progress    *float64       `json:"current_progress,omitempty"` // 0 to 1, as last recorded; nil: never

	// Goals:
	Category   string   `json:"category,omitzero"`
	Criteria   []string `json:"success_criteria,omitempty"`
	Importance float64  `json:"importance,omitzero"` // 0 to 1

	// Projects:
	Goal id.ID `json:"goal_id,omitzero"`

	Milestones []Milestone    `json:"milestones,omitempty"`
	Next       []string       `json:"next_actions,omitempty"`
	Notes      []ProgressNote `json:"progress_notes,omitempty"` // the newest last
	Tasks      []string       `json:"tasks,omitempty"`          // URIs of tasks of plans, and of plans, that belong to it
	History    []EffortChange `json:"history,omitempty"`        // its newest changes, the newest last
}

// Over reports whether something has ended the effort.
func (e *Effort) Over() bool { return e.Status != EffortActive && e.Status != EffortPaused }

// URI returns the URI of the effort.
func (e *Effort) URI() resource.URI { return EffortURI(e.Kind, e.ID) }

// Milestone is a step on the way that can be seen to be reached.
type Milestone struct {
	Title   string    `json:"title"`
	Due     string    `json:"due,omitzero"` // a day
	Reached time.Time `json:"reached,omitzero"`
}

// ProgressNote says what was done.
type ProgressNote struct {
	At       time.Time      `json:"at"`
	Summary  string         `json:"summary,omitzero"`
	Progress *float64       `json:"progress,omitempty"` // 0 to 1, if it was recorded with the note
	Labels   message.Labels `json:"labels,omitzero"`
}

// EffortChange is one change of an effort.
type EffortChange struct {
	By    id.ID     `json:"by"` // the call that made it; the same call changes nothing again
	At    time.Time `json:"at"`
	Actor string    `json:"actor,omitzero"` // as in EffortAuthor
	What  string    `json:"what"`           // in a few words
}

// EffortAuthor says who makes a change of an effort.
type EffortAuthor struct {
	Call    id.ID          // the same call changes nothing again
	Actor   string         // "user", "agent:PATH", "program"
	Labels  message.Labels // of everything that the texts come from
	Sources []string       // whose private data that was
}

// EffortType returns the type of the resources of a kind.
func EffortType(kind string) string {
	if kind == KindProject {
		return TypeProject
	}
	return TypeGoal
}

// EffortURI returns the URI of an effort.
func EffortURI(kind string, effort id.ID) resource.URI {
	return resource.URI{}.ChildID(EffortType(kind), effort)
}

// DecodeEffort reads a stored effort (error code store_broken).
func DecodeEffort(at resource.URI, body []byte) (e Effort, err error) {
	err = Decode(at, body, &e)
	return e, err
}
