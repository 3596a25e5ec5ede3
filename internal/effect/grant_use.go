package effect

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// readGrants reads a user's standing approvals in a state (empty: any state).
func (e *Engine) readGrants(ctx context.Context, user, state string) ([]Grant, error) {
	var list []Grant
	for it, err := range store.Items(ctx, e.opt.Store, store.ForUser(user), store.Query{Type: typeGrant, State: state}) {
		if err != nil {
			return nil, err
		}
		g, err := decodeGrant(it.Resource)
		if err != nil {
			return nil, err
		}
		list = append(list, g)
	}
	return list, nil
}

// hasGrants reports whether a user has standing approvals.
func (e *Engine) hasGrants(ctx context.Context, user string) bool {
	list, err := e.Grants(context.WithoutCancel(ctx), user, false)
	return err == nil && len(list) > 0
}

// granted returns the approval from a grant that covers the action, or nil. No grant
// covers an action that a group decides on, or a tool that is to be asked about each time.
// If the grants cannot be read, it returns nil.
func (f *execution) granted(ctx context.Context, d policy.Decision) *intent.Approval {
	if d.Approvers != "" || f.spec.Asks || f.spec.Version == "" || isSuccessor(f.uri) {
		return nil
	}
	list, err := f.e.readGrants(context.WithoutCancel(ctx), f.in.User, stateActive)
	if err != nil {
		f.e.log.WarnContext(ctx, "standing approvals could not be read: a person is asked", "user", f.in.User, "error", err)
	}
	now := time.Now().UTC()
	for i := range list {
		g := &list[i]
		if !g.covers(&f.in, conversationOf(f.uri), f.c.Labels, now) {
			continue
		}
		until := now.Add(f.e.opt.ApprovalTimeout)
		if !g.Expires.IsZero() && g.Expires.Before(until) {
			until = g.Expires
		}
		return &intent.Approval{By: g.By, At: now, ArgsHash: f.in.ArgsHash, Version: f.in.Version,
			Expires: until, Grant: grantURI(g.ID).String()}
	}
	return nil
}

func conversationOf(uri resource.URI) string {
	if conv, ok := uri.Find(record.TypeConversation); ok {
		return conv.String()
	}
	return ""
}

// consume returns the precondition of the commit that begins an approved action: the grant
// that approved it is unchanged. It first checks that the grant still covers the action;
// if not, why says why.
func (f *execution) consume(ctx context.Context) (checks []store.Change, why string, err error) {
	a := f.in.Approval
	if a == nil || a.Grant == "" {
		return nil, "", nil
	}
	uri, err := resource.Parse(a.Grant)
	if err != nil {
		return nil, "", fault.New(fault.Internal, "intent_broken", "a recorded intent names no grant: %w", err)
	}
	const gone = "the standing approval that covered it does not any more"
	r, err := f.e.opt.Store.Get(context.WithoutCancel(ctx), store.ForUser(f.in.User), uri)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, gone, nil
	case err != nil:
		return nil, "", err
	}
	g, err := decodeGrant(r)
	if err != nil {
		return nil, "", err
	}
	if f.spec.Asks || !g.covers(&f.in, conversationOf(f.uri), f.c.Labels, time.Now()) {
		return nil, gone, nil
	}
	return []store.Change{{Op: store.Check, URI: uri, If: store.If{Version: g.version}}}, "", nil
}

// Grants returns a user's standing approvals, newest first. With all, it includes revoked
// and expired ones.
func (e *Engine) Grants(ctx context.Context, user string, all bool) ([]Grant, error) {
	state := stateActive
	if all {
		state = ""
	}
	list, err := e.readGrants(ctx, user, state)
	now := time.Now()
	list = slices.DeleteFunc(list, func(g Grant) bool { return !all && !g.Expires.IsZero() && !now.Before(g.Expires) })
	slices.SortFunc(list, func(a, b Grant) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID.String(), b.ID.String()))
	})
	return list, err
}

// Grant returns one of a user's standing approvals (error code grant_not_found).
func (e *Engine) Grant(ctx context.Context, user string, grant id.ID) (Grant, error) {
	r, err := e.opt.Store.Get(ctx, store.ForUser(user), grantURI(grant))
	if fault.Is(err, fault.NotFound) {
		return Grant{}, fault.New(fault.NotFound, "grant_not_found", "there is no standing approval %s", grant).
			WithHint("steward grants list shows those that there are")
	}
	if err != nil {
		return Grant{}, err
	}
	return decodeGrant(r)
}
