package turn

import (
	"context"

	"steward/internal/agent"
	"steward/internal/effect"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/taint"
	"steward/internal/tool"
)

// Messages returns the recorded messages of the turn, as taint.Turn wants it.
func (x *Calls) Messages(ctx context.Context) ([]*message.Message, error) {
	return x.engine.conversations.Turn(context.WithoutCancel(ctx), store.ForUser(x.Conversation.User), x.Conversation.ID, x.Request.ID)
}

// Before implements taint.Record: the turn as it was when the calls of a message began. They
// share one read of it.
func (x *Calls) Before(ctx context.Context, call agent.Call) ([]*message.Message, error) {
	x.beforeMu.Lock()
	defer x.beforeMu.Unlock()
	if x.beforeMessage != call.Message {
		turn, err := x.Messages(ctx)
		if err != nil {
			return nil, err
		}
		x.beforeMessage, x.beforeTurn = call.Message, turn
	}
	return x.beforeTurn, nil
}

// Spec implements taint.Record.
func (x *Calls) Spec(name string) (tool.Spec, bool) {
	t, ok := x.engine.kits.ToolOf(x.Kit.Name, name)
	if !ok {
		return tool.Spec{}, false
	}
	return t.Spec(), true
}

// Answered implements taint.Record.
func (x *Calls) Answered(ctx context.Context, call agent.Call, same func(name string, args []byte) bool) (cleared, refused bool, err error) {
	at := record.InteractionURI(x.Conversation.ID, x.Request.ID)
	own := effect.IntentURI(at.ChildID(record.TypeMessage, call.Message), call.Block)
	return x.engine.effects.Answered(context.WithoutCancel(ctx), store.ForUser(x.Conversation.User), at, own, same)
}

// Call implements taint.Turn, as the following methods do.
func (p *InnerCall) Call() agent.Call { return p.call }

// Tools returns the tools of the agent.
func (p *InnerCall) Tools() *tool.Registry { return p.Kit.Registry }

// Model returns the name of the turn's model.
func (p *InnerCall) Model() string { return p.Run.Model }

// Reader returns the model that reads: the fast one, otherwise the turn's.
func (p *InnerCall) Reader() string {
	if _, err := p.engine.opt.Models.Resolve(llm.FastAlias); err == nil {
		return llm.FastAlias
	}
	return p.Run.Model
}

// Ask makes a model call apart from the conversation, charged to the turn's
// budget.
func (p *InnerCall) Ask(ctx context.Context, model string, req *llm.Request, text string) (string, error) {
	m, err := p.charge(model, req)
	if err != nil {
		return "", err
	}
	return p.engine.AskOnce(ctx, m, req, text)
}

// charge finds a model, and charges a request to the turn's budget.
func (p *InnerCall) charge(model string, req *llm.Request) (llm.Resolved, error) {
	req.User, req.Meter, req.Agent, req.Lineage = p.Conversation.User, p.Meter(), p.Kit.Name, p.Request.Lineage
	return p.engine.opt.Models.Resolve(model)
}

// generate implements tool.Invocation.Generate with the model of the run. What is
// asked comes from the called tool, and may hold whatever the call has shown it.
func (p *InnerCall) generate(ctx context.Context, q tool.Prompt) (tool.Answer, error) {
	req := &llm.Request{System: q.System, Transcript: llm.NewTranscript(q.Messages...), Labels: p.call.Labels, Sampling: llm.Sampling{MaxTokens: q.MaxTokens}}
	for _, m := range q.Messages {
		req.Labels |= message.LabelsOf(m.Blocks)
	}
	m, err := p.charge(p.Run.Model, req)
	if err != nil {
		return tool.Answer{}, err
	}
	r, err := p.engine.reply(ctx, m, req)
	if err != nil {
		return tool.Answer{}, err
	}
	return tool.Answer{Text: r.Text(), Model: r.Model, Cut: r.Stop == message.StopLength}, nil
}

// InTurn is taint.InTurn for the tools of plans.
func InTurn(ctx context.Context, name string, args []byte, into any) (*InnerCall, error) {
	t, err := taint.InTurn(ctx, name, args, into)
	if err != nil {
		return nil, err
	}
	return t.(*InnerCall), nil
}

// InnerCall is a call of a tool that works inside its turn: one that asks an agent,
// plan.fix, text.extract or tools.find. The call's context carries it.
type InnerCall struct {
	*Calls
	call      agent.Call
	TaskMeter *llm.Meter // that of the task for which it is made; nil: the turn's
}

// Inner returns a call that works inside the turn. under is the meter of the task for
// which it is made; nil: the turn's.
func (x *Calls) Inner(call agent.Call, under *llm.Meter) *InnerCall {
	return &InnerCall{x, call, under}
}

// Meter returns the meter that binds what the call leads to.
func (p *InnerCall) Meter() *llm.Meter {
	if p.TaskMeter != nil {
		return p.TaskMeter
	}
	if live := p.Conversation.Running(p.Request.ID); live != nil {
		return live.Meter
	}
	return nil
}
