package runtime

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

// turn reads the recorded messages of the turn.
func (x *calls) turn(ctx context.Context) ([]*message.Message, error) {
	return x.node.conversations.Turn(context.WithoutCancel(ctx), store.ForUser(x.chat.user), x.chat.id, x.request.ID)
}

// Before implements taint.Record: the turn as it was when the calls of a message began. They
// share one read of it.
func (x *calls) Before(ctx context.Context, call agent.Call) ([]*message.Message, error) {
	x.reading.Lock()
	defer x.reading.Unlock()
	if x.readFor != call.Message {
		turn, err := x.turn(ctx)
		if err != nil {
			return nil, err
		}
		x.readFor, x.read = call.Message, turn
	}
	return x.read, nil
}

// Spec implements taint.Record.
func (x *calls) Spec(name string) (tool.Spec, bool) {
	t, ok := x.node.kits.ToolOf(x.kit.Name, name)
	if !ok {
		return tool.Spec{}, false
	}
	return t.Spec(), true
}

// Answered implements taint.Record.
func (x *calls) Answered(ctx context.Context, call agent.Call, same func(name string, args []byte) bool) (cleared, refused bool, err error) {
	at := record.InteractionURI(x.chat.id, x.request.ID)
	own := effect.IntentURI(at.ChildID(record.TypeMessage, call.Message), call.Block)
	return x.node.effects.Answered(context.WithoutCancel(ctx), store.ForUser(x.chat.user), at, own, same)
}

// Call implements taint.Turn, as the following methods do.
func (p *turnCall) Call() agent.Call { return p.call }

// Messages returns the recorded messages of the turn.
func (p *turnCall) Messages(ctx context.Context) ([]*message.Message, error) { return p.turn(ctx) }

// Tools returns the tools of the agent.
func (p *turnCall) Tools() *tool.Registry { return p.kit.Registry }

// Model returns the name of the turn's model.
func (p *turnCall) Model() string { return p.run.Model }

// Reader returns the model that reads: the fast one, otherwise the turn's.
func (p *turnCall) Reader() string {
	if _, err := p.node.opt.Models.Resolve(llm.FastAlias); err == nil {
		return llm.FastAlias
	}
	return p.run.Model
}

// Ask makes a model call apart from the conversation, charged to the turn's
// budget.
func (p *turnCall) Ask(ctx context.Context, model string, req *llm.Request, text string) (string, error) {
	m, err := p.charge(model, req)
	if err != nil {
		return "", err
	}
	return p.node.askOnce(ctx, m, req, text)
}

// charge finds a model, and charges a request to the turn's budget.
func (p *turnCall) charge(model string, req *llm.Request) (llm.Resolved, error) {
	req.User, req.Meter, req.Agent, req.Lineage = p.chat.user, p.meter(), p.kit.Name, p.request.Lineage
	return p.node.opt.Models.Resolve(model)
}

// generate implements tool.Invocation.Generate with the model of the run. What is
// asked comes from the called tool, and may hold whatever the call has shown it.
func (p *turnCall) generate(ctx context.Context, q tool.Prompt) (tool.Answer, error) {
	req := &llm.Request{System: q.System, Transcript: llm.NewTranscript(q.Messages...), Labels: p.call.Labels, Sampling: llm.Sampling{MaxTokens: q.MaxTokens}}
	for _, m := range q.Messages {
		req.Labels |= message.LabelsOf(m.Blocks)
	}
	m, err := p.charge(p.run.Model, req)
	if err != nil {
		return tool.Answer{}, err
	}
	r, err := p.node.reply(ctx, m, req)
	if err != nil {
		return tool.Answer{}, err
	}
	return tool.Answer{Text: r.Text(), Model: r.Model, Cut: r.Stop == message.StopLength}, nil
}

// inTurn is taint.InTurn for the tools of plans.
func inTurn(ctx context.Context, name string, args []byte, into any) (*turnCall, error) {
	t, err := taint.InTurn(ctx, name, args, into)
	if err != nil {
		return nil, err
	}
	return t.(*turnCall), nil
}
