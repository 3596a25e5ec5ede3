package planning

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"steward/internal/agent"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/plan"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/taint"
	"steward/internal/turn"
	"steward/internal/work"
)

// Planning has failed for good if the model cannot be asked, if so many plans were
// refused, or if the model is less sure than this of its plan.
const (
	maxRefused = 2
	minSure    = 0.5
)

// originFallback is the origin of a plan that Steward has written because planning failed.
const originFallback = "system"

// AfterPlan implements turn.Plans: it writes the planner's next message where no model has to. The answer of a plan
// of one task is that of its agent. If planning has failed for good, and routing has kept
// an agent in reserve, Steward writes the plan: that agent gets the whole request. This
// plan is carried out like any other, also after a crash.
func (e *Engine) AfterPlan(ctx context.Context, x *turn.Calls, failed error) (*message.Message, error) {
	msgs := x.Session.Transcript().Messages()
	res := msgs[len(msgs)-1].Result()
	if failed == nil && (res == nil || res.Name != requests.StartTool) {
		return nil, nil
	}
	st, sc := e.store, store.ForUser(x.Conversation.User)
	tasks, err := requests.TasksBelow(ctx, st, sc, x.Session.Interaction())
	if err != nil || len(tasks) > 1 {
		return nil, err
	}
	if len(tasks) == 0 {
		return e.fallBack(ctx, x, msgs, failed)
	}
	if calls := msgs[len(msgs)-2].Calls(); len(calls) > 0 && calls[0].Origin == originFallback {
		x.Run.Route.Fallback = true
	}
	if failed != nil || res.Status != message.OK || tasks[0].State != plan.Done {
		return nil, nil
	}
	gist, err := requests.SumUp(ctx, st, sc, record.ConversationURI(tasks[0].Output.Conversation))
	final := gist.Final
	if err != nil || final == nil || len(work.SharedContent(final)) == 0 {
		return nil, err
	}
	return &message.Message{ID: id.New(), Role: message.Assistant, Stop: final.Stop, Model: final.Model, Blocks: work.SharedContent(final)}, nil
}

// fallbackAgent returns the agent that routing has kept in reserve, in case planning fails, or "".
func (e *Engine) fallbackAgent(x *turn.Calls) string {
	if r := x.Run.Route; r != nil && r.Candidate != "" && r.Candidate != kits.PlannerAgent && e.routing.Answers(r.Candidate, true) {
		return r.Candidate
	}
	return ""
}

// fallBack gives the request to the agent in reserve if planning has failed for good. The
// last of msgs is the result of a plan that was not begun, unless the model has failed.
func (e *Engine) fallBack(ctx context.Context, x *turn.Calls, msgs []*message.Message, failed error) (*message.Message, error) {
	refused, why := 0, ""
	for _, m := range slices.Backward(msgs) {
		if m.Role == message.User {
			break
		}
		for _, c := range m.Calls() {
			if c.Origin == originFallback {
				return nil, nil // once
			}
		}
		if r := m.Result(); r != nil && r.Name == requests.StartTool && r.Status == message.Failed {
			refused++
		}
	}
	switch {
	case failed != nil:
		why = "the model failed (" + fault.Of(failed).Code + ")"
	case refused >= maxRefused:
		why = fmt.Sprintf("%d plans were not valid", refused)
	default:
		calls := msgs[len(msgs)-2].Calls()
		if len(calls) == 0 {
			return nil, nil
		}
		if d, err := plan.Parse(calls[len(calls)-1].Args); err != nil || d.Confidence >= minSure {
			return nil, nil
		}
		why = "the model was not sure of its plan"
	}
	to := e.fallbackAgent(x)
	recorded, err := x.Messages(ctx)
	if err != nil || to == "" {
		return nil, err
	}
	words, _ := taint.Words(recorded)
	args, err := json.Marshal(plan.Draft{Purpose: cmp.Or(words, recorded[0].Text()), Assistant: to, Confidence: 1,
		Analysis: "Planning has failed: " + why + ".", Plan: "The agent that is likely for the request does all of it."})
	if err != nil {
		return nil, err
	}
	own := id.New()
	x.Conversation.Emit(agent.Event{Kind: agent.Delta, ID: own, Stream: llm.Event{Kind: llm.Notice,
		Text: fmt.Sprintf("Planning has failed: %s. The agent %s answers instead.", why, to)}})
	return &message.Message{ID: own, Role: message.Assistant, Stop: message.StopTools, Blocks: []message.Block{&message.ToolCall{
		Common: message.Common{Origin: originFallback}, CallID: "call_" + own.String(), Name: requests.StartTool, Args: args}}}, nil
}
