package events

import (
	"context"
	"slices"
	"strings"
	"time"

	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
)

// rights are what a subscriber may read: which spaces, by who he is, and what
// in them, by policy. Not for concurrent use.
type rights struct {
	engine  *Engine
	who     Caller
	groups  []string // by which the spaces were found
	admin   bool     // likewise
	spaces  []resource.Space
	decided map[kind]policy.Decision
	until   time.Time // so long the decisions hold
}

// kind is what is decided about together.
type kind struct {
	typ   string
	space resource.Space
}

// look finds out whose spaces are read now.
func (r *rights) look(ctx context.Context) error {
	p, err := r.engine.opt.Directory.Principal(ctx, r.who.User)
	if err != nil {
		return err
	}
	admin := p.Has(policy.RoleAdmin)
	if r.spaces == nil || admin != r.admin || !slices.Equal(p.Groups, r.groups) {
		r.groups, r.admin, r.spaces, r.decided = slices.Clone(p.Groups), admin, spacesOf(p), nil
	}
	return nil
}

// spacesOf are the spaces that a person's events come from: his own, his
// groups', and an administrator's the system's.
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

func (r *rights) scope() store.Scope {
	return store.Scope{Actor: r.who.User, Read: r.spaces}
}

// decide asks policy about reading resources of a type in a space. What is not
// clearly allowed is denied: there is nobody who could be asked.
func (r *rights) decide(ctx context.Context, k kind) policy.Decision {
	if now := time.Now(); r.decided == nil || now.After(r.until) {
		r.decided, r.until = map[kind]policy.Decision{}, now.Add(r.engine.opt.Recheck)
	}
	if d, ok := r.decided[k]; ok {
		return d
	}
	d, err := r.engine.opt.Judge.Judge(ctx, policy.Question{Point: policy.PointAccess, Action: policy.Read,
		User: r.who.User, Agent: r.who.Agent, Lineage: r.who.Lineage,
		Resource: policy.Resource{Type: k.typ, Space: k.space}})
	if err != nil {
		if ctx.Err() == nil {
			r.engine.opt.Log.Error("events are not told: policy cannot be asked", "type", k.typ, "space", k.space, "user", r.who.User, "error", err)
		}
		d = policy.Decision{Verdict: policy.Deny}
	}
	r.decided[k] = d
	return d
}

// untold reports whether nobody is told of resources of a type: they open
// doors, or are how the tree keeps itself.
func untold(typ string) bool {
	return typ == "identity.Key" || strings.HasPrefix(typ, "secret.") || strings.HasPrefix(typ, "tree.")
}

// permit returns the event as the subscriber may see it; false: not at all.
func (r *rights) permit(ctx context.Context, w *waiting) (Event, bool) {
	if !slices.Contains(r.spaces, w.space) {
		return Event{}, false
	}
	if w.own && r.decide(ctx, kind{TypeEvent, w.space}).Verdict != policy.Allow {
		return Event{}, false
	}
	x := w.Event
	for i := range w.Resources {
		typ := w.Resources[i].Type
		d := r.decide(ctx, kind{typ, w.space})
		if d.Verdict != policy.Allow || untold(typ) {
			return Event{}, false
		}
		if w.content == nil || len(w.content.bodies[i]) == 0 {
			continue
		}
		if body, ok := masked(w.content.bodies[i], d.Obligations); ok {
			if &x.Resources[0] == &w.Resources[0] {
				x.Resources = slices.Clone(w.Resources)
			}
			x.Resources[i].Body = body
		}
	}
	return x, true
}
