// Package process turns programs into tools and hooks: any executable that reads a request as a
// line of JSON and writes its answer as another line, in the envelope of package request.
// Programs run confined (package sandbox), unless the user has said otherwise.
package process

import (
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/sandbox"
	"steward/internal/tool"
)

// The protocols and modes of a declaration.
const (
	ProtocolEnvelope = "envelope"
	ModeOnce         = "once"  // one process per call
	ModeServe        = "serve" // one process that is kept for all calls
)

// DefaultIdle is how long a serving program is kept without a call.
const DefaultIdle = 10 * time.Minute

// Decl declares a program and its tools, as in agent.yaml under process: NAME. A file
// tools/NAME.yaml declares one tool: its members are next to the program's, and the tool is
// called NAME.ACTION.
type Decl struct {
	Program  `yaml:",inline"`
	Protocol string        `yaml:"protocol"` // empty: envelope
	Mode     string        `yaml:"mode"`     // empty: once
	Idle     time.Duration `yaml:"idle"`     // with serve: the program is ended after this long without a call; zero: DefaultIdle
	Tools    []ToolDecl    `yaml:"tools"`

	Action   string `yaml:"action"` // empty: run
	ToolBody `yaml:",inline"`
}

// ToolDecl is one tool of a program.
type ToolDecl struct {
	Name     string `yaml:"name"` // a-z, 0-9 and '_': the action in the program's request
	ToolBody `yaml:",inline"`
}

// ToolBody describes a tool, apart from its name.
type ToolBody struct {
	Description string        `yaml:"description"`
	Input       any           `yaml:"input"`       // JSON Schema of the arguments; none: arguments are not checked
	Effect      tool.Effect   `yaml:"effect"`      // empty: action
	Asks        bool          `yaml:"asks"`        // a person is asked before each call
	Async       bool          `yaml:"async"`       // the model does not wait for the result
	AsyncAfter  time.Duration `yaml:"async_after"` // the same, once the call has taken this long
	Timeout     time.Duration `yaml:"timeout"`
	Yields      any           `yaml:"yields"`  // labels of what it returns; see tool.Spec.Flows
	Reach       tool.Reach    `yaml:"reach"`   // where its arguments go: here or out; empty: here if it has no network
	Targets     []string      `yaml:"targets"` // the arguments that name recipients or destinations
	Dedupes     bool          `yaml:"dedupes"` // it deduplicates calls by the idempotency_key in the request's metadata

	Tidy []tool.StrategyDecl `yaml:"tidy"` // which earlier results a call makes obsolete
	Log  tool.LogDecl        `yaml:"log"`  // how the work log and questions describe calls
}

// actionRun is the default name of the tool in the form with one tool.
const actionRun = "run"

// Open is the tool.Opener of kind "process". Error codes: process_declaration_invalid,
// process_protocol_mcp, those of tool.CheckSpec and of decode.
func Open(env tool.Env, decode func(into any) error) (tool.Source, error) {
	var d Decl
	if err := decode(&d); err != nil {
		return nil, err
	}
	env, err := settle(env)
	if err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	if err := d.Program.check(env.Dir); err != nil {
		return nil, err
	}
	if d.Idle == 0 {
		d.Idle = DefaultIdle
	}
	s := &source{env: env, decl: d, specs: map[string]tool.Spec{}, runs: newRuns()}
	for _, t := range d.list() {
		spec, err := t.spec(env.Name, d.staysLocal())
		if err != nil {
			return nil, err
		}
		if _, twice := s.specs[spec.Name]; twice {
			return nil, badDecl("two tools are called %s", t.Name).WithHint("give one of them another name")
		}
		s.specs[spec.Name] = spec
		s.order = append(s.order, spec.Name)
	}
	s.keeper = &sandbox.Keeper[*session]{Start: s.start, Idle: d.Idle, Pause: firstPause, Spare: 1}
	return s, nil
}

// settle fills in the parts of an Env that may be left out.
func settle(env tool.Env) (tool.Env, error) {
	if env.Log == nil {
		env.Log = slog.New(slog.DiscardHandler)
	}
	for _, dir := range []*string{&env.Dir, &env.Data} {
		if *dir == "" {
			continue
		}
		whole, err := filepath.Abs(*dir)
		if err != nil {
			return env, fault.New(fault.Unavailable, "process_declaration_invalid", "cannot determine the path of the folder %s: %w", *dir, err)
		}
		*dir = whole
	}
	return env, nil
}

func badDecl(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "process_declaration_invalid", format, args...)
}

func (d *Decl) check() error {
	switch d.Protocol {
	case "", ProtocolEnvelope:
	case "mcp":
		return fault.New(fault.Invalid, "process_protocol_mcp", "an MCP server is not declared under process").
			WithHint("put it under mcp: with the same command")
	default:
		return badDecl("protocol is %.40q", d.Protocol).WithHint("it must be envelope; declare MCP servers under mcp:")
	}
	if d.Mode != "" && d.Mode != ModeOnce && d.Mode != ModeServe {
		return badDecl("mode is %.40q", d.Mode).WithHint("it must be once (a process per call) or serve (one for all)")
	}
	if d.Idle < 0 {
		return badDecl("idle is negative")
	}
	if d.Idle > 0 && d.Mode != ModeServe {
		return badDecl("idle needs a program that keeps running").WithHint("write mode: serve, or leave idle out")
	}
	single := d.Action != "" || !reflect.ValueOf(d.ToolBody).IsZero()
	switch {
	case single && len(d.Tools) > 0:
		return badDecl("there is a list of tools and one more tool outside it").WithHint("move description, input and effect into the list of tools")
	case !single && len(d.Tools) == 0:
		return badDecl("there are no tools").WithHint("write tools: with name, description, input and effect of each")
	}
	return nil
}

// list returns the tools of both forms of declaration as one list.
func (d *Decl) list() []ToolDecl {
	if len(d.Tools) > 0 {
		return d.Tools
	}
	action := d.Action
	if action == "" {
		action = actionRun
	}
	return []ToolDecl{{action, d.ToolBody}}
}

var goodName = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// spec returns the tool's spec, checked.
func (t *ToolDecl) spec(source string, stays bool) (tool.Spec, error) {
	if !goodName.MatchString(t.Name) {
		return tool.Spec{}, badDecl("%.80q is not a tool name", t.Name).
			WithHint("use a-z, 0-9 and single '_', beginning with a letter")
	}
	s := tool.Spec{Name: source + "." + t.Name, Description: strings.TrimSpace(t.Description), Effect: t.Effect, Asks: t.Asks,
		Async: t.Async, AsyncAfter: t.AsyncAfter, Timeout: t.Timeout, Dedupes: t.Dedupes, Origin: "process:" + source}
	if s.Effect == "" {
		s.Effect = tool.Action
	}
	if t.Timeout < 0 || t.AsyncAfter < 0 {
		return s, badDecl("%s: timeout and async_after cannot be negative", t.Name)
	}
	var err error
	if s.Input, err = schema(t.Input); err != nil {
		return s, badDecl("%s: input: %w", t.Name, err).WithHint(`give a JSON Schema: type: object, and its properties`)
	}
	flows, err := tool.Declare(t.Yields, t.Reach, nil, t.Name)
	if err != nil {
		return s, badDecl("%s: %w", t.Name, err)
	}
	if s.Tidy, err = tool.DeclaredTidy(source, t.Tidy, false); err != nil {
		return s, badDecl("%s: %w", t.Name, err)
	}
	if s.Log, err = t.Log.Spec(); err != nil {
		return s, badDecl("%s: %w", t.Name, err)
	}
	flows.Targets = t.Targets
	s.Flows(flows, stays)
	s, _, err = tool.CheckSpec(s)
	return s, err
}

// schema returns a schema as JSON.
func schema(in any) ([]byte, error) {
	if in == nil {
		return []byte(`{"type":"object"}`), nil
	}
	m, ok := in.(map[string]any)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	if _, typed := m["type"]; !typed {
		if _, has := m["properties"]; has {
			m["type"] = "object"
		}
	}
	return json.Marshal(m)
}

// staysLocal reports whether data given to the program cannot leave this machine.
func (p *Program) staysLocal() bool { return !p.Unsandboxed && p.Sandbox.IsLocalOnly() }
