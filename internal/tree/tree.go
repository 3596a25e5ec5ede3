// Package tree is the service over the one tree of resources: it reads
// whatever exists, and keeps what users and agents put there, as policy allows
// and in the spaces of whoever asks, and in no others.
package tree

import (
	"cmp"
	"context"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
)

// Options are the parts of a Service. Store, Authorizer and People are needed.
type Options struct {
	Store      store.Store
	Authorizer policy.Authorizer
	People     policy.Directory
	Mounts     []Mount
	Audit      Audit // nil: reads are not recorded
}

// Mount is a view of what is not in the store. It is part of the system space
// and can only be read. Safe for concurrent use.
type Mount interface {
	// Types are those that the mount shows. What the store has of them in the
	// system space is not shown.
	Types() []string
	// List returns all that the principal may know of.
	List(ctx context.Context, p policy.Principal) ([]Resource, error)
	// Get returns one, or not_found.
	Get(ctx context.Context, p policy.Principal, uri resource.URI) (Resource, error)
}

// Personal is a Mount of what is derived from each user's own things. It is
// judged as lying in the user's space, and listed only where its type is asked
// for: there may be much of it.
type Personal interface {
	Mount
	Personal()
}

// owner is the space in which what a mount shows a user lies.
func owner(m Mount, user string) resource.Space {
	if _, ok := m.(Personal); ok {
		return resource.UserSpace(user)
	}
	return resource.System
}

// Audit records reads.
type Audit interface {
	// Read is told of each resource whose body is about to be given. An error
	// means that the read could not be recorded: it is refused then.
	Read(ctx context.Context, user, agent string, uri resource.URI, space resource.Space) error
}

// Service reads and writes resources. Safe for concurrent use.
type Service struct {
	opt    Options
	mounts map[string]Mount // by type
}

// New returns a service.
func New(opt Options) *Service {
	s := &Service{opt: opt, mounts: map[string]Mount{}}
	for _, m := range opt.Mounts {
		for _, t := range m.Types() {
			s.mounts[t] = m
		}
	}
	return s
}

// Caller is on whose behalf a call is made.
type Caller struct {
	User     string
	Actor    string   // who acts, as log entries name him: the user, or "agent:PATH"; empty: the user
	Agent    string   // the path of the agent that acts; empty: the user himself, or the node's own agent
	Lineage  []string // the agents on whose behalf it acts; see policy.Question
	Attended bool
	Request  id.ID
}

func (c Caller) actor() string { return cmp.Or(c.Actor, c.User) }

// Resource is a resource as it is shown.
type Resource struct {
	URI     resource.URI
	Space   resource.Space
	Version uint64 // 0: it is mounted, and has no versions
	State   string
	At      time.Time // of this version; zero where it is not known
	Actor   string    // who made this version; of single resources and histories only
	resource.Metadata
	Body   []byte // nil where it was not asked for, or was erased
	Masked bool   // policy has hidden something of the body
}

// Deleted is the state of a version that a deletion made.
const Deleted = "deleted"

// call is one call of the service: who makes it, and what was decided for it.
type call struct {
	*Service
	Caller
	who     policy.Principal
	decided map[placed]policy.Decision
}

// placed is what is decided about at once.
type placed struct {
	typ   string
	space resource.Space
}

func (s *Service) call(ctx context.Context, c Caller) (*call, error) {
	if c.User == "" {
		return nil, fault.New(fault.Unauthentic, "unauthenticated", "nobody has said who is calling")
	}
	who, err := s.opt.People.Principal(ctx, c.User)
	if err != nil {
		return nil, err
	}
	return &call{Service: s, Caller: c, who: who, decided: map[placed]policy.Decision{}}, nil
}

// spaces are those that the caller may know of at all.
func (c *call) spaces() []resource.Space {
	out := []resource.Space{resource.UserSpace(c.who.User)}
	for _, g := range c.who.Groups {
		out = append(out, resource.GroupSpace(g))
	}
	return append(out, resource.System)
}

func (c *call) reading() store.Scope { return store.Scope{Actor: c.actor(), Read: c.spaces()} }

// Get returns a resource as it is now. Errors: not_found (also where policy
// does not let read), user_disabled, and the store's.
func (s *Service) Get(ctx context.Context, by Caller, uri resource.URI) (Resource, error) {
	c, err := s.call(ctx, by)
	if err != nil {
		return Resource{}, err
	}
	r, err := c.get(ctx, uri)
	if err != nil {
		return Resource{}, err
	}
	if r.Version > 0 {
		if r.Actor, err = c.author(ctx, uri, r.Version); err != nil {
			return Resource{}, err
		}
	}
	return r, c.audit(ctx, r)
}

func (c *call) audit(ctx context.Context, r Resource) error {
	if c.opt.Audit == nil {
		return nil
	}
	return c.opt.Audit.Read(ctx, c.User, c.Agent, r.URI, r.Space)
}

func absent(uri resource.URI) error {
	return fault.New(fault.NotFound, "not_found", "there is no %s", uri).
		WithHint("steward resources list shows what there is")
}

// get reads one resource, mounted or stored.
func (c *call) get(ctx context.Context, uri resource.URI) (Resource, error) {
	typ := uri.Type()
	if uri.Zero() || closed(typ) {
		return Resource{}, absent(uri)
	}
	if m := c.mounts[typ]; m != nil {
		r, err := c.mounted(ctx, m, uri)
		if !fault.Is(err, fault.NotFound) {
			return r, err
		}
	}
	stored, err := c.opt.Store.Get(ctx, c.reading(), uri)
	if fault.Is(err, fault.NotFound) {
		return Resource{}, absent(uri)
	}
	if err != nil {
		return Resource{}, err
	}
	d, ok, err := c.mayRead(ctx, typ, stored.Space)
	if err != nil {
		return Resource{}, err
	}
	if !ok {
		return Resource{}, absent(uri)
	}
	return shown(stored, d), nil
}

func (c *call) mounted(ctx context.Context, m Mount, uri resource.URI) (Resource, error) {
	d, ok, err := c.mayView(ctx, m, uri.Type())
	if err != nil {
		return Resource{}, err
	}
	if !ok {
		return Resource{}, absent(uri)
	}
	r, err := m.Get(ctx, c.who, uri)
	if fault.Is(err, fault.NotFound) {
		return Resource{}, absent(uri)
	}
	if err != nil {
		return Resource{}, err
	}
	return veiled(r, d), nil
}

// hidden reports whether what is stored of a type in a space is not shown at
// all: what opens doors; what a mount stands before; and, but to admins, what
// Steward itself keeps in the system space.
func (c *call) hidden(typ string, space resource.Space) bool {
	switch {
	case closed(typ):
		return true
	case space != resource.System:
		return false
	case c.mounts[typ] != nil:
		return true
	}
	return owned(typ) && word(typ) != "event" && !c.who.Has(policy.RoleAdmin)
}

// shown is what is stored, as it is shown.
func shown(r resource.Resource, d policy.Decision) Resource {
	return veiled(Resource{URI: r.URI, Space: r.Space, Version: r.Version, State: r.State, At: r.At, Body: r.Body}, d)
}

// veiled hides what policy hides, and finds the metadata in what is left.
func veiled(r Resource, d policy.Decision) Resource {
	if len(d.Mask) > 0 {
		if r.Metadata = (resource.Metadata{}); r.Body != nil {
			r.Body, r.Masked = policy.MaskBody(r.Body, d.Mask)
		}
	}
	if r.Metadata == (resource.Metadata{}) {
		r.Metadata, _ = metadata(r.Body)
	}
	return r
}

// Parents returns all resources on the way to a URI that exist and may be
// read, the outermost first, the resource itself not among them. Errors:
// user_disabled, and the store's.
func (s *Service) Parents(ctx context.Context, by Caller, uri resource.URI) ([]Resource, error) {
	c, err := s.call(ctx, by)
	if err != nil {
		return nil, err
	}
	out := []Resource{}
	var at resource.URI
	steps := uri.Elements()
	for i, e := range steps {
		if i == len(steps)-1 {
			break
		}
		at = at.Child(e.Type, e.ID)
		r, err := c.get(ctx, at)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err == nil {
			err = c.audit(ctx, r)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}
