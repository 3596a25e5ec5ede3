package mcp

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/fault"
	"steward/internal/sandbox"
	"steward/internal/tool"
)

// session is one session with a server: a running program, or a connection.
type session struct {
	src     *source
	began   time.Time
	life    context.Context // the source's
	ctx     context.Context // ends everything of the session
	cancel  context.CancelFunc
	calls   context.Context // ends shortly before ctx, so that calls end first
	hangUp  context.CancelCauseFunc
	over    chan struct{} // closed when the connection has ended
	secrets []string

	command         sandbox.Command
	prog            *sandbox.Process // nil: HTTP
	exited          chan struct{}    // closed when the program has ended
	wire            interface{ Close() error }
	lines           *lines // nil: HTTP
	client          *sdk.ClientSession
	releaseServices func() // returns the services that it was given
	closing         sync.Once
	downLogged      sync.Once
	last            atomic.Int64 // when the server was last heard from, Unix nanoseconds

	mu      sync.Mutex
	why     error // why it ended
	offers  map[string]*offer
	refuse  []error
	callers map[*elicitingCall]bool

	listing  chan struct{} // held while the tools are listed
	listedAt atomic.Int64
	changes  atomic.Int64 // how often the tools may have changed
	known    atomic.Int64 // how many of these changes the list includes
	nudge    chan struct{}
	tokens   progress
}

// dial starts the program or connects, negotiates the protocol, and lists what the server offers.
// The session ends with life.
func (s *source) dial(ctx, life context.Context) (*session, error) {
	x := &session{src: s, began: time.Now(), life: life, over: make(chan struct{}),
		listing: make(chan struct{}, 1), nudge: make(chan struct{}, 1)}
	x.ctx, x.cancel = context.WithCancel(life)
	x.calls, x.hangUp = context.WithCancelCause(x.ctx)
	if err := x.begin(ctx); err != nil {
		err = x.explain(ctx, err)
		x.Stop()
		return nil, err
	}
	x.src.tasks.Go(func() {
		<-x.over
		x.cancel()
	})
	return x, nil
}

func (x *session) begin(ctx context.Context) error {
	transport, err := x.transport()
	if err != nil {
		return err
	}
	if err := x.connect(ctx, transport); err != nil {
		return err
	}
	x.src.tasks.Go(func() {
		x.setReason(x.client.Wait())
		close(x.over)
	})
	if err := x.list(ctx); err != nil {
		return err
	}
	x.src.tasks.Go(x.relist)
	return nil
}

// explain returns a coded error for why a server did not start.
func (x *session) explain(ctx context.Context, err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	switch {
	case ctx.Err() != nil && x.life.Err() == nil:
		return fault.New(fault.Unavailable, "mcp_start_timeout", "it did not answer within %v%s", time.Since(x.began).Round(time.Second), x.stderrSuffix())
	case x.prog != nil && x.hasExited():
		e := fault.New(fault.Unavailable, "mcp_start_failed", "the program exited before it answered%s", x.stderrSuffix())
		if path := x.command.HiddenPath(); path != "" {
			return fault.New(fault.Invalid, "mcp_sandbox_hides", "%s; the sandbox hides %s, which its command needs", e.Message, path).
				WithHint("allow it to read that: \"sandbox\": {\"read\": [%q]}", filepath.Dir(path))
		}
		return e.WithHint("run it yourself to see what it needs")
	}
	return fault.New(fault.Unavailable, "mcp_start_failed", "the protocol cannot be negotiated: %s%s", x.mask(err.Error()), x.stderrSuffix())
}

// hasExited reports whether the program has ended or is just ending: the end of its output comes
// first, and by then its stderr has been read.
func (x *session) hasExited() bool {
	select {
	case <-x.exited:
		return true
	case <-time.After(graceFor):
		return false
	}
}

// stderrSuffix returns the end of the program's stderr.
func (x *session) stderrSuffix() string {
	if x.prog == nil {
		return ""
	}
	return x.prog.StderrSuffix(x.secrets)
}

func (x *session) mask(text string) string { return sandbox.Mask(text, x.secrets) }

func (x *session) markAlive() { x.last.Store(time.Now().UnixNano()) }

// transport starts the program or opens the HTTP transport.
func (x *session) transport() (sdk.Transport, error) {
	d, env := &x.src.decl, &x.src.env
	e := &sandbox.Expander{Secret: env.Secret}
	defer func() { x.secrets = append(x.secrets, e.Values...) }()
	if d.URL != "" {
		u, err := parseURL(e.Expand(d.URL))
		headers := headersOf(d, e)
		if missing := missing(e); missing != nil {
			return nil, missing
		} else if err != nil {
			return nil, err
		}
		keys, err := d.Resource(*env, x.src.opt)
		if err != nil {
			return nil, err
		}
		g, t := newHTTP(x.ctx, u, headers, func() http.Header {
			again := &sandbox.Expander{Secret: env.Secret}
			h := headersOf(d, again)
			if len(again.Missing()) > 0 {
				return nil
			}
			return h
		}, keys, x.markAlive)
		x.wire = g
		return t, nil
	}
	words := x.src.command
	cmd := sandbox.Command{Path: words[0], Args: slices.Clone(words[1:]), Dir: x.src.dir()}
	if strings.Contains(cmd.Path, "/") {
		cmd.Path = x.src.absolute(cmd.Path)
	}
	for _, a := range d.Args {
		cmd.Args = append(cmd.Args, e.Expand(a))
	}
	for name, v := range d.Env {
		cmd.Env = append(cmd.Env, name+"="+e.Expand(v))
	}
	if err := missing(e); err != nil {
		return nil, err
	}
	return x.run(cmd)
}

// headersOf returns the headers of a declaration with its secrets as they are now.
func headersOf(d *Decl, e *sandbox.Expander) http.Header {
	h := http.Header{}
	for name, v := range d.Headers {
		h.Set(name, e.Expand(v))
	}
	return h
}

func missing(e *sandbox.Expander) error {
	names := e.Missing()
	if names == "" {
		return nil
	}
	return fault.New(fault.Unavailable, "mcp_secret_missing", "the server needs the secret %s, which is not set", names).
		WithHint("set it, and if the server belongs to an agent, list it under secrets")
}

// run starts the program.
func (x *session) run(cmd sandbox.Command) (sdk.Transport, error) {
	if err := x.allow(&cmd); err != nil {
		return nil, err
	}
	x.command = cmd
	prog, err := sandbox.Start(x.ctx, cmd)
	if err != nil {
		return nil, err
	}
	x.prog, x.exited = prog, make(chan struct{})
	x.lines = newLines(prog.Stdin, prog.Stdout, x.src.env.Log, x.markAlive, x.setReason, x.changed, &x.tokens)
	x.wire = x.lines
	x.src.tasks.Go(func() {
		defer close(x.exited)
		if err := prog.Wait(); err != nil && x.ctx.Err() == nil {
			x.src.env.Log.Debug("an MCP server has ended", "error", err)
		}
		x.lines.done.Wait()
	})
	return x.lines, nil
}

// allow sets what the program may do.
func (x *session) allow(cmd *sandbox.Command) error {
	d, env := &x.src.decl, x.src.env
	cmd.Unsandboxed = d.Unsandboxed || d.Sandbox == nil && env.Dir == ""
	if cmd.Unsandboxed { // a program of the user's own, limited only as the user limits it
		cmd.Limits = sandbox.Limits{Memory: 16 << 30, Processes: 4096, FileSize: 1 << 40, Files: 1024}
	}
	if err := cmd.Grant(d.Sandbox, func(path string) (string, error) { return x.src.absolute(path), nil }); err != nil {
		return err
	}
	if cmd.Limits.CPU == 0 {
		cmd.Limits.CPU = -1 // it serves for as long as it is used
	}
	if cmd.Limits.Output == 0 {
		cmd.Limits.Output = 2 * maxMessage // lines has a limit of its own
	}
	if env.Dir != "" {
		cmd.Read = append(cmd.Read, env.Dir)
	} else if cmd.Unsandboxed {
		env.Data = "" // it stores its data in the same place as without Steward
	}
	secrets, release, err := cmd.Provision(x.ctx, env)
	x.secrets, x.releaseServices = append(x.secrets, secrets...), release
	return err
}

// connect negotiates the protocol with the server.
func (x *session) connect(ctx context.Context, t sdk.Transport) error {
	opt := &sdk.ClientOptions{ // no roots, which the specification of 2026-07-28 deprecates
		Capabilities:                &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}}},
		Logger:                      x.src.env.Log,
		ElicitationHandler:          x.elicit,
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { x.changed() },
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { x.tokens.report(r.Params) },
	}
	if x.src.decl.Sampling {
		//lint:ignore SA1019 The specification of 2026-07-28 deprecates sampling, and servers of earlier ones use it.
		opt.Capabilities.Sampling, opt.CreateMessageWithToolsHandler = &sdk.SamplingCapabilities{}, x.sample // without tools
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "steward", Version: "1"}, opt)
	done, m := make(chan error, 1), &mark{}
	marked := context.WithValue(ctx, markKey{}, m)
	x.src.tasks.Go(func() {
		var err error
		x.client, err = client.Connect(marked, t, nil)
		if status := int(m.status.Load()); err != nil && accessDenied(status) {
			err = unauthorized(x.src.env.Name, status)
		}
		if denied := m.denied.Load(); err != nil && denied != nil { // whatever other versions of the protocol have come to
			err = *denied
		}
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		x.cancel() // unblocks it, whatever it waits for
		_ = x.wire.Close()
		<-done
		return ctx.Err()
	}
}

// Stop implements sandbox.Kept. It ends running calls, the connection, the program and its
// children, and returns when nothing of them is left.
func (x *session) Stop() {
	x.closing.Do(func() {
		x.hangUp(errHungUp)
		if x.lines != nil {
			_ = x.lines.Close() // closing its input asks the program to end
		}
		if x.client != nil {
			quiet := make(chan struct{})
			x.src.tasks.Go(func() {
				defer close(quiet)
				_ = x.client.Close() // the log of the connection has reported any error
			})
			select {
			case <-quiet:
			case <-time.After(deleteFor + time.Second):
			}
		}
		if x.wire != nil {
			_ = x.wire.Close()
		}
		if x.prog != nil {
			select {
			case <-x.exited:
			case <-time.After(graceFor):
			case <-x.life.Done():
			}
			x.prog.Kill()
			<-x.exited
		}
		x.cancel()
		if x.releaseServices != nil {
			x.releaseServices()
		}
	})
}

// Done implements sandbox.Kept.
func (x *session) Done() <-chan struct{} { return x.ctx.Done() }

// Ended implements sandbox.Kept.
func (x *session) Ended() (why error, well bool) {
	why = x.endReason()
	if context.Cause(x.calls) != errHungUp {
		x.downLogged.Do(func() { x.src.env.Log.Warn("an MCP server is down", "error", why) })
	}
	forgotten := errors.Is(x.reason(), sdk.ErrSessionMissing) // a server that runs no longer knows the session
	return why, forgotten || errors.Is(why, errTooLarge) || time.Since(x.began) >= stableAfter
}

var errHungUp = errors.New("the session has ended")

// setReason records why the session ends; the first reason counts.
func (x *session) setReason(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.why == nil {
		x.why = err
	}
}

// reason returns why the session ends, or nil if no reason was recorded.
func (x *session) reason() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.why
}

// fail ends a session that cannot be used any more.
func (x *session) fail(err error) {
	x.setReason(err)
	x.cancel()
}

// endReason returns why a session ended that Steward did not close.
func (x *session) endReason() error {
	select {
	case <-x.over:
	case <-time.After(100 * time.Millisecond): // its calls may learn of the end a little earlier
	}
	why := x.reason()
	var f *fault.Error
	switch {
	case errors.As(why, &f):
		return f
	case x.prog != nil:
		return fault.New(fault.Unavailable, "mcp_server_ended", "the program has ended%s", x.stderrSuffix())
	case why != nil:
		return fault.New(fault.Unavailable, "mcp_server_ended", "the connection has ended: %s", x.mask(why.Error()))
	}
	return fault.New(fault.Unavailable, "mcp_server_ended", "the connection has ended")
}

// progress holds the callbacks that receive the progress of calls.
type progress struct {
	mu   sync.Mutex
	n    int
	want map[string]func(tool.Progress)
}
