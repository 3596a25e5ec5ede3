// Package localtest opens domain sources in tests and calls their tools as
// the engine does.
package localtest

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/tool"
)

// Source is an opened source with its tools in a registry, as approved.
type Source struct {
	tb testing.TB
	tool.Source
	Env      tool.Env
	Registry *tool.Registry
}

// Env returns the environment of a source in fresh folders.
func Env(tb testing.TB, name string) tool.Env {
	return tool.Env{Name: name, Agent: "test", Dir: tb.TempDir(), Data: tb.TempDir(), Log: slog.New(slog.DiscardHandler)}
}

// Open opens a source, announces its tools and registers them.
func Open(tb testing.TB, open tool.Opener, env tool.Env) *Source {
	tb.Helper()
	src, err := open(env, func(any) error { return nil })
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := src.Close(); err != nil {
			tb.Error(err)
		}
	})
	a, err := src.Announce(context.Background())
	if err != nil || len(a.Refused) > 0 {
		tb.Fatal(err, a.Refused)
	}
	s := &Source{tb: tb, Source: src, Env: env, Registry: &tool.Registry{}}
	for _, spec := range a.Specs {
		if err := s.Registry.Add(src.Tool(spec)); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

// Invocation makes an invocation of a tool: its key derives from the call.
func (s *Source) Invocation(call, name, args string) tool.Invocation {
	s.tb.Helper()
	canon, err := tool.Canonical([]byte(args))
	if err != nil {
		s.tb.Fatal(err)
	}
	ref := message.Ref{Message: id.Derive(call)}
	in := tool.Invocation{Args: canon, Call: ref, User: "ann"}
	if t, ok := s.Registry.Get(name); ok && t.Spec().Effect == tool.Action {
		in.Key = intent.Key(name, canon, intent.CallIdentity(ref))
	}
	return in
}

// Try calls a tool under the identity of a call, and returns the text.
func (s *Source) Try(call, name string, args any) (string, error) {
	s.tb.Helper()
	raw, ok := args.(string)
	if !ok {
		b, err := json.Marshal(args)
		if err != nil {
			s.tb.Fatal(err)
		}
		raw = string(b)
	}
	t, ok := s.Registry.Get(name)
	if !ok {
		s.tb.Fatalf("there is no tool %s among %v", name, s.Registry.Names())
	}
	in := s.Invocation(call, name, raw)
	if err := t.(tool.Checker).Check(in.Args); err != nil {
		return "", err
	}
	res, err := t.Call(context.Background(), in.Checked())
	if err != nil {
		return "", err
	}
	return TextOf(res), nil
}

// Call is Try for a call that must succeed.
func (s *Source) Call(call, name string, args any) string {
	s.tb.Helper()
	out, err := s.Try(call, name, args)
	if err != nil {
		s.tb.Fatalf("%s %v: %v", name, args, err)
	}
	return out
}

// Labels calls a tool, and returns the labels of what it tells, whether that is
// a result, an error, or what is told again of a call that has happened.
func (s *Source) Labels(call, name, args string) message.Labels {
	s.tb.Helper()
	t, ok := s.Registry.Get(name)
	if !ok {
		s.tb.Fatalf("there is no tool %s among %v", name, s.Registry.Names())
	}
	in := s.Invocation(call, name, args)
	res, err := t.Call(context.Background(), in.Checked())
	labels := t.Spec().Yields | message.LabelsOf(res.Content)
	if st, ok := tool.SettlerOf(t); ok && err == nil {
		_, again, err := st.Settle(context.Background(), in)
		if told := t.Spec().Yields | message.LabelsOf(again.Content); err != nil || told != labels {
			s.tb.Errorf("%s is told again with the labels %v, not %v; %v", name, told, labels, err)
		}
	}
	return labels
}

// Settle asks whether the effect of a call happened.
func (s *Source) Settle(call, name, args string) (bool, string) {
	s.tb.Helper()
	t, _ := s.Registry.Get(name)
	st, ok := tool.SettlerOf(t)
	if !ok {
		s.tb.Fatalf("%s cannot be asked", name)
	}
	happened, res, err := st.Settle(context.Background(), s.Invocation(call, name, args))
	if err != nil {
		s.tb.Fatal(err)
	}
	return happened, TextOf(res)
}

// Undo undoes a call, which must be undoable, and returns the text.
func (s *Source) Undo(in tool.Invocation, name string) (string, error) {
	s.tb.Helper()
	t, _ := s.Registry.Get(name)
	u, ok := tool.UndoerOf(t)
	if !ok {
		s.tb.Fatalf("%s cannot be undone", name)
	}
	res, err := u.Undo(context.Background(), in, tool.Result{})
	return TextOf(res), err
}

// TextOf is the text of a result.
func TextOf(r tool.Result) string {
	var b strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*message.Text); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}
