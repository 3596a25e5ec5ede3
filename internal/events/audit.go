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

// audit selects the reads that are recorded.
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
			return a, fault.New(fault.Invalid, "audit_invalid", "invalid type or place %.80q", s).
				WithHint("write a type such as email.Message, the beginning of one as in email.*, or a place such as cld:common.Conversation.42")
		}
		a.types = append(a.types, s)
	}
	return a, nil
}

func (a *audit) covers(u resource.URI) bool {
	typ := u.Type()
	if strings.HasPrefix(typ, "event.") { // otherwise reading the records would add records
		return false
	}
	return len(a.types) > 0 && follow.Match(a.types, typ) || slices.ContainsFunc(a.prefixes, u.Below)
}

// Read must be called before a user, or an agent on the user's behalf, is given a resource of a
// space. If reads of the resource are audited, Read records a RESOURCE_GET in that space, and the
// record is durable when Read returns. Otherwise it does nothing. If Read returns an error the
// resource must not be given out.
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
		return fault.New(fault.Of(err).Kind, "read_unrecorded", "cannot record the read of %s: %w", uri, err)
	}
	return nil
}
