package events

import (
	"context"
	"encoding/json"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

// Erase permanently erases what a user, or an agent on the user's behalf, has published: the event
// with the id which, or all events if which is zero. by is who erases. The log still shows that
// something was published. Error code: event_not_found.
func (e *Engine) Erase(ctx context.Context, by, user string, which id.ID) error {
	found := 0
	for _, prefix := range []string{userSource, serviceSource} {
		q := store.Query{Under: resource.Root(typeSource, prefix+user), Type: TypeEvent, NoBody: !which.Zero()}
		for it, err := range store.Items(ctx, e.store, store.ForNode(resource.System), q) {
			if err != nil {
				return err
			}
			if !which.Zero() && it.URI.ID() != which.String() || which.Zero() && isRead(it.Body) {
				continue
			}
			sc := store.ForNode(it.Space)
			sc.Actor = by
			if _, err := e.store.Commit(ctx, sc, store.Batch{Changes: []store.Change{{Op: store.Erase, URI: it.URI}}}); err != nil {
				return err
			}
			found++
		}
	}
	if found == 0 && !which.Zero() {
		return fault.New(fault.NotFound, "event_not_found", "%s has published no event %s", user, which).
			WithHint("steward events watch --from start --json shows the ids")
	}
	return nil
}

// isRead reports whether an event is a recorded read. Erase keeps those.
func isRead(body []byte) bool {
	var s stored
	return json.Unmarshal(body, &s) == nil && s.Seen
}
