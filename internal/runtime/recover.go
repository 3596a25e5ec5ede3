package runtime

import (
	"context"
	"sync"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// Unfinished implements turn.Work: it resumes a run of the conversation that was interrupted and is not
// running, and returns errResumed. If there is none, it returns the session.
func (n *workEngine) Unfinished(ctx context.Context, c *chat, s *conversation.Session) (*conversation.Session, bool, error) {
	runs, err := n.conversations.OpenRuns(ctx, store.ForUser(c.user), record.ConversationURI(c.id))
	if err != nil || len(runs) == 0 {
		return s, false, err
	}
	launched, err := n.resume(ctx, c, s, runs[0])
	if err == nil {
		err = errResumed
	}
	return nil, launched, err
}

// resume continues a run that had not ended. It reports whether the run was
// launched. If it was not, the run was recorded as ended, the node is closing, or
// there is an error.
func (n *workEngine) resume(ctx context.Context, c *chat, s *conversation.Session, r conversation.OpenRun) (bool, error) {
	rc, _, err := requests.Lineage(ctx, n.store, store.ForUser(c.user), s.Conversation(), r.Interaction)
	if err != nil {
		return false, err
	}
	s.Resume(r, rc.ID, actor(&r.Run))
	above, err := n.asker(ctx, c, r)
	switch {
	case err != nil:
		return false, err
	case above.gone: // the asking turn was stopped
		return false, n.giveUp(ctx, c, s, r, agent.Stopped, requests.CodeOrphaned)
	case !r.Parked.IsZero():
		return false, errParked(r)
	case above.asked && !above.run.Parked.IsZero():
		return false, errParked(above.run)
	}
	handTo(s, &r.Run)
	used := n.turns.newAccount(c.user, record.InteractionURI(c.id, r.Interaction))
	job, err := n.turns.job(ctx, c, s, &r.Run, rc, used)
	if err != nil {
		n.log.Warn("an interrupted run cannot go on", "conversation", c.id.String(), "error", err)
		switch {
		case !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Denied) && !fault.Is(err, fault.Invalid): // this may have changed at the next start
			return false, err
		case fault.HasCode(err, "agent_not_found"):
			err = fault.New(fault.Denied, "agent_not_approved", "the agent %s is not there any more, or may not be used any more", r.Agent)
		}
		return false, n.giveUp(ctx, c, s, r, agent.Failure, fault.Of(err).Code)
	}
	if above.live != nil {
		job.Meter.Under(above.live.meter)
	}
	live := newLive(&r.Run, r.Interaction, job.Meter)
	if err := used.recall(ctx, job.Meter); err != nil {
		return false, err
	}
	if err := n.recount(ctx, c, live); err != nil {
		return false, err
	}
	c.feed.resumed(r.Interaction, message.Dangling(s.Transcript().Messages()))
	return n.turns.launch(ctx, c, s, job, live), nil
}

// giveUp records the end of an interrupted run that cannot continue.
func (n *workEngine) giveUp(ctx context.Context, c *chat, s *conversation.Session, r conversation.OpenRun, out agent.Outcome, code string) error {
	if err := n.answerOpen(ctx, c, s, r); err != nil {
		return err
	}
	n.requests.Note(r.Interaction) // it may have led to some
	if _, err := n.turns.journal(c, s).Finish(ctx, nil, string(out), code); err != nil {
		return err
	}
	n.Over(c, s, newLive(&r.Run, r.Interaction, nil))
	n.Settle(c.user, record.InteractionURI(c.id, r.Interaction), out == agent.Stopped)
	return nil
}

// answerOpen answers the open calls of a run that cannot continue, and settles
// the effects that they had begun. Otherwise a later turn would take these calls
// for its own and make them again.
func (n *workEngine) answerOpen(ctx context.Context, c *chat, s *conversation.Session, r conversation.OpenRun) error {
	sc := store.ForUser(c.user)
	sc.Actor = actor(&r.Run)
	var out []*message.Message
	for _, call := range message.Dangling(s.Transcript().Messages()) {
		ec := effect.Call{Name: call.Name, Args: call.Args, Ref: call.Ref, Message: s.MessageURI(call.Message), Scope: sc, Agent: r.Agent,
			Request: request.Context{ID: r.Interaction, User: c.user, Conversation: record.ConversationURI(c.id)}}
		t := newBackgroundCall(c, ec, tool.Spec{Name: call.Name})
		res := t.accepted()
		_, err := n.store.Get(ctx, sc, t.at)
		if fault.Is(err, fault.NotFound) { // otherwise it is a task, and continues independently
			ec.Tool, _ = n.kits.Callee(r.Agent, call.Name)
			res, err = n.effects.SettleOrphaned(ctx, ec, interrupted(), "its turn could not go on")
		}
		if err != nil {
			return err
		}
		res.Call, res.CallID, res.Name = call.Ref, call.CallID, call.Name
		out = append(out, &message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{res}})
	}
	if len(out) == 0 {
		return nil
	}
	seqs, err := s.Append(ctx, out...)
	for i, seq := range seqs {
		c.emit(agent.Event{Kind: agent.Stored, ID: out[i].ID, Message: out[i], Seq: seq})
	}
	return err
}

// above is the turn that asked for a run.
type above struct {
	asked bool // some turn asked for the run
	gone  bool // that turn is over
	run   conversation.OpenRun
	live  *liveRun // nil: it is not running
}

// asker returns the turn that asked for a run.
func (n *workEngine) asker(ctx context.Context, c *chat, r conversation.OpenRun) (above, error) {
	sc := store.ForUser(c.user)
	conv, err := n.conversations.Get(ctx, sc, r.Conversation)
	if err != nil || record.IDOf(conv.Asked, record.TypeRequest) != r.Interaction {
		return above{}, err
	}
	runs, err := n.conversations.OpenRuns(ctx, sc, conv.Asked.Parent())
	if err != nil || len(runs) == 0 {
		return above{asked: true, gone: err == nil}, err
	}
	up := n.turns.enter(c.user, runs[0].Conversation)
	defer n.turns.exit(up)
	return above{asked: true, run: runs[0], live: up.running(runs[0].Interaction)}, nil
}

// recount adds to a resumed run's meter what the agents that it asked have used
// so far. Agents that are still running report their usage themselves.
func (n *workEngine) recount(ctx context.Context, c *chat, live *liveRun) error {
	sc := store.ForUser(c.user)
	below, err := requests.Find(ctx, n.store, sc, store.Query{Under: record.InteractionURI(c.id, live.interaction)})
	if err != nil {
		return err
	}
	if len(below) > 0 {
		n.requests.Note(live.interaction)
	}
	for i := range below {
		r := &below[i]
		if r.Kind != record.RequestAgent || r.State == record.RequestOpen {
			continue
		}
		sum := n.requests.Tally()
		if err := sum.All(ctx, n.store, sc, r); err != nil {
			return err
		}
		live.meter.Add(llm.Spend{Tokens: sum.Usage.Input + sum.Usage.Output, Cost: sum.Cost})
	}
	return nil
}

// recover resumes all runs that had not ended.
func (n *workEngine) recover(ctx context.Context) error {
	crashed, err := n.begun(ctx)
	if err != nil {
		return err
	}
	runs, err := n.conversations.OpenRuns(ctx, store.ForNode(resource.System), resource.URI{})
	if err != nil {
		return err
	}
	abreast(len(runs), func(i int) {
		r := runs[i]
		if err := n.recoverRun(ctx, r, crashed); err != nil && !fault.HasCode(err, codeParked) {
			n.log.Error("an interrupted run cannot go on", "run", r.URI.String(), "error", err)
		}
	})
	return nil
}

// recoverAbreast bounds how much is recovered at the same time. What is committed
// at the same time shares one sync of the disk.
const recoverAbreast = 32

// abreast calls do for each number below n, several at a time.
func abreast(n int, do func(i int)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, recoverAbreast)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	all.Wait()
}

// recoverRun resumes a run. The run of an agent that a turn asked is not resumed
// here: the asking turn resumes it when it makes the call again, so that both are
// parked and resumed together.
func (n *workEngine) recoverRun(ctx context.Context, r conversation.OpenRun, crashed bool) error {
	c := n.turns.enter(requests.UserOf(r.Space), r.Conversation)
	defer n.turns.exit(c)
	switch above, err := n.asker(ctx, c, r); {
	case err != nil:
		return err
	case above.asked && !above.gone:
		return nil
	case !above.asked:
		if err := n.countCrash(ctx, c, r, crashed); err != nil {
			return err
		}
	}
	_, err := n.goOn(ctx, c, r.Interaction, false)
	return err
}

// reopen opens a conversation to resume its interrupted run. It reports whether
// the run was launched. The caller holds the turn lock.
func (n *workEngine) reopen(ctx context.Context, c *chat, r conversation.OpenRun) (bool, error) {
	s, err := n.conversations.Open(ctx, store.ForUser(c.user), c.id)
	if err != nil {
		return false, err
	}
	c.feed.settle(s.Seq())
	return n.resume(ctx, c, s, r)
}
