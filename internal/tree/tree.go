// Package tree lets users and agents read and write the tree of resources. They
// read every resource that policy allows, in their own spaces only, and keep
// resources of their own below the place of a space (see Place).
package tree

import (
	"cmp"
	"context"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
)

// Options are the parts of a Service. Store, Authorizer and People are required.
type Options struct {
	Store      store.Store
	Authorizer policy.Authorizer
	People     policy.Directory
	Mounts     []Mount
	Audit      Audit // nil: reads are not recorded
}

// Mount shows resources that are not in the store. They belong to the system space
// and are read-only. Safe for concurrent use.
type Mount interface {
	// Types returns the types that the mount shows. Resources of these types in the
	// system space of the store are hidden.
	Types() []string
	// List returns all resources that the principal may know of.
	List(ctx context.Context, p policy.Principal) ([]Resource, error)
	// Get returns one resource, or not_found.
	Get(ctx context.Context, p policy.Principal, uri resource.URI) (Resource, error)
}

// Personal is a Mount of resources that derive from each user's own. They belong
// to the user's space. There may be many, so they are listed only if the query
// names their type.
type Personal interface {
	Mount
	Personal()
}

// owner returns the space of the resources that a mount shows to a user.
func owner(m Mount, user string) resource.Space {
	if _, ok := m.(Personal); ok {
		return resource.UserSpace(user)
	}
	return resource.System
}

// Audit records reads.
type Audit interface {
	// Read is called before a resource's body is given out. If it returns an error,
	// the read could not be recorded and is refused.
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

// Caller says on whose behalf a call is made.
type Caller struct {
	User     string
	Actor    string   // who acts, as in log entries: the user, or "agent:PATH"; empty: the user
	Agent    string   // the path of the acting agent; empty: the user, or the node's own agent
	Lineage  []string // the agents on whose behalf it acts; see policy.Question
	Attended bool
	Request  id.ID
}

func (c Caller) actor() string { return cmp.Or(c.Actor, c.User) }

// Resource is a resource as it is shown to a caller.
type Resource struct {
	URI     resource.URI
	Space   resource.Space
	Version uint64 // 0: it is mounted and has no versions
	State   string
	At      time.Time // of this version; zero: unknown
	Actor   string    // who made this version; only set for single resources and histories
	resource.Metadata
	Body   []byte // nil: not requested, or erased
	Masked bool   // policy has hidden a part of the body
}

// Deleted is the state of a version that is a deletion.
const Deleted = "deleted"

// call is one call of the service: the caller, and the policy's decisions.
type call struct {
	*Service
	Caller
	who     policy.Principal
	decided map[decisionUnit]policy.Decision
}

// decisionUnit is the unit of decisions: all resources of a type in a space.
type decisionUnit struct {
	typ   string
	space resource.Space
}

func (s *Service) call(ctx context.Context, c Caller) (*call, error) {
	if c.User == "" {
		return nil, fault.New(fault.Unauthentic, "unauthenticated", "authentication required")
	}
	who, err := s.opt.People.Principal(ctx, c.User)
	if err != nil {
		return nil, err
	}
	return &call{Service: s, Caller: c, who: who, decided: map[decisionUnit]policy.Decision{}}, nil
}

// spaces returns the spaces that the caller may know of.
func (c *call) spaces() []resource.Space {
	out := []resource.Space{resource.UserSpace(c.who.User)}
	for _, g := range c.who.Groups {
		out = append(out, resource.GroupSpace(g))
	}
	return append(out, resource.System)
}

func (c *call) reading() store.Scope { return store.Scope{Actor: c.actor(), Read: c.spaces()} }

// Get returns the newest version of a resource. Errors: not_found (also if policy
// does not allow reading), user_disabled, and the store's.
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
		WithHint("steward resources list shows the resources")
}

// get reads one resource, mounted or stored.
func (c *call) get(ctx context.Context, uri resource.URI) (Resource, error) {
	typ := uri.Type()
	if uri.Zero() || resource.Closed(typ) {
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
	return maskedResource(r, d), nil
}

// hidden reports whether stored resources of a type in a space are never shown:
// credentials; resources that a mount shows instead; and, except to admins,
// Steward's own resources in the system space.
func (c *call) hidden(typ string, space resource.Space) bool {
	switch {
	case resource.Closed(typ):
		return true
	case space != resource.System:
		return false
	case c.mounts[typ] != nil:
		return true
	}
	return resource.Owned(typ) && word(typ) != "event" && !c.who.Has(policy.RoleAdmin)
}

// shown converts a stored resource.
func shown(r resource.Resource, d policy.Decision) Resource {
	return maskedResource(Resource{URI: r.URI, Space: r.Space, Version: r.Version, State: r.State, At: r.At, Body: r.Body}, d)
}

// maskedResource masks the body as policy requires, and reads the metadata from the rest.
func maskedResource(r Resource, d policy.Decision) Resource {
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

// Parents returns the ancestors of a URI that exist and may be read, outermost
// first. Errors: user_disabled, and the store's.
func (s *Service) Parents(ctx context.Context, by Caller, uri resource.URI) ([]Resource, error) {
	c, err := s.call(ctx, by)
	if err != nil {
		return nil, err
	}
	out := []Resource{}
	for at := uri.Parent(); !at.Zero(); at = at.Parent() {
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
	slices.Reverse(out)
	return out, nil
}
