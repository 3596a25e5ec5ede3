package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/policy/rego"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/taint"
	"steward/internal/tool"
)

// Explainer is an authorizer that explains its decisions; rego.Authorizer is one.
type Explainer interface {
	Explain(ctx context.Context, q policy.Question) (rego.Explained, error)
}

// PolicyQuestion is a person's question about policy. In JSON it is the body of a
// request. policy.Point documents which members a point needs.
type PolicyQuestion struct {
	Request string `json:"request,omitzero"` // id of a recorded action, or of a request with actions; the other members are then ignored

	Point   policy.Point    `json:"point,omitzero"` // empty: tool
	User    string          `json:"user,omitzero"`  // empty: the caller
	Agent   string          `json:"agent,omitzero"`
	Lineage []string        `json:"lineage,omitzero"`
	Tool    string          `json:"tool,omitzero"`   // by name, as the agent has it
	Effect  string          `json:"effect,omitzero"` // query or action; for a tool that does not exist
	Args    json.RawMessage `json:"args,omitzero"`
	Labels  string          `json:"labels,omitzero"` // joined by commas
	Late    bool            `json:"late,omitzero"`   // the call was not fixed before something untrusted was read
	Alone   bool            `json:"alone,omitzero"`  // no person is present who could be asked
	Action  string          `json:"action,omitzero"` // access
	Type    string          `json:"type,omitzero"`   // access: of the resource
	Space   string          `json:"space,omitzero"`  // access: "user:ann", "group:family", "system"
	Model   string          `json:"model,omitzero"`  // model: "provider/model"
	Local   bool            `json:"local,omitzero"`  // model
	Target  string          `json:"target,omitzero"` // delegate: the asked agent; agent: what is approved
	At      time.Time       `json:"at,omitzero"`

	Conversation id.ID `json:"conversation_id,omitzero"` // of the call: an approval may be limited to one conversation
}

// PolicyAnswer explains how policy decides a question and, if the question is
// about a recorded action, how it decided then.
type PolicyAnswer struct {
	rego.Explained
	Point    policy.Point    `json:"point"`
	About    string          `json:"about"`          // in one line: "mail.send by assistant for ann"
	Grant    string          `json:"grant,omitzero"` // the standing approval that allows it
	Note     string          `json:"note,omitzero"`
	Recorded *PolicyRecorded `json:"recorded,omitzero"`
}

// PolicyRecorded is what is recorded of a past decision.
type PolicyRecorded struct {
	Intent string    `json:"intent"` // the action's id
	State  string    `json:"state"`
	Rule   string    `json:"rule,omitzero"`
	Reason string    `json:"reason,omitzero"`
	Policy string    `json:"policy,omitzero"` // the version that decided
	At     time.Time `json:"at"`
	Gone   bool      `json:"gone,omitzero"` // the tool no longer exists: it is judged by its name alone
}

// ExplainPolicy explains to a user how policy decides: one answer, or one for
// each action of a request. Error codes: policy_unexplained, policy_point,
// tool_unknown, intent_not_found, args_invalid.
func (n *Node) ExplainPolicy(ctx context.Context, user string, q PolicyQuestion) ([]PolicyAnswer, error) {
	j, ok := n.opt.Authorizer.(Explainer)
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
	if asked.Point == policy.PointTool || asked.Point == policy.PointIntent {
		a, err := n.explainCall(ctx, j, asked, q)
		return []PolicyAnswer{a}, err
	}
	a, err := policyAnswer(ctx, j, asked)
	return []PolicyAnswer{a}, err
}

// policyQuestion converts a person's question for the authorizer.
func (n *Node) policyQuestion(user string, q PolicyQuestion) (policy.Question, error) {
	out := policy.Question{Point: cmp.Or(q.Point, policy.PointTool), User: cmp.Or(q.User, user), Agent: cmp.Or(q.Agent, kits.DefaultAgent), Lineage: q.Lineage,
		Attended: !q.Alone, Action: q.Action, Target: q.Target, At: q.At,
		Resource: policy.Resource{Type: q.Type, Space: resource.Space(q.Space)}}
	var err error
	if out.Labels, err = message.ParseLabels(q.Labels); err != nil {
		return out, err
	}
	out.Model.Provider, out.Model.Name, _ = strings.Cut(q.Model, "/")
	out.Model.Local = q.Local
	return out, nil
}

// explainCall explains how a tool call would be decided.
func (n *Node) explainCall(ctx context.Context, j Explainer, asked policy.Question, q PolicyQuestion) (PolicyAnswer, error) {
	if q.Tool == "" {
		return PolicyAnswer{}, fault.New(fault.Invalid, "policy_question", "it is not said which tool the question is about").WithHint("name one: --tool mail.send")
	}
	c := effect.Call{Name: q.Tool, Args: q.Args, Request: request.Context{User: asked.User}, Agent: asked.Agent, Lineage: asked.Lineage,
		Labels: asked.Labels, Attended: asked.Attended, Action: asked.Action, At: asked.At}
	if !q.Conversation.Zero() {
		c.Message = record.ConversationURI(q.Conversation)
	}
	note := ""
	var ok bool
	if c.Tool, ok = n.Kits.Callee(asked.Agent, q.Tool); !ok {
		c.Tool, ok = n.Kits.ToolOf(asked.Agent, q.Tool)
		note = asked.Agent + " does not have it: a call of it fails"
	}
	switch {
	case ok:
	case q.Effect == "" && n.Kits.Awaited(q.Tool) != "":
		return PolicyAnswer{}, n.Kits.UnknownTool(q.Tool)
	case q.Effect == "":
		return PolicyAnswer{}, fault.New(fault.NotFound, "tool_unknown", "there is no tool %.100q", q.Tool).
			WithHint("steward agents show tells those that there are; of one that there is not yet, say --effect query or action")
	default:
		c.Tool, note = specOnly{spec: tool.Spec{Name: q.Tool, Effect: tool.Effect(q.Effect)}}, ""
	}
	if q.Late {
		c.Labels |= message.Untrusted
	}
	if c.Flow, ok = taint.Plain(c.Labels, c.Tool.Spec()); !ok && !q.Late {
		c.Flow = policy.Flow{Fixed: true}
	}
	a, err := n.ruled(ctx, j, asked.Point, c)
	a.Note = note
	return a, err
}

// ruled decides a call as it would be decided if it were made, and explains what
// the decision is based on.
func (n *Node) ruled(ctx context.Context, j Explainer, point policy.Point, c effect.Call) (PolicyAnswer, error) {
	r, err := n.Effects.Authorize(ctx, point, c)
	if err != nil {
		return PolicyAnswer{}, err
	}
	a, err := policyAnswer(ctx, j, r.Question)
	if err != nil {
		return a, err
	}
	if target, asks := strings.CutPrefix(r.Question.Tool.Origin, kits.AskedOrigin); asks {
		q := r.Question
		q.Point, q.Target = policy.PointDelegate, target
		other, err := policyAnswer(ctx, j, q)
		if err != nil {
			return a, err
		}
		a.Rules = append(a.Rules, slices.DeleteFunc(other.Rules, func(t rego.RuleTrace) bool { return !t.Fired })...)
	}
	a.Verdict, a.Reason, a.Rule, a.Mask, a.Cap, a.Approvers = r.Verdict, r.Reason, r.Rule, r.Mask, r.Cap, r.Approvers
	if r.Grant != "" {
		uri, err := resource.Parse(r.Grant)
		if err != nil {
			return a, err
		}
		a.Verdict, a.Grant, a.Reason = policy.Allow, uri.ID(), "a standing approval answers what would be asked: "+r.Reason
	}
	return a, nil
}

func policyAnswer(ctx context.Context, j Explainer, q policy.Question) (PolicyAnswer, error) {
	e, err := j.Explain(ctx, q)
	return PolicyAnswer{Explained: e, Point: q.Point, About: aboutQuestion(q)}, err
}

// aboutQuestion describes in one line what is decided.
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
		what += " by " + strings.Join(append(append([]string{}, q.Lineage...), cmp.Or(q.Agent, kits.DefaultAgent)), " → ")
	}
	return what + " for " + q.User
}

// specOnly stands for a tool that is judged and not called.
type specOnly struct {
	tool.Tool
	spec tool.Spec
}

// Spec implements tool.Tool.
func (t specOnly) Spec() tool.Spec { return t.spec }

// maxExplained bounds the actions of a request that are explained.
const maxExplained = 20

// explainRecorded explains a recorded action, or the actions of a request.
func (n *Node) explainRecorded(ctx context.Context, j Explainer, user, which string) ([]PolicyAnswer, error) {
	v, err := n.Intent(ctx, user, which)
	views := []client.Intent{v}
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

// intentsOf finds actions by the first characters of the id of their request,
// turn or conversation.
func (n *Node) intentsOf(ctx context.Context, user, which string) ([]client.Intent, error) {
	const shortest, pages = 8, 20
	none := fault.New(fault.NotFound, "intent_not_found", "there is no action %.60q of yours, and no request with actions", which).
		WithHint("only actions are recorded: steward intents list; ask about anything else by --tool, --user and so on")
	if len(which) < shortest {
		return nil, none
	}
	var out []client.Intent
	after := store.Cursor("")
	for range pages {
		list, next, err := n.Intents(ctx, user, requests.IntentFilter{}, after, maxExplained)
		if err != nil {
			return nil, err
		}
		for _, v := range list {
			if strings.HasPrefix(v.Request, which) || strings.HasPrefix(v.Interaction, which) || strings.HasPrefix(v.Conversation, which) {
				out = append(out, v)
			}
		}
		if after = next; after == "" || len(out) >= maxExplained {
			break
		}
	}
	if len(out) == 0 {
		return nil, none
	}
	return out[:min(len(out), maxExplained)], nil
}

// explainIntent authorizes an action again under the conditions of its first
// decision.
func (n *Node) explainIntent(ctx context.Context, j Explainer, v client.Intent) (PolicyAnswer, error) {
	conv, _ := id.Parse(v.Conversation)
	c := effect.Call{Name: v.Tool, Args: v.Args, Message: record.ConversationURI(conv), Request: request.Context{User: v.User}, Agent: v.Agent,
		Lineage: v.Lineage, Attended: true, Flow: policy.Flow{Fixed: v.Fixed, Open: v.Open}, At: v.Created}
	var err error
	if c.Labels, err = message.ParseLabels(strings.Join(v.Labels, ",")); err != nil {
		return PolicyAnswer{}, err
	}
	if v.Undoes != "" {
		c.Action = effect.ActionUndo
	}
	spec := tool.Spec{Name: v.Tool, Effect: tool.Action}
	t, ok := n.Kits.Callee(v.Agent, v.Tool)
	if ok {
		spec = t.Spec()
	}
	c.Tool = specOnly{spec: spec} // its arguments were checked then
	a, err := n.ruled(ctx, j, policy.PointTool, c)
	a.Recorded = &PolicyRecorded{Intent: v.ID, State: v.State, Rule: v.Rule, Reason: v.Reason, Policy: v.Policy, At: v.Created, Gone: !ok}
	return a, err
}

// authorizer authorizes tool calls by the policy. A call that asks an agent is
// authorized twice: as a tool call and as a delegation.
type authorizer struct{ inner policy.Authorizer }

// authorizerOf wraps the node's authorizer. The fixed authorizer does not decide
// about delegations, so it is returned as it is.
func authorizerOf(j policy.Authorizer) policy.Authorizer {
	if _, fixed := j.(policy.Fixed); fixed {
		return j
	}
	return authorizer{j}
}

// Authorize implements policy.Authorizer. The stricter of the two decisions
// counts, with the obligations of both.
func (j authorizer) Authorize(ctx context.Context, q policy.Question) (policy.Decision, error) {
	d, err := j.inner.Authorize(ctx, q)
	target, asks := strings.CutPrefix(q.Tool.Origin, kits.AskedOrigin)
	if !asks || err != nil || d.Verdict != policy.Allow && d.Verdict != policy.Ask {
		return d, err
	}
	q.Point, q.Target = policy.PointDelegate, target
	other, err := j.inner.Authorize(ctx, q)
	if err != nil {
		return other, err
	}
	return policy.Stricter(d, other), nil
}

// ModelGate returns what keeps content from models that policy does not allow
// it to go to; see llm.Config.Allow. local says of a "provider/model" whether
// what it is sent stays on this machine and its own network. Nobody can be
// asked before each call of a model: to ask means no.
func ModelGate(p policy.Authorizer, local func(model string) bool) func(context.Context, string, *llm.Request) error {
	return func(ctx context.Context, model string, r *llm.Request) error {
		provider, name, _ := strings.Cut(model, "/")
		q := policy.Question{Point: policy.PointModel, User: r.User, Agent: r.Agent, Lineage: r.Lineage, Labels: r.Labels,
			Model: policy.Model{Provider: provider, Name: name, Local: local(model)}}
		d, err := p.Authorize(ctx, q)
		switch {
		case err != nil:
			return llm.NotAllowed(model, "policy could not be asked: "+err.Error()).WithHint("try again")
		case d.Verdict == policy.Allow:
			return nil
		}
		e := llm.NotAllowed(model, d.Reason)
		if d.Rule == "" {
			return e.WithHint("allow it by a rule of your own: steward policy show")
		}
		return e.WithHint("talk to a model that may be asked (--model, /model), name one further on in the alias (models.default), or change the rule at %s: steward policy show", d.Rule)
	}
}
