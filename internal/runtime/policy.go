package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/policy/rego"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// Explainer is a judge that says how it decides; rego.Judge is one.
type Explainer interface {
	Explain(ctx context.Context, q policy.Question) (rego.Explained, error)
}

// PolicyQuestion is what a person asks about policy. In JSON it is the body of
// a request. Which members a point needs is told with policy.Point.
type PolicyQuestion struct {
	Request string `json:"request,omitzero"` // an action, or a request with actions, that was judged: its id; the rest is not looked at

	Point   policy.Point    `json:"point,omitzero"` // empty: tool
	User    string          `json:"user,omitzero"`  // empty: who asks
	Agent   string          `json:"agent,omitzero"`
	Lineage []string        `json:"lineage,omitzero"`
	Tool    string          `json:"tool,omitzero"`   // by name, as the agent has it
	Effect  string          `json:"effect,omitzero"` // query or action, of a tool that there is not
	Args    json.RawMessage `json:"args,omitzero"`
	Labels  string          `json:"labels,omitzero"` // joined by commas
	Late    bool            `json:"late,omitzero"`   // the call was not fixed before something untrusted was read
	Alone   bool            `json:"alone,omitzero"`  // nobody is there who could be asked
	Action  string          `json:"action,omitzero"` // access
	Type    string          `json:"type,omitzero"`   // access: of the resource
	Space   string          `json:"space,omitzero"`  // access: "user:ann", "group:family", "system"
	Model   string          `json:"model,omitzero"`  // model: "provider/model"
	Local   bool            `json:"local,omitzero"`  // model
	Target  string          `json:"target,omitzero"` // delegate: the agent that is asked; agent: what is approved
	At      time.Time       `json:"at,omitzero"`
}

// PolicyAnswer tells how policy decides a question, and, where it is about
// something that was judged, how it decided then.
type PolicyAnswer struct {
	rego.Explained
	Point    policy.Point    `json:"point"`
	About    string          `json:"about"` // in a line: "email.send by assistant for ann"
	Recorded *PolicyRecorded `json:"recorded,omitzero"`
}

// PolicyRecorded is what is recorded of a decision.
type PolicyRecorded struct {
	Intent string    `json:"intent"` // the action's id
	State  string    `json:"state"`
	Rule   string    `json:"rule,omitzero"`
	Reason string    `json:"reason,omitzero"`
	Policy string    `json:"policy,omitzero"` // the version that decided
	At     time.Time `json:"at"`
	Gone   bool      `json:"gone,omitzero"` // the tool is not there any more: it is judged by its name alone
}

// Judge returns the node's judge.
func (n *Node) Judge() policy.Judge { return n.opt.Judge }

// ExplainPolicy explains, for a user, how policy decides: one answer, or one
// for each action of a request. Error codes: policy_unexplained,
// policy_point, tool_unknown, intent_not_found, args_invalid.
func (n *Node) ExplainPolicy(ctx context.Context, user string, q PolicyQuestion) ([]PolicyAnswer, error) {
	j, ok := n.opt.Judge.(Explainer)
	if !ok {
		return nil, fault.New(fault.Unsupported, "policy_unexplained", "what decides here cannot be explained")
	}
	if q.Request != "" {
		return n.explainRecorded(ctx, j, user, q.Request)
	}
	asked, err := n.policyQuestion(user, q)
	if err != nil {
		return nil, err
	}
	a, err := policyAnswer(ctx, j, asked)
	return []PolicyAnswer{a}, err
}

// policyQuestion is a person's question as the judge takes it.
func (n *Node) policyQuestion(user string, q PolicyQuestion) (policy.Question, error) {
	out := policy.Question{Point: cmp.Or(q.Point, policy.PointTool), User: cmp.Or(q.User, user), Agent: cmp.Or(q.Agent, DefaultAgent), Lineage: q.Lineage,
		Attended: !q.Alone, Flow: policy.Flow{Fixed: !q.Late}, Action: q.Action, Target: q.Target, At: q.At,
		Resource: policy.Resource{Type: q.Type, Space: resource.Space(q.Space)}}
	var err error
	if out.Labels, err = message.ParseLabels(q.Labels); err != nil {
		return out, err
	}
	if q.Late {
		out.Flow.Open, out.Flow.Why = []string{""}, "it was decided after something untrusted had been read"
	}
	out.Model.Provider, out.Model.Name, _ = strings.Cut(q.Model, "/")
	out.Model.Local = q.Local
	if out.Point != policy.PointTool && out.Point != policy.PointIntent {
		return out, nil
	}
	return out, n.aboutTool(&out, q)
}

// aboutTool fills in the tool of a question and its arguments.
func (n *Node) aboutTool(out *policy.Question, q PolicyQuestion) error {
	if q.Tool == "" {
		return fault.New(fault.Invalid, "policy_question", "it is not said which tool the question is about").With("name one: --tool email.send")
	}
	out.Tool = tool.Spec{Name: q.Tool, Effect: tool.Effect(q.Effect)}
	t, ok := n.callee(out.Agent, q.Tool)
	if !ok {
		t, ok = n.toolOf(out.Agent, q.Tool)
	}
	switch {
	case ok:
		out.Tool = t.Spec()
	case q.Effect == "":
		return fault.New(fault.NotFound, "tool_unknown", "there is no tool %.100q", q.Tool).
			With("steward agents show tells those that there are; of one that there is not yet, say --effect query or action")
	}
	if len(q.Args) > 0 {
		args, err := tool.Canonical(q.Args)
		if err != nil {
			return err
		}
		out.Args = args
	}
	return nil
}

func policyAnswer(ctx context.Context, j Explainer, q policy.Question) (PolicyAnswer, error) {
	e, err := j.Explain(ctx, q)
	return PolicyAnswer{Explained: e, Point: q.Point, About: aboutQuestion(q)}, err
}

// aboutQuestion says in a line what is decided.
func aboutQuestion(q policy.Question) string {
	what := ""
	switch q.Point {
	case policy.PointAccess:
		what = q.Action + " " + cmp.Or(q.Resource.Type, "resources") + " in " + cmp.Or(string(q.Resource.Space), "no space")
	case policy.PointModel:
		what = "send to " + q.Model.Provider + "/" + q.Model.Name
		if q.Labels != 0 {
			what += " what is " + strings.Join(q.Labels.Names(), " and ")
		}
	case policy.PointAgent:
		what = "approve " + cmp.Or(q.Target, "an agent")
	case policy.PointDelegate:
		what = "ask " + cmp.Or(q.Target, "an agent")
	default:
		what = q.Tool.Name
	}
	if q.Point != policy.PointAgent && q.Point != policy.PointAccess {
		what += " by " + strings.Join(append(append([]string{}, q.Lineage...), cmp.Or(q.Agent, DefaultAgent)), " → ")
	}
	return what + " for " + q.User
}

// mostExplained bounds the actions of a request that are explained.
const mostExplained = 20

// explainRecorded explains what is recorded of an action, or of a request's.
func (n *Node) explainRecorded(ctx context.Context, j Explainer, user, which string) ([]PolicyAnswer, error) {
	v, err := n.Intent(ctx, user, which)
	views := []IntentView{v}
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		views, err = n.intentsOf(ctx, user, which)
	}
	if err != nil {
		return nil, err
	}
	out := make([]PolicyAnswer, 0, len(views))
	for _, v := range views {
		a, err := n.explainIntent(ctx, j, v)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// intentsOf finds the actions of a request by the beginning of its id, or of
// the turn or the conversation that it is for.
func (n *Node) intentsOf(ctx context.Context, user, which string) ([]IntentView, error) {
	const shortest, pages = 8, 20
	none := fault.New(fault.NotFound, "intent_not_found", "there is no action %.60q of yours, and no request with actions", which).
		With("only actions are recorded: steward intents list; ask about anything else by --tool, --user and so on")
	if len(which) < shortest {
		return nil, none
	}
	var out []IntentView
	after := store.Cursor("")
	for range pages {
		list, next, err := n.Intents(ctx, user, IntentFilter{}, after, mostExplained)
		if err != nil {
			return nil, err
		}
		for _, v := range list {
			if strings.HasPrefix(v.Request.String(), which) || strings.HasPrefix(v.Interaction.String(), which) || strings.HasPrefix(v.Conversation.String(), which) {
				out = append(out, v)
			}
		}
		if after = next; after == "" || len(out) >= mostExplained {
			break
		}
	}
	if len(out) == 0 {
		return nil, none
	}
	return out[:min(len(out), mostExplained)], nil
}

// explainIntent judges an action once more, as it was judged.
func (n *Node) explainIntent(ctx context.Context, j Explainer, v IntentView) (PolicyAnswer, error) {
	q := policy.Question{Point: policy.PointTool, User: v.User, Agent: v.Agent, Lineage: v.Lineage, Args: v.Args, Attended: true,
		Flow: policy.Flow{Fixed: v.Fixed, Open: v.Open}, At: v.Created, Tool: tool.Spec{Name: v.Tool, Effect: tool.Action}}
	var err error
	if q.Labels, err = message.ParseLabels(strings.Join(v.Labels, ",")); err != nil {
		return PolicyAnswer{}, err
	}
	t, ok := n.callee(v.Agent, v.Tool)
	if ok {
		q.Tool = t.Spec()
	}
	a, err := policyAnswer(ctx, j, q)
	a.Recorded = &PolicyRecorded{Intent: v.ID.String(), State: string(v.State), Rule: v.Rule, Reason: v.Reason, Policy: v.Policy, At: v.Created, Gone: !ok}
	return a, err
}
