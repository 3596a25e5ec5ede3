package websocket

import (
	"context"
	"strings"

	"steward/internal/catalog"
	"steward/internal/id"
	"steward/internal/server/auth"
)

// Agents approves agents and tool sources, and reports changes. catalog.Catalog implements it.
type Agents interface {
	catalog.Approver
	// Changed returns a channel that is closed at the next change.
	Changed() <-chan struct{}
}

// The frames about agents and sources.
type (
	inspectFrame struct {
		head
		Path string `json:"path"`
	}
	approvalFrame struct {
		head
		auth.Approval
	}
	refusalFrame struct {
		head
		auth.Refusal
	}
)

// agents returns the part that manages agents on behalf of callers.
func (s *Server) agents() auth.Agents {
	if s.o.Agents == nil {
		return auth.Agents{}
	}
	return auth.Agents{Catalog: s.o.Agents, Authorizer: s.o.Authorizer}
}

func (c *conn) listAgents(f *head) error {
	return c.inBackground(f.ID, func(ctx context.Context) (answer, error) {
		list, err := c.server.agents().List(ctx, c.caller)
		return answer{Type: "agents", Agents: list}, err
	})
}

func (c *conn) inspectAgent(f *inspectFrame) error {
	return c.aboutAgent(f.ID, f.Path, func(ctx context.Context) (any, error) { return c.server.agents().Inspect(ctx, c.caller, f.Path) })
}

func (c *conn) approveAgent(f *approvalFrame) error {
	if f.Hash == "" && f.Path != "" {
		return missing("hash")
	}
	return c.aboutAgent(f.ID, f.Path, func(ctx context.Context) (any, error) { return c.server.agents().Approve(ctx, c.caller, f.Approval) })
}

// refuseAgent denies an agent, or revokes what was approved.
func (c *conn) refuseAgent(f *refusalFrame) error {
	return c.aboutAgent(f.ID, f.Path, func(ctx context.Context) (any, error) {
		if f.Type == "revoke_agent" {
			return c.server.agents().Revoke(ctx, c.caller, f.Refusal)
		}
		return c.server.agents().Deny(ctx, c.caller, f.Refusal)
	})
}

// aboutAgent calls do with one agent and answers with its result.
func (c *conn) aboutAgent(re, path string, do func(context.Context) (any, error)) error {
	if path == "" {
		return missing("path")
	}
	return c.inBackground(re, func(ctx context.Context) (answer, error) {
		agent, err := do(ctx)
		return answer{Type: "agent", Agent: agent}, err
	})
}

// inBackground runs do in the background, because it may read folders and start programs, and then answers
// the frame.
func (c *conn) inBackground(re string, do func(context.Context) (answer, error)) error {
	if c.pending.Add(1) > maxPending {
		c.pending.Add(-1)
		return tooManyPending()
	}
	c.work.Go(func() {
		defer c.pending.Add(-1)
		a, err := do(c.ctx)
		if a.Re = re; err == nil {
			err = c.answer(a)
		}
		if err != nil {
			c.sendError(c.ctx, err, re, id.ID{})
		}
	})
	return nil
}

// sendWaiting sends the list of what waits for an approval, and again whenever it changes, to a
// client that may decide. Changes while the client is slow are sent as one.
func (c *conn) sendWaiting() {
	agents, known := c.server.o.Agents, ""
	for {
		changed := agents.Changed()
		list := catalog.Waiting(agents.Listings())
		var questions strings.Builder
		for _, l := range list {
			questions.WriteString(l.Question() + "\n")
		}
		if now := questions.String(); now != known {
			known = now
			if err := c.answer(answer{Type: "agents_waiting", Agents: append([]catalog.Listing{}, list...)}); err != nil {
				c.log.Error("cannot send what waits for an approval", "error", err)
			}
		}
		select {
		case <-changed:
		case <-c.ctx.Done():
			return
		}
	}
}
