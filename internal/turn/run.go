package turn

import (
	"context"
	"errors"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/lifetime/telemetry"
	"steward/internal/llm"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/store/lease"
)

// Run is a run that is active.
type Run struct {
	Interaction id.ID
	Agent       string
	Meter       *llm.Meter
	Done        chan struct{} // closed when the run is over
	Err         error         // valid after done: why the run could not continue and is not recorded as over

	Info    telemetry.TurnInfo // what the telemetry is told of it
	request telemetry.Request  // what the run answers; the zero value, if it was resumed
}

// NewRun returns the Run of a run that is about to be launched. rc is the request of its turn.
func NewRun(run *record.Run, inter id.ID, meter *llm.Meter, rc request.Context) *Run {
	rc.ID = inter
	return &Run{Interaction: inter, Agent: run.Agent, Meter: meter, Done: make(chan struct{}),
		Info: telemetry.TurnInfo{Request: rc, Agent: run.Agent, Version: run.Version, Model: run.Model, Resumed: !run.Started.IsZero()}}
}

// Running returns the run of an interaction if it is active, otherwise nil.
func (c *Conversation) Running(inter id.ID) *Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil || c.live.Interaction != inter {
		return nil
	}
	return c.live
}

// RunChange returns a channel that is closed when the next run begins or ends.
func (c *Conversation) RunChange() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runChange == nil {
		c.runChange = make(chan struct{})
	}
	return c.runChange
}

// announceRunChange announces that a run has begun or ended. The caller holds c.mu.
func (c *Conversation) announceRunChange() {
	if c.runChange != nil {
		close(c.runChange)
		c.runChange = nil
	}
}

// unrecorded is the error of a turn whose first message could not be stored. Only
// its sender sees the error; for everybody else there was no turn.
type unrecorded struct{ error }

func (u unrecorded) Unwrap() error { return u.error }

// Launch starts the run of a prepared turn, under the lease that ctx carries. The
// run releases the turn lock when it ends. Launch returns false if the node is
// closing.
func (e *Engine) Launch(ctx context.Context, c *Conversation, s *conversation.Session, job agent.Job, live *Run) bool {
	life := e.life.Of(c.User)
	release, ok := life.Hold()
	if !ok {
		return false
	}
	e.Hold(c)
	from := ctx
	ctx, cancel := lease.Carry(life, ctx)
	ctx = telemetry.Carry(ctx, from)
	c.mu.Lock()
	c.session, c.cancel, c.live = s, cancel, live
	if c.blocking > 0 {
		cancel(request.ErrStop)
	}
	c.announceRunChange()
	c.mu.Unlock()
	e.spawn(func() {
		defer release()
		e.run(ctx, c, s, job, live)
	})
	return true
}

// run executes a turn to its end.
func (e *Engine) run(ctx context.Context, c *Conversation, s *conversation.Session, job agent.Job, live *Run) {
	defer e.Exit(c)
	ended := false
	defer func() {
		if !ended { // the goroutine is exiting early (runtime.Goexit or a panic): release those that wait
			close(live.Done)
		}
	}()
	rc := live.Info.Request
	rc.User, rc.Actor = c.User, "agent:"+live.Agent
	ctx, counted := e.opt.Telemetry.Turn(request.With(ctx, rc), live.Info)
	out, err := agent.Run(ctx, job)
	said := outcomeOf(out, err)
	counted.End(said, err)
	live.request.End(said, err)
	if err != nil && !errors.Is(err, request.ErrSuspend) && !errors.As(err, new(unrecorded)) {
		e.log.Error("a run could not continue", "conversation", c.ID.String(), "error", err)
		c.Feed.fail(err)
	}
	hasRequests := err == nil && e.work.RunEnded(c, s, live)
	c.mu.Lock()
	c.cancel(nil)
	c.cancel, c.live = nil, nil
	if err != nil {
		c.drop() // memory may differ from what is durable
	}
	untaken := c.steering
	c.steering, c.messageIDs = nil, nil
	c.mu.Unlock()
	for _, st := range untaken {
		close(st.done) // its sender begins a turn of its own
	}
	live.Err, ended = err, true
	close(live.Done)
	c.Unlock()
	if e.opt.Rested != nil && err == nil {
		e.opt.Rested(c.User, c.ID)
	}
	if hasRequests {
		e.work.Settle(c.User, record.InteractionURI(c.ID, live.Interaction), out == agent.Stopped)
	}
}

// outcomeOf returns the outcome of a run for the telemetry.
func outcomeOf(out agent.Outcome, err error) string {
	switch {
	case errors.Is(err, request.ErrSuspend):
		return "suspended" // it goes on after the next start
	case err != nil:
		return "failed"
	}
	return string(out)
}

// Stop stops the conversation's turn: it cancels the provider's request and keeps
// what has arrived. It does nothing if no turn is running.
func (e *Engine) Stop(ctx context.Context, user string, conv id.ID) error {
	c, leave, err := e.enterExisting(ctx, user, conv)
	if err != nil {
		return err
	}
	defer leave()
	c.Stop(nil, request.ErrStop)
	return nil
}

// Stop cancels the given run, or the current run if live is nil.
func (c *Conversation) Stop(live *Run, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil && (live == nil || live == c.live) {
		c.cancel(cause)
	}
}

// Remaining is what the turn of an interaction may still spend.
func (c *Conversation) Remaining(inter id.ID) policy.Left {
	live := c.Running(inter)
	if live == nil || live.Meter == nil {
		return policy.Left{}
	}
	b := live.Meter.Left()
	return policy.Left{Tokens: int(b.MaxTokens), Cost: b.MaxCost}
}
