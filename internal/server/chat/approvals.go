package chat

import (
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/server/httpauth"
)

// The frames about what waits for a person's word.
type (
	approvalsFrame struct {
		head
		Follow bool `json:"follow"` // tell again whenever that becomes otherwise
	}
	questionFrame struct {
		head
		Approval string         `json:"approval_id"`
		Pattern  intent.Pattern `json:"pattern"`
	}
	verdictFrame struct {
		head
		Approval string `json:"approval_id"`
		httpauth.Answer
	}
)

// approvals answers with all that waits for the caller's word, and goes on
// telling it whenever that becomes otherwise, if that is wanted.
func (c *conn) approvals(f *approvalsFrame) error {
	tell := func(list []effect.Question) error {
		return c.answer(struct {
			Type      string            `json:"type"`
			Re        string            `json:"re,omitzero"`
			Approvals []effect.Question `json:"approvals"`
		}{"approvals", f.ID, append([]effect.Question{}, list...)})
	}
	if !f.Follow {
		list, err := c.server.o.Node.Approvals(c.ctx, c.caller.User)
		if err != nil {
			return err
		}
		return tell(list)
	}
	if !c.asking.CompareAndSwap(false, true) {
		return fault.New(fault.Conflict, "approvals_followed", "the connection is told what waits already").WithHint("ask without follow")
	}
	c.work.Go(func() {
		defer c.asking.Store(false)
		for list, err := range c.server.o.Node.FollowApprovals(c.ctx, c.caller.User) {
			if err == nil {
				err = tell(list)
			}
			if err != nil {
				c.fails(c.ctx, err, f.ID, id.ID{})
				return
			}
		}
	})
	return nil
}

// question answers with one question, as it is with a pattern.
func (c *conn) question(f *questionFrame) error {
	if f.Approval == "" {
		return missing("approval_id")
	}
	q, err := c.server.o.Node.Approval(c.ctx, c.caller.User, f.Approval, f.Pattern)
	if err != nil {
		return err
	}
	return c.answer(struct {
		Type     string           `json:"type"`
		Re       string           `json:"re,omitzero"`
		Approval *effect.Question `json:"approval"`
	}{"approval", f.ID, &q})
}

// decide records what the caller says to a question.
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
	return c.server.o.Node.Decide(c.ctx, c.caller.User, v)
}
