package client

import (
	"context"
	"strconv"
	"time"
)

// The kinds of efforts.
const (
	Goals    = "goals"    // long-term objectives
	Projects = "projects" // medium-term initiatives, which may belong to a goal
)

// Effort is a goal or a project.
type Effort struct {
	ID          string    `json:"id"`
	URI         string    `json:"uri"`
	Kind        string    `json:"kind"` // "goal" or "project"
	Title       string    `json:"title"`
	Description string    `json:"description,omitzero"`
	Status      string    `json:"status"` // "active", "paused", "completed", "dropped" or "archived"
	Due         string    `json:"due,omitzero"`
	Overdue     bool      `json:"overdue,omitzero"`
	Progress    float64   `json:"current_progress"` // 0 to 1: as last recorded, or else by its projects or milestones
	Labels      []string  `json:"labels,omitempty"`
	Created     time.Time `json:"created"`
	Changed     time.Time `json:"changed"`
	LastChange  string    `json:"last_change,omitzero"` // in a few words
	Ended       time.Time `json:"ended,omitzero"`

	// Goals:
	Category   string         `json:"category,omitzero"`
	Criteria   []string       `json:"success_criteria,omitempty"`
	Importance float64        `json:"importance,omitzero"`        // 0 to 1
	Related    []string       `json:"related_projects,omitempty"` // ids of its projects
	Projects   []Effort       `json:"projects,omitempty"`         // only if a single goal was requested, without what stands in them
	GoalID     string         `json:"goal_id,omitzero"`           // projects
	GoalTitle  string         `json:"goal,omitzero"`              // projects
	Steps      []Milestone    `json:"milestones,omitempty"`
	Next       []string       `json:"next_actions,omitempty"`
	Notes      []ProgressNote `json:"progress_notes,omitempty"` // the newest first; only if a single effort was requested
	Tasks      []EffortTask   `json:"tasks,omitempty"`
	TasksOpen  int            `json:"tasks_open,omitzero"`
	TasksDone  int            `json:"tasks_done,omitzero"`
}

// Milestone is a step on the way that can be seen to be reached.
type Milestone struct {
	Title   string    `json:"title"`
	Due     string    `json:"due,omitzero"` // a day: 2026-12-31
	Overdue bool      `json:"overdue,omitzero"`
	Reached time.Time `json:"reached,omitzero"`
}

// ProgressNote says what was done.
type ProgressNote struct {
	At      time.Time `json:"at"`
	Summary string    `json:"summary,omitzero"`
	Percent *float64  `json:"progress_percent,omitempty"`
}

// EffortTask is a task of a plan, or a plan, that belongs to a goal or a project.
type EffortTask struct {
	URI    string `json:"uri"`
	Title  string `json:"title,omitzero"`
	State  string `json:"state,omitzero"` // "missing": it was deleted
	Open   int    `json:"open,omitzero"`  // of it and the tasks below it
	Done   int    `json:"done,omitzero"`
	Failed int    `json:"failed,omitzero"` // also skipped and cancelled ones
}

// EffortChange changes a goal or a project, or describes a new one. What is nil or empty stays as it is.
type EffortChange struct {
	Title       *string   `json:"title,omitempty"`
	Description *string   `json:"description,omitempty"`
	Status      *string   `json:"status,omitempty"`
	Due         *string   `json:"due,omitempty"` // a day: 2026-12-31; empty: none
	Category    *string   `json:"category,omitempty"`
	Criteria    *[]string `json:"success_criteria,omitempty"`
	Importance  *float64  `json:"importance,omitempty"` // 0 to 1
	Goal        *string   `json:"goal_id,omitempty"`    // projects: the id or title of a goal; empty: none

	Milestones []NewMilestone `json:"milestones,omitempty"` // to add
	Reached    []string       `json:"reached,omitempty"`    // milestones, by number, title or words of it
	Unreached  []string       `json:"unreached,omitempty"`  // milestones to take off
	Next       []string       `json:"next_actions,omitempty"`
	Done       []string       `json:"done,omitempty"` // next actions, by number, text or words of it
	Progress   *NewProgress   `json:"progress,omitempty"`
	Tasks      []string       `json:"tasks,omitempty"`  // to add: URIs of tasks of plans or of plans, or ids of plans
	Untask     []string       `json:"untask,omitempty"` // to take off: URIs
}

// NewMilestone is a milestone to add.
type NewMilestone struct {
	Title string `json:"title"`
	Due   string `json:"due,omitzero"` // a day: 2026-12-31
}

// NewProgress is progress to record.
type NewProgress struct {
	Summary string   `json:"summary,omitzero"`
	Percent *float64 `json:"progress_percent,omitempty"` // 0 to 100
}

// EffortRef names a goal or a project.
type EffortRef struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"`
	Title string `json:"title"`
}

// EffortEvent is one change of a goal or a project.
type EffortEvent struct {
	EffortRef
	At    time.Time `json:"at"`
	Actor string    `json:"actor"` // "user", "agent:PATH" or "program"
	What  string    `json:"what"`
}

// EffortDue is something that is overdue: an effort, or one of its milestones.
type EffortDue struct {
	EffortRef
	Milestone string `json:"milestone,omitzero"`
	Due       string `json:"due"`
	New       bool   `json:"new,omitzero"` // it became overdue in the time that was asked about
}

// EffortStalled is an active effort that nobody has worked on for long.
type EffortStalled struct {
	EffortRef
	Since time.Time `json:"since"`        // its last change
	New   bool      `json:"new,omitzero"` // it stalled in the time that was asked about
}

// EffortChanges says what has become of goals and projects since a time, and what needs attention.
type EffortChanges struct {
	Since      time.Time       `json:"since"`
	Until      time.Time       `json:"until"`
	News       bool            `json:"news"` // something has changed, become overdue or stalled since then
	Created    []EffortEvent   `json:"created,omitempty"`
	Progressed []EffortEvent   `json:"progressed,omitempty"` // changes of those that are not over
	Ended      []EffortEvent   `json:"ended,omitempty"`
	Overdue    []EffortDue     `json:"overdue,omitempty"`
	NoNext     []EffortRef     `json:"no_next_action,omitempty"` // active, and nothing says what is to be done next
	Stalled    []EffortStalled `json:"stalled,omitempty"`
	Labels     []string        `json:"labels,omitempty"` // of all texts in it
}

// of returns the route of a kind of efforts.
func of(kind, goals, projects string) string {
	if kind == Projects {
		return projects
	}
	return goals
}

// Efforts returns the caller's goals or projects (kind is Goals or Projects). status is a status, "open"
// for active and paused ones, or empty for all.
func (c *Client) Efforts(ctx context.Context, kind, status string) ([]Effort, error) {
	return whole[Effort](ctx, c, of(kind, "GET /goals", "GET /projects"), kind, Params{"status": status})
}

// Effort returns a goal or a project by its id, at least the first 8 characters of it, its title, or
// words of that.
func (c *Client) Effort(ctx context.Context, kind, which string) (Effort, error) {
	return ask[Effort](ctx, c, of(kind, "GET /goals/{id}", "GET /projects/{id}"), Params{"id": which}, nil)
}

// AddEffort adds a goal or a project, of which about has at least the title.
func (c *Client) AddEffort(ctx context.Context, kind string, about EffortChange) (Effort, error) {
	return ask[Effort](ctx, c, of(kind, "POST /goals", "POST /projects"), nil, about)
}

// ChangeEffort changes a goal or a project.
func (c *Client) ChangeEffort(ctx context.Context, kind, which string, change EffortChange) (Effort, error) {
	return ask[Effort](ctx, c, of(kind, "PATCH /goals/{id}", "PATCH /projects/{id}"), Params{"id": which}, change)
}

// RemoveEffort erases a goal or a project. The projects of a goal stay.
func (c *Client) RemoveEffort(ctx context.Context, kind, which string) error {
	return c.Call(ctx, of(kind, "DELETE /goals/{id}", "DELETE /projects/{id}"), Params{"id": which}, nil, nil)
}

// EffortChanges says what has become of goals and projects in the last days, and what needs attention.
func (c *Client) EffortChanges(ctx context.Context, days int) (EffortChanges, error) {
	return ask[EffortChanges](ctx, c, "GET /goals/changes", Params{"days": strconv.Itoa(days)}, nil)
}
