package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"strings"

	"steward/internal/fault"
)

// Source is something outside of Steward that offers tools: an MCP server, a
// gRPC service, a program, a domain. What it announces is a proposal; only
// what a person has approved is ever called. Safe for concurrent use.
type Source interface {
	// Announce returns what is offered now. It connects or starts what has to
	// be. Call it only for a source that a person has allowed to be started.
	Announce(ctx context.Context) (Announcement, error)

	// Tool returns the callable of an approved spec, which Announce once
	// returned (the effect and Asks perhaps set otherwise by a person). It
	// does not connect; the first call does. A call of a tool that the source
	// does not offer any more, or offers otherwise than approved (Identity), is
	// refused by Env.Refuse, or with tool_unavailable after Env.Changed was
	// called; one of a source that cannot be reached is Unavailable, and NotDone
	// where nothing was sent.
	Tool(spec Spec) Tool

	// Files returns the absolute paths of the files that decide what the
	// source does (programs, .proto files): an approval pins their content.
	Files() []string

	// Close ends connections and programs, children included.
	Close() error
}

// OriginOwn is the Origin of tools over an agent's own state and database:
// what they change is nobody's but the agent's.
const OriginOwn = "own"

// Announcement is what a source offers.
type Announcement struct {
	Specs []Spec // full names, Origin set
	// Refused are tools that cannot be used, and why: coded errors.
	Refused []error
}

// Env is what a source is given by the level that it belongs to.
type Env struct {
	Name  string // its name on its level: the first word of its tools' names
	Agent string // path of the agent that it belongs to; empty: the node's own level
	Dir   string // the agent's folder, where relative paths begin; empty: the settings name it, paths are absolute
	Data  string // a private folder that it may make and write in; kept over restarts
	// Hide are folders that no program of the source may see, but for Data:
	// Steward's data folder.
	Hide []string
	// Snapshot returns, by absolute path, the copies from which programs are to
	// run: Dir, and each of Files that lies elsewhere, as they were approved.
	// nil: they are run where they lie.
	Snapshot func() (map[string]string, error)
	// Secret returns a secret that the agent declares to need, by name.
	Secret func(name string) (string, bool)
	// Services returns the variables (NAME=value) by which a program reaches
	// the services that the agent offers it, for one call or one life of the
	// program; release ends them. May be nil.
	Services func(ctx context.Context) (env []string, release func(), err error)
	// Changed says that what the source announces may not be what was
	// approved. It returns at once. May be nil.
	Changed func()
	Log     *slog.Logger // never nil
}

// Audience returns who may use a source that names users and groups. Without
// any, a source of the settings is OwnUser's, and one of an agent everybody's.
func (e Env) Audience(users, groups []string) *Audience {
	if e.Dir != "" && len(users)+len(groups) == 0 {
		return nil
	}
	return OwnedBy(users, groups)
}

// Refuse is the error of a call of a tool that is not offered as it was
// approved; why says what is otherwise. It tells Changed of that.
func (e Env) Refuse(name, why string) error {
	if e.Changed != nil {
		e.Changed()
	}
	return NotDone(fault.New(fault.Denied, "tool_changed", "%s is not called: %s", name, why).
		WithHint("look at what has changed, and approve it if it is right").Detail("tool", name))
}

// Opener makes a source from its declaration without connecting or starting
// anything. Decode reads the declaration strictly into a struct with yaml
// tags; its errors name file, line and remedy.
type Opener func(env Env, decode func(into any) error) (Source, error)

// Fingerprint returns a hash over everything about a tool that a person
// approves: what the model is shown, what it does, when it asks. SHA-256, hex.
func Fingerprint(s Spec) string {
	b, err := json.Marshal(struct {
		Name, Description string
		Input             string
		Effect            Effect
		Delivery          Delivery
		Asks, Async       bool
		Yields            uint8
		Reach             Reach      `json:",omitzero"`
		Targets           []string   `json:",omitempty"`
		For               *Audience  `json:",omitempty"`
		Dedupes           bool       `json:",omitzero"`
		FullName          string     `json:",omitzero"`
		Status            string     `json:",omitzero"`
		Tidy              []Strategy `json:",omitempty"`
	}{s.Name, s.Description, string(s.Input), s.Effect, s.Delivery, s.Asks, s.Async, uint8(s.Yields), s.Reach, s.Targets, s.For,
		s.Foreign() && s.Dedupes, s.FullName, s.Status, s.declaredTidy()})
	if err != nil {
		panic(err) // plain values: cannot fail
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Identity is what the announced spec of a tool and the approved one have in
// common as long as it is the same tool: all but what a person may set
// otherwise. What the source itself says of that goes into Version.
func Identity(s Spec) string {
	s.Effect, s.Delivery, s.Asks = "", "", false
	s.Yields, s.Reach, s.Targets = 0, "", nil
	return s.Version + " " + Fingerprint(s)
}

// Foreign reports whether a tool comes from outside of Steward, so that what
// it says of itself is a proposal.
func (s Spec) Foreign() bool {
	kind, _, _ := strings.Cut(s.Origin, ":")
	return kind == "mcp" || kind == "grpc" || kind == "process"
}

func (s Spec) declaredTidy() []Strategy {
	if s.Foreign() {
		return s.Tidy
	}
	return nil
}

// The places at which hooks are called, in the order of a turn.
const (
	BeforeRequest = "before_request" // Text: what was asked. May refuse, or add a note for the model
	BeforeModel   = "before_model"   // may refuse, or add a note
	AfterModel    = "after_model"    // Text: what the model wrote. May refuse: the run ends
	BeforeTool    = "before_tool"    // Tool, Args. May refuse, or narrow the arguments: they are checked and judged again
	AfterTool     = "after_tool"     // Tool, Args, Text: the result. May replace the text
	AfterRequest  = "after_request"  // Text: the answer. Is only told
)

// Hook is a program of an agent that is called around its steps. It can
// refuse, narrow and annotate; nothing that it answers widens what the agent
// may do. An error of a hook refuses the step, but for AfterRequest.
type Hook interface {
	Fire(ctx context.Context, ev HookEvent) (HookAnswer, error)
}

// HookEvent is the step that a hook is told of.
type HookEvent struct {
	On      string          `json:"on"`
	Agent   string          `json:"agent"`
	User    string          `json:"user"`
	Request string          `json:"request_id"`
	Parent  string          `json:"parent_request_id,omitempty"`
	Text    string          `json:"text,omitempty"`
	Tool    string          `json:"tool,omitempty"`
	Args    json.RawMessage `json:"args,omitempty"`
}

// HookAnswer is what a hook says to it. The zero value lets the step be.
type HookAnswer struct {
	Refuse string          `json:"refuse,omitempty"` // why the step is not to be
	Note   string          `json:"note,omitempty"`   // for the model
	Args   json.RawMessage `json:"args,omitempty"`   // BeforeTool: in place of the arguments
	Text   *string         `json:"text,omitempty"`   // AfterTool: in place of the result's text
}

// HookOpener makes a hook from its declaration.
type HookOpener func(env Env, decode func(into any) error) (HookSource, error)

// HookSource is a Hook with the files that decide what it does.
type HookSource interface {
	Hook
	Files() []string
	Close() error
}
