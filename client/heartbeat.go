package client

import (
	"context"
	"time"
)

// NewHeartbeat says how the heartbeat and the reviews are turned on. Empty members: as the settings say.
type NewHeartbeat struct {
	Every        string            `json:"every,omitzero"`           // the time between two looks: "15m"
	At           string            `json:"at,omitzero"`              // the time of day of the reviews: "8:00"
	Reviews      []string          `json:"reviews,omitempty"`        // "daily", "weekly", "monthly", or only "none"; empty: all
	Quiet        string            `json:"quiet,omitzero"`           // hours in which nothing is said: "22:00-7:00", or "off"
	Model        string            `json:"model,omitzero"`           // empty: the assistant's
	Conversation string            `json:"conversation_id,omitzero"` // where messages go, too
	Tools        map[string]string `json:"tools,omitempty"`          // "allow", "ask" or "deny", by the name or glob of a tool; all other actions are denied
}

// Heartbeat is how the heartbeat and the reviews of the caller are.
type Heartbeat struct {
	On           bool              `json:"on"`
	Every        string            `json:"every,omitzero"`
	Zone         string            `json:"zone,omitzero"`
	Quiet        string            `json:"quiet,omitzero"`
	Model        string            `json:"model,omitzero"`
	Conversation string            `json:"conversation_id,omitzero"`
	Notify       bool              `json:"notify,omitzero"`
	Tools        map[string]string `json:"tools,omitempty"`
	Calls        HeartbeatCalls    `json:"model_calls"`
	Jobs         []HeartbeatJob    `json:"jobs"`          // those that were turned on at least once, the heartbeat first
	Note         string            `json:"note,omitzero"` // when it is turned on: what has to be done so that it can run
}

// HeartbeatCalls is what the heartbeat and the reviews have spent today, and the most that they may.
type HeartbeatCalls struct {
	Today   int     `json:"today"`
	Max     int     `json:"max,omitzero"`      // 0: no cap
	Cost    float64 `json:"cost,omitzero"`     // US dollars
	MaxCost float64 `json:"max_cost,omitzero"` // 0: no cap
}

// HeartbeatJob is the heartbeat, or one of the reviews.
type HeartbeatJob struct {
	Name   string        `json:"name"`
	Kind   string        `json:"kind"`  // "heartbeat", "daily", "weekly" or "monthly"
	State  string        `json:"state"` // "active" or "paused"
	Next   time.Time     `json:"next,omitzero"`
	Looked time.Time     `json:"looked,omitzero"` // when it last had nothing to do, if it has told nothing since
	Idle   string        `json:"idle,omitzero"`   // why it had nothing to do
	Failed []string      `json:"failed,omitempty"`
	Looks  int           `json:"looks"`         // so far
	Asked  int           `json:"asked"`         // of these, a model was asked
	Cost   float64       `json:"cost,omitzero"` // US dollars, so far
	Last   *HeartbeatRun `json:"last,omitempty"`
}

// HeartbeatRun is a time at which something had changed.
type HeartbeatRun struct {
	ID           string            `json:"id"`
	Job          string            `json:"job"`
	Due          time.Time         `json:"due"`
	Ended        time.Time         `json:"ended,omitzero"`
	State        string            `json:"state"`
	Reason       string            `json:"reason,omitzero"` // "said_nothing", or why it failed or had nothing to do
	Changes      []HeartbeatChange `json:"changes,omitempty"`
	More         int               `json:"more,omitzero"` // changes that were left out
	Said         string            `json:"said,omitzero"`
	Calls        int               `json:"calls,omitzero"` // of models
	Cost         float64           `json:"cost,omitzero"`
	Conversation string            `json:"conversation_id,omitzero"` // in which the model was asked
}

// HeartbeatChange is something that had changed.
type HeartbeatChange struct {
	Source string    `json:"source"`
	At     time.Time `json:"at"`
	Text   string    `json:"text"`
	URI    string    `json:"uri,omitzero"`
}

// Heartbeat returns how the heartbeat and the reviews of the caller are.
func (c *Client) Heartbeat(ctx context.Context) (Heartbeat, error) {
	return ask[Heartbeat](ctx, c, "GET /heartbeat", nil, nil)
}

// HeartbeatOn turns the heartbeat and the reviews on, or changes how they are.
func (c *Client) HeartbeatOn(ctx context.Context, h NewHeartbeat) (Heartbeat, error) {
	return ask[Heartbeat](ctx, c, "PUT /heartbeat", nil, h)
}

// HeartbeatOff turns them off.
func (c *Client) HeartbeatOff(ctx context.Context) (Heartbeat, error) {
	return ask[Heartbeat](ctx, c, "DELETE /heartbeat", nil, nil)
}

// RunHeartbeat looks now. kind is "heartbeat" or the kind of a review.
func (c *Client) RunHeartbeat(ctx context.Context, kind string) (HeartbeatRun, error) {
	return ask[HeartbeatRun](ctx, c, "POST /heartbeat/run", nil, map[string]string{"kind": kind})
}
