// Package mcp turns the tools, resources and prompts of MCP servers into tools of Steward. The
// servers are programs that talk over standard input and output, or addresses that talk
// streamable HTTP (https://modelcontextprotocol.io/specification).
//
// A server is started when it is first needed, restarted when it has died, and stopped when it is
// unused. A server's statements are only proposals: its tools are called only as long as they
// are what a person has approved.
package mcp

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/sandbox"
	"steward/internal/tool"
)

// Defaults of a declaration.
const (
	DefaultTimeout = time.Minute      // of a call
	DefaultIdle    = 10 * time.Minute // until an unused server is stopped
)

// Timeouts, and how soon a server is restarted.
const (
	startFor    = time.Minute // programs that have to be downloaded first take their time
	listFor     = 30 * time.Second
	graceFor    = 2 * time.Second // for a program to end by itself
	firstWait   = 250 * time.Millisecond
	stableAfter = time.Minute // a session that lasted this long does not count as a failure
)

func open(env tool.Env, d Decl) (*source, error) {
	word, err := tool.Word(env.Name)
	if err != nil {
		return nil, err
	}
	if err := d.check(env.Dir); err != nil {
		return nil, err
	}
	if env.Log == nil {
		env.Log = slog.New(slog.DiscardHandler)
	}
	env.Log = env.Log.With("mcp", word)
	words, err := d.words()
	if err != nil {
		return nil, err
	}
	if d.Idle == 0 {
		d.Idle = DefaultIdle
	}
	s := &source{env: env, decl: d, command: words, word: word, startFor: startFor, listFor: listFor, approved: map[string]string{}}
	s.keeper = &sandbox.Keeper[*session]{Start: s.start, Idle: d.Idle, Pause: firstWait}
	return s, nil
}

// source is a server over its whole life. It implements tool.Source.
type source struct {
	env     tool.Env
	opt     Options
	decl    Decl
	command []string // nil: HTTP
	word    string   // the first word of its tools' names
	keeper  *sandbox.Keeper[*session]
	tasks   sync.WaitGroup // what sessions have started

	startFor, listFor time.Duration // timeouts of starting and listing

	mu       sync.Mutex
	closed   bool
	approved map[string]string
	seen     map[string]string // the last announcement: fingerprints by name
}

// Announce implements tool.Source.
func (s *source) Announce(ctx context.Context) (tool.Announcement, error) {
	var a tool.Announcement
	err := retryOnce(func() error {
		x, release, err := s.connected(ctx)
		if err != nil {
			return err
		}
		defer release()
		if !x.justListed() {
			x.changes.Add(1)
		}
		if err := x.fresh(ctx); err != nil {
			return tool.NotDone(err) // listing changes nothing
		}
		a = x.announcement()
		return nil
	})
	return a, err
}

// Tool implements tool.Source.
func (s *source) Tool(spec tool.Spec) tool.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.approved[spec.Name] = tool.Identity(spec)
	t := &remote{s, spec}
	if spec.Status != "" {
		return &settled{t}
	}
	return t
}

// Files implements tool.Source. It returns the program, and the scripts among its arguments.
func (s *source) Files() []string { return s.code().files }

// Code implements tool.Coded.
func (s *source) Code() tool.Code {
	c := s.code()
	return tool.Code{Folders: c.folders, Loose: c.loose, Installs: c.installs}
}

// runs reports whether a file is executed by programs, rather than a data file.
func runs(path string, info fs.FileInfo) bool {
	return tool.IsCode(path) || info.Mode()&0o111 != 0
}

// absolute returns a path of the declaration in the form that the program needs.
func (s *source) absolute(path string) string {
	if filepath.IsAbs(path) || s.env.Dir == "" {
		return path
	}
	return filepath.Join(s.env.Dir, path)
}

// dir returns the folder in which the program runs.
func (s *source) dir() string {
	return s.absolute(s.decl.Cwd)
}

// Close implements tool.Source. Running calls end with an error.
func (s *source) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.keeper.Close()
	s.tasks.Wait()
	return nil
}

// start begins a session.
func (s *source) start(life context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(life, s.startFor)
	defer cancel()
	x, err := s.dial(ctx, life)
	if err != nil && life.Err() == nil {
		s.env.Log.Warn("an MCP server is down", "error", err)
	}
	return x, err
}

// connected returns the running session, held for the caller until release. It starts the server
// if necessary. Errors are NotDone.
func (s *source) connected(ctx context.Context) (x *session, release func(), err error) {
	x, release, err = s.keeper.Acquire(ctx)
	failed, down := errors.AsType[*sandbox.Failed](err)
	switch {
	case err == nil:
		return x, release, nil
	case errors.Is(err, sandbox.ErrClosed):
		err = fault.New(fault.Unavailable, "mcp_closed", "the MCP server %s has been closed", s.env.Name)
	case down:
		err = s.unreachable(failed)
	default:
		err = timeoutError(ctx, "the MCP server %s did not start in time", s.env.Name)
	}
	return nil, nil, tool.NotDone(err)
}

// unreachable returns the error for a server that cannot be reached.
func (s *source) unreachable(failed *sandbox.Failed) error {
	f := fault.Of(failed.Why)
	kind := f.Kind
	if kind != fault.Unauthentic && kind != fault.Unsupported && kind != fault.Denied {
		kind = fault.Unavailable
	}
	remedy := f.Remedy
	if remedy == "" {
		remedy = "try again later, or check the server with steward mcp test"
	}
	return fault.New(kind, f.Code, "the MCP server %s cannot be reached: %s", s.env.Name, f.Message).
		WithHint("%s", remedy).Retrying(fault.RetryAfter, failed.Wait)
}

// timeoutError returns the error for an operation that did not end before ctx did.
func timeoutError(ctx context.Context, format string, args ...any) error {
	if context.Cause(ctx) == context.DeadlineExceeded || ctx.Err() == context.DeadlineExceeded {
		return fault.New(fault.Timeout, "mcp_timeout", format, args...)
	}
	return context.Cause(ctx)
}

// compare reports a change if what is announced now differs from the last announcement, or from
// what was approved.
func (s *source) compare(offers map[string]*offer) {
	now := make(map[string]string, len(offers))
	for name, o := range offers {
		now[name] = o.identity
	}
	s.mu.Lock()
	before := s.seen
	if before == nil {
		before = s.approved
	}
	changed := len(s.approved) > 0 && !maps.Equal(before, now)
	s.seen = now
	s.mu.Unlock()
	if changed {
		s.changed()
	}
}

func (s *source) changed() {
	if s.env.Changed != nil {
		s.env.Changed()
	}
}
