package work

import (
	"context"
	"slices"
	"time"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/turn"
)

// A turn that crashes the process would crash it again at every start if it were
// always resumed. So each run counts the consecutive crashes during which it was
// running. At record.MaxCrashes it is parked: it stays open, its user is
// notified, and it continues when somebody resumes its request. An orderly
// shutdown, even in the middle of the turn, resets the count.

// codeParked is the error code of a parked turn.
const codeParked = "turn_parked"

func errParked(r conversation.OpenRun) error {
	return fault.New(fault.Conflict, codeParked, "the turn %s is parked: Steward crashed %d times in a row while it ran", r.Interaction, r.Crashes).
		WithHint("steward requests resume %s continues it, steward requests cancel %s ends it", r.Interaction, r.Interaction).
		Detail("request", r.Interaction.String())
}

// lifeURI is the resource that records whether the node was shut down in good
// order.
func lifeURI() resource.URI { return resource.Root("runtime.Life", "node") }

type lifeRecord struct {
	Open bool `json:"open"`
}

// recordStart records that the node is running. It reports whether the previous process
// crashed.
func (e *Engine) recordStart(ctx context.Context) (crashed bool, err error) {
	var last lifeRecord
	r, err := e.store.Get(ctx, store.ForNode(resource.System), lifeURI())
	if err == nil {
		err = record.Decode(r.URI, r.Body, &last)
	} else if fault.Is(err, fault.NotFound) {
		err = nil
	}
	if err != nil {
		return false, err
	}
	e.recordRunning(ctx, true)
	e.recorded = true
	return last.Open, nil
}

// RecordEnd records that the node ends in good order, if Recover has recorded that it runs.
func (e *Engine) RecordEnd(ctx context.Context) {
	if e.recorded {
		e.recordRunning(ctx, false)
	}
}

// recordRunning records whether the node is running. If recording fails, one start too
// many or too few is taken for one after a crash.
func (e *Engine) recordRunning(ctx context.Context, open bool) {
	_, err := e.store.Commit(ctx, store.ForNode(resource.System), store.Batch{Changes: []store.Change{{URI: lifeURI(), Body: record.Encode(lifeRecord{open})}}})
	if err != nil {
		e.log.Warn("cannot record whether Steward is running", "error", err)
	}
}

// countCrash records during how many consecutive crashes a run was active, before the run
// is resumed, or parks the run.
func (e *Engine) countCrash(ctx context.Context, c *turn.Conversation, r conversation.OpenRun, crashed bool) error {
	before := r.Crashes
	switch {
	case !r.Parked.IsZero(): // it was not running
	case crashed:
		r.Crashes++
	default:
		r.Crashes = 0
	}
	if r.Crashes >= record.MaxCrashes && r.Parked.IsZero() {
		r.Parked = time.Now().UTC().Truncate(time.Millisecond)
		e.log.Warn("a turn is parked: it ran at several crashes in a row", "user", c.User, "conversation", c.ID.String(), "request", r.Interaction.String(), "crashes", r.Crashes)
	}
	if !r.Parked.IsZero() {
		e.turns.Enter(c.User, c.ID) // it stays in memory until unpark, so that each watcher learns of it
		c.Feed.Park(r.Interaction, errParked(r))
	}
	if r.Crashes == before {
		return nil
	}
	return e.putRun(ctx, c, r)
}

func (e *Engine) putRun(ctx context.Context, c *turn.Conversation, r conversation.OpenRun) error {
	_, err := e.store.Commit(ctx, store.ForUser(c.User), store.Batch{Request: r.Interaction, Changes: []store.Change{{URI: r.URI,
		Body: record.Encode(r.Run), State: record.StateRunning, If: store.If{States: []string{record.StateRunning}}}}})
	return err
}

// unpark makes a run resumable again and resets its count of crashes.
func (e *Engine) unpark(ctx context.Context, c *turn.Conversation, r conversation.OpenRun) (record.Run, error) {
	r.Parked, r.Crashes = time.Time{}, 0
	if err := e.putRun(ctx, c, r); err != nil {
		return r.Run, err
	}
	if c.Feed.Unpark() {
		e.turns.Exit(c)
	}
	return r.Run, nil
}

// ResumeParked resumes a parked turn. which is the id of its request, or at
// least the first 8 characters of it. Error codes: request_not_found,
// request_ambiguous, request_not_parked.
func (e *Engine) ResumeParked(ctx context.Context, user, which string) error {
	ctx, leave, ok := e.life.Stay(ctx, user)
	if !ok {
		return turn.ErrClosed
	}
	defer leave()
	sc := store.ForUser(user)
	own, err := requests.ResolveRequest(ctx, e.store, sc, which)
	if err != nil {
		return err
	}
	runs, err := e.conversations.OpenRuns(ctx, sc, resource.URI{})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(runs, func(r conversation.OpenRun) bool { return r.Interaction == own && !r.Parked.IsZero() })
	if i < 0 {
		if _, err := requests.FindRequest(ctx, e.store, sc, own); err != nil {
			return err
		}
		return fault.New(fault.Conflict, "request_not_parked", "request %s is not parked", which).WithHint("steward requests list shows what is")
	}
	c := e.turns.Enter(user, runs[i].Conversation)
	defer e.turns.Exit(c)
	if _, err := e.unpark(ctx, c, runs[i]); err != nil {
		return err
	}
	_, err = e.resumeRun(ctx, c, own, false)
	return err
}

// endParked ends the run of an interaction that has not ended and is not running
// here, because it is parked.
func (e *Engine) endParked(ctx context.Context, user string, inter resource.URI) error {
	conv := record.IDOf(inter, record.TypeConversation)
	sc := store.ForUser(user)
	runs, err := e.conversations.OpenRuns(ctx, sc, inter)
	if err != nil || len(runs) == 0 {
		return err
	}
	c := e.turns.Enter(user, conv)
	defer e.turns.Exit(c)
	if !c.TryLock() {
		return nil // its run has been stopped already
	}
	defer c.Unlock()
	s, err := e.conversations.Open(ctx, sc, conv)
	if err != nil {
		return err
	}
	r := runs[0]
	if r.Run, err = e.unpark(ctx, c, r); err != nil {
		return err
	}
	c.Feed.SetSeq(s.Seq())
	s.Resume(r, r.Interaction, turn.Actor(&r.Run))
	c.Feed.Resumed(r.Interaction, nil)
	return e.endRun(ctx, c, s, r, agent.Stopped, codeCancelled)
}
