package events

import (
	"context"
	"strings"

	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/resource"
)

// The types of the resources that hold what was published.
const (
	TypeEvent  = "event.Event"
	typeSource = "event.Source"
	typeAgent  = "agent.Agent"
)

// The beginnings of sources.
const (
	userSource    = "user:"
	serviceSource = "service:"
	agentSource   = "agent:"
	systemSource  = "system"
)

// person returns the source that an account is.
func person(p policy.Principal) string {
	if p.Has(policy.RoleService) {
		return serviceSource + p.User
	}
	return userSource + p.User
}

// sourceOf returns the source of what an actor of the log has done.
func (e *Engine) sourceOf(ctx context.Context, actor string) string {
	if actor == systemSource || actor == "" || strings.HasPrefix(actor, agentSource) {
		return strings.TrimSuffix(actor, "/")
	}
	if p, err := e.opt.Directory.Principal(ctx, actor); err == nil {
		return person(p)
	}
	return userSource + actor // an account that is closed, or cannot be read now, was a user
}

// place is the resource below which a source's events are kept, and the
// source's name. What an agent publishes for a user lies below the user's.
func (c Caller) place(p policy.Principal) (resource.URI, string, error) {
	own := person(p)
	if p.User == "" || strings.ContainsAny(p.User, "/\x00") {
		return resource.URI{}, "", fault.New(fault.Unauthentic, "unauthenticated", "nobody has said who is calling")
	}
	u := resource.Root(typeSource, own)
	if c.Agent == "" {
		return u, own, nil
	}
	for step := range strings.SplitSeq(c.Agent, "/") {
		if step == "" || strings.Contains(step, "\x00") {
			return resource.URI{}, "", fault.New(fault.Invalid, "agent_invalid", "%.80q is no path of an agent", c.Agent)
		}
		u = u.Child(typeAgent, step)
	}
	return u, agentSource + c.Agent, nil
}

// sourceAt reads the source of a published event from its URI; "" where it is
// none of ours.
func sourceAt(u resource.URI) string {
	steps := u.Parent().Elements()
	if len(steps) == 0 || steps[0].Type != typeSource {
		return ""
	}
	if len(steps) == 1 {
		return steps[0].ID
	}
	var path []string
	for _, s := range steps[1:] {
		if s.Type != typeAgent {
			return ""
		}
		path = append(path, s.ID)
	}
	return agentSource + strings.Join(path, "/")
}
