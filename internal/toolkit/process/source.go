package process

import (
	"context"
	"sync"

	"steward/internal/fault"
	"steward/internal/tool"
)

// source is a program that offers tools.
type source struct {
	env   tool.Env
	decl  Decl
	specs map[string]tool.Spec // what is declared, by full name
	order []string

	server server // mode serve

	mu     sync.Mutex
	closed bool
	open   map[*session]bool
	tasks  sync.WaitGroup
}

// Announce implements tool.Source: what is declared. It starts nothing.
func (s *source) Announce(context.Context) (tool.Announcement, error) {
	var a tool.Announcement
	for _, name := range s.order {
		a.Specs = append(a.Specs, s.specs[name])
	}
	return a, nil
}

// Files implements tool.Source.
func (s *source) Files() []string { return s.decl.files(s.env.Dir) }

// Tool implements tool.Source.
func (s *source) Tool(spec tool.Spec) tool.Tool { return &callable{src: s, spec: spec} }

// Close implements tool.Source: programs that still run are ended.
func (s *source) Close() error {
	s.mu.Lock()
	s.closed = true
	for x := range s.open {
		x.end(errClosed())
	}
	s.mu.Unlock()
	s.tasks.Wait()
	return nil
}

// start starts the program for calls. Nothing has been asked of it when that
// fails. over is told when it has ended; may be nil.
func (s *source) start(ctx context.Context, over func(*session)) (*session, error) {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.tasks.Add(1) // not while Close waits
	}
	s.mu.Unlock()
	if closed {
		return nil, errClosed()
	}
	x, err := s.begin(ctx)
	if err != nil {
		s.tasks.Done()
		return nil, err
	}
	go func() {
		defer s.tasks.Done()
		x.run()
		s.mu.Lock()
		delete(s.open, x)
		s.mu.Unlock()
		if over != nil {
			over(x)
		}
	}()
	return x, nil
}

func errClosed() error {
	return fault.New(fault.Unavailable, "process_closed", "the program was ended with its agent")
}

// begin starts the program and keeps it to be ended with the source.
func (s *source) begin(ctx context.Context) (*session, error) {
	p, err := s.decl.prepare(ctx, s.env)
	if err != nil {
		return nil, err
	}
	if s.decl.Mode == ModeServe && p.command.Limits.CPU == 0 {
		p.command.Limits.CPU = -1 // it serves for as long as it is used; each call has its time
	}
	x, err := newSession(p, s.env, s.decl.Mode == ModeServe)
	if err != nil {
		p.release()
		return nil, masked(err, p.secrets)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*session]bool{}
	}
	s.open[x] = true
	if s.closed {
		x.end(errClosed())
	}
	return x, nil
}

// callable is one approved tool.
type callable struct {
	src  *source
	spec tool.Spec
}

// Spec implements tool.Tool.
func (c *callable) Spec() tool.Spec { return c.spec }

// Call implements tool.Tool.
func (c *callable) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	s := c.src
	if declared, ok := s.specs[c.spec.Name]; !ok || !same(declared, c.spec) {
		if s.env.Changed != nil {
			s.env.Changed()
		}
		return tool.Result{}, tool.NotDone(fault.New(fault.Denied, "tool_changed", "%s is not declared as it was approved", c.spec.Name).
			With("look at the change and approve the agent again"))
	}
	if s.decl.Mode == ModeServe {
		return s.server.call(ctx, c.spec, in)
	}
	x, err := s.start(ctx, nil)
	if err != nil {
		return tool.Result{}, tool.NotDone(err)
	}
	stop := context.AfterFunc(ctx, func() { x.end(ended(ctx)) })
	res, err := x.ask(ctx, c.spec, in)
	stop()
	x.letGo()
	return res, err
}

// ended is the error of a call that the end of ctx has ended.
func ended(ctx context.Context) error {
	f := fault.Of(context.Cause(ctx))
	return fault.New(f.Kind, f.Code, "the program was ended: %w", context.Cause(ctx))
}
