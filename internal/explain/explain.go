// Package explain says how policy decides: about a call that somebody imagines, and
// about actions that are recorded. It asks the authorizer as the effect engine does,
// and shows which rules took part and what the decision is based on.
package explain

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

// Tracer is an authorizer that explains its decisions; rego.Authorizer is one.
type Tracer interface {
	Explain(ctx context.Context, q policy.Question) (rego.Explained, error)
}

// Options are the parts of an Engine, all required.
type Options struct {
	Authorizer policy.Authorizer
	Effects    *effect.Engine
	Kits       *kits.Engine
	Requests   *requests.Engine
}

// Engine explains decisions. Safe for concurrent use.
type Engine struct{ opt Options }

// New returns an engine made of the given parts.
func New(o Options) *Engine { return &Engine{o} }

// Question is a person's question about policy. In JSON it is the body of a
// request. policy.Point documents which members a point needs.
type Question struct {
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

// Answer explains how policy decides a question and, if the question is
// about a recorded action, how it decided then.
type Answer struct {
	rego.Explained
	Point    policy.Point `json:"point"`
	About    string       `json:"about"`          // in one line: "mail.send by assistant for ann"
	Grant    string       `json:"grant,omitzero"` // the standing approval that allows it
	Note     string       `json:"note,omitzero"`
	Recorded *Recorded    `json:"recorded,omitzero"`
}

// Recorded is what is recorded of a past decision.
type Recorded struct {
	Intent string    `json:"intent"` // the action's id
	State  string    `json:"state"`
	Rule   string    `json:"rule,omitzero"`
	Reason string    `json:"reason,omitzero"`
	Policy string    `json:"policy,omitzero"` // the version that decided
	At     time.Time `json:"at"`
	Gone   bool      `json:"gone,omitzero"` // the tool no longer exists: it is judged by its name alone
}

// Explain explains to a user how policy decides: one answer, or one for
// each action of a request. Error codes: policy_unexplained, policy_point,
// tool_unknown, intent_not_found, args_invalid.
func (e *Engine) Explain(ctx context.Context, user string, q Question) ([]Answer, error) {
	j, ok := e.opt.Authorizer.(Tracer)
	if !ok {
		return nil, fault.New(fault.Unsupported, "policy_unexplained", "what decides here cannot be explained")
	}
	if q.Request != "" {
		return e.explainRecorded(ctx, j, user, q.Request)
	}
	asked, err := e.questionOf(user, q)
	if err != nil {
		return nil, err
	}
	if asked.Point == policy.PointTool || asked.Point == policy.PointIntent {
		a, err := e.explainCall(ctx, j, asked, q)
		return []Answer{a}, err
	}
	a, err := answerOf(ctx, j, asked)
	return []Answer{a}, err
}

// questionOf converts a person's question for the authorizer.
func (e *Engine) questionOf(user string, q Question) (policy.Question, error) {
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
func (e *Engine) explainCall(ctx context.Context, j Tracer, asked policy.Question, q Question) (Answer, error) {
	if q.Tool == "" {
		return Answer{}, fault.New(fault.Invalid, "policy_question", "it is not said which tool the question is about").WithHint("name one: --tool mail.send")
	}
	c := effect.Call{Name: q.Tool, Args: q.Args, Request: request.Context{User: asked.User}, Agent: asked.Agent, Lineage: asked.Lineage,
		Labels: asked.Labels, Attended: asked.Attended, Action: asked.Action, At: asked.At}
	if !q.Conversation.Zero() {
		c.Message = record.ConversationURI(q.Conversation)
	}
	note := ""
	var ok bool
	if c.Tool, ok = e.opt.Kits.Callee(asked.Agent, q.Tool); !ok {
		c.Tool, ok = e.opt.Kits.ToolOf(asked.Agent, q.Tool)
		note = asked.Agent + " does not have it: a call of it fails"
	}
	switch {
	case ok:
	case q.Effect == "" && e.opt.Kits.PendingSource(q.Tool) != "":
		return Answer{}, e.opt.Kits.UnknownTool(q.Tool)
	case q.Effect == "":
		return Answer{}, fault.New(fault.NotFound, "tool_unknown", "there is no tool %.100q", q.Tool).
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
	a, err := e.ruled(ctx, j, asked.Point, c)
	a.Note = note
	return a, err
}

// ruled decides a call as it would be decided if it were made, and explains what
// the decision is based on.
func (e *Engine) ruled(ctx context.Context, j Tracer, point policy.Point, c effect.Call) (Answer, error) {
	r, err := e.opt.Effects.Authorize(ctx, point, c)
	if err != nil {
		return Answer{}, err
	}
	a, err := answerOf(ctx, j, r.Question)
	if err != nil {
		return a, err
	}
	if target, asks := strings.CutPrefix(r.Question.Tool.Origin, kits.AskedOrigin); asks {
		q := r.Question
		q.Point, q.Target = policy.PointDelegate, target
		other, err := answerOf(ctx, j, q)
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

func answerOf(ctx context.Context, j Tracer, q policy.Question) (Answer, error) {
	why, err := j.Explain(ctx, q)
	return Answer{Explained: why, Point: q.Point, About: aboutQuestion(q)}, err
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
func (e *Engine) explainRecorded(ctx context.Context, j Tracer, user, which string) ([]Answer, error) {
	v, err := e.opt.Requests.Intent(ctx, user, which)
	views := []client.Intent{v}
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		views, err = e.intentsOf(ctx, user, which)
	}
	if err != nil {
		return nil, err
	}
	out := make([]Answer, 0, len(views))
	for _, v := range views {
		a, err := e.explainIntent(ctx, j, v)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// intentsOf finds actions by the first characters of the id of their request,
// turn or conversation.
func (e *Engine) intentsOf(ctx context.Context, user, which string) ([]client.Intent, error) {
	const shortest, pages = 8, 20
	none := fault.New(fault.NotFound, "intent_not_found", "there is no action %.60q of yours, and no request with actions", which).
		WithHint("only actions are recorded: steward intents list; ask about anything else by --tool, --user and so on")
	if len(which) < shortest {
		return nil, none
	}
	var out []client.Intent
	after := store.Cursor("")
	for range pages {
		list, next, err := e.opt.Requests.Intents(ctx, user, requests.IntentFilter{}, after, maxExplained)
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
func (e *Engine) explainIntent(ctx context.Context, j Tracer, v client.Intent) (Answer, error) {
	conv, _ := id.Parse(v.Conversation)
	c := effect.Call{Name: v.Tool, Args: v.Args, Message: record.ConversationURI(conv), Request: request.Context{User: v.User}, Agent: v.Agent,
		Lineage: v.Lineage, Attended: true, Flow: policy.Flow{Fixed: v.Fixed, Open: v.Open}, At: v.Created}
	var err error
	if c.Labels, err = message.ParseLabels(strings.Join(v.Labels, ",")); err != nil {
		return Answer{}, err
	}
	if v.Undoes != "" {
		c.Action = effect.ActionUndo
	}
	spec := tool.Spec{Name: v.Tool, Effect: tool.Action}
	t, ok := e.opt.Kits.Callee(v.Agent, v.Tool)
	if ok {
		spec = t.Spec()
	}
	c.Tool = specOnly{spec: spec} // its arguments were checked then
	a, err := e.ruled(ctx, j, policy.PointTool, c)
	a.Recorded = &Recorded{Intent: v.ID, State: v.State, Rule: v.Rule, Reason: v.Reason, Policy: v.Policy, At: v.Created, Gone: !ok}
	return a, err
}
