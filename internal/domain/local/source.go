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
	return s
}

// Query adds a tool that changes nothing. spec.Name is its name within the kit.
func Query[In, Out any](k *Kit, spec tool.Spec, fn func(ctx context.Context, in tool.Invocation, args In) (Out, error)) {
	k.add(tool.New(k.spec(spec, tool.Query), fn))
}

// Action adds a tool that changes something, at most once for each Invocation.Key. settle reports
// whether the change has happened.
func Action[In, Out any](k *Kit, spec tool.Spec, fn func(ctx context.Context, in tool.Invocation, args In) (Out, error), settle Settler) {
	spec.Dedupes = true
	t, err := tool.New(k.spec(spec, tool.Action), fn)
	if err != nil {
		k.add(nil, err)
		return
	}
	k.add(&settling{layer{t}, settle}, nil)
}

// Once adds a tool that changes something, but neither recognizes a repeated call nor can report whether
// it has happened.
func Once[In, Out any](k *Kit, spec tool.Spec, fn func(ctx context.Context, in tool.Invocation, args In) (Out, error)) {
	k.add(tool.New(k.spec(spec, tool.Action), fn))
}

// Asked adds a tool that changes something and does not recognize a repeated call, but may find out
// whether it has happened: settle returns an error if it cannot.
func Asked[In, Out any](k *Kit, spec tool.Spec, fn func(ctx context.Context, in tool.Invocation, args In) (Out, error), settle Settler) {
	t, err := tool.New(k.spec(spec, tool.Action), fn)
	if err != nil {
		k.add(nil, err)
		return
	}
	k.add(&settling{layer{t}, settle}, nil)
}

// layer is a tool that wraps another one.
type layer struct{ tool.Tool }

func (l layer) Unwrap() tool.Tool       { return l.Tool }
func (l layer) Check(args []byte) error { return l.Tool.(tool.Checker).Check(args) }

// Settler reports whether the effect of a call has happened. See tool.Settler.
type Settler = func(ctx context.Context, in tool.Invocation) (bool, tool.Result, error)

// settling is an action with a Settler.
type settling struct {
	layer
	settle Settler
}

func (s *settling) Settle(ctx context.Context, in tool.Invocation) (bool, tool.Result, error) {
	return s.settle(ctx, in)
}

// Journal records changes by their keys, each with the text that was returned for it.
type Journal interface {
	// Applied returns the text of the change under a key, if the change was made.
	Applied(ctx context.Context, key string) (told string, ok bool, err error)
}

// Settled returns the Settler of actions that are recorded in a journal.
func Settled[J Journal](of func(user string) J) Settler {
	return func(ctx context.Context, in tool.Invocation) (bool, tool.Result, error) {
		told, ok, err := of(in.User).Applied(ctx, Key(in))
		return ok, tool.Text(told), err
	}
}

// Key returns the idempotency key of a call.
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

// Tools returns the kit's tools in the order in which they were added, or the first error. It
// is for tools that Steward offers without an approval.
func (k *Kit) Tools() ([]tool.Tool, error) {
	if k.err != nil {
		return nil, k.err
	}
	list := make([]tool.Tool, len(k.names))
	for i, n := range k.names {
		list[i] = k.tools[n]
	}
	return list, nil
}

// source offers tools of this process. There is nothing to start, and the tools change only with Steward
// itself.
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

// changed is a tool that is no longer as it was approved.
type changed struct {
	spec tool.Spec
	env  tool.Env
}

func (c changed) Spec() tool.Spec { return c.spec }

func (c changed) Call(context.Context, tool.Invocation) (tool.Result, error) {
	return tool.Result{}, c.env.Refuse(c.spec.Name, "it is not what was approved any more")
}
