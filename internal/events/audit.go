package events

import (
	"context"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store/follow"
)

// audit says which reads are recorded.
type audit struct {
	types    []string
	prefixes []resource.URI
}

func parseAudit(list []string) (a audit, err error) {
	for _, s := range list {
		if strings.HasPrefix(s, resource.Scheme) {
			u, err := resource.Parse(s)
			if err != nil {
				return a, err
			}
			a.prefixes = append(a.prefixes, u)
			continue
		}
		if !typeWord(s) {
			return a, fault.New(fault.Invalid, "audit_invalid", "%.80q is neither a type nor a place", s).
				WithHint("write a type such as email.Message, the beginning of one as in email.*, or a place such as cld:common.Conversation.42")
		}
		a.types = append(a.types, s)
	}
	return a, nil
}

func (a *audit) covers(u resource.URI) bool {
	typ := u.Type()
	if strings.HasPrefix(typ, "event.") { // or reading what was recorded would record more
		return false
	}
	return len(a.types) > 0 && follow.Match(a.types, typ) || slices.ContainsFunc(a.prefixes, u.Under)
}

// Read is to be called when a user, or an agent for him, is about to be given
// a resource of a space. Where reads of it are audited it records a
// RESOURCE_GET in that space, durably when it returns; else it does nothing.
// What could not be recorded must not be given.
func (e *Engine) Read(ctx context.Context, user, agent string, uri resource.URI, space resource.Space) error {
	if !e.audit.covers(uri) {
		return nil
	}
	who := Caller{User: user, Agent: agent}
	p, err := e.opt.Directory.Principal(ctx, user)
	if err != nil {
		return err
	}
	at, source, err := who.place(p)
	if err != nil {
		return err
	}
	body := stored{Detail: Get, Seen: true, Resources: []storedRef{{URI: uri}}}
	_, err = e.append(ctx, who.actor(source), space, at.ChildID(TypeEvent, id.New()), body, nil)
	if err != nil {
		return fault.New(fault.Of(err).Kind, "read_unrecorded", "the read of %s could not be recorded: %w", uri, err)
	}
	return nil
}
