package events

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"steward/internal/policy"
	"steward/internal/resource"
)

// rights are the rights of a subscriber to read: which spaces, by the subscriber's identity, and
// which resources in them, by policy. It is not safe for concurrent use.
type rights struct {
	engine  *Engine
	who     Caller
	spaces  []resource.Space
	decided map[kind]policy.Decision
	until   time.Time // when the cached decisions expire
}

// kind is the unit of decisions: all resources of a kind are decided together.
type kind struct {
	typ   string
	space resource.Space
}

// readableSpaces determines which spaces the subscriber reads now.
func (r *rights) readableSpaces(ctx context.Context) ([]resource.Space, error) {
	p, err := r.engine.opt.Directory.Principal(ctx, r.who.User)
	if err != nil {
		return nil, err
	}
	if now := spacesOf(p); !slices.Equal(now, r.spaces) {
		r.spaces, r.decided = now, nil
	}
	return r.spaces, nil
}

// spacesOf returns the spaces whose events a person receives: the person's own, those of the
// person's groups and, for an administrator, the system's.
func spacesOf(p policy.Principal) []resource.Space {
	out := make([]resource.Space, 0, len(p.Groups)+2)
	out = append(out, resource.UserSpace(p.User))
	for _, g := range p.Groups {
		out = append(out, resource.GroupSpace(g))
	}
	if p.Has(policy.RoleAdmin) {
		out = append(out, resource.System)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// decide asks policy whether resources of a type in a space may be read. Anything that is not
// clearly allowed is denied, because nobody can be asked for approval here.
func (r *rights) decide(ctx context.Context, k kind) policy.Decision {
	if now := time.Now(); r.decided == nil || now.After(r.until) {
		r.decided, r.until = map[kind]policy.Decision{}, now.Add(r.engine.opt.Recheck)
	}
	if d, ok := r.decided[k]; ok {
		return d
	}
	d, err := r.engine.opt.Authorizer.Authorize(ctx, policy.Question{Point: policy.PointAccess, Action: policy.Read,
		User: r.who.User, Agent: r.who.Agent, Lineage: r.who.Lineage,
		Resource: policy.Resource{Type: k.typ, Space: k.space}})
	if err != nil {
		if ctx.Err() == nil {
			r.engine.opt.Log.Error("event withheld: policy evaluation failed", "type", k.typ, "space", k.space, "user", r.who.User, "error", err)
		}
		d = policy.Decision{Verdict: policy.Deny}
	}
	r.decided[k] = d
	return d
}

// permit reports whether the subscriber may receive an event of a space, and masks the bodies as
// policy requires. own says that the event was published.
func (r *rights) permit(ctx context.Context, x *Event, space resource.Space, own bool) bool {
	if own && r.decide(ctx, kind{TypeEvent, space}).Verdict != policy.Allow {
		return false
	}
	for i := range x.Resources {
		res := &x.Resources[i]
		d := r.decide(ctx, kind{res.Type, space})
		if d.Verdict != policy.Allow || resource.Closed(res.Type) {
			return false
		}
		switch {
		case len(res.Body) == 0:
		case d.Cap > 0 && len(res.Body) > d.Cap, !json.Valid(res.Body):
			res.Body = nil // it cannot be masked as policy requires
		case len(d.Mask) > 0:
			res.Body, _ = policy.MaskBody(res.Body, d.Mask)
		}
	}
	return true
}
