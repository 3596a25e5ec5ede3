package local

import (
	"cmp"
	"context"

	"steward/internal/tool"
)

// Kit collects the tools of a domain and the first error.
type Kit struct {
	env      tool.Env
	kind     string
	tools    []tool.Tool
	err      error
	audience *tool.Audience // of all tools
}

// NewKit begins the tools of a source of a kind, such as "domain:email".
func NewKit(env tool.Env, kind string) *Kit {
	word, err := tool.Word(env.Name)
	env.Name = word
	return &Kit{env: env, kind: kind, err: err}
}

// Share limits the kit's tools to those who may use one of the things that the settings name. Call it before
// adding tools.
func Share[T any](k *Kit, things []T, owner func(T) *tool.Audience) {
	var users, groups []string
	for _, t := range things {
		a := owner(t)
		if a == nil { // it is everybody's
			return
		}
		users, groups = append(users, a.Users...), append(groups, a.Groups...)
	}
	k.audience = tool.OwnedBy(users, groups)
}

// Own returns the things that a user may use. groupsOf returns the groups of a user; nil: there are none.
func Own[T any](ctx context.Context, user string, groupsOf func(context.Context, string) ([]string, error), things []T, owner func(T) *tool.Audience) (own []T, err error) {
	var groups []string
	if groupsOf != nil && len(things) > 0 {
		if groups, err = groupsOf(ctx, user); err != nil {
			return nil, tool.NotDone(err)
		}
	}
	for _, t := range things {
		if owner(t).Admits(user, groups) {
			own = append(own, t)
		}
	}
	return own, nil
}

// Name returns the full name of one of the kit's tools.
func (k *Kit) Name(short string) string { return k.env.Name + "." + short }

func (k *Kit) add(t tool.Tool, err error) {
	if k.err = cmp.Or(k.err, err); k.err == nil {
		k.tools = append(k.tools, t)
	}
}

func (k *Kit) spec(s tool.Spec, effect tool.Effect) tool.Spec {
	s.Name, s.Effect, s.Origin = k.Name(s.Name), effect, k.kind
	if k.audience != nil {
		s.For = k.audience
	}
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

// Action adds a tool that changes something. settle reports whether it has, if that can be found out; nil:
// it cannot. spec.Dedupes says that a repeated call with the same key changes nothing.
func Action[In, Out any](k *Kit, spec tool.Spec, fn func(ctx context.Context, in tool.Invocation, args In) (Out, error), settle Settler) {
	t, err := tool.New(k.spec(spec, tool.Action), fn)
	if err == nil && settle != nil {
		t = &settling{Layer{t}, settle}
	}
	k.add(t, err)
}

// Changes are a user's changes, noted under the keys of the calls that made them.
type Changes interface {
	// Applied returns what was said of the change under a key, if it was made.
	Applied(ctx context.Context, key string) (reply string, ok bool, err error)
	// Revert undoes the change under a key, and says so. Repeated, it returns the same text. It does
	// not undo a change if others have changed the same place since; the error is then a Conflict.
	Revert(ctx context.Context, key string) (reply string, err error)
}

// Change adds a tool whose changes are noted: a repeated call changes nothing, and the change can be
// settled and undone. of returns a user's changes. show turns the reply into a result.
func Change[In any, C Changes](k *Kit, spec tool.Spec, of func(ctx context.Context, user string) (C, error),
	fn func(ctx context.Context, in tool.Invocation, args In, c C) (reply string, err error), show func(reply string) tool.Result) {
	applied := func(ctx context.Context, in tool.Invocation) (c C, reply string, ok bool, err error) {
		if c, err = of(ctx, in.User); err != nil {
			return c, "", false, tool.NotDone(err)
		}
		reply, ok, err = c.Applied(ctx, Key(in))
		return c, reply, ok, err
	}
	spec.Dedupes = true
	t, err := tool.New(k.spec(spec, tool.Action), func(ctx context.Context, in tool.Invocation, args In) (tool.Result, error) {
		c, reply, ok, err := applied(ctx, in)
		if err == nil && !ok {
			reply, err = fn(ctx, in, args, c)
		}
		return show(reply), err
	})
	if err == nil {
		t = &undoable{settling{Layer{t}, func(ctx context.Context, in tool.Invocation) (bool, tool.Result, error) {
			_, reply, ok, err := applied(ctx, in)
			return ok, show(reply), err
		}}, func(ctx context.Context, in tool.Invocation) (string, error) {
			c, err := of(ctx, in.User)
			if err != nil {
				return "", tool.NotDone(err)
			}
			return c.Revert(ctx, Key(in))
		}}
	}
	k.add(t, err)
}

// Layer is a tool that wraps another one, which was made by tool.New.
type Layer struct{ tool.Tool }

// Unwrap leads to the tool inside.
func (l Layer) Unwrap() tool.Tool { return l.Tool }

// Check implements tool.Checker.
func (l Layer) Check(args []byte) error { return l.Tool.(tool.Checker).Check(args) }

// Settler reports whether the effect of a call has happened. See tool.Settler.
type Settler = func(ctx context.Context, in tool.Invocation) (bool, tool.Result, error)

// settling is an action with a Settler.
type settling struct {
	Layer
	settle Settler
}

func (s *settling) Settle(ctx context.Context, in tool.Invocation) (bool, tool.Result, error) {
	return s.settle(ctx, in)
}

// undoable is an action that can be settled and undone.
type undoable struct {
	settling
	revert func(ctx context.Context, in tool.Invocation) (string, error)
}

func (u *undoable) Undo(ctx context.Context, in tool.Invocation, _ tool.Result) (tool.Result, error) {
	reply, err := u.revert(ctx, in)
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Text(reply), nil
}

// Wrap puts a layer around the tool that was added last, with what else it can do.
func (k *Kit) Wrap(layer func(Layer) tool.Tool) {
	if k.err == nil {
		last := len(k.tools) - 1
		k.tools[last] = layer(Layer{k.tools[last]})
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
func (k *Kit) Tools() ([]tool.Tool, error) { return k.tools, k.err }

// source offers tools of this process. There is nothing to start, and the tools change only with Steward
// itself.
type source struct{ k *Kit }

func (s *source) Announce(context.Context) (tool.Announcement, error) {
	var a tool.Announcement
	for _, t := range s.k.tools {
		a.Specs = append(a.Specs, t.Spec())
	}
	return a, nil
}

func (s *source) Files() []string { return nil }

func (s *source) Close() error { return nil }

func (s *source) Tool(approved tool.Spec) tool.Tool {
	for _, t := range s.k.tools { // as what a person has approved, the catalog calls it
		if tool.Identity(t.Spec()) == tool.Identity(approved) {
			return t
		}
	}
	return changed{approved, s.k.env}
}

// changed is a tool that is no longer as it was approved.
type changed struct {
	spec tool.Spec
	env  tool.Env
}

func (c changed) Spec() tool.Spec { return c.spec }

func (c changed) Call(context.Context, tool.Invocation) (tool.Result, error) {
	return tool.Result{}, c.env.Refuse(c.spec.Name, "it is no longer what was approved")
}
