package chat

import (
	"context"
	"encoding/json"

	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/server/httpauth"
)

// Agents decides about agents and sources of tools, and tells when anything
// about them changes; catalog.Catalog is one.
type Agents interface {
	catalog.Approver
	// Changed returns a channel that is closed at the next change.
	Changed() <-chan struct{}
}

// The frames that are about agents and sources.
type (
	agentsFrame  struct{ head }
	inspectFrame struct {
		head
		Path string `json:"path"`
	}
	approvalFrame struct {
		head
		httpauth.Approval
	}
	refusalFrame struct {
		head
		httpauth.Refusal
	}
)

// agentsAnswer is an answer to them: the listings, or what one of them is
// about. These encode themselves.
type agentsAnswer struct {
	Type   string            `json:"type"`
	Re     string            `json:"re,omitzero"`
	Agents []catalog.Listing `json:"agents,omitzero"`
	Agent  any               `json:"agent,omitzero"` // a catalog.Listing or a catalog.Inspection
}

// desk decides for the callers.
func (s *Server) desk() httpauth.Agents {
	if s.o.Agents == nil {
		return httpauth.Agents{}
	}
	return httpauth.Agents{Catalog: s.o.Agents, Judge: s.o.Judge}
}

// aboutAgents does what a frame about agents asks for. It may read folders and
// start programs, so the answer comes in its own time.
func (c *conn) aboutAgents(h head, data []byte) (none id.ID, _ error) {
	return none, c.askDesk(h, data)
}

func (c *conn) askDesk(h head, data []byte) error {
	desk, who := c.server.desk(), c.caller
	switch h.Type {
	case "agents":
		if err := httpauth.Unmarshal(data, &agentsFrame{}); err != nil {
			return err
		}
		return c.later(h.ID, func(ctx context.Context) (agentsAnswer, error) {
			list, err := desk.List(ctx, who)
			return agentsAnswer{Type: "agents", Agents: list}, err
		})
	case "inspect_agent":
		var f inspectFrame
		if err := httpauth.Unmarshal(data, &f); err != nil {
			return err
		}
		return c.aboutAgent(h.ID, f.Path, func(ctx context.Context) (any, error) { return desk.Inspect(ctx, who, f.Path) })
	case "approve_agent":
		var f approvalFrame
		if err := httpauth.Unmarshal(data, &f); err != nil {
			return err
		}
		if f.Hash == "" && f.Path != "" {
			return missing("hash")
		}
		return c.aboutAgent(h.ID, f.Path, func(ctx context.Context) (any, error) { return desk.Approve(ctx, who, f.Approval) })
	}
	refuse := desk.Deny
	if h.Type == "revoke_agent" {
		refuse = desk.Revoke
	}
	var f refusalFrame
	if err := httpauth.Unmarshal(data, &f); err != nil {
		return err
	}
	return c.aboutAgent(h.ID, f.Path, func(ctx context.Context) (any, error) { return refuse(ctx, who, f.Refusal) })
}

// aboutAgent answers with what do tells of one agent.
func (c *conn) aboutAgent(re, path string, do func(context.Context) (any, error)) error {
	if path == "" {
		return missing("path")
	}
	return c.later(re, func(ctx context.Context) (agentsAnswer, error) {
		agent, err := do(ctx)
		return agentsAnswer{Type: "agent", Agent: agent}, err
	})
}

// later answers a frame when do is done.
func (c *conn) later(re string, do func(context.Context) (agentsAnswer, error)) error {
	if c.pending.Add(1) > maxPending {
		c.pending.Add(-1)
		return tooManyPending()
	}
	c.work.Go(func() {
		defer c.pending.Add(-1)
		a, err := do(c.ctx)
		var raw []byte
		if err == nil {
			a.Re = re
			raw, err = encodeAnswer(a)
		}
		if err != nil {
			c.logFault(err)
			raw = appendError(nil, err, re, id.ID{})
		}
		c.tell(c.ctx, raw)
	})
	return nil
}

func encodeAnswer(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fault.New(fault.Internal, "answer_unwritable", "the answer cannot be written: %w", err)
	}
	return b, nil
}
