package client

import (
	"context"
	"encoding/json"
	"strconv"
	"time"
)

// Request is a unit of asked work, with what it led to below it.
type Request struct {
	ID           string    `json:"id,omitzero"`
	User         string    `json:"user,omitzero"`
	Kind         string    `json:"kind"` // "turn", "agent", "task", "call" or "tool"
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
	Cost         float64   `json:"cost,omitzero"` // US dollars
	Below        []Request `json:"below,omitzero"`
}

// Took is how long it took, or takes until now.
func (r *Request) Took(now time.Time) time.Duration {
	if r.Started.IsZero() {
		return 0
	}
	if !r.Ended.IsZero() {
		now = r.Ended
	}
	return max(0, now.Sub(r.Started))
}

// Requests returns at most limit requests, without what is below them: the
// open ones, or the newest; those of all users are for admins.
func (c *Client) Requests(ctx context.Context, all, allUsers bool, limit int) ([]Request, error) {
	p := Params{"all": yes(all), "all_users": yes(allUsers), "limit": strconv.Itoa(min(limit, maxPage))}
	return whole[Request](ctx, c, "GET /requests", "requests", p)
}

// Request returns the turn that a request is for, with all that it led to. A
// request is named by its id, or by at least 8 characters of its beginning.
func (c *Client) Request(ctx context.Context, which string) (Request, error) {
	return ask[Request](ctx, c, "GET /requests/{id}", Params{"id": which}, nil)
}

// CancelRequest ends what a request still does; user is whose it is, for
// admins, and empty for the caller's own.
func (c *Client) CancelRequest(ctx context.Context, which, user string) error {
	return c.Call(ctx, "DELETE /requests/{id}", Params{"id": which, "user": user}, nil, nil)
}

// ResumeRequest goes on with a turn that is parked.
func (c *Client) ResumeRequest(ctx context.Context, which, user string) error {
	return c.Call(ctx, "POST /requests/{id}/resume", Params{"id": which, "user": user}, nil, nil)
}

// Intent is an action that an agent wanted, and what became of it.
type Intent struct {
	ID           string          `json:"id"`
	URI          string          `json:"uri"`
	State        string          `json:"state"`
	Dead         bool            `json:"dead,omitzero"` // somebody should do something about it
	Tool         string          `json:"tool"`
	Version      string          `json:"version,omitzero"`
	Args         json.RawMessage `json:"args"`
	ArgsHash     string          `json:"args_hash"`
	Hash         string          `json:"hash,omitzero"` // while a person is asked: an answer repeats it
	Key          string          `json:"key"`
	User         string          `json:"user"`
	Agent        string          `json:"agent,omitzero"`
	Lineage      []string        `json:"lineage,omitzero"`
	Labels       []string        `json:"labels,omitzero"` // of what the model had been shown
	Fixed        bool            `json:"fixed"`           // before anything untrusted was read
	Open         []string        `json:"open,omitzero"`   // what was not
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
	Result       string          `json:"result,omitzero"` // in words; not in lists
	Status       string          `json:"status,omitzero"` // of the result
	History      []IntentStep    `json:"history,omitzero"`
}

// GivenApproval is the approval by which an action was done.
type GivenApproval struct {
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	ArgsHash string    `json:"args_hash"`
	Version  string    `json:"version"` // of the tool
	Expires  time.Time `json:"expires,omitzero"`
	Shown    string    `json:"shown,omitzero"`  // hash over all that the person was shown
	Grant    string    `json:"grant,omitzero"`  // URI of the standing approval by which it was given
	Edited   string    `json:"edited,omitzero"` // the arguments before the person changed them
}

// Resolution is a person's word about whether an action was done.
type Resolution struct {
	By   string    `json:"by"`
	At   time.Time `json:"at"`
	Done bool      `json:"done"`
	Note string    `json:"note,omitzero"`
}

// IntentStep is a change of an intent's state.
type IntentStep struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	State  string    `json:"state"`
	Reason string    `json:"reason,omitzero"`
}

// IntentQuery says which intents are listed; empty members leave it open.
type IntentQuery struct {
	State        string
	Dead         bool // only those about which somebody should do something
	Conversation string
}

// Intents returns at most limit intents, those that changed last first.
func (c *Client) Intents(ctx context.Context, q IntentQuery, limit int) ([]Intent, error) {
	p := Params{"state": q.State, "dead": yes(q.Dead), "conversation": q.Conversation}
	list, _, err := List[Intent](ctx, c, "GET /intents", "intents", p, limit)
	return list, err
}

// Intent returns everything about an intent, which is named by its id or by at
// least 8 characters of its beginning.
func (c *Client) Intent(ctx context.Context, which string) (Intent, error) {
	return ask[Intent](ctx, c, "GET /intents/{id}", Params{"id": which}, nil)
}

// ApproveIntent allows an action that waits for the caller's word, once. hash
// is that of the intent as it was shown.
func (c *Client) ApproveIntent(ctx context.Context, which, hash string) (Intent, error) {
	return ask[Intent](ctx, c, "POST /intents/{id}/approve", Params{"id": which}, map[string]string{"hash": hash})
}

// DenyIntent refuses an action that waits for the caller's word.
func (c *Client) DenyIntent(ctx context.Context, which, hash, reason string) (Intent, error) {
	return ask[Intent](ctx, c, "POST /intents/{id}/deny", Params{"id": which}, map[string]string{"hash": hash, "reason": reason})
}

// CancelIntent withdraws an action that has not begun.
func (c *Client) CancelIntent(ctx context.Context, which string) (Intent, error) {
	return ask[Intent](ctx, c, "POST /intents/{id}/cancel", Params{"id": which}, struct{}{})
}

// RetryIntent tries an action again that failed, by one of its own.
func (c *Client) RetryIntent(ctx context.Context, which string) (Intent, error) {
	return ask[Intent](ctx, c, "POST /intents/{id}/retry", Params{"id": which}, struct{}{})
}

// UndoIntent takes back what an action has done, by one of its own.
func (c *Client) UndoIntent(ctx context.Context, which string) (Intent, error) {
	return ask[Intent](ctx, c, "POST /intents/{id}/undo", Params{"id": which}, struct{}{})
}

// ResolveIntent says what became of an action of which nobody knows.
func (c *Client) ResolveIntent(ctx context.Context, which string, done bool, note string) (Intent, error) {
	return ask[Intent](ctx, c, "POST /intents/{id}/resolve", Params{"id": which}, map[string]any{"done": done, "note": note})
}

// LogEntry is a tool call in a person's words.
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
	Messages     []string        `json:"messages"`          // the one that makes the call, and the one with its result
	Obsolete     bool            `json:"obsolete,omitzero"` // the result does not hold any more
}

// LogQuery says which tool calls are told; empty members leave it open.
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

// LoggedCall is a tool call with the messages that it was made in.
type LoggedCall struct {
	Entry    LogEntry          `json:"entry"`
	Messages []json.RawMessage `json:"messages"` // in their stored form
}

// LogEntry returns one tool call, by the id of its message, or the end of it,
// and its block.
func (c *Client) LogEntry(ctx context.Context, message, block string) (LoggedCall, error) {
	return ask[LoggedCall](ctx, c, "GET /log/{message}/{block}", Params{"message": message, "block": block}, nil)
}
