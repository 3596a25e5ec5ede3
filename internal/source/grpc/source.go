package grpc

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"steward/internal/fault"
	"steward/internal/tool"
)

// freshFor is how long a server's description of itself is trusted on a connection that stays
// open: behind a proxy, the server may have been replaced.
const freshFor = 10 * time.Minute

// source is a tool.Source over one gRPC server.
type source struct {
	kit    *Kit
	env    tool.Env
	decl   Declaration
	to     target
	files  []string
	fixed  *offer // from .proto files; nil: the server is asked
	opaque protoreflect.MessageType

	ctx  context.Context // done when it is closed
	stop context.CancelFunc

	patience time.Duration // how long to wait for a server to describe itself
	learning chan struct{} // a token: one caller asks the server at a time

	mu       sync.Mutex
	conn     *conn  // nil until the first use
	last     *offer // learned from the server
	handed   map[string]string
	reported string // the sum of the offer for which Env.Changed was last called
}

func newSource(k *Kit, env tool.Env, d Declaration, to target) *source {
	s := &source{kit: k, env: env, decl: d, to: to, opaque: opaque(), patience: reflectionTimeout, learning: make(chan struct{}, 1), handed: map[string]string{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if d.CA != "" {
		s.files = []string{d.CA}
	}
	return s
}

// readProtos makes the offer of a source that has .proto files. Files that were only found,
// rather than declared, and do not describe what the declaration names, are ignored.
func (s *source) readProtos() error {
	paths, found, err := findProtos(s.env.Dir, s.decl)
	if err != nil || len(paths) == 0 {
		return err
	}
	protos, read, err := compile(s.env.Dir, s.decl, paths)
	if err != nil {
		return err
	}
	in, refused := link(protos, false)
	if len(refused) > 0 {
		return refused[0]
	}
	methods, missing := s.decl.chosen(in)
	if len(missing) > 0 || len(methods) == 0 {
		if found {
			return nil
		}
		if len(missing) > 0 {
			return missing[0]
		}
		return unknownCall("method", "to call in the .proto files", nil)
	}
	s.fixed = s.offering(in)
	s.files = append(s.files, read...)
	slices.Sort(s.files)
	return nil
}

// Files implements tool.Source.
func (s *source) Files() []string { return slices.Clone(s.files) }

// Warnings returns what a person should know before allowing the source.
func (s *source) Warnings() []string { return warningsOf(s.decl, s.to) }

// Announce implements tool.Source. If there are .proto files, it does not connect to the server:
// the files are sufficient. Error codes: grpc_no_reflection, grpc_description_invalid, and those
// of calls.
func (s *source) Announce(ctx context.Context) (tool.Announcement, error) {
	ctx, done, err := s.scope(ctx)
	if err != nil {
		return tool.Announcement{}, err
	}
	defer done()
	o := s.fixed
	if o == nil {
		if o, err = s.fetchOffer(ctx, true); err != nil {
			return tool.Announcement{}, err
		}
	}
	return tool.Announcement{Specs: slices.Clone(o.specs), Refused: slices.Clone(o.refused)}, nil
}

// Tool implements tool.Source.
func (s *source) Tool(spec tool.Spec) tool.Tool {
	print := tool.Identity(spec)
	s.mu.Lock()
	s.handed[spec.Name] = print
	s.mu.Unlock()
	return &callable{source: s, spec: spec, print: print}
}

// Close implements tool.Source. It ends running calls.
func (s *source) Close() error {
	s.stop()
	s.mu.Lock()
	c := s.conn
	s.conn = nil
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	return s.kit.release(c)
}

// scope returns a context that is also done when the source is closed.
func (s *source) scope(ctx context.Context) (context.Context, func(), error) {
	if s.ctx.Err() != nil {
		return nil, nil, tool.NotDone(errClosed(s))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(errClosed(s)) })
	return ctx, func() { stop(); cancel(nil) }, nil
}

func errClosed(s *source) error {
	return fault.New(fault.Unavailable, "source_closed", "the source %s has been closed", s.env.Name).
		WithHint("look at the current list of tools").Retrying(fault.RetryBackoff, 0)
}

// connection returns the connection; the first use takes it from the kit.
func (s *source) connection() (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, errClosed(s)
	}
	if s.conn == nil {
		c, err := s.kit.take(s.to)
		if err != nil {
			return nil, err
		}
		s.conn = c
	}
	return s.conn, nil
}

// current returns what may be called now: what the .proto files say, or what the server on the
// current connection has said about itself.
func (s *source) current(ctx context.Context) (*offer, *conn, error) {
	c, err := s.connection()
	if err != nil {
		return nil, nil, err
	}
	c.ready(ctx)
	if s.fixed != nil {
		return s.fixed, c, nil
	}
	s.mu.Lock()
	o := s.last
	s.mu.Unlock()
	if !s.isCurrent(o, c) {
		if o, err = s.fetchOffer(ctx, false); err != nil {
			return nil, nil, err
		}
	}
	return o, c, nil
}

// isCurrent reports whether an offer was learned over the current connection. A connection that broke
// and was not restored changes nothing: a call reports why.
func (s *source) isCurrent(o *offer, c *conn) bool {
	return o != nil && o.generation == c.generation.Load() && (time.Since(o.at) < freshFor || c.cc.GetState() != connectivity.Ready)
}

// fetchOffer asks the server what it offers. A caller that waits for another's request shares its
// answer, unless fresh is set.
func (s *source) fetchOffer(ctx context.Context, fresh bool) (*offer, error) {
	select {
	case s.learning <- struct{}{}:
		defer func() { <-s.learning }()
	case <-ctx.Done():
		return nil, ended(ctx, s.to.address)
	}
	c, err := s.connection()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if !fresh && s.isCurrent(last, c) {
		return last, nil
	}
	for range 3 { // a connection made in the meantime may lead to another server
		c.ready(ctx)
		generation := c.generation.Load()
		o, err := s.ask(ctx, c)
		if err != nil {
			return nil, err
		}
		if o.generation = generation; c.generation.Load() == generation {
			s.storeOffer(o)
			return o, nil
		}
	}
	return nil, fault.New(fault.Unavailable, "grpc_unavailable", "the connection to %s keeps breaking", s.to.address).
		WithHint("try again later").Retrying(fault.RetryBackoff, 0)
}

// ask asks the server to describe itself.
func (s *source) ask(ctx context.Context, c *conn) (*offer, error) {
	asking, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if s.env.Agent == "" { // the settings name the server, not an agent that may still wait for approval: it may have the secrets
		if md, err := s.metadata(); err == nil { // otherwise the call reports what is missing
			asking = metadata.NewOutgoingContext(asking, md)
		}
	}
	r, err := reflect(asking, c.cc, s.declaredServices())
	if err != nil {
		return nil, s.unreachable(ctx, err)
	}
	in, refused := link(r.files, r.missing)
	o := s.offering(in)
	o.refused = slices.Concat(refused, r.refused, o.refused)
	return o, nil
}

// declaredServices returns the services that the declaration names; none: all.
func (s *source) declaredServices() []string {
	if s.decl.Call != "" {
		return []string{serviceOf(s.decl.Call)}
	}
	return slices.Clone(s.decl.Services)
}

// unreachable returns the error for a server that could not be asked.
func (s *source) unreachable(ctx context.Context, err error) error {
	if ctx.Err() == nil && status.Code(err) == codes.DeadlineExceeded {
		return fault.New(fault.Unavailable, "grpc_unavailable", "%s did not describe its services in %v", s.to.address, s.patience).
			WithHint("check the server, or name its .proto files under protos").Retrying(fault.RetryBackoff, 0)
	}
	return failure(ctx, s.to.address, err, resolver{Types: dynamicpb.NewTypes(new(protoregistry.Files)), opaque: s.opaque})
}

// storeOffer stores an offer and reports changes, compared with what was learned before and with
// what was approved.
func (s *source) storeOffer(o *offer) {
	s.mu.Lock()
	changed := s.last != nil && s.last.sum != o.sum || s.last == nil && len(s.handed) > 0 && len(s.handed) != len(o.methods)
	for name, print := range s.handed {
		changed = changed || o.methods[name] == nil || o.methods[name].print != print
	}
	changed = changed && s.reported != o.sum
	if changed {
		s.reported = o.sum
	}
	s.last = o
	s.mu.Unlock()
	if changed {
		s.env.Log.Warn("the tools of a gRPC server have changed", "source", s.env.Name, "host", s.to.address)
		if s.env.Changed != nil {
			s.env.Changed()
		}
	}
}

// invalidate makes the next call ask the server again.
func (s *source) invalidate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		o := *s.last
		o.at = time.Time{}
		s.last = &o
	}
}
