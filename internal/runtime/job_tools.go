package runtime

import (
	"context"
	"maps"
	"path"
	"slices"
	"sync"

	"steward/internal/id"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/store"
	"steward/internal/tool"
)

// maxJobTurns is how many turns of jobs are remembered with what they may do.
const maxJobTurns = 10_000

// jobTools is what jobs may do with tools, by the turns that they have opened. It stands between the
// engines and policy, and only narrows what policy decides: "allow" leaves a decision as it is, "ask"
// turns an allowance into a question, "deny" refuses. A turn is remembered after its end, because what
// it has begun in the background may still call tools. The zero value is ready to use.
type jobTools struct {
	mu    sync.Mutex
	turns map[id.ID]jobLimits
	order []id.ID // of turns, the oldest first
}

type jobLimits struct {
	user  string
	tools map[string]string
}

func (t *jobTools) add(user string, inter id.ID, tools map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turns == nil {
		t.turns = map[id.ID]jobLimits{}
	}
	if len(tools) == 0 || t.turns[inter].tools != nil {
		return
	}
	t.turns[inter] = jobLimits{user, tools}
	if t.order = append(t.order, inter); len(t.order) > maxJobTurns {
		delete(t.turns, t.order[0])
		t.order = t.order[1:]
	}
}

// drop forgets the turns of a user.
func (t *jobTools) drop(user string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.order = slices.DeleteFunc(t.order, func(inter id.ID) bool { return t.turns[inter].user == user })
	maps.DeleteFunc(t.turns, func(_ id.ID, l jobLimits) bool { return l.user == user })
}

// may returns what the job on whose behalf a call is made may do with a tool; empty: it says nothing.
// The most specific pattern counts.
func (t *jobTools) may(ctx context.Context, spec tool.Spec) string {
	name := spec.Name
	rc, ok := request.From(ctx)
	if !ok {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	tools := t.turns[rc.ID].tools
	if tools == nil {
		tools = t.turns[rc.Root].tools
	}
	if may, ok := tools[name]; ok {
		return may
	}
	best, may := "", ""
	for pattern, v := range tools {
		if fits, err := path.Match(pattern, name); err == nil && fits && (may == "" || len(pattern) > len(best) || len(pattern) == len(best) && pattern < best) {
			best, may = pattern, v
		}
	}
	if may == "" && spec.Effect != tool.Query {
		may = tools[record.AllActions]
	}
	return may
}

// over returns an authorizer that applies the limits of jobs to what another one decides.
func (t *jobTools) over(inner policy.Authorizer) policy.Authorizer { return jobAuthorizer{t, inner} }

type jobAuthorizer struct {
	tools *jobTools
	inner policy.Authorizer
}

// Authorize implements policy.Authorizer.
func (a jobAuthorizer) Authorize(ctx context.Context, q policy.Question) (policy.Decision, error) {
	d, err := a.inner.Authorize(ctx, q)
	if err != nil || q.Point != policy.PointTool && q.Point != policy.PointIntent && q.Point != "" {
		return d, err
	}
	switch a.tools.may(ctx, q.Tool) {
	case record.ToolDeny:
		return policy.Stricter(policy.Decision{Verdict: policy.Deny, Reason: "the job may not use this tool; tell the user what you would do with it", Rule: "job.tools", Always: true}, d), nil
	case record.ToolAsk:
		return policy.Stricter(d, policy.Decision{Verdict: policy.Ask, Reason: "the job asks before it uses this tool", Rule: "job.tools"}), nil
	}
	return d, nil
}

// restoreJobTools reads what the jobs in the spaces of a scope may do whose occurrences were running when Steward
// stopped, before their runs are resumed.
func (n *Node) restoreJobTools(ctx context.Context, sc store.Scope) error {
	if n.opt.Alarms == nil {
		return nil
	}
	for a, err := range n.opt.Alarms.Interrupted(ctx, sc) {
		if err != nil {
			return err
		}
		n.jobTools.add(a.Job.User, jobTurn(a.Key()), a.Job.Tools)
	}
	return nil
}
