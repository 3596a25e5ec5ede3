package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/sandbox"
	"steward/internal/tool"
)

// pingFor is how long a server has to answer a ping after a call has timed out. A server that
// does not answer is ended.
const pingFor = 5 * time.Second

// remote is an approved tool of a server.
type remote struct {
	src  *source
	spec tool.Spec
}

// Spec implements tool.Tool. The timeout includes the time in which the server may ask the person.
func (t *remote) Spec() tool.Spec {
	spec := t.spec
	spec.Timeout = cmp.Or(spec.Timeout, DefaultTimeout) + askFor
	return spec
}

// caller performs a call of one of Steward's own tools over a server.
type caller func(ctx context.Context, x *session, in tool.Invocation) (tool.Result, error)

// Call implements tool.Tool. Error codes besides those of the server's own refusal: tool_changed
// (Denied), mcp_timeout, mcp_server_ended and others of the kind Unavailable.
func (t *remote) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	var res tool.Result
	err := retryOnce(func() (err error) {
		res, err = t.attempt(ctx, in)
		return err
	})
	return res, err
}

// retryOnce retries an operation once if the server no longer knows the session, or had ended before
// the request was sent. In both cases the server has done nothing.
func retryOnce(do func() error) error {
	err := do()
	if ended := fault.HasCode(err, "mcp_server_ended") && tool.CertainlyNotDone(err); ended || errors.Is(err, sdk.ErrSessionMissing) {
		err = do()
	}
	return err
}

func (t *remote) attempt(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	x, release, err := t.src.connected(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	defer release()
	if err := x.fresh(ctx); err != nil {
		return tool.Result{}, tool.NotDone(err)
	}
	o := x.offer(t.spec.Name)
	if err := t.same(o); err != nil {
		return tool.Result{}, err
	}
	ctx, a, done := x.beginCall(ctx, in, cmp.Or(t.spec.Timeout, DefaultTimeout))
	res, err := t.exchange(ctx, x, o, in)
	done() // ends a question that is still open
	if a.mu.Lock(); a.why != "" {
		res.Content = append(res.Content, &message.Text{Text: "[A request of the server was not answered: " + a.why + "]"})
	}
	a.mu.Unlock()
	return res, err
}

// exchange calls the offered tool.
func (t *remote) exchange(ctx context.Context, x *session, o *offer, in tool.Invocation) (tool.Result, error) {
	if o.call != nil {
		return o.call(ctx, x, in)
	}
	params := &sdk.CallToolParams{Name: o.remote, Arguments: json.RawMessage(in.Args), Meta: meta(in)}
	if x.prog != nil { // a token of the call opens the agent's services to it
		token, end, err := sandbox.Token(ctx, t.src.env)
		if err != nil {
			return tool.Result{}, tool.NotDone(err)
		}
		defer end()
		if token != "" {
			params.Meta["steward/token"] = token
		}
	}
	if in.Progress != nil {
		token, forget := x.tokens.add(in.Report)
		defer forget()
		params.SetProgressToken(token)
	}
	res, err := do(ctx, x, "calling "+t.spec.Name, func(ctx context.Context) (*sdk.CallToolResult, error) {
		return x.client.CallTool(ctx, params)
	})
	if err != nil {
		return tool.Result{}, err
	}
	return result(t.src.word, res)
}

// settled is an approved action whose server has a tool that reports the outcome for a key.
type settled struct{ *remote }

// Settle implements tool.Settler. It calls the declared tool with the argument idempotency_key.
// The tool returns a JSON object: status "done", with the result under result, or status
// "not_done". Any other answer is inconclusive.
func (t *settled) Settle(ctx context.Context, in tool.Invocation) (happened bool, res tool.Result, err error) {
	x, release, err := t.src.connected(ctx)
	if err != nil {
		return false, res, err
	}
	defer release()
	if err := x.fresh(ctx); err != nil {
		return false, res, err
	}
	ask := x.offer(t.spec.Status)
	t.src.mu.Lock()
	approved := ask != nil && t.src.approved[t.spec.Status] == ask.identity
	t.src.mu.Unlock()
	if err := t.same(x.offer(t.spec.Name)); err != nil || !approved {
		return false, res, fault.New(fault.Denied, "tool_changed", "%s cannot be asked for the outcome of %s: it differs from what was approved", t.spec.Status, t.spec.Name)
	}
	args, err := json.Marshal(map[string]string{"idempotency_key": in.Key})
	if err != nil {
		return false, res, err
	}
	out, err := do(ctx, x, "calling "+t.spec.Status, func(ctx context.Context) (*sdk.CallToolResult, error) {
		return x.client.CallTool(ctx, &sdk.CallToolParams{Name: ask.remote, Arguments: json.RawMessage(args), Meta: meta(in)})
	})
	if err != nil {
		return false, res, err
	}
	return statusOf(t.spec.Status, out)
}

// statusOf reads the answer of a status tool.
func statusOf(name string, out *sdk.CallToolResult) (happened bool, res tool.Result, err error) {
	var said struct {
		Status string          `json:"status"`
		Result json.RawMessage `json:"result"`
	}
	raw, err := json.Marshal(out.StructuredContent)
	if len(out.Content) > 0 && out.StructuredContent == nil {
		if t, ok := out.Content[0].(*sdk.TextContent); ok {
			raw = []byte(t.Text)
		}
	}
	if err == nil {
		err = json.Unmarshal(raw, &said)
	}
	switch {
	case err == nil && !out.IsError && said.Status == "not_done":
		return false, res, nil
	case err == nil && !out.IsError && said.Status == "done":
		var text string
		if json.Unmarshal(said.Result, &text) != nil {
			text = string(said.Result)
		}
		return true, tool.Text(text), nil
	}
	return false, res, fault.New(fault.Unavailable, "mcp_status_unknown", "%s did not report whether the call was done: %s", name, tool.Clip(string(raw), 200))
}

// same returns an error unless the offered tool is the approved one.
func (t *remote) same(o *offer) error {
	switch {
	case o == nil:
		t.src.changed()
		return tool.NotDone(fault.New(fault.Unavailable, "tool_unavailable", "the MCP server %s no longer offers %s in a usable form", t.src.env.Name, t.spec.Name).
			WithHint("see what it offers now: steward mcp test %s", t.src.env.Name).Detail("tool", t.spec.Name))
	case o.identity != tool.Identity(t.spec):
		return t.src.env.Refuse(t.spec.Name, "the MCP server "+t.src.env.Name+" offers a version that differs from the approved one")
	}
	return nil
}

// meta returns the metadata of a call: its idempotency key, its request ids and the trace context
// (https://www.w3.org/TR/trace-context/).
func meta(in tool.Invocation) sdk.Meta {
	m := sdk.Meta{}
	if in.Key != "" {
		m[metaKey] = in.Key
	}
	if in.Trace != "" {
		m["traceparent"] = in.Trace
	}
	if !in.Request.Zero() {
		m["steward/request_id"] = in.Request.String()
	}
	if !in.Parent.Zero() {
		m["steward/parent_request_id"] = in.Parent.String()
	}
	return m
}

// do performs one exchange with the server. Its error is coded, and NotDone if the request was
// not sent.
func do[T any](ctx context.Context, x *session, what string, exchange func(context.Context) (T, error)) (T, error) {
	m := &mark{}
	inner, cancel := context.WithCancelCause(context.WithValue(ctx, markKey{}, m))
	defer cancel(nil)
	defer context.AfterFunc(x.calls, func() { cancel(errHungUp) })()
	res, err := exchange(inner)
	if err == nil {
		return res, nil
	}
	err = x.failed(ctx, what, int(m.status.Load()), err)
	if !m.sent.Load() {
		err = tool.NotDone(err)
	}
	var none T
	return none, err
}

// failed returns a coded error for why an exchange failed. ctx is the caller's.
func (x *session) failed(ctx context.Context, what string, status int, err error) error {
	var f, why *fault.Error
	var wire *jsonrpc.Error
	name := x.src.env.Name
	switch {
	case ctx.Err() != nil:
		if context.Cause(ctx) == context.DeadlineExceeded || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			x.checkAlive()
		}
		return timeoutError(ctx, "the MCP server %s did not answer in time (%s)", name, what)
	case errors.As(err, &wire) && wire.Message != rejected:
		return x.refusal(what, wire)
	case errors.Is(err, sdk.ErrSessionMissing), status == http.StatusNotFound && (x.calls.Err() != nil || errors.Is(err, sdk.ErrConnectionClosed)):
		// The SDK ends the session on 404, and the call may learn of that first.
		x.src.keeper.Drop(x)
		return fmt.Errorf("%w: %w", fault.New(fault.Unavailable, "mcp_session_missing", "the MCP server %s no longer knows the session", name), sdk.ErrSessionMissing)
	case errors.As(err, &f) && strings.HasPrefix(f.Code, "oauth_"):
		return tool.NotDone(fault.New(f.Kind, f.Code, "the MCP server %s refuses (%s): %s", name, what, f.Message).WithHint("%s", f.Remedy))
	case accessDenied(status):
		return unauthorized(name, status)
	case errors.Is(err, errFlood) && errors.As(err, &why), errors.As(x.reason(), &why): // the session may have been ended before the call noticed why
		x.src.keeper.RecordEnd(x)
		return fault.New(fault.Unavailable, why.Code, "the MCP server %s was ended (%s): %s", name, what, why.Message).WithHint("%s", why.Remedy)
	case errors.As(err, &f):
		return f
	case x.calls.Err() != nil || errors.Is(err, sdk.ErrConnectionClosed) || x.prog != nil && broken(err):
		x.src.keeper.RecordEnd(x)
		return fault.New(fault.Unavailable, "mcp_server_ended", "the MCP server %s has ended (%s)%s", name, what, x.stderrSuffix())
	}
	return fault.New(fault.Unavailable, "mcp_server_failed", "the MCP server %s failed (%s): %s", name, what, tool.Clip(x.mask(err.Error()), 500))
}

// accessDenied reports whether a status means that the server denies Steward access.
func accessDenied(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

func unauthorized(name string, status int) error {
	return fault.New(fault.Unauthentic, "mcp_unauthorized", "the MCP server %s denies access: %d %s", name, status, http.StatusText(status)).
		WithHint("add the header that it requires to its declaration, such as Authorization: Bearer ${TOKEN}")
}

// rejected is the SDK's text for messages that its transport could not send.
const rejected = "rejected by transport"

// broken reports whether an error means that the other end of a pipe is closed.
func broken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EPIPE)
}

// refusal returns a coded error for the server's own error. Only the codes by which a server says
// that it did not understand the request mean that nothing was done.
func (x *session) refusal(what string, e *jsonrpc.Error) error {
	name, text := x.src.env.Name, tool.Clip(x.mask(e.Message), 2000)
	switch e.Code {
	case codeTooLarge:
		return fault.New(fault.Unavailable, "mcp_answer_too_large", "%s from the MCP server %s (%s)", text, name, what).WithHint("ask for less at once")
	case codeGarbled:
		return fault.New(fault.Unavailable, "mcp_answer_invalid", "%s of the MCP server %s (%s)", text, name, what)
	case jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams, jsonrpc.CodeInvalidRequest, jsonrpc.CodeParseError:
		return fault.New(fault.Invalid, "mcp_refused", "the MCP server %s refuses (%s): %s", name, what, text).Detail("code", e.Code)
	}
	return fault.New(fault.Unavailable, "mcp_server_error", "the MCP server %s failed (%s): %s", name, what, text).Detail("code", e.Code)
}

// checkAlive checks whether a server is still alive after a call has timed out.
func (x *session) checkAlive() {
	since := time.Now().UnixNano()
	x.src.mu.Lock()
	defer x.src.mu.Unlock()
	if x.src.closed || !x.src.keeper.IsCurrent(x) {
		return
	}
	x.src.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(x.calls, pingFor)
		defer cancel()
		_ = x.client.Ping(ctx, nil) // any answer will do, including that ping is unknown
		if x.last.Load() < since && x.calls.Err() == nil {
			x.fail(fault.New(fault.Unavailable, "mcp_server_hangs", "it did not answer a ping, and was ended"))
		}
	})
}

func (p *progress) add(tell func(tool.Progress)) (token string, forget func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	token = fmt.Sprintf("steward-%d", p.n)
	if p.want == nil {
		p.want = map[string]func(tool.Progress){}
	}
	p.want[token] = tell
	return token, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.want, token)
	}
}

// report passes on a server's report of how far a call has got.
func (p *progress) report(in *sdk.ProgressNotificationParams) {
	if in == nil {
		return
	}
	token, _ := in.ProgressToken.(string)
	p.mu.Lock()
	tell := p.want[token]
	p.mu.Unlock()
	if tell == nil {
		return
	}
	out := tool.Progress{Message: tool.Clip(in.Message, 1000), Fraction: -1}
	if in.Total > 0 && in.Progress >= 0 {
		out.Fraction = min(in.Progress/in.Total, 1)
	}
	tell(out)
}
