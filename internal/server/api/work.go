package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"steward/client"
	"steward/internal/conversation/worklog"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/plan"
	"steward/internal/requests"
	"steward/internal/server/auth"
	"steward/internal/store"
)

type logPage struct {
	Entries []worklog.Entry `json:"entries"`
	Next    store.Cursor    `json:"next,omitzero"`
}

// workLog answers with a page of tool calls, the newest first.
func (f *server) workLog(ctx context.Context, c *call, in struct {
	page
	Tool         string          `query:"tool"`
	Outcome      worklog.Outcome `query:"outcome"`
	Branches     string          `query:"branches"`
	Conversation id.ID           `query:"conversation"`
	Interaction  id.ID           `query:"interaction"`
	Since        time.Time       `query:"since"`
	Until        time.Time       `query:"until"`
}) (logPage, error) {
	switch {
	case in.Outcome != "" && !slices.Contains(worklog.Outcomes(), in.Outcome):
		return logPage{}, fault.New(fault.Invalid, "outcome_unknown", "unknown status of a call: %.40q", in.Outcome).WithHint("use one of %v", worklog.Outcomes())
	case !slices.Contains([]string{"", "preferred", "all"}, in.Branches):
		return logPage{}, fault.New(fault.Invalid, "branches_invalid", "unknown value branches=%.40q", in.Branches).WithHint("use preferred or all")
	}
	list, next, err := f.Node.WorkLog(ctx, c.User, worklog.Filter{Tool: in.Tool, Outcome: in.Outcome, AllBranches: in.Branches == "all",
		Conversation: in.Conversation, Interaction: in.Interaction, Since: in.Since, Until: in.Until}, in.After, in.limit())
	return logPage{all(list), next}, err
}

type loggedCall struct {
	Entry    worklog.Entry     `json:"entry"`
	Messages []json.RawMessage `json:"messages"`
}

// workLogEntry answers with one call and the messages that contain it.
func (f *server) workLogEntry(ctx context.Context, c *call, in struct {
	Message string `path:"message"`
	Block   string `path:"block"`
}) (loggedCall, error) {
	en, msgs, err := f.Node.WorkLogEntry(ctx, c.User, in.Message+"/"+in.Block)
	out := loggedCall{Entry: en}
	for _, m := range msgs {
		out.Messages = append(out.Messages, message.Append(nil, m))
	}
	return out, err
}

// requests answers with the requests that are open, or the newest ones.
func (f *server) requests(ctx context.Context, c *call, in struct {
	Limit    int  `query:"limit" range:"1,1000"`
	All      bool `query:"all"`
	AllUsers bool `query:"all_users"`
}) (map[string][]client.Request, error) {
	limit := cmp.Or(in.Limit, store.DefaultLimit)
	if !in.AllUsers {
		list, err := f.Node.Requests(ctx, c.User, in.All, limit)
		return the("requests", all(list)), err
	}
	if err := admins(c, "only an admin can list the requests of all users", "leave all_users out"); err != nil {
		return nil, err
	}
	list, err := f.Node.EverybodysRequests(ctx, in.All, limit)
	list = slices.DeleteFunc(list, func(r client.Request) bool { return identity.CheckActsFor(c.User, r.User) != nil })
	return the("requests", all(list)), err
}

// usage answers with sums of what model calls used.
func (f *server) usage(ctx context.Context, c *call, in struct {
	From     time.Time `query:"from"`
	To       time.Time `query:"to"`
	By       string    `query:"by"`
	AllUsers bool      `query:"all_users"`
}) (client.UsageReport, error) {
	q := requests.UsageQuery{From: in.From, To: in.To, By: in.By}
	if !in.AllUsers {
		return f.Node.UsageReport(ctx, c.User, q)
	}
	if err := admins(c, "only an admin can see the usage of all users", "leave all_users out"); err != nil {
		return client.UsageReport{}, err
	}
	q.All = func(user string) bool { return identity.CheckActsFor(c.User, user) == nil }
	return f.Node.UsageReport(ctx, c.User, q)
}

// named is the path parameter that holds an id or its beginning.
type named struct {
	ID string `path:"id"`
}

// request answers with the tree of a request.
func (f *server) request(ctx context.Context, c *call, in named) (client.Request, error) {
	return f.Node.RequestTree(ctx, c.User, in.ID)
}

// plans answers with the newest plans that were carried out.
func (f *server) plans(ctx context.Context, c *call, in struct {
	Limit int `query:"limit" range:"1,1000"`
}) (map[string][]client.Plan, error) {
	list, err := f.Node.Plans(ctx, c.User, cmp.Or(in.Limit, store.DefaultLimit))
	return the("plans", all(list)), err
}

// plan answers with one of them.
func (f *server) plan(ctx context.Context, c *call, in named) (client.Plan, error) {
	return f.Node.Plan(ctx, c.User, in.ID)
}

// ofUser names a request of the caller. Admins may name another user.
type ofUser struct {
	ID   string `path:"id"`
	User string `query:"user"`
}

func (f *server) cancelRequest(ctx context.Context, c *call, in ofUser) (noContent, error) {
	return onRequest(ctx, c, in, f.Node.CancelRequest)
}

// resumeRequest resumes a parked turn.
func (f *server) resumeRequest(ctx context.Context, c *call, in ofUser) (noContent, error) {
	return onRequest(ctx, c, in, f.Node.ResumeRequest)
}

// pauseTask pauses a task of a plan, and what is below it.
func (f *server) pauseTask(ctx context.Context, c *call, in ofUser) (noContent, error) {
	return f.orderTask(ctx, c, in, plan.Pause, nil)
}

// retryTask begins a task of a plan again that is over without an output.
func (f *server) retryTask(ctx context.Context, c *call, in ofUser) (noContent, error) {
	return f.orderTask(ctx, c, in, plan.Retry, nil)
}

// editTask replaces what a task of a plan is about that has not begun.
func (f *server) editTask(ctx context.Context, c *call, in struct {
	ofUser
	Body plan.Draft `body:""`
}) (noContent, error) {
	return f.orderTask(ctx, c, in.ofUser, plan.Edit, &in.Body)
}

func (f *server) orderTask(ctx context.Context, c *call, in ofUser, order plan.Command, edited *plan.Draft) (noContent, error) {
	return onRequest(ctx, c, in, func(ctx context.Context, user, which string) error {
		return f.Node.OrderTask(ctx, user, which, order, edited)
	})
}

func onRequest(ctx context.Context, c *call, in ofUser, do func(ctx context.Context, user, which string) error) (noContent, error) {
	user := cmp.Or(in.User, c.User)
	if user != c.User {
		if err := admins(c, "only an admin can control the requests of others", "leave user out"); err != nil {
			return noContent{}, err
		}
		if err := identity.CheckActsFor(c.User, user); err != nil {
			return noContent{}, err
		}
	}
	return noContent{}, do(ctx, user, in.ID)
}

type intentPage struct {
	Intents []client.Intent `json:"intents"`
	Next    store.Cursor    `json:"next,omitempty"`
}

// intents answers with the caller's actions, the most recently changed first.
func (f *server) intents(ctx context.Context, c *call, in struct {
	page
	State        intent.State `query:"state"`
	Dead         bool         `query:"dead"`
	Conversation id.ID        `query:"conversation"`
}) (intentPage, error) {
	filter := requests.IntentFilter{State: in.State, Dead: in.Dead, Conversation: in.Conversation}
	list, next, err := f.Node.Intents(ctx, c.User, filter, in.After, in.limit())
	return intentPage{list, next}, err
}

// intent answers with everything about an action.
func (f *server) intent(ctx context.Context, c *call, in named) (client.Intent, error) {
	return f.Node.Intent(ctx, c.User, in.ID)
}

// intentWait is how long a request waits for the outcome of an action. After that the action
// continues in the background.
const intentWait = time.Minute

func changeIntent(ctx context.Context, c *call, which string, do func(ctx context.Context, user, which string) (client.Intent, error)) (client.Intent, error) {
	ctx, cancel := context.WithTimeout(ctx, intentWait)
	defer cancel()
	v, err := do(ctx, c.User, which)
	if intent.State(v.State).InFlight() {
		c.status = http.StatusAccepted
	}
	return v, err
}

func (f *server) cancelIntent(ctx context.Context, c *call, in named) (client.Intent, error) {
	return changeIntent(ctx, c, in.ID, f.Node.CancelIntent)
}

func (f *server) retryIntent(ctx context.Context, c *call, in named) (client.Intent, error) {
	return changeIntent(ctx, c, in.ID, f.Node.RetryIntent)
}

func (f *server) undoIntent(ctx context.Context, c *call, in named) (client.Intent, error) {
	return changeIntent(ctx, c, in.ID, f.Node.UndoIntent)
}

// intentAnswer is a person's decision on an action that waits for approval.
type intentAnswer struct {
	ID   string `path:"id"`
	Body struct {
		Hash   string `json:"hash"`
		Reason string `json:"reason"`
	} `body:""`
}

func (f *server) approveIntent(ctx context.Context, c *call, in intentAnswer) (client.Intent, error) {
	return f.answerIntent(ctx, c, in, true)
}

func (f *server) denyIntent(ctx context.Context, c *call, in intentAnswer) (client.Intent, error) {
	return f.answerIntent(ctx, c, in, false)
}

func (f *server) answerIntent(ctx context.Context, c *call, in intentAnswer, approve bool) (client.Intent, error) {
	said, err := auth.Answer{Hash: in.Body.Hash, Reason: in.Body.Reason}.Verdict(c.Caller, in.ID, approve)
	if err != nil {
		return client.Intent{}, err
	}
	return f.Node.AnswerIntent(ctx, c.User, said.ID, said.Hash, said.Reason, said.Approve)
}

// resolveIntent records a person's statement whether an action with an unknown outcome was
// carried out.
func (f *server) resolveIntent(ctx context.Context, c *call, in struct {
	ID   string `path:"id"`
	Body struct {
		Done *bool  `json:"done"`
		Note string `json:"note"`
	} `body:""`
}) (client.Intent, error) {
	if in.Body.Done == nil {
		return client.Intent{}, fault.New(fault.Invalid, "done_missing", "the member done is missing").WithHint("set done to true or false")
	}
	return f.Node.ResolveIntent(ctx, c.User, in.ID, effect.Resolution{Done: *in.Body.Done, Note: in.Body.Note})
}
