package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"steward/internal/fault"
	"steward/internal/sandbox"
	"steward/internal/tool"
)

// DefaultHookTimeout is how long a hook may take.
const DefaultHookTimeout = 10 * time.Second

// maxHookAnswer bounds a hook's answer, in bytes.
const maxHookAnswer = 1 << 20

// HookDecl declares a hook: a program that is started for each step, reads the event
// (tool.HookEvent) as a line of JSON, and writes its answer (tool.HookAnswer) as another line. If
// it writes nothing and exits successfully, the step proceeds.
type HookDecl struct {
	Program `yaml:",inline"`
	Timeout time.Duration `yaml:"timeout"` // zero: DefaultHookTimeout
	Tools   []string      `yaml:"tools"`   // names and globs of the tools that it is called for; none: all
}

// OpenHook is the tool.HookOpener of programs. Error codes:
// process_declaration_invalid and those of decode.
func OpenHook(env tool.Env, decode func(into any) error) (tool.HookSource, error) {
	var d HookDecl
	if err := decode(&d); err != nil {
		return nil, err
	}
	env, err := settle(env)
	if err != nil {
		return nil, err
	}
	if d.Timeout < 0 {
		return nil, badDecl("timeout is negative")
	}
	if d.Timeout == 0 {
		d.Timeout = DefaultHookTimeout
	}
	for _, g := range d.Tools {
		if _, err := path.Match(g, ""); err != nil {
			return nil, badDecl("tools: %q is not a tool pattern", g).WithHint("write names, or globs such as files.*")
		}
	}
	if err := d.Program.check(env.Dir); err != nil {
		return nil, err
	}
	return &hook{env: env, decl: d, runs: newRuns()}, nil
}

type hook struct {
	env  tool.Env
	decl HookDecl
	runs *runs
}

// Files implements tool.HookSource.
func (h *hook) Files() []string { return h.decl.files(h.env.Dir) }

// Code implements tool.Coded.
func (h *hook) Code() tool.Code { return h.decl.code(h.env.Dir) }

// Close implements tool.HookSource. It ends programs that are still running.
func (h *hook) Close() error {
	h.runs.close()
	return nil
}

// Fire implements tool.Hook. When it returns, no process of the program is running.
func (h *hook) Fire(ctx context.Context, ev tool.HookEvent) (tool.HookAnswer, error) {
	if !h.appliesTo(ev.Tool) {
		return tool.HookAnswer{}, nil
	}
	if err := h.runs.begin(); err != nil {
		return tool.HookAnswer{}, err
	}
	defer h.runs.count.Done()
	late := fault.New(fault.Timeout, "hook_timeout", "the hook took longer than %s", h.decl.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, h.decl.Timeout, late)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(h.runs.ctx, func() { end(context.Cause(h.runs.ctx)) })()
	p, err := h.decl.prepare(ctx, h.env)
	if err != nil {
		return tool.HookAnswer{}, err
	}
	defer p.release()
	out, err := h.run(ctx, p, ev)
	if err != nil {
		return tool.HookAnswer{}, masked(err, p.secrets)
	}
	return answerOf(out)
}

// appliesTo reports whether the hook is for steps with a tool. Steps without a tool concern every
// hook.
func (h *hook) appliesTo(name string) bool {
	if name == "" || len(h.decl.Tools) == 0 {
		return true
	}
	for _, g := range h.decl.Tools {
		if ok, err := path.Match(g, name); ok && err == nil { // the pattern was checked
			return true
		}
	}
	return false
}

// run runs the program to its end and returns what it wrote.
func (h *hook) run(ctx context.Context, p prepared, ev tool.HookEvent) ([]byte, error) {
	line, err := json.Marshal(ev)
	if err != nil {
		return nil, fault.New(fault.Internal, "hook_failed", "cannot encode the step for the hook: %w", err)
	}
	proc, err := sandbox.Start(ctx, p.command)
	if err != nil {
		return nil, err
	}
	go func() {
		_, _ = proc.Stdin.Write(append(line, '\n')) // a hook need not read its input
		proc.Stdin.Close()
	}()
	out, rerr := io.ReadAll(io.LimitReader(proc.Stdout, maxHookAnswer+1))
	if len(out) > maxHookAnswer {
		proc.Kill()
		rerr = fault.New(fault.TooLarge, "hook_failed", "the hook's answer has more than %d bytes", maxHookAnswer)
	}
	if err := errors.Join(rerr, proc.Wait()); err != nil {
		f := fault.Of(err)
		return nil, fault.New(f.Kind, "hook_failed", "the hook failed: %w", err).WithHint("fix the hook, or remove it from the agent")
	}
	return out, nil
}

// answerOf reads a hook's answer strictly: an unknown member may have been meant to refuse.
func answerOf(out []byte) (tool.HookAnswer, error) {
	var a tool.HookAnswer
	out = bytes.TrimSpace(out)
	if len(out) == 0 {
		return a, nil
	}
	if err := jsonv2.Unmarshal(out, &a, jsonv2.RejectUnknownMembers(true)); err != nil {
		return tool.HookAnswer{}, fault.New(fault.Invalid, "hook_failed", "the hook's answer is invalid: %s",
			strings.TrimPrefix(err.Error(), "json: ")).WithHint("it must write one JSON object with refuse, note, args or text, or nothing")
	}
	return a, nil
}
