package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// hookTimeout bounds one call of a hook. A hook that takes longer counts as a
// refusal.
const hookTimeout = 30 * time.Second

// Hooks is the hooks of a run's agent together with the event that they
// receive.
type Hooks struct {
	engine *Engine
	hooks  map[string][]tool.Hook
	event  tool.HookEvent // without the fields of a single step
	scope  store.Scope
}

// Hooks returns the hooks of a run, or nil if its agent has none.
func (e *Engine) Hooks(kit *kits.Kit, rc request.Context, user string) *Hooks {
	if len(kit.Hooks) == 0 {
		return nil
	}
	ev := tool.HookEvent{Agent: kit.Name, User: user, Request: rc.ID.String(), Parent: rc.Parent.String()}
	return &Hooks{engine: e, hooks: kit.Hooks, event: ev, scope: store.ForUser(user)}
}

// install makes a job call the hooks at their places. A nil h changes nothing.
func (h *Hooks) install(job *agent.Job, s *conversation.Session) {
	if h == nil {
		return
	}
	if h.Has(tool.BeforeRequest) {
		job.Hooks.Begin = func(ctx context.Context, text string) (string, error) {
			return h.collectNotes(ctx, tool.HookEvent{On: tool.BeforeRequest, Text: text})
		}
	}
	if h.Has(tool.BeforeModel) {
		job.Hooks.Before = func(ctx context.Context) (string, error) {
			return h.collectNotes(ctx, tool.HookEvent{On: tool.BeforeModel})
		}
	}
	if h.Has(tool.AfterModel) {
		job.Hooks.After = func(ctx context.Context, wrote string) error {
			_, err := h.collectNotes(ctx, tool.HookEvent{On: tool.AfterModel, Text: wrote})
			return err
		}
	}
	if h.Has(tool.BeforeTool) || h.Has(tool.AfterTool) {
		next := job.Call
		job.Call = func(ctx context.Context, c agent.Call) (*message.ToolResult, error) {
			return h.Call(ctx, s.MessageURI(c.Message), c, next)
		}
	}
	if h.Has(tool.AfterRequest) {
		next := job.Emit
		job.Emit = func(ev agent.Event) {
			next(ev)
			if ev.Kind == agent.Finished && ev.Message != nil {
				life := h.engine.life.Of(h.event.User)
				life.Go(func() { h.fireAfterRequest(life, ev.Message.Text()) })
			}
		}
	}
}

func (h *Hooks) Has(place string) bool { return len(h.hooks[place]) > 0 }

// fire calls the hooks of a place in order, until one refuses. each receives
// every answer, and may change the event for the next hook.
func (h *Hooks) fire(ctx context.Context, ev tool.HookEvent, each func(*tool.HookEvent, tool.HookAnswer) error) error {
	step := ev
	ev = h.event
	ev.On, ev.Text, ev.Tool, ev.Args = step.On, step.Text, step.Tool, step.Args
	for _, hook := range h.hooks[ev.On] {
		ans, err := fireOne(ctx, hook, ev)
		switch {
		case err != nil:
			h.engine.log.WarnContext(ctx, "a hook failed", "agent", ev.Agent, "on", ev.On, "error", err)
			return fault.New(fault.Denied, "hook_failed", "a hook of %s (%s) failed, so this is refused: %w", ev.Agent, ev.On, err)
		case ans.Refuse != "":
			return fault.New(fault.Denied, "hook_refused", "a hook of %s refused this: %s", ev.Agent, ans.Refuse)
		}
		if err := each(&ev, ans); err != nil {
			return err
		}
	}
	return nil
}

// fireOne calls a hook. It returns a panic of the hook as an error.
func fireOne(ctx context.Context, hook tool.Hook, ev tool.HookEvent) (ans tool.HookAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it panicked: %v", p)
		}
	}()
	return hook.Fire(ctx, ev)
}

// collectNotes calls the hooks of a place and returns their notes.
func (h *Hooks) collectNotes(ctx context.Context, ev tool.HookEvent) (string, error) {
	var notes []string
	err := h.fire(ctx, ev, func(_ *tool.HookEvent, ans tool.HookAnswer) error {
		if ans.Note != "" {
			notes = append(notes, ans.Note)
		}
		return nil
	})
	return strings.Join(notes, "\n\n"), err
}

// Call runs a tool call between its hooks. The arguments that the before hooks
// leave are what is checked, authorized and run. A call that was recorded before
// a crash keeps its recorded arguments: its intent is below at.
func (h *Hooks) Call(ctx context.Context, at resource.URI, c agent.Call, next func(context.Context, agent.Call) (*message.ToolResult, error)) (*message.ToolResult, error) {
	args, err := h.narrowArgs(ctx, at, c)
	switch {
	case ctx.Err() != nil && context.Cause(ctx) == request.ErrSuspend:
		return nil, request.ErrSuspend
	case ctx.Err() != nil:
		return InterruptedResult(), nil
	case err != nil && fault.Of(err).Kind == fault.Denied:
		return refusedResult(err), nil
	case err != nil:
		return nil, err
	}
	c.Args = args
	res, err := next(ctx, c)
	if err != nil || !h.Has(tool.AfterTool) || NeverRan(res) {
		return res, err
	}
	return h.After(ctx, c, res), nil
}

// NeverRan reports whether a result comes from Steward and means that its call was stopped.
func NeverRan(res *message.ToolResult) bool {
	return res.Status == message.Interrupted && res.Origin == "system"
}

// narrowArgs returns the arguments that the hooks leave.
func (h *Hooks) narrowArgs(ctx context.Context, at resource.URI, c agent.Call) ([]byte, error) {
	args, err := tool.Canonical(c.Arguments())
	if err != nil || !h.Has(tool.BeforeTool) {
		return c.Args, nil // invalid JSON is refused where arguments are checked
	}
	in, err := h.engine.effects.Intent(context.WithoutCancel(ctx), h.scope, effect.IntentURI(at, c.Block))
	if !fault.Is(err, fault.NotFound) { // it was recorded
		return []byte(in.Args), err
	}
	err = h.fire(ctx, tool.HookEvent{On: tool.BeforeTool, Tool: c.Name, Args: args}, func(ev *tool.HookEvent, ans tool.HookAnswer) error {
		if len(ans.Args) == 0 {
			return nil
		}
		narrowed, err := tool.Canonical(ans.Args)
		if err != nil {
			return fault.New(fault.Denied, "hook_failed", "a hook of %s returned arguments that are not valid: %w", ev.Agent, err)
		}
		ev.Args, args = narrowed, narrowed
		return nil
	})
	return args, err
}

// After passes a result to the hooks. They can replace its text, and can never
// remove a label.
func (h *Hooks) After(ctx context.Context, c agent.Call, res *message.ToolResult) *message.ToolResult {
	text, changed := res.Text(), false
	err := h.fire(ctx, tool.HookEvent{On: tool.AfterTool, Tool: c.Name, Args: validArgs(c.Args), Text: text}, func(ev *tool.HookEvent, ans tool.HookAnswer) error {
		if ans.Text != nil {
			text, changed = *ans.Text, true
			ev.Text = text
		}
		return nil
	})
	switch {
	case err != nil:
		return withText(res, "The tool has run, and what it said is withheld: "+err.Error(), false)
	case changed:
		return withText(res, text, true)
	}
	return res
}

// validArgs returns arguments as a hook receives them: valid JSON, or nil.
func validArgs(args []byte) json.RawMessage {
	if !json.Valid(args) {
		return nil
	}
	return args
}

// withText returns a result with another text and all of its labels. The rest of a
// clipped result cannot be read any more.
func withText(res *message.ToolResult, text string, keep bool) *message.ToolResult {
	out := *res
	out.Rest, out.Content = "", nil
	out.Labels |= message.LabelsOf(res.Content)
	t := &message.Text{Common: message.Common{Origin: res.Origin, Labels: out.Labels}, Text: strings.ToValidUTF8(text, "\uFFFD")}
	out.Content = append(out.Content, t)
	for _, b := range res.Content {
		if _, words := b.(*message.Text); !words && keep {
			out.Content = append(out.Content, b)
		}
	}
	return &out
}

// fireAfterRequest passes the turn's answer to the hooks. It ignores what they return.
func (h *Hooks) fireAfterRequest(ctx context.Context, answer string) {
	ev := h.event
	ev.On, ev.Text = tool.AfterRequest, answer
	for _, hook := range h.hooks[tool.AfterRequest] {
		if _, err := fireOne(ctx, hook, ev); err != nil && ctx.Err() == nil {
			h.engine.log.Warn("a hook failed", "agent", ev.Agent, "on", ev.On, "error", err)
		}
	}
}
