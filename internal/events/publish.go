package events

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/policy"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
)

// Publication is an event to publish.
type Publication struct {
	// ID is the caller's own id. Publishing the same event again under the same id has no effect. A
	// UUID becomes the event's id. If ID is empty, the event gets a new one.
	ID        string         `json:"id,omitzero"`
	Source    string         `json:"source,omitzero"`      // empty: the caller's own, which is the only one allowed
	Space     resource.Space `json:"space,omitzero"`       // whose subscribers receive it: the caller's own space (empty), or that of one of the caller's groups
	Time      time.Time      `json:"time,omitzero"`        // when it happened; zero: now
	Detail    DetailType     `json:"detail_type,omitzero"` // empty: Put
	Resources []Resource     `json:"resources"`            // only URI and Body are used
}

// Published is an event that is in the log.
type Published struct {
	ID        id.ID        `json:"id"`
	URI       resource.URI `json:"uri"`
	Cursor    Cursor       `json:"cursor"`    // after it
	Duplicate bool         `json:"duplicate"` // it existed already
}

// Limits of published events.
const (
	MaxResources = 100
	MaxBytes     = 64 << 10 // of the event as stored, bodies included
	maxClientID  = 256
)

// Publish appends an event to the log. The event is durable when Publish returns.
//
// Errors: event_invalid, event_too_large; event_source_foreign for a source that is not the
// caller's own; event_space_foreign; event_denied if policy does not allow it; event_id_used for an
// id that another event has.
func (e *Engine) Publish(ctx context.Context, who Caller, x Publication) (Published, error) {
	p, err := e.opt.Directory.Principal(ctx, who.User)
	if err != nil {
		return Published{}, err
	}
	at, source, err := who.place(p)
	if err != nil {
		return Published{}, err
	}
	if x.Source != "" && x.Source != source {
		return Published{}, fault.New(fault.Denied, "event_source_foreign", "%s cannot publish as %.80s", source, x.Source).
			WithHint("leave the source out, or name your own: %s", source)
	}
	space, err := spaceFor(p, x.Space)
	if err != nil {
		return Published{}, err
	}
	body, err := x.stored(e.opt.Mask)
	if err != nil {
		return Published{}, err
	}
	if err := e.mayPublish(ctx, who, at, space); err != nil {
		return Published{}, err
	}
	own, ok := id.Parse(x.ID)
	switch {
	case x.ID == "":
		own = id.New()
	case !ok || own.Zero():
		own = id.Derive("event", string(space), x.ID)
	}
	return e.publish(ctx, who.actor(source), space, at.ChildID(TypeEvent, own), body, body.about(ctx, space, resource.UserSpace(who.User)))
}

// about returns the index terms by which an event is found: the resources that it is about, and the
// conversation in which it was published.
func (s stored) about(ctx context.Context, told, own resource.Space) []store.Term {
	var of []resource.URI
	if r, ok := request.From(ctx); ok {
		of = append(of, r.Conversation)
	}
	for _, r := range s.Resources {
		of = append(of, r.URI, resource.Expand(told, r.URI))
	}
	return store.About(slices.Compact([]resource.Space{told, own}), of...)
}

// actor returns the actor for the log entry.
func (c Caller) actor(source string) string {
	if c.Agent == "" {
		return c.User
	}
	return source
}

func spaceFor(p policy.Principal, sp resource.Space) (resource.Space, error) {
	own := resource.UserSpace(p.User)
	if sp == "" || sp == own {
		return own, nil
	}
	for _, g := range p.Groups {
		if sp == resource.GroupSpace(g) {
			return sp, nil
		}
	}
	return "", fault.New(fault.Denied, "event_space_foreign", "%s is not in the space %.80s", p.User, sp).
		WithHint("leave the space out for your own, or name a group that you are in: group:NAME")
}

// stored validates a publication and returns the form in which it is stored. Its secrets are hidden
// first, so that the same event published again compares as equal.
func (x *Publication) stored(mask func([]byte) []byte) (stored, error) {
	bad := func(format string, args ...any) (stored, error) {
		return stored{}, fault.New(fault.Invalid, "event_invalid", "cannot publish the event: "+format, args...)
	}
	out := stored{Detail: x.Detail, Time: x.Time.UTC()}
	if out.Detail == "" {
		out.Detail = Put
	}
	switch {
	case !slices.Contains(DetailTypes(), out.Detail):
		return bad("unknown detail type %.80q", x.Detail)
	case len(x.ID) > maxClientID:
		return bad("its id has more than %d bytes", maxClientID)
	case len(x.Resources) == 0:
		return bad("it has no resource")
	case len(x.Resources) > MaxResources:
		return bad("it has more than %d resources", MaxResources)
	case !x.Time.IsZero() && (x.Time.Year() < 1970 || x.Time.Year() > 9999):
		return bad("its time is %s", x.Time)
	}
	size := 0
	for _, r := range x.Resources {
		if r.URI.Zero() {
			return bad("a resource has no URI")
		}
		size += len(r.Body) + len(r.URI.Key())
		if size > MaxBytes {
			return stored{}, tooLarge()
		}
		ref := storedRef{URI: r.URI}
		if len(r.Body) > 0 {
			var b bytes.Buffer
			if err := json.Compact(&b, r.Body); err != nil {
				return bad("the body of %s is not JSON: %w", r.URI, err)
			}
			ref.Body = mask(b.Bytes())
		}
		out.Resources = append(out.Resources, ref)
	}
	return out, nil
}

func tooLarge() error {
	return fault.New(fault.TooLarge, "event_too_large", "the event has more than %d KiB", MaxBytes>>10).
		WithHint("keep the content in a resource, and publish its URI")
}

// mayPublish asks policy. Nobody can be asked for approval here.
func (e *Engine) mayPublish(ctx context.Context, who Caller, at resource.URI, space resource.Space) error {
	d, err := e.opt.Authorizer.Authorize(ctx, policy.Question{Point: policy.PointAccess, Action: policy.Write,
		User: who.User, Agent: who.Agent, Lineage: who.Lineage,
		Resource: policy.Resource{URI: at, Type: TypeEvent, Space: space}})
	if err != nil {
		return fault.New(fault.Denied, "event_denied", "policy evaluation failed: %w", err)
	}
	if d.Verdict != policy.Allow {
		return fault.New(fault.Denied, "event_denied", "policy does not allow %s to publish events: %s", who.User, d.Reason)
	}
	return nil
}

// publish appends an event, or finds that it exists already.
func (e *Engine) publish(ctx context.Context, actor string, space resource.Space, uri resource.URI, body stored, terms []store.Term) (Published, error) {
	out := Published{URI: uri}
	out.ID, _ = id.Parse(uri.ID())
	r, err := e.append(ctx, actor, space, uri, body, terms)
	if err == nil {
		out.Cursor = follow.Behind(r.Seq)
		return out, nil
	}
	if !fault.Is(err, fault.Conflict) {
		return Published{}, err
	}
	used := fault.New(fault.Conflict, "event_id_used", "the id %s belongs to another event", uri.ID()).WithHint("use a different id for each event")
	there, err := e.store.Get(ctx, store.Scope{Actor: actor, Read: []resource.Space{space}}, uri)
	switch {
	case fault.Is(err, fault.NotFound):
		return Published{}, used
	case err != nil:
		return Published{}, err
	}
	if !body.same(there.Body) {
		return Published{}, used
	}
	out.Cursor, out.Duplicate = follow.Behind(there.Seq), true
	return out, nil
}

// same reports whether the stored bytes are this event.
func (s stored) same(kept []byte) bool {
	var k stored
	if json.Unmarshal(kept, &k) != nil {
		return false
	}
	return k.Seen == s.Seen && k.Detail == s.Detail && k.Time.Equal(s.Time) &&
		slices.EqualFunc(k.Resources, s.Resources, func(a, b storedRef) bool { return a.URI == b.URI && bytes.Equal(a.Body, b.Body) })
}

func (e *Engine) append(ctx context.Context, actor string, space resource.Space, uri resource.URI, body stored, terms []store.Term) (store.Receipt, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // bodies are stored as they were sent
	if err := enc.Encode(body); err != nil {
		return store.Receipt{}, err
	}
	batch := store.Batch{Changes: []store.Change{{URI: uri, Body: bytes.TrimSuffix(b.Bytes(), []byte("\n")), If: store.If{Absent: true}, Terms: terms}}}
	if r, ok := request.From(ctx); ok {
		batch.Request = r.ID
	}
	return e.store.Commit(ctx, store.Scope{Actor: actor, Read: []resource.Space{space}, Write: space}, batch)
}
