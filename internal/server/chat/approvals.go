package chat

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/runtime"
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

// approvalsAnswer tells what waits.
type approvalsAnswer struct {
	Type      string             `json:"type"`
	Re        string             `json:"re,omitzero"`
	Approvals *[]effect.Question `json:"approvals,omitzero"`
	Approval  *effect.Question   `json:"approval,omitzero"`
}

func (c *conn) tellApprovals(ctx context.Context, a approvalsAnswer) error {
	raw, err := encodeAnswer(a)
	if err == nil {
		c.tell(ctx, raw)
	}
	return err
}

// approvals answers with all that waits for the caller's word, and goes on
// telling it if that is wanted.
func (c *conn) approvals(f *approvalsFrame) error {
	node, user := c.server.o.Node, c.caller.User
	if f.Follow {
		return c.followApprovals(f.ID)
	}
	list, err := node.Approvals(c.ctx, user)
	if err != nil {
		return err
	}
	list = append([]effect.Question{}, list...)
	return c.tellApprovals(c.ctx, approvalsAnswer{Type: "approvals", Re: f.ID, Approvals: &list})
}

// followApprovals tells what waits, and again whenever that becomes otherwise.
func (c *conn) followApprovals(re string) error {
	if !c.asking.CompareAndSwap(false, true) {
		return fault.New(fault.Conflict, "approvals_followed", "the connection is told what waits already").WithHint("ask without follow")
	}
	c.work.Go(func() {
		defer c.asking.Store(false)
		for list, err := range c.server.o.Node.FollowApprovals(c.ctx, c.caller.User) {
			if err == nil {
				list = append([]effect.Question{}, list...)
				err = c.tellApprovals(c.ctx, approvalsAnswer{Type: "approvals", Re: re, Approvals: &list})
			}
			if err != nil {
				c.logFault(err)
				c.tell(c.ctx, appendError(nil, err, re, id.ID{}))
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
	return c.tellApprovals(c.ctx, approvalsAnswer{Type: "approval", Re: f.ID, Approval: &q})
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

// appendApproval appends what a person is asked, as the object that it is.
func appendApproval(dst []byte, a *runtime.ApprovalView, args bool) []byte {
	dst = append(dst, `,"approval":{"id":`...)
	dst = quote(dst, a.ID)
	dst = appendText(dst, "hash", a.Hash)
	dst = appendSome(dst, "reason", a.Reason)
	if args && a.Agent != "" {
		dst = appendText(dst, "agent", a.Agent)
		dst = appendText(dst, "tool", a.Tool)
		dst = appendArgs(append(dst, `,"args":`...), a.Args)
	}
	if !a.Expires.IsZero() {
		dst = append(dst, `,"expires":"`...)
		dst = a.Expires.UTC().AppendFormat(dst, time.RFC3339)
		dst = append(dst, '"')
	}
	dst = appendSome(dst, "rule", a.Rule)
	dst = appendTexts(dst, "labels", a.Labels)
	dst = appendTexts(dst, "read", a.Read)
	dst = appendSome(dst, "approvers", a.Approvers)
	if a.Foreign {
		dst = append(dst, `,"foreign":`...)
		dst = strconv.AppendBool(dst, true)
	}
	if a.Pattern != nil {
		if b, err := encodeAnswer(a.Pattern); err == nil { // it was read from JSON
			dst = append(append(dst, `,"pattern":`...), b...)
		}
	}
	dst = appendSome(dst, "no_grant", a.NoGrant)
	if b, err := json.Marshal(a.Arguments); err == nil && len(a.Arguments) > 0 { // texts and numbers only
		dst = append(append(dst, `,"arguments":`...), b...)
	}
	return append(dst, '}')
}

func appendTexts(dst []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return dst
	}
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, `":[`...)
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = quote(dst, s)
	}
	return append(dst, ']')
}
