package local

import (
	"context"

	"steward/internal/tool"
)

// Kit collects the tools of a domain and the first error.
type Kit struct {
	env   tool.Env
	kind  string
	tools map[string]tool.Tool
	names []string
	err   error

	delivery tool.Delivery  // of the actions; zero: inline
	audience *tool.Audience // of all tools
}

// NewKit begins the tools of a source of a kind, such as "domain:email".
func NewKit(env tool.Env, kind string) *Kit {
	word, err := tool.Word(env.Name)
	env.Name = word
	return &Kit{env: env, kind: kind, tools: map[string]tool.Tool{}, err: err}
}

// Name returns the full name of one of the kit's tools.
func (k *Kit) Name(short string) string { return k.env.Name + "." + short }

func (k *Kit) add(t tool.Tool, err error) {
	if err != nil && k.err == nil {
		k.err = err
	}
	if k.err == nil {
		name := t.Spec().Name
		k.tools[name] = t
		k.names = append(k.names, name)
	}
}

func (k *Kit) spec(s tool.Spec, effect tool.Effect) tool.Spec {
	s.Name, s.Effect, s.Origin, s.For = k.Name(s.Name), effect, k.kind, k.audience
	if s.Reach == "" {
		s.Reach = tool.ReachHere // in the user's own places; what sends says so
	}
	if s.Version == "" {
		s.Version = "1"
	}
	if effect == tool.Action && !s.Async && s.AsyncAfter == 0 {
		s.Delivery = k.delivery
	}
	return s
}

// Query adds a tool that changes nothing; spec.Name is its name within the kit.
func Query[In, Out any](k *Kit, spec tool.Spec, fn func(ctx context.Context, in tool.Invocation, args In) (Out, error)) {
	k.add(tool.New(k.spec(spec, tool.Query), fn))
}

// Action adds a tool that changes something, at most once for each
// Invocation.Key, and whose settle says whether that has happened.
func Action[In, Out any](k *Kit, spec tool.Spec, fn func(ctx context.Context, in tool.Invocation, args In) (Out, error), settle Settler) {
	spec.Dedupes = true
	t, err := tool.New(k.spec(spec, tool.Action), fn)
	if err != nil {
		k.add(nil, err)
		return
	}
	k.add(&settling{layer{t}, settle}, nil)
}

// Once adds a tool that changes something and neither knows a call again nor
// can tell whether it has happened: what is uncertain of it stays uncertain.
func Once[In, Out any](k *Kit, spec tool.Spec, fn func(ctx context.Context, in tool.Invocation, args In) (Out, error)) {
	k.add(tool.New(k.spec(spec, tool.Action), fn))
}

// layer is a tool around another one, to which it leaves what it does not do
// itself.
type layer struct{ tool.Tool }

func (l layer) Unwrap() tool.Tool       { return l.Tool }
func (l layer) Check(args []byte) error { return l.Tool.(tool.Checker).Check(args) }

// Settler says whether the effect of a call has happened, as tool.Settler does.
type Settler = func(ctx context.Context, in tool.Invocation) (bool, tool.Result, error)

// settling is an action whose receiver can be asked.
type settling struct {
	layer
	settle Settler
}

func (s *settling) Settle(ctx context.Context, in tool.Invocation) (bool, tool.Result, error) {
	return s.settle(ctx, in)
}

// Journal keeps with the key of each change what was told of it.
type Journal interface {
	// Applied returns what was told of the change under a key, if it was made.
	Applied(ctx context.Context, key string) (told string, ok bool, err error)
}

// Settled is what settles the actions of a user's journal.
func Settled[J Journal](of func(user string) J) Settler {
	return func(ctx context.Context, in tool.Invocation) (bool, tool.Result, error) {
		told, ok, err := of(in.User).Applied(ctx, Key(in))
		return ok, tool.Text(told), err
	}
}

// Key is what makes a call's effect the same effect.
func Key(in tool.Invocation) string {
	if in.Key != "" {
		return in.Key
	}
	return in.Call.String()
}

// Source returns the kit as a source, or the first error.
func (k *Kit) Source() (tool.Source, error) {
	if k.err != nil {
		return nil, k.err
	}
	return &source{k}, nil
}

// source offers tools that live in this process: there is nothing to start,
// and what is announced changes with Steward itself only.
type source struct{ k *Kit }

func (s *source) Announce(context.Context) (tool.Announcement, error) {
	var a tool.Announcement
	for _, n := range s.k.names {
		a.Specs = append(a.Specs, s.k.tools[n].Spec())
	}
	return a, nil
}

func (s *source) Files() []string { return nil }

func (s *source) Close() error { return nil }

func (s *source) Tool(approved tool.Spec) tool.Tool {
	own := s.k.tools[approved.Name]
	if own == nil || tool.Identity(own.Spec()) != tool.Identity(approved) {
		return changed{approved, s.k.env}
	}
	spec := own.Spec()
	spec.Effect, spec.Asks, spec.Delivery = approved.Effect, approved.Asks, approved.Delivery
	if spec.Effect == tool.Query {
		spec.Delivery, spec.Dedupes = "", false
	}
	return &allowed{layer{own}, spec}
}

// allowed is a tool as it was approved.
type allowed struct {
	layer
	spec tool.Spec
}

func (a *allowed) Spec() tool.Spec { return a.spec }

// changed is a tool that was approved and is not offered like that.
type changed struct {
	spec tool.Spec
	env  tool.Env
}

func (c changed) Spec() tool.Spec { return c.spec }

func (c changed) Call(context.Context, tool.Invocation) (tool.Result, error) {
	return tool.Result{}, c.env.Refuse(c.spec.Name, "it is not what was approved any more")
}
