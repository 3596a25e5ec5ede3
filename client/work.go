package client

import (
	"context"
	"encoding/json"
	"strconv"
	"time"
)

// Request is a unit of requested work, with the requests that it led to.
type Request struct {
	ID           string    `json:"id,omitzero"`
	Parent       string    `json:"parent_id,omitzero"` // where the request stands alone: the one that it belongs to
	User         string    `json:"user,omitzero"`
	Kind         string    `json:"kind"` // "turn", "agent", "task", "plan_task", "call" or "tool"
	Title        string    `json:"title,omitzero"`
	Origin       string    `json:"origin,omitzero"`
	Agent        string    `json:"agent,omitzero"`
	Tool         string    `json:"tool,omitzero"`
	Call         string    `json:"call,omitzero"`
	Conversation string    `json:"conversation_id,omitzero"`
	Interaction  string    `json:"interaction_id,omitzero"`
	State        string    `json:"state"` // "open", "answered" or "closed"
	Status       string    `json:"status,omitzero"`
	Intent       string    `json:"intent,omitzero"` // the state of the intent of an action
	Wish         string    `json:"wish,omitzero"`
	Message      string    `json:"message,omitzero"`
	Progress     float64   `json:"progress,omitzero"`
	Outcome      string    `json:"outcome,omitzero"`
	Error        string    `json:"error,omitzero"`
	Started      time.Time `json:"started,omitzero"`
	Ended        time.Time `json:"ended,omitzero"`
	TookMS       *int64    `json:"took_ms,omitempty"`
	Usage        Usage     `json:"usage,omitzero"`
	Cost         float64   `json:"cost,omitzero"`      // USD
	Verdict      string    `json:"verdict,omitzero"`   // on the output of a task of a plan
	Rounds       int       `json:"rounds,omitzero"`    // of corrections of a task of a plan
	Round        int       `json:"round,omitzero"`     // of corrections in which a task was added; 0: it was planned
	WorkedIn     string    `json:"worked_in,omitzero"` // the conversation in which an agent works on it; only in trees
	Below        []Request `json:"below,omitzero"`
}

// Took returns how long the request took or, if it is still open, how long it has taken until now.
func (r *Request) Took(now time.Time) time.Duration {
	if r.Started.IsZero() {
		return 0
	}
	if !r.Ended.IsZero() {
		now = r.Ended
	}
	return max(0, now.Sub(r.Started))
}

// MarshalJSON sets how long the request took, once it has ended.
func (r Request) MarshalJSON() ([]byte, error) {
	type plain Request
	if !r.Started.IsZero() && !r.Ended.IsZero() {
		ms := r.Took(r.Ended).Milliseconds()
		r.TookMS = &ms
	}
	return json.Marshal(plain(r))
}

// Requests returns at most limit requests without their children: the open ones or, with all, the
// newest. Requests of all users require an admin.
func (c *Client) Requests(ctx context.Context, all, allUsers bool, limit int) ([]Request, error) {
	p := Params{"all": yes(all), "all_users": yes(allUsers), "limit": strconv.Itoa(min(limit, maxPage))}
	return whole[Request](ctx, c, "GET /requests", "requests", p)
}

// Request returns the turn that a request belongs to, with everything that the turn led to. which
// is the request's id, or a prefix of at least 8 characters.
func (c *Client) Request(ctx context.Context, which string) (Request, error) {
	return ask[Request](ctx, c, "GET /requests/{id}", Params{"id": which}, nil)
}

// CancelRequest cancels what is left of a request. Admins name the owner in user; for the caller's
// own requests user is empty.
func (c *Client) CancelRequest(ctx context.Context, which, user string) error {
	return c.Call(ctx, "DELETE /requests/{id}", Params{"id": which, "user": user}, nil, nil)
}

// ResumeRequest resumes a parked turn.
func (c *Client) ResumeRequest(ctx context.Context, which, user string) error {
	return c.Call(ctx, "POST /requests/{id}/resume", Params{"id": which, "user": user}, nil, nil)
}

// PauseTask pauses a task of a plan, and what is below it.
func (c *Client) PauseTask(ctx context.Context, which, user string) error {
	return c.Call(ctx, "POST /requests/{id}/pause", Params{"id": which, "user": user}, nil, nil)
}

// RetryTask begins a task of a plan again that is over without an output.
func (c *Client) RetryTask(ctx context.Context, which, user string) error {
	return c.Call(ctx, "POST /requests/{id}/retry", Params{"id": which, "user": user}, nil, nil)
}

// Plan is what became of a plan that was carried out. It is stored as it is here, below the turn
// that asked for it.
type Plan struct {
	ID           string          `json:"id,omitzero"`
	Conversation string          `json:"conversation_id,omitzero"`
	Interaction  string          `json:"interaction_id,omitzero"`
	Request      string          `json:"request"` // what was asked for, in the user's words
	Plan         json.RawMessage `json:"plan,omitzero"`
	Edited       bool            `json:"edited,omitzero"`   // by a person, before it began or while it was carried out
	Fallback     bool            `json:"fallback,omitzero"` // planning failed: the agent in reserve got the request
	Tasks        []PlanTask      `json:"tasks,omitzero"`
	Outcome      string          `json:"outcome"` // "done", "failed", "cancelled"
	Error        string          `json:"error,omitzero"`
	Iterations   int             `json:"iterations"`           // model calls of the agents
	Intents      int             `json:"intents,omitzero"`     // actions that they wanted
	Corrections  int             `json:"corrections,omitzero"` // rounds of them
	Tokens       int64           `json:"tokens"`               // up to the end of the tasks
	Cost         float64         `json:"cost,omitzero"`        // USD, likewise
	Labels       []string        `json:"labels,omitzero"`      // of what had been read when it was planned
	Started      time.Time       `json:"started"`
	Ended        time.Time       `json:"ended"`
}

// PlanTask is what became of a task of a plan that an agent worked on.
type PlanTask struct {
	Name       string   `json:"name"`
	Agent      string   `json:"agent,omitzero"` // empty: one was designed
	Tools      []string `json:"tools,omitzero"` // that were used
	State      string   `json:"state"`
	Error      string   `json:"error,omitzero"`
	Verdict    string   `json:"verdict,omitzero"`
	Iterations int      `json:"iterations,omitzero"`
}

// Plans returns at most limit plans that were carried out, the newest first, without what stands
// in them.
func (c *Client) Plans(ctx context.Context, limit int) ([]Plan, error) {
	return whole[Plan](ctx, c, "GET /plans", "plans", Params{"limit": strconv.Itoa(min(limit, maxPage))})
}

// Plan returns a plan that was carried out. which is its id, or a prefix of at least 8 characters.
func (c *Client) Plan(ctx context.Context, which string) (Plan, error) {
	return ask[Plan](ctx, c, "GET /plans/{id}", Params{"id": which}, nil)
}

// Intent is an action that an agent requested, with its state and its history.
type Intent struct {
	ID           string          `json:"id"`
	URI          string          `json:"uri"`
	State        string          `json:"state"`
	Dead         bool            `json:"dead,omitzero"` // a person should take care of it
	Tool         string          `json:"tool"`
	Version      string          `json:"version,omitzero"`
	Args         json.RawMessage `json:"args"`
	Summary      string          `json:"summary,omitzero"` // what the call does, as the work log says it
	ArgsHash     string          `json:"args_hash"`
	Hash         string          `json:"hash,omitzero"` // while it waits for approval: an answer repeats it
	Key          string          `json:"key"`
	User         string          `json:"user"`
	Agent        string          `json:"agent,omitzero"`
	Called       string          `json:"called,omitzero"` // what the agent was designed for, in words; not in lists
	Lineage      []string        `json:"lineage,omitzero"`
	Labels       []string        `json:"labels,omitzero"` // the labels of what the model had seen
	Fixed        bool            `json:"fixed"`           // decided before anything untrusted was read
	Open         []string        `json:"open,omitzero"`   // the parts that were not
	Deferred     bool            `json:"deferred,omitzero"`
	Reason       string          `json:"reason,omitzero"`
	Rule         string          `json:"rule,omitzero"`
	Policy       string          `json:"policy,omitzero"`
	Approvers    string          `json:"approvers,omitzero"`
	Approval     *GivenApproval  `json:"approval,omitzero"`
	DeniedBy     string          `json:"denied_by,omitzero"`
	Resolved     *Resolution     `json:"resolved,omitzero"`
	Attempts     int             `json:"attempts"`
	Conversation string          `json:"conversation_id,omitzero"`
	Interaction  string          `json:"interaction_id,omitzero"`
	Request      string          `json:"request_id,omitzero"`
	Call         string          `json:"call,omitzero"` // "MESSAGE/BLOCK"
	Created      time.Time       `json:"created"`
	Changed      time.Time       `json:"changed"`
	Expires      time.Time       `json:"expires,omitzero"`
	Undoes       string          `json:"undoes,omitzero"`
	Undone       string          `json:"undone,omitzero"`
	Retries      string          `json:"retries,omitzero"`
	Retried      string          `json:"retried,omitzero"`
	Result       string          `json:"result,omitzero"` // as text; not in lists
	Status       string          `json:"status,omitzero"` // of the result
	History      []IntentStep    `json:"history,omitzero"`
}

// GivenApproval is the approval under which an action was carried out.
type GivenApproval struct {
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	ArgsHash string    `json:"args_hash"`
	Version  string    `json:"version"` // of the tool
	Expires  time.Time `json:"expires,omitzero"`
	Shown    string    `json:"shown,omitzero"`  // hash of everything that the person was shown
	Grant    string    `json:"grant,omitzero"`  // URI of the standing approval that allowed it
	Edited   string    `json:"edited,omitzero"` // the arguments before the person changed them
	Via      string    `json:"via,omitzero"`    // the channel on which the person answered; empty: a terminal or the API
}

// Resolution is a person's statement whether an action was carried out.
type Resolution struct {
	By   string    `json:"by"`
	At   time.Time `json:"at"`
	Done bool      `json:"done"`
	Note string    `json:"note,omitzero"`
}

// IntentStep is one state change of an intent.
type IntentStep struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	State  string    `json:"state"`
	Reason string    `json:"reason,omitzero"`
}

// IntentQuery selects the intents to list. Empty members select everything.
type IntentQuery struct {
	State        string
	Dead         bool // only those that a person should take care of
	Conversation string
}

// Intents returns at most limit intents, the most recently changed first.
func (c *Client) Intents(ctx context.Context, q IntentQuery, limit int) ([]Intent, error) {
	p := Params{"state": q.State, "dead": yes(q.Dead), "conversation": q.Conversation}
	list, _, err := List[Intent](ctx, c, "GET /intents", "intents", p, limit)
	return list, err
}

// Intent returns everything about an intent. which is its id, or a prefix of at least 8 characters.
func (c *Client) Intent(ctx context.Context, which string) (Intent, error) {
	return ask[Intent](ctx, c, "GET /intents/{id}", Params{"id": which}, nil)
}

// ApproveIntent approves, once, an action that waits for the caller's approval. hash is the hash of
// the intent as it was shown.
func (c *Client) ApproveIntent(ctx context.Context, which, hash string) (Intent, error) {
	return ask[Intent](ctx, c, "POST /intents/{id}/approve", Params{"id": which}, map[string]string{"hash": hash})
}

// DenyIntent denies an action that waits for the caller's approval.
func (c *Client) DenyIntent(ctx context.Context, which, hash, reason string) (Intent, error) {
	return ask[Intent](ctx, c, "POST /intents/{id}/deny", Params{"id": which}, map[string]string{"hash": hash, "reason": reason})
}

// CancelIntent cancels an action that has not started.
func (c *Client) CancelIntent(ctx context.Context, which string) (Intent, error) {
	return ask[Intent](ctx, c, "POST /intents/{id}/cancel", Params{"id": which}, struct{}{})
}

// RetryIntent retries a failed action as a new intent.
func (c *Client) RetryIntent(ctx context.Context, which string) (Intent, error) {
	return ask[Intent](ctx, c, "POST /intents/{id}/retry", Params{"id": which}, struct{}{})
}

// UndoIntent undoes an action by a new intent.
func (c *Client) UndoIntent(ctx context.Context, which string) (Intent, error) {
	return ask[Intent](ctx, c, "POST /intents/{id}/undo", Params{"id": which}, struct{}{})
}

// ResolveIntent records whether an action with an unknown outcome was carried out.
func (c *Client) ResolveIntent(ctx context.Context, which string, done bool, note string) (Intent, error) {
	return ask[Intent](ctx, c, "POST /intents/{id}/resolve", Params{"id": which}, map[string]any{"done": done, "note": note})
}

// LogEntry describes a tool call in words for people.
type LogEntry struct {
	ID           string          `json:"id"` // "MESSAGE/BLOCK"
	At           time.Time       `json:"at"`
	TookMS       int64           `json:"took_ms,omitzero"`
	Conversation string          `json:"conversation_id"`
	Title        string          `json:"title,omitzero"`
	Interaction  string          `json:"interaction_id,omitzero"`
	Request      string          `json:"request_id,omitzero"`
	Actor        string          `json:"actor,omitzero"`
	Tool         string          `json:"tool"`
	Summary      string          `json:"summary"`
	Parameters   json.RawMessage `json:"parameters,omitempty"` // those that the tool's spec keeps
	Outcome      string          `json:"outcome"`              // "success", "failure", "partial" or "pending"
	Error        string          `json:"error,omitzero"`
	Impact       []string        `json:"impact,omitempty"`
	Call         string          `json:"call"`
	Messages     []string        `json:"messages"`          // the message with the call, and the message with its result
	Obsolete     bool            `json:"obsolete,omitzero"` // the result is no longer valid
}

// LogQuery selects tool calls. Empty members select everything.
type LogQuery struct {
	Conversation string // its preferred branch, unless AllBranches is set
	AllBranches  bool
	Interaction  string
	Tool         string // a name, or a glob such as files.*
	Outcome      string
	Since, Until time.Time
}

// Log returns at most limit tool calls, the newest first.
func (c *Client) Log(ctx context.Context, q LogQuery, limit int) ([]LogEntry, error) {
	p := Params{"conversation": q.Conversation, "interaction": q.Interaction, "tool": q.Tool, "outcome": q.Outcome,
		"since": stamp(q.Since), "until": stamp(q.Until)}
	if q.AllBranches {
		p["branches"] = "all"
	}
	list, _, err := List[LogEntry](ctx, c, "GET /log", "entries", p, limit)
	return list, err
}

// LoggedCall is a tool call with the messages that contain it.
type LoggedCall struct {
	Entry    LogEntry          `json:"entry"`
	Messages []json.RawMessage `json:"messages"` // in their stored form
}

// LogEntry returns one tool call. message is the id of its message, or the end of that id; block is
// the call's block.
func (c *Client) LogEntry(ctx context.Context, message, block string) (LoggedCall, error) {
	return ask[LoggedCall](ctx, c, "GET /log/{message}/{block}", Params{"message": message, "block": block}, nil)
}

// UsageReport sums up model calls.
type UsageReport struct {
	From  time.Time  `json:"from"`
	To    time.Time  `json:"to"`
	By    string     `json:"by"` // "day", "agent", "model" or "user"
	Rows  []UsageRow `json:"rows"`
	Total UsageRow   `json:"total"`
	Since time.Time  `json:"since,omitzero"` // set if there were more model calls than can be summed up: those before are left out
}

// UsageRow is the sum of some model calls.
type UsageRow struct {
	Key   string  `json:"key,omitzero"` // the day (2006-01-02), the agent ("designed" stands for all that were designed for tasks), the model or the user; empty: none
	Calls int     `json:"calls"`
	Usage Usage   `json:"usage"`
	Cost  float64 `json:"cost,omitzero"` // USD
}

// UsageQuery selects the model calls to sum up. Empty members stand for the last 30 days, by day.
type UsageQuery struct {
	From, To time.Time
	By       string
	AllUsers bool // requires an admin
}

// Usage returns what model calls used, summed up by day, agent, model or user.
func (c *Client) Usage(ctx context.Context, q UsageQuery) (UsageReport, error) {
	return ask[UsageReport](ctx, c, "GET /usage", Params{"from": stamp(q.From), "to": stamp(q.To), "by": q.By, "all_users": yes(q.AllUsers)}, nil)
}
