// Package mcp makes the tools, resources and prompts of MCP servers tools of
// Steward: programs talked to over their standard input and output, and
// addresses talked to over streamable HTTP
// (https://modelcontextprotocol.io/specification).
//
// A server is started when it is first needed, started again when it has
// died, and stopped when it is not used. Nothing that it says is taken for
// more than a proposal: its tools are called only as long as they are what a
// person has approved.
package mcp

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/toolkit/sandbox"
)

// Defaults of a declaration.
const (
	DefaultTimeout = time.Minute      // of a call
	DefaultIdle    = 10 * time.Minute // until an unused server is stopped
)

// How long things may take, and how soon a server is started again: at first
// after firstWait, then twice as long after each failure, up to longestWait.
const (
	startFor    = time.Minute // programs that are fetched first take their time
	listFor     = 30 * time.Second
	graceFor    = 2 * time.Second // to end by itself
	firstWait   = 250 * time.Millisecond
	longestWait = time.Minute
	steadyAfter = time.Minute // a session that lasted so long was no failure
)

// Open makes the source of a declared server (a Decl). It starts nothing and
// connects to nothing. Errors: mcp_decl_invalid, tool_name_invalid,
// mcp_sse_unsupported, and those of decode.
func Open(env tool.Env, decode func(any) error) (tool.Source, error) {
	var d Decl
	if err := decode(&d); err != nil {
		return nil, err
	}
	return open(env, d, confined)
}

func open(env tool.Env, d Decl, start starter) (*source, error) {
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
	s := &source{env: env, decl: d, command: words, word: word, start: start, idle: d.Idle, wait: firstWait,
		startFor: startFor, listFor: listFor, approved: map[string]string{}}
	if s.idle == 0 {
		s.idle = DefaultIdle
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// source is a server and its life. It implements tool.Source.
type source struct {
	env     tool.Env
	decl    Decl
	command []string // nil: HTTP
	word    string   // the first word of its tools' names
	start   starter
	idle    time.Duration
	wait    time.Duration // after the first failure
	ctx     context.Context
	cancel  context.CancelFunc
	tasks   sync.WaitGroup // everything that it has started

	startFor, listFor time.Duration // how long these may take

	mu       sync.Mutex
	closed   bool
	session  *session // nil: not running
	starting chan struct{}
	failures int
	next     time.Time // not to be started before
	why      error     // the last failure
	approved map[string]string
	seen     map[string]string // what was announced last: fingerprints by name
}

// Announce implements tool.Source.
func (s *source) Announce(ctx context.Context) (tool.Announcement, error) {
	var a tool.Announcement
	err := twice(func() error {
		x, err := s.connected(ctx)
		if err != nil {
			return err
		}
		defer x.release()
		if !x.justListed() {
			x.changes.Add(1)
		}
		if err := x.fresh(ctx); err != nil {
			return tool.NotDone(err) // to list them changes nothing
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
	s.approved[spec.Name] = identity(spec)
	t := &remote{s, spec}
	if spec.Status != "" {
		return &settled{t}
	}
	return t
}

// identity is the fingerprint of a spec without what a person may set
// otherwise. What the server itself has said of that is in the version.
func identity(s tool.Spec) string {
	s.Effect, s.Asks, s.Delivery = "", false, ""
	s.Yields, s.Reach, s.Targets = 0, "", nil
	return s.Version + " " + tool.Fingerprint(s)
}

// Files implements tool.Source: the program, where it is named by its path,
// and the scripts among its arguments.
func (s *source) Files() []string {
	if len(s.command) == 0 {
		return nil
	}
	var files []string
	words := slices.Concat(s.command, s.decl.Args)
	for i, w := range words {
		path := w
		if !filepath.IsAbs(path) {
			if s.env.Dir == "" || i == 0 && !strings.Contains(path, "/") {
				continue
			}
			path = filepath.Join(s.dir(), path)
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && (i == 0 || runs(path, info)) && !slices.Contains(files, path) {
			files = append(files, filepath.Clean(path))
		}
	}
	return files
}

// runs reports whether a file is one that programs execute, not one of data.
func runs(path string, info fs.FileInfo) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".js", ".mjs", ".cjs", ".ts", ".mts", ".py", ".rb", ".sh", ".pl", ".php", ".lua", ".jar", ".wasm", ".so":
		return true
	}
	return info.Mode()&0o111 != 0
}

// absolute is a path of the declaration as the program has to be told it.
func (s *source) absolute(path string) string {
	if filepath.IsAbs(path) || s.env.Dir == "" {
		return path
	}
	return filepath.Join(s.env.Dir, path)
}

// dir is the folder in which the program runs.
func (s *source) dir() string {
	return s.absolute(s.decl.Cwd)
}

// Close implements tool.Source. Calls under way end with an error.
func (s *source) Close() error {
	s.mu.Lock()
	s.closed = true
	x := s.session
	s.session = nil
	s.mu.Unlock()
	if x != nil {
		x.close()
	}
	s.cancel()
	s.tasks.Wait()
	return nil
}

// connected returns the running session, held for the caller, who has to
// release it. It starts the server if need be; errors are NotDone.
func (s *source) connected(ctx context.Context) (*session, error) {
	for {
		s.mu.Lock()
		switch now := time.Now(); {
		case s.closed:
			s.mu.Unlock()
			return nil, tool.NotDone(fault.New(fault.Unavailable, "mcp_closed", "the MCP server %s has been closed", s.env.Name))
		case s.session != nil:
			x := s.session
			x.hold()
			s.mu.Unlock()
			return x, nil
		case s.starting == nil && now.Before(s.next):
			err := s.down(s.next.Sub(now))
			s.mu.Unlock()
			return nil, tool.NotDone(err)
		case s.starting == nil:
			s.starting = make(chan struct{})
			s.tasks.Go(s.begin)
		}
		starting := s.starting
		s.mu.Unlock()
		select {
		case <-starting:
		case <-ctx.Done():
			return nil, tool.NotDone(slow(ctx, "the MCP server %s has not started in time", s.env.Name))
		}
	}
}

// down says why the server cannot be reached. s.mu is held.
func (s *source) down(wait time.Duration) error {
	f := fault.Of(s.why)
	kind := f.Kind
	if kind != fault.Unauthentic && kind != fault.Unsupported && kind != fault.Denied {
		kind = fault.Unavailable
	}
	remedy := f.Remedy
	if remedy == "" {
		remedy = "try again later, or see what the server says with steward mcp test"
	}
	return fault.New(kind, f.Code, "the MCP server %s cannot be reached: %s", s.env.Name, f.Message).
		With("%s", remedy).Retrying(fault.RetryAfter, wait)
}

// slow is the error of what did not end before ctx did.
func slow(ctx context.Context, format string, args ...any) error {
	if context.Cause(ctx) == context.DeadlineExceeded || ctx.Err() == context.DeadlineExceeded {
		return fault.New(fault.Timeout, "mcp_timeout", format, args...)
	}
	return context.Cause(ctx)
}

// begin starts the server, once.
func (s *source) begin() {
	ctx, cancel := context.WithTimeout(s.ctx, s.startFor)
	defer cancel()
	x, err := s.dial(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.starting)
	s.starting = nil
	switch {
	case err != nil:
		s.failed(err)
	case s.closed:
		s.tasks.Go(x.close)
	default:
		s.session = x
		s.tasks.Go(func() { s.watch(x) })
		x.arm()
	}
}

// failed notes a failure. s.mu is held.
func (s *source) failed(err error) {
	wait := s.wait << min(s.failures, 16)
	s.failures++
	s.why, s.next = err, time.Now().Add(min(wait, longestWait))
	if s.ctx.Err() == nil {
		s.env.Log.Warn("an MCP server is down", "error", err, "failures", s.failures)
	}
}

// watch waits for the end of a session, whoever ends it, and cleans up.
func (s *source) watch(x *session) {
	select {
	case <-x.over:
	case <-x.ctx.Done():
	}
	s.lost(x)
	x.close()
}

// lost notes that a session has ended, unless it was stopped on purpose.
func (s *source) lost(x *session) {
	why := x.ending()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != x {
		return
	}
	s.session = nil
	if time.Since(x.began) >= steadyAfter {
		s.failures = 0
	}
	s.failed(why)
	x.cancel()
}

// unused stops a session that nobody uses.
func (s *source) unused(x *session) {
	s.mu.Lock()
	if s.session != x || x.held() {
		s.mu.Unlock()
		return
	}
	s.session = nil
	s.failures = 0
	s.mu.Unlock()
	x.close()
}

// drop gives up a session that is of no use any more, so that the next call
// begins another one at once.
func (s *source) drop(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == x {
		s.session = nil
		s.tasks.Go(x.close)
	}
}

// compare looks at what is announced now: where it is not what was announced
// before, or not what was approved, it tells so.
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

// starter starts a program.
type starter func(ctx context.Context, c sandbox.Command) (*program, error)

// program is a running one.
type program struct {
	in     io.WriteCloser
	out    io.Reader
	stderr func() string
	wait   func() error // until nothing of it runs
	kill   func()       // it and its children
}

// confined starts a program through the sandbox.
func confined(ctx context.Context, c sandbox.Command) (*program, error) {
	p, err := sandbox.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return &program{in: p.Stdin, out: p.Stdout, stderr: p.Stderr, wait: p.Wait, kill: p.Kill}, nil
}
