package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
)

// Limits for questions of a server during one call: how often, how much text, and for how long it waits for
// all answers. The time does not count towards the timeout of the call.
const (
	maxQuestions = 10
	maxQuestion  = 32 << 10 // bytes
	askFor       = 10 * time.Minute
)

// elicitingCall is a call during which its server may ask the person.
type elicitingCall struct {
	ctx   context.Context // the call's
	in    tool.Invocation
	timer *time.Timer // ends the call; stopped while a person is asked
	limit time.Duration

	mu             sync.Mutex // held while a person is asked: one question at a time
	asked, sampled int
	why            string // why the server did not get what it last asked for
}

type askingKey struct{}

// beginCall begins a call of the session, which ends after its timeout.
func (x *session) beginCall(ctx context.Context, in tool.Invocation, limit time.Duration) (context.Context, *elicitingCall, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	a := &elicitingCall{in: in, limit: limit, timer: time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })}
	ctx = context.WithValue(ctx, askingKey{}, a)
	a.ctx = ctx
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.callers == nil {
		x.callers = map[*elicitingCall]bool{}
	}
	x.callers[a] = true
	return ctx, a, func() {
		a.timer.Stop()
		cancel(nil)
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.callers, a)
	}
}

// caller returns the call that a request of the server belongs to. Before the specification of 2026-07-28
// the server does not tell, so the request is refused unless only one call is under way.
func (x *session) caller(ctx context.Context) (*elicitingCall, error) {
	if a, ok := ctx.Value(askingKey{}).(*elicitingCall); ok {
		return a, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.callers) != 1 {
		return nil, fmt.Errorf("%d calls are running, and the request does not name one", len(x.callers))
	}
	for a := range x.callers {
		return a, nil
	}
	return nil, nil
}

// elicit has a person answer a question of the server. No model sees the question or answers it.
func (x *session) elicit(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	a, err := x.caller(ctx)
	if err != nil {
		x.src.env.Log.Info("a question of an MCP server was dropped", "error", err)
		return &sdk.ElicitResult{Action: "cancel"}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	ends := func(action string, why error) (*sdk.ElicitResult, error) {
		a.why = why.Error()
		return &sdk.ElicitResult{Action: action}, nil
	}
	q, err := x.src.question(r.Params)
	if err != nil {
		return ends("decline", err)
	}
	q.asked.Answer = q.initial
	args, err := json.Marshal(q.asked)
	if err == nil && a.asked == maxQuestions {
		err = errors.New("the server asked too often in this call")
	}
	if err != nil {
		return ends("cancel", err)
	}
	a.asked++
	given, res, err := a.askPerson(q, args)
	switch {
	case err != nil:
		return ends("cancel", err)
	case res.Status == message.DeniedCall:
		return ends("decline", errors.New(res.Text()))
	case res.Status != message.OK:
		return ends("cancel", errors.New(res.Text()))
	}
	out := &sdk.ElicitResult{Action: "accept"}
	if q.answers != nil {
		err = json.Unmarshal([]byte(given), &out.Content)
	}
	return out, err
}

// askPerson has a person decide about a call of a tool, and returns what the call has returned, maybe before a
// crash. The time does not count towards the timeout.
func (a *elicitingCall) askPerson(t tool.Tool, args []byte) (given string, res *message.ToolResult, err error) {
	if a.in.Ask == nil || !a.timer.Stop() {
		return "", nil, errors.New("no user is available to answer")
	}
	defer a.timer.Reset(a.limit)
	ctx, cancel := context.WithTimeout(a.ctx, askFor)
	defer cancel()
	res, err = a.in.Ask(ctx, t, args)
	if err != nil || res.Status != message.OK {
		return "", res, err
	}
	if n := len(res.Content); n > 0 {
		if text, ok := res.Content[n-1].(*message.Text); ok {
			return text.Text, res, nil
		}
	}
	return "", res, errors.New("the answer is no longer stored")
}

// question is a question of a server, in the form of an action that a person approves. It implements
// tool.Tool, tool.Checker and tool.Previewer.
type question struct {
	spec    tool.Spec
	asked   askedArgs
	initial json.RawMessage  // the answer that is proposed: the defaults
	answers *tool.Validator  // nil: a page
	fields  map[string]field // of the answer
	needed  []string
}

// askedArgs are the arguments of a question.
type askedArgs struct {
	Question string          `json:"question"`
	Page     string          `json:"page,omitempty"`
	Answer   json.RawMessage `json:"answer,omitempty"`
}

// field is a field of a form, as the protocol describes it.
type field struct {
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Enum        json.RawMessage `json:"enum"`
	OneOf       json.RawMessage `json:"oneOf"`
	Items       json.RawMessage `json:"items"`
	Default     json.RawMessage `json:"default"`
}

// secretQuestion matches what a form must not ask for: the specification leaves that to pages.
var secretQuestion = regexp.MustCompile(`(?i)pass(word|phrase|wort)|\bsecret|api.?key|private.?key|access.?token|credit.?card|\bcvv\b|\bpin\b`)

// question checks a question of the server.
func (s *source) question(p *sdk.ElicitParams) (*question, error) {
	q := &question{asked: askedArgs{Question: p.Message, Page: p.URL}}
	q.spec = s.spec("question", "A question of the server to you", []byte(`{"type":"object","properties":{"question":{"type":"string"},"answer":{"type":"object"},"page":{"type":"string"}}}`))
	q.spec.Effect, q.spec.Asks, q.spec.Version = tool.Action, true, "1"
	if p.Mode == "url" {
		u, err := url.Parse(p.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || len(p.URL) > 4<<10 {
			return nil, errors.New("the server asked to open an invalid page address")
		}
		q.spec.Host = u.Hostname()
		return q, nil
	}
	schema, err := json.Marshal(p.RequestedSchema)
	if p.RequestedSchema == nil {
		schema = []byte(`{"type":"object","properties":{}}`)
	}
	var form struct {
		Properties map[string]field `json:"properties"`
		Required   []string         `json:"required"`
	}
	if err == nil {
		err = json.Unmarshal(schema, &form)
	}
	switch {
	case err != nil:
		return nil, errors.New("the question cannot be read")
	case len(schema)+len(p.Message) > maxQuestion:
		return nil, errors.New("the question is too long")
	case secretQuestion.MatchString(p.Message) || secretQuestion.Match(schema):
		return nil, errors.New("the server asks for a secret, which the protocol does not allow here")
	}
	if q.answers, err = tool.NewValidator(schema); err != nil {
		return nil, err
	}
	q.fields, q.needed = form.Properties, form.Required
	answer := map[string]json.RawMessage{}
	for name, f := range form.Properties {
		if len(f.Default) > 0 {
			answer[name] = f.Default
		}
	}
	b, err := json.Marshal(answer)
	if err == nil {
		q.initial, err = tool.Canonical(b)
	}
	return q, err
}

// Spec implements tool.Tool.
func (q *question) Spec() tool.Spec { return q.spec }

// Check implements tool.Checker. A proposal may be shown although it is incomplete.
func (q *question) Check(args []byte) error {
	in, err := q.read(args)
	if err != nil || q.answers == nil || string(in.Answer) == string(q.initial) {
		return err
	}
	return q.answers.Validate(in.Answer)
}

func (q *question) read(args []byte) (askedArgs, error) {
	var in askedArgs
	if err := json.Unmarshal(args, &in); err != nil || in.Question != q.asked.Question || in.Page != q.asked.Page {
		return in, fault.New(fault.Invalid, "args_invalid", "only the answer can be edited")
	}
	return in, nil
}

// Call implements tool.Tool: the person has allowed the answer.
func (q *question) Call(_ context.Context, in tool.Invocation) (tool.Result, error) {
	given, err := q.read(in.Args)
	if err == nil && q.answers != nil {
		err = q.answers.Validate(given.Answer)
	}
	if err != nil {
		return tool.Result{}, tool.NotDone(err)
	}
	return tool.Text(string(given.Answer)), nil
}

// Preview implements tool.Previewer: it tells what can be answered.
func (q *question) Preview(context.Context, tool.Invocation) (string, error) {
	if q.answers == nil {
		return "The server asks you, not the model, to open this page. Steward does not open it: if you trust " + q.spec.Host +
			", open the page yourself, and allow this. The server only learns that you agreed.", nil
	}
	var b strings.Builder
	b.WriteString("The server asks you, not the model. Edit the answer, then allow the call to send it to the server, or deny the call to send nothing.\n")
	for _, name := range slices.Sorted(maps.Keys(q.fields)) {
		f := q.fields[name]
		fmt.Fprintf(&b, "%s: %s", name, f.Type)
		if slices.Contains(q.needed, name) {
			b.WriteString(", required")
		}
		for _, more := range []string{f.Title, f.Description, string(f.Enum), string(f.OneOf), string(f.Items)} {
			if more != "" {
				b.WriteString(", " + more)
			}
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}
