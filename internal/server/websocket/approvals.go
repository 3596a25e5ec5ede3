package websocket

import (
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/server/auth"
	"steward/internal/store"
)

// The frames about what waits for a person's approval.
type (
	approvalsFrame struct {
		head
		Follow bool `json:"follow"` // send the list again whenever it changes
	}
	questionFrame struct {
		head
		Approval string         `json:"approval_id"`
		Pattern  intent.Pattern `json:"pattern"`
	}
	verdictFrame struct {
		head
		Approval string `json:"approval_id"`
		auth.Answer
	}
)

// approvals answers with everything that waits for the caller's approval and, if the client asked to
// follow it, sends the list again whenever it changes.
func (c *conn) approvals(f *approvalsFrame) error {
	tell := func(list []effect.Question) error {
		return c.answer(answer{Type: "approvals", Re: f.ID, Approvals: append([]effect.Question{}, list...)})
	}
	if !f.Follow {
		list, err := c.server.o.Approvals.Questions(c.ctx, c.caller.User)
		if err != nil {
			return err
		}
		return tell(list)
	}
	if !c.asking.CompareAndSwap(false, true) {
		return fault.New(fault.Conflict, "approvals_followed", "the connection already follows the approvals").WithHint("leave out follow")
	}
	c.work.Go(func() {
		defer c.asking.Store(false)
		for list, err := range c.server.o.Node.FollowApprovals(c.ctx, c.caller.User) {
			if err == nil {
				err = tell(list)
			}
			if err != nil {
				c.sendError(c.ctx, err, f.ID, id.ID{})
				return
			}
		}
	})
	return nil
}

// question answers with one approval request, as it would be with a pattern.
func (c *conn) question(f *questionFrame) error {
	if f.Approval == "" {
		return missing("approval_id")
	}
	q, err := c.server.o.Approvals.Question(c.ctx, store.ForUser(c.caller.User), f.Approval, f.Pattern)
	if err != nil {
		return err
	}
	return c.answer(answer{Type: "approval", Re: f.ID, Approval: &q})
}

// decide records the caller's answer to an approval request.
func (c *conn) decide(f *verdictFrame) error {
	switch {
	case f.Approval == "":
		return missing("approval_id")
	case f.Hash == "":
		return missing("hash")
	}
	v, err := f.Verdict(c.caller, f.Approval, f.Type == "approve")
	if err != nil {
		return err
	}
	return c.server.o.Approvals.Decide(c.ctx, store.ForUser(c.caller.User), v)
}
