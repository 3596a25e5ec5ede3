package mcp

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/toolkit/sandbox"
)

// session is one life of a server: a running program, or a connection.
type session struct {
	src     *source
	began   time.Time
	ctx     context.Context // ends with everything of the session
	cancel  context.CancelFunc
	calls   context.Context // ends a little before, so that calls do
	hangUp  context.CancelCauseFunc
	over    chan struct{} // closed when the connection has ended
	secrets []string

	command  sandbox.Command
	prog     *program      // nil: HTTP
	exited   chan struct{} // closed when the program has ended
	wire     interface{ Close() error }
	lines    *lines // nil: HTTP
	client   *sdk.ClientSession
	giveBack func() // the services that it was given
	closing  sync.Once
	gone     chan struct{} // closed when close is through
	last     atomic.Int64  // when it was heard last, Unix nanoseconds

	mu     sync.Mutex
	users  int
	timer  *time.Timer // of its idleness
	why    error       // why it has ended
	offers map[string]*offer
	refuse []error

	listing  chan struct{} // held while the tools are listed
	listedAt atomic.Int64
	changes  atomic.Int64 // how often the tools may have changed
	known    atomic.Int64 // how many of these the list has seen
	changing atomic.Bool  // the SDK is about to tell so
	nudge    chan struct{}
	tokens   progress
}

// dial starts the program or connects, agrees on the protocol and lists what
// there is.
func (s *source) dial(ctx context.Context) (*session, error) {
	x := &session{src: s, began: time.Now(), over: make(chan struct{}), gone: make(chan struct{}),
		listing: make(chan struct{}, 1), nudge: make(chan struct{}, 1)}
	x.ctx, x.cancel = context.WithCancel(s.ctx)
	x.calls, x.hangUp = context.WithCancelCause(x.ctx)
	if err := x.begin(ctx); err != nil {
		err = x.explain(ctx, err)
		x.close()
		return nil, err
	}
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
		x.blame(x.client.Wait())
		close(x.over)
	})
	if err := x.list(ctx); err != nil {
		return err
	}
	x.src.tasks.Go(x.relist)
	return nil
}

// explain makes a coded error of why a server did not start.
func (x *session) explain(ctx context.Context, err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	switch {
	case ctx.Err() != nil && x.src.ctx.Err() == nil:
		return fault.New(fault.Unavailable, "mcp_start_timeout", "it has not answered within %v%s", time.Since(x.began).Round(time.Second), x.said())
	case x.prog != nil && x.hasExited():
		e := fault.New(fault.Unavailable, "mcp_start_failed", "the program has ended before it answered%s", x.said())
		if path := x.command.Unseen(); path != "" {
			return fault.New(fault.Invalid, "mcp_sandbox_hides", "%s; the sandbox does not show it %s, which it is started with", e.Message, path).
				With("let it read that: \"sandbox\": {\"read\": [%q]}", filepath.Dir(path))
		}
		return e.With("run it by hand and see what it needs")
	}
	return fault.New(fault.Unavailable, "mcp_start_failed", "it cannot be agreed with: %s%s", x.mask(err.Error()), x.said())
}

// hasExited reports whether the program has ended, or does so now: the end of
// its output comes before, and what it said is read by then.
func (x *session) hasExited() bool {
	select {
	case <-x.exited:
		return true
	case <-time.After(graceFor):
		return false
	}
}

// said is the last that the program wrote for people.
func (x *session) said() string {
	if x.prog == nil {
		return ""
	}
	lines := strings.FieldsFunc(x.prog.stderr(), func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) > 3 {
		lines = lines[len(lines)-3:]
	}
	if len(lines) == 0 {
		return ""
	}
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.Join(lines, " | "))
	return "; it said: " + clip(x.mask(strings.ToValidUTF8(text, "?")), 500)
}

func (x *session) mask(text string) string { return mask(text, x.secrets) }

func (x *session) heard() { x.last.Store(time.Now().UnixNano()) }

// transport starts the program or makes the way to the address.
func (x *session) transport() (sdk.Transport, error) {
	d, env := &x.src.decl, &x.src.env
	e := &expander{secret: env.Secret}
	defer func() { x.secrets = e.values }()
	if d.URL != "" {
		u, err := parseURL(e.expand(d.URL))
		headers := http.Header{}
		for name, v := range d.Headers {
			headers.Set(name, e.expand(v))
		}
		if missing := e.err(); missing != nil {
			return nil, missing
		} else if err != nil {
			return nil, err
		}
		t := newHTTP(x.ctx, u, headers, x.heard)
		x.wire = t
		return t, nil
	}
	words := x.src.command
	cmd := sandbox.Command{Path: words[0], Args: slices.Clone(words[1:]), Dir: x.src.dir()}
	if strings.Contains(cmd.Path, "/") {
		cmd.Path = x.src.absolute(cmd.Path)
	}
	for _, a := range d.Args {
		cmd.Args = append(cmd.Args, e.expand(a))
	}
	for name, v := range d.Env {
		cmd.Env = append(cmd.Env, name+"="+e.expand(v))
	}
	if err := e.err(); err != nil {
		return nil, err
	}
	return x.run(cmd)
}

// run starts the program.
func (x *session) run(cmd sandbox.Command) (sdk.Transport, error) {
	if err := x.allow(&cmd); err != nil {
		return nil, err
	}
	x.command = cmd
	prog, err := x.src.start(x.ctx, cmd)
	if err != nil {
		return nil, err
	}
	x.prog, x.exited = prog, make(chan struct{})
	x.lines = newLines(prog.in, prog.out, x.src.env.Log, x.heard, x.blame, &x.changing, &x.tokens)
	x.wire = x.lines
	x.src.tasks.Go(func() {
		defer close(x.exited)
		if err := prog.wait(); err != nil && x.ctx.Err() == nil {
			x.src.env.Log.Debug("an MCP server has ended", "error", err)
		}
		x.lines.wait()
	})
	return x.lines, nil
}

// allow says what the program may do.
func (x *session) allow(cmd *sandbox.Command) error {
	d, env := &x.src.decl, &x.src.env
	cmd.Name, cmd.Log, cmd.Hide = env.Name, env.Log, env.Hide
	cmd.Unsandboxed = d.Unsandboxed || d.Sandbox == nil && env.Dir == ""
	if cmd.Unsandboxed { // a program of the user's own, bounded as they would bound it
		cmd.Limits = sandbox.Limits{Memory: 16 << 30, Processes: 4096, FileSize: 1 << 40, Files: 1024}
	}
	var err error
	if b := d.Sandbox; b != nil {
		cmd.Limits = b.Limits
		if cmd.Network, err = egress.Declared(b.Network); err != nil {
			return err
		}
		cmd.Read, cmd.Write = x.src.paths(b.Read), x.src.paths(b.Write)
	}
	if env.Snapshot != nil {
		if cmd.Instead, err = env.Snapshot(); err != nil {
			return err
		}
	}
	if cmd.Limits.CPU == 0 {
		cmd.Limits.CPU = -1 // it serves for as long as it is used
	}
	if cmd.Limits.Output == 0 {
		cmd.Limits.Output = 2 * maxSkipped // lines has its own bounds, which end a call only
	}
	if env.Dir != "" {
		cmd.Read = append(cmd.Read, env.Dir)
	}
	if env.Data != "" && (env.Dir != "" || !cmd.Unsandboxed) {
		if err := os.MkdirAll(env.Data, 0o700); err != nil {
			return fault.New(fault.Unavailable, "mcp_start_failed", "its folder cannot be made: %w", err)
		}
		cmd.Data = env.Data
		cmd.Env = append(cmd.Env, "STEWARD_DATA="+env.Data)
	}
	if env.Services == nil {
		return nil
	}
	vars, release, err := env.Services(x.ctx)
	if err != nil {
		return err
	}
	x.giveBack = release
	for _, v := range vars {
		cmd.Env = append(cmd.Env, v)
		_, value, _ := strings.Cut(v, "=")
		if u, err := url.Parse(value); err == nil && u.Host != "" && u.Port() != "" {
			cmd.Connect = append(cmd.Connect, u.Host)
		}
	}
	return nil
}

// paths are a declaration's paths, made absolute.
func (s *source) paths(in []string) []string {
	var out []string
	for _, p := range in {
		out = append(out, s.absolute(p))
	}
	return out
}

// connect agrees with the server on the protocol.
func (x *session) connect(ctx context.Context, t sdk.Transport) error {
	client := sdk.NewClient(&sdk.Implementation{Name: "steward", Version: "1"}, &sdk.ClientOptions{
		Capabilities:   &sdk.ClientCapabilities{}, // no roots, no sampling, no elicitation
		Logger:         x.src.env.Log,
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			x.changing.Store(false)
			x.changes.Add(1)
			select {
			case x.nudge <- struct{}{}:
			default:
			}
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { x.tokens.tell(r.Params) },
	})
	done, m := make(chan error, 1), &mark{}
	marked := context.WithValue(ctx, markKey{}, m)
	x.src.tasks.Go(func() {
		var err error
		x.client, err = client.Connect(marked, t, nil)
		if _, status := m.get(); err != nil && shutOut(status) {
			err = unauthorized(x.src.env.Name, status)
		}
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		x.cancel() // whatever it waits for
		_ = x.wire.Close()
		<-done
		return ctx.Err()
	}
}

// close ends the session: calls under way, the connection, the program and its
// children. It returns when nothing is left of it.
func (x *session) close() {
	x.closing.Do(func() {
		defer close(x.gone)
		x.disarm()
		x.hangUp(errHungUp)
		if x.lines != nil {
			_ = x.lines.Close() // its input ends: that is how a program is asked to end
		}
		if x.client != nil {
			quiet := make(chan struct{})
			x.src.tasks.Go(func() {
				defer close(quiet)
				_ = x.client.Close() // what it says, the log of the wire has told
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
			case <-x.src.ctx.Done():
			}
			x.prog.kill()
			<-x.exited
		}
		x.cancel()
		if x.giveBack != nil {
			x.giveBack()
		}
	})
	<-x.gone
}

var errHungUp = errors.New("the session has ended")

// blame notes why the session ends, once.
func (x *session) blame(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.why == nil {
		x.why = err
	}
}

// reason is why the session ends, nil as long as nothing has said so.
func (x *session) reason() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.why
}

// fail ends a session that is of no use.
func (x *session) fail(err error) {
	x.blame(err)
	x.cancel()
}

// ending says why a session that nobody has closed has ended.
func (x *session) ending() error {
	select {
	case <-x.over:
	case <-time.After(100 * time.Millisecond): // its calls may know a little earlier
	}
	why := x.reason()
	var f *fault.Error
	switch {
	case errors.As(why, &f):
		return f
	case errors.Is(why, errFlood):
		return fault.New(fault.Unavailable, "mcp_server_floods", "it was ended: %w%s", why, x.said())
	case x.prog != nil:
		return fault.New(fault.Unavailable, "mcp_server_ended", "the program has ended%s", x.said())
	case why != nil:
		return fault.New(fault.Unavailable, "mcp_server_ended", "the connection has ended: %s", x.mask(why.Error()))
	}
	return fault.New(fault.Unavailable, "mcp_server_ended", "the connection has ended")
}

// hold keeps the session from being idle. The source's lock is held.
func (x *session) hold() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.users++
	if x.timer != nil {
		x.timer.Stop()
	}
}

func (x *session) held() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.users > 0
}

// release undoes hold.
func (x *session) release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.users--; x.users == 0 && x.timer != nil {
		x.timer.Reset(x.src.idle)
	}
}

// arm begins to watch for idleness.
func (x *session) arm() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.timer = time.AfterFunc(x.src.idle, func() { x.src.unused(x) })
}

func (x *session) disarm() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.timer != nil {
		x.timer.Stop()
		x.timer = nil
	}
}

// progress holds who wants to know how far calls are.
type progress struct {
	mu   sync.Mutex
	n    int
	want map[string]func(tool.Progress)
}
