package grpc

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/sandbox"
	"steward/internal/tool"
)

// Retries of actions that are declared repeatable. Everything else is retried by the caller, as
// the error says.
const (
	maxAttempts = 3
	firstWait   = 100 * time.Millisecond
	maxWait     = 2 * time.Second // that a server may ask for within a call; beyond that the error is returned to the caller
)

// callable is an approved tool.
type callable struct {
	source *source
	spec   tool.Spec
	print  string

	compile   sync.Once
	validator *tool.Validator
	invalid   error
}

// Spec implements tool.Tool.
func (t *callable) Spec() tool.Spec { return t.spec }

// Check implements tool.Checker. It checks the arguments by the schema and, once it is known, by
// the message that the method takes. It does not connect.
func (t *callable) Check(args []byte) error {
	if err := t.checkArguments(args); err != nil {
		return err
	}
	s := t.source
	o := s.fixed
	if o == nil {
		s.mu.Lock()
		o = s.last
		s.mu.Unlock()
	}
	if o == nil || o.methods[t.spec.Name] == nil {
		return nil
	}
	_, err := request(o.methods[t.spec.Name].desc.Input(), o.ask, args)
	return err
}

// checkArguments checks arguments by the approved schema.
func (t *callable) checkArguments(args []byte) error {
	t.compile.Do(func() { t.validator, t.invalid = tool.NewValidator(t.spec.Input) })
	if t.invalid != nil {
		return t.invalid
	}
	return t.validator.Validate(args)
}

// Call implements tool.Tool. Errors are those of the server's status, converted by failure, and
// args_invalid, tool_changed, secret_missing, source_closed.
func (t *callable) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	ctx, done, err := t.source.scope(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	defer done()
	if err := t.checkArguments(in.Args); err != nil { // the caller may not have called Check
		return tool.Result{}, err
	}
	if _, ok := ctx.Deadline(); !ok {
		timeout := t.spec.Timeout
		if timeout == 0 {
			timeout = tool.DefaultTimeout
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	for n := 1; ; n++ {
		res, repeatable, err := t.attempt(ctx, in)
		if err == nil || !repeatable || n == maxAttempts || !pause(ctx, n, err) {
			return res, err
		}
	}
}

// pause waits before the next attempt, as the error says. It returns false if the call should not
// wait.
func pause(ctx context.Context, n int, err error) bool {
	e := fault.Of(err)
	if e.Kind != fault.Unavailable {
		return false
	}
	wait := firstWait << (2 * (n - 1))
	wait += rand.N(wait / 2)
	if e.Retry == fault.RetryAfter {
		wait = e.After
	}
	if at, ok := ctx.Deadline(); wait > maxWait || ok && time.Until(at) < 2*wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt makes one attempt. repeatable says that another attempt is harmless, may help, and is not
// left to the caller.
func (t *callable) attempt(ctx context.Context, in tool.Invocation) (res tool.Result, repeatable bool, err error) {
	s := t.source
	o, c, err := s.current(ctx)
	if err != nil {
		return res, false, tool.NotDone(err)
	}
	m := o.methods[t.spec.Name]
	switch {
	case m == nil:
		return res, false, s.env.Refuse(t.spec.Name, s.to.address+" no longer offers it")
	case m.print != t.print:
		return res, false, s.env.Refuse(t.spec.Name, s.to.address+" offers it in another form than the approved one")
	}
	body, err := request(m.desc.Input(), o.ask, in.Args)
	if err != nil {
		return res, false, err
	}
	out, err := s.outgoing(ctx, t.spec, in)
	if err != nil {
		return res, false, tool.NotDone(err)
	}
	a := &attempt{}
	out = context.WithValue(out, attemptKey{}, a)
	if m.stream {
		res, err = t.collect(out, c.cc, m, o, body, in)
	} else {
		res, err = t.unary(out, c.cc, m, o, body)
	}
	if err == nil {
		return res, false, nil
	}
	if status.Code(err) == codes.Unimplemented {
		s.invalidate()
	}
	err = failure(ctx, m.full, err, o.answerTypes)
	if !a.sent.Load() {
		return tool.Result{}, false, tool.NotDone(err)
	}
	return tool.Result{}, m.safe && t.spec.Effect == tool.Action && !tool.CertainlyNotDone(err), err
}

// unary calls a method that answers with one message.
func (t *callable) unary(ctx context.Context, cc *rpc.ClientConn, m *method, o *offer, body []byte) (tool.Result, error) {
	var got frame
	if err := cc.Invoke(ctx, m.path, &frame{body}, &got, options(t.source.decl.MaxBytes)...); err != nil {
		return tool.Result{}, t.tooLarge(m, err)
	}
	text, err := answer(m.desc.Output(), o.answerTypes, got.bytes)
	if err != nil {
		return t.answerError(err)
	}
	return tool.Text(string(text)), nil
}

// collect calls a method that answers with a stream, and gathers the messages up to a number, a
// size, and a time shortly before the call's deadline.
func (t *callable) collect(ctx context.Context, cc *rpc.ClientConn, m *method, o *offer, body []byte, in tool.Invocation) (tool.Result, error) {
	if at, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, at.Add(-min(time.Second, time.Until(at)/10)))
		defer cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // tells the server that no more messages are wanted
	stream, err := cc.NewStream(ctx, &rpc.StreamDesc{ServerStreams: true}, m.path, options(t.source.decl.MaxBytes)...)
	if err == nil {
		if err = stream.SendMsg(&frame{body}); err == nil || errors.Is(err, io.EOF) { // io.EOF: RecvMsg returns the reason
			err = stream.CloseSend()
		}
	}
	if err != nil {
		return tool.Result{}, err
	}
	got := collector{most: t.source.decl.MaxStreamed, bytes: t.source.decl.MaxBytes}
	for {
		var f frame
		err := stream.RecvMsg(&f)
		switch {
		case errors.Is(err, io.EOF):
			return got.result(""), nil
		case got.n > 0 && status.Code(err) == codes.DeadlineExceeded: // seen here, or by the server
			return got.result("the call timed out"), nil
		case err != nil:
			return tool.Result{}, t.tooLarge(m, err)
		}
		text, err := answer(m.desc.Output(), o.answerTypes, f.bytes)
		if err != nil {
			return t.answerError(err)
		}
		if why := got.add(text); why != "" {
			return got.result(why), nil
		}
		in.Report(tool.Progress{Message: fmt.Sprintf("%d received", got.n), Fraction: -1})
	}
}

// collector holds the messages of a stream.
type collector struct {
	text        strings.Builder
	n           int
	most, bytes int
}

// add keeps a message. If no more are to be kept, it returns the reason.
func (g *collector) add(text []byte) string {
	if g.n == g.most {
		return fmt.Sprintf("the limit is %d messages", g.most)
	}
	if g.text.Len()+len(text) > g.bytes {
		return fmt.Sprintf("the limit is %d bytes", g.bytes)
	}
	if g.n > 0 {
		g.text.WriteByte(',')
	}
	g.text.Write(text)
	g.n++
	return ""
}

// result returns the list of what was kept; cut says why it is incomplete.
func (g *collector) result(cut string) tool.Result {
	res := tool.Text("[" + g.text.String() + "]")
	if cut != "" {
		res.Content = append(res.Content, &message.Text{Text: fmt.Sprintf("The stream was cut after %d messages: %s. The server had more to send or was still sending.", g.n, cut)})
	}
	return res
}

// tooLarge returns the error for an answer over the limit. The server has done what it was asked,
// so an action's outcome is uncertain.
func (t *callable) tooLarge(m *method, err error) error {
	st := status.Convert(err)
	if st.Code() != codes.ResourceExhausted || !strings.Contains(st.Message(), "received message") {
		return err
	}
	return t.answerLost(fault.New(fault.TooLarge, "grpc_answer_too_large", "the answer of %s is larger than %d bytes", m.full, t.source.decl.MaxBytes).
		WithHint("ask for less, or raise max_bytes in the source's declaration"))
}

// answerError returns the error for an answer that cannot be shown.
func (t *callable) answerError(err error) (tool.Result, error) {
	return tool.Result{}, t.answerLost(err)
}

// answerLost marks the error of a call whose answer was lost: for an action it leaves open what
// happened.
func (t *callable) answerLost(err error) error {
	if e := fault.Of(err); t.spec.Effect == tool.Action {
		return fault.New(fault.Internal, e.Code, "%s", e.Message).WithHint("%s", e.Remedy)
	}
	return err
}

// outgoing returns ctx with the metadata of a call.
func (s *source) outgoing(ctx context.Context, spec tool.Spec, in tool.Invocation) (context.Context, error) {
	md, err := s.metadata()
	if err != nil {
		return nil, err
	}
	set := func(name, value string) {
		if value != "" {
			md.Set(name, value)
		}
	}
	set("traceparent", in.Trace)
	if !in.Request.Zero() {
		set("x-request-id", in.Request.String())
	}
	if !in.Parent.Zero() {
		set("x-parent-request-id", in.Parent.String())
	}
	if spec.Effect == tool.Action {
		set("idempotency-key", in.Key)
	}
	return metadata.NewOutgoingContext(ctx, md), nil
}

// metadata returns the declaration's metadata, with its secrets filled in.
func (s *source) metadata() (metadata.MD, error) {
	md := metadata.MD{}
	for name, value := range s.decl.Metadata {
		value, err := s.fillSecrets(name, value)
		if err != nil {
			return nil, err
		}
		md.Set(name, value)
	}
	return md, nil
}

// fillSecrets returns a metadata value with its secrets filled in. Errors never show them.
func (s *source) fillSecrets(name, value string) (string, error) {
	x := sandbox.Expander{Secret: s.env.Secret}
	out := x.Expand(value)
	if missing := x.Missing(); missing != "" {
		return "", fault.New(fault.Denied, "secret_missing", "the secret %s, which the metadata %s needs, is not set", missing, name).
			WithHint("set the secret %s", missing)
	}
	if strings.HasSuffix(name, "-bin") {
		if b, err := base64.StdEncoding.DecodeString(out); err == nil {
			return string(b), nil
		}
		return out, nil
	}
	if out = strings.TrimSpace(out); !printable(out) {
		return "", fault.New(fault.Denied, "secret_invalid", "the metadata %s contains characters other than printable ASCII", name).
			WithHint("correct the secret, or name the metadata %s-bin", name)
	}
	return out, nil
}
