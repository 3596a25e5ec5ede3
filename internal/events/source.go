package events

import (
	"context"
	"strings"

	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/resource"
)

// The types of the resources that hold published events.
const (
	TypeEvent  = "event.Event"
	typeSource = "event.Source"
	typeAgent  = "agent.Agent"
)

// The prefixes of sources.
const (
	userSource    = "user:"
	serviceSource = "service:"
	agentSource   = "agent:"
	systemSource  = "system"
)

// person returns the source for an account.
func person(p policy.Principal) string {
	if p.Has(policy.RoleService) {
		return serviceSource + p.User
	}
	return userSource + p.User
}

// sourceOf returns the source for an actor of the log.
func (e *Engine) sourceOf(ctx context.Context, actor string) string {
	if actor == systemSource || actor == "" || strings.HasPrefix(actor, agentSource) {
		return strings.TrimSuffix(actor, "/")
	}
	if p, err := e.opt.Directory.Principal(ctx, actor); err == nil {
		return person(p)
	}
	return userSource + actor // an account that is closed, or cannot be read now, was a user's
}

// place returns the resource below which a source's events are stored, and the name of the source.
// What an agent publishes for a user is stored below the user.
func (c Caller) place(p policy.Principal) (resource.URI, string, error) {
	own := person(p)
	if p.User == "" || strings.ContainsAny(p.User, "/\x00") {
		return resource.URI{}, "", fault.New(fault.Unauthentic, "unauthenticated", "authentication required")
	}
	u := resource.Root(typeSource, own)
	if c.Agent == "" {
		return u, own, nil
	}
	for step := range strings.SplitSeq(c.Agent, "/") {
		if step == "" || strings.Contains(step, "\x00") {
			return resource.URI{}, "", fault.New(fault.Invalid, "agent_invalid", "invalid path of an agent %.80q", c.Agent)
		}
		u = u.Child(typeAgent, step)
	}
	return u, agentSource + c.Agent, nil
}

// sourceAt reads the source of a published event from its URI. It returns "" if the URI is not that
// of a published event.
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
