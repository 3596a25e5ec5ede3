package process

import (
	"context"
	"errors"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/sandbox"
	"steward/internal/tool"
)

// source is a program that offers tools.
type source struct {
	env   tool.Env
	decl  Decl
	specs map[string]tool.Spec // the declared specs, by full name
	order []string

	runs   *runs
	keeper *sandbox.Keeper[*session] // keeps the one program of mode serve
}

// runs counts the running programs of a declaration, and ends them with its agent.
type runs struct {
	ctx   context.Context // done when it is closed, with the reason as its cause
	end   context.CancelCauseFunc
	mu    sync.Mutex // orders begin and close
	count sync.WaitGroup
}

func newRuns() *runs {
	r := new(runs)
	r.ctx, r.end = context.WithCancelCause(context.Background())
	return r
}

// begin counts a program, until r.count.Done. It fails if the agent was ended.
func (r *runs) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	r.count.Add(1)
	return nil
}

func (r *runs) close() {
	r.mu.Lock()
	r.end(errClosed())
	r.mu.Unlock()
	r.count.Wait()
}

// Announce implements tool.Source. It returns what is declared and starts nothing.
func (s *source) Announce(context.Context) (tool.Announcement, error) {
	var a tool.Announcement
	for _, name := range s.order {
		a.Specs = append(a.Specs, s.specs[name])
	}
	return a, nil
}

// Files implements tool.Source.
func (s *source) Files() []string { return s.decl.files(s.env.Dir) }

// Code implements tool.Coded.
func (s *source) Code() tool.Code { return s.decl.code(s.env.Dir) }

// Tool implements tool.Source.
func (s *source) Tool(spec tool.Spec) tool.Tool { return &callable{src: s, spec: spec} }

// Close implements tool.Source. It ends programs that are still running.
func (s *source) Close() error {
	s.keeper.Close()
	s.runs.close()
	return nil
}

func errClosed() error {
	return fault.New(fault.Unavailable, "process_closed", "the program was stopped with its agent")
}

// start starts the program for calls. If it fails, the program has not been asked to do anything.
func (s *source) start(ctx context.Context) (x *session, err error) {
	if err := s.runs.begin(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.runs.count.Done()
		}
	}()
	p, err := s.decl.prepare(ctx, s.env)
	if err != nil {
		return nil, err
	}
	serves := s.decl.Mode == ModeServe
	if serves && p.command.Limits.CPU == 0 {
		p.command.Limits.CPU = -1 // it serves for as long as it is used; each call has its own timeout
	}
	proc, err := sandbox.Start(context.Background(), p.command) // not ctx: its calls end it
	if err != nil {
		p.release()
		return nil, masked(err, p.secrets)
	}
	x = &session{env: s.env, proc: proc, secrets: p.secrets, release: p.release, serves: serves, began: time.Now(),
		input: sandbox.NewSender(proc.Stdin), done: make(chan struct{}), calls: map[string]*call{}}
	stop := context.AfterFunc(s.runs.ctx, func() { x.end(errClosed()) })
	go func() {
		defer s.runs.count.Done()
		x.run()
		stop()
	}()
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
	if declared, ok := s.specs[c.spec.Name]; !ok || tool.Identity(declared) != tool.Identity(c.spec) {
		return tool.Result{}, s.env.Refuse(c.spec.Name, "its declaration differs from what was approved")
	}
	if s.decl.Mode == ModeServe {
		return s.serve(ctx, c.spec, in)
	}
	x, err := s.start(ctx)
	if err != nil {
		return tool.Result{}, tool.NotDone(err)
	}
	stop := context.AfterFunc(ctx, func() { x.end(ended(ctx)) })
	res, err := x.ask(ctx, c.spec, in)
	stop()
	x.endAfterAnswer()
	return res, err
}

// serve makes a call to the one program that is kept for all calls.
func (s *source) serve(ctx context.Context, spec tool.Spec, in tool.Invocation) (tool.Result, error) {
	x, release, err := s.serving(ctx)
	if err != nil {
		return tool.Result{}, tool.NotDone(err)
	}
	defer release()
	return x.ask(ctx, spec, in)
}

// serving returns the running program, held until release.
func (s *source) serving(ctx context.Context) (*session, func(), error) {
	for {
		x, release, err := s.keeper.Acquire(ctx)
		failed, down := errors.AsType[*sandbox.Failed](err)
		switch {
		case err == nil:
		case errors.Is(err, sandbox.ErrClosed):
			return nil, nil, errClosed()
		case down && failed.Ran:
			return nil, nil, fault.New(fault.Unavailable, "process_restarting", "the program keeps exiting; it is restarted in %s", failed.Wait.Round(time.Millisecond)).
				Retrying(fault.RetryAfter, failed.Wait)
		case down:
			return nil, nil, failed.Why
		default:
			return nil, nil, ended(ctx)
		}
		x.replace()
		if !x.exhausted() {
			return x, release, nil
		}
		release()
		s.keeper.RecordEnd(x)
	}
}

// ended returns the error of a call that ended because ctx is done.
func ended(ctx context.Context) error {
	f := fault.Of(context.Cause(ctx))
	return fault.New(f.Kind, f.Code, "the program was ended: %w", context.Cause(ctx))
}
