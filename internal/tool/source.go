package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"

	"steward/internal/fault"
)

// Source is something outside of Steward that offers tools: an MCP server, a gRPC service, a
// program, a domain. Its announcement is only a proposal; Steward never calls a tool that a
// person has not approved. Safe for concurrent use.
type Source interface {
	// Announce returns the tools offered now. It connects to or starts whatever it needs. Call it
	// only for a source that a person has allowed to start.
	Announce(ctx context.Context) (Announcement, error)

	// Tool returns the callable of an approved spec that Announce has returned before (a person
	// may have changed its effect and Asks since). It does not connect; the first call does. If
	// the source no longer offers the tool, or offers it differently than approved (Identity), a
	// call is refused by Env.Refuse, or with tool_unavailable after Env.Changed was called. If
	// the source cannot be reached, the error is Unavailable, and NotDone if nothing was sent.
	Tool(spec Spec) Tool

	// Files returns the absolute paths of the files that determine what the source does
	// (programs, .proto files). An approval pins their content.
	Files() []string

	// Close closes connections and ends programs, including their children.
	Close() error
}

// Coded is a source or a hook whose program loads code that its declaration does not name file by file.
type Coded interface {
	Code() Code
}

// Code is what is known of code that a program loads.
type Code struct {
	Folders  []string // where it lies, by absolute path
	Loose    []string // what an approval cannot pin, in words
	Installs bool     // the program installs packages into these folders itself
}

// IsCode reports whether the name of a file is that of code, which an interpreter or a program loads.
func IsCode(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".node", ".wasm", ".py", ".pyc", ".pyd", ".pth", ".rb", ".sh", ".bash", ".pl", ".pm",
		".php", ".lua", ".jar", ".class", ".so", ".dylib", ".dll":
		return true
	}
	return filepath.Base(name) == "package.json" // says which of the others are loaded
}

// OriginOwn is the Origin of tools over an agent's own state and database: their changes affect
// only the agent.
const OriginOwn = "own"

// Announcement is what a source offers.
type Announcement struct {
	Specs []Spec // full names, Origin set
	// Refused says which tools cannot be used, and why, as coded errors.
	Refused []error
}

// Env is what the level that a source belongs to provides to it.
type Env struct {
	Name  string // its name on its level: the first word of its tools' names
	Agent string // path of the agent that it belongs to; empty: the node's own level
	Dir   string // the agent's folder, the base of relative paths; empty: the settings name it, paths are absolute
	Data  string // a private folder that it may create and write in; kept across restarts
	// Config is the config of the agent's definition, as JSON; empty: it has none.
	Config json.RawMessage
	// Hide are folders and files that no program of the source may see, except for Data: Steward's
	// data folder and settings.
	Hide []string
	// Snapshot returns, by absolute path, the approved copies from which programs run: one of
	// Dir, and one of each of Files that lies elsewhere. If it is nil, programs run from their
	// own place.
	Snapshot func() (map[string]string, error)
	// Secret returns a secret by name, if the agent declares that it needs it.
	Secret func(name string) (string, bool)
	// Services returns the variables (NAME=value) through which a program reaches the services
	// that the agent offers it, for one call or for the lifetime of the program. release ends
	// them. May be nil.
	Services func(ctx context.Context) (env []string, release func(), err error)
	// Changed reports that the source may now announce something other than what was approved. It
	// returns at once. May be nil.
	Changed func()
	Log     *slog.Logger // never nil
}

// Audience returns who may use a source that names users and groups. If it names none, a source
// of the settings belongs to OwnUser, and one of an agent to everybody.
func (e Env) Audience(users, groups []string) *Audience {
	if e.Dir != "" && len(users)+len(groups) == 0 {
		return nil
	}
	return OwnedBy(users, groups)
}

// Refuse returns the error for a call of a tool that is no longer offered as approved; why says
// what differs. It also calls Changed.
func (e Env) Refuse(name, why string) error {
	if e.Changed != nil {
		e.Changed()
	}
	return NotDone(fault.New(fault.Denied, "tool_changed", "%s was not called: %s", name, why).
		WithHint("review what has changed, and approve it if it is correct").Detail("tool", name))
}

// Opener makes a source from its declaration without connecting to or starting anything. decode
// reads the declaration strictly into a struct with yaml tags; its errors name file, line and
// remedy.
type Opener func(env Env, decode func(into any) error) (Source, error)

// Fingerprint returns a hash over everything that a person approves about a tool: what the model
// is shown, what the tool does, when it asks. SHA-256, hex.
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
		Log               *LogSpec   `json:",omitempty"`
	}{s.Name, s.Description, string(s.Input), s.Effect, s.Delivery, s.Asks, s.Async, uint8(s.Yields), s.Reach, s.Targets, s.For,
		s.Foreign() && s.Dedupes, s.FullName, s.Status, s.declaredTidy(), s.declaredLog()})
	if err != nil {
		panic(err) // plain values: cannot fail
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Identity identifies a tool across its announced and its approved spec. It covers everything
// except what a person may change; what the source itself says about those fields goes into
// Version.
func Identity(s Spec) string {
	s.Effect, s.Delivery, s.Asks = "", "", false
	s.Yields, s.Reach, s.Targets = 0, "", nil
	return s.Version + " " + Fingerprint(s)
}

// Foreign reports whether a tool comes from outside of Steward, so that its description of itself
// is only a proposal.
func (s Spec) Foreign() bool {
	kind, _, _ := strings.Cut(s.Origin, ":")
	return kind == "mcp" || kind == "grpc" || kind == "process"
}

func (s Spec) declaredLog() *LogSpec {
	l := s.Log
	if !s.Foreign() || l.Summary == "" && len(l.Parameters)+len(l.Secret)+len(l.Impact) == 0 {
		return nil
	}
	return &l
}

func (s Spec) declaredTidy() []Strategy {
	if s.Foreign() {
		return s.Tidy
	}
	return nil
}

// The points of a turn at which hooks are called, in order.
const (
	BeforeRequest = "before_request" // Text: what was asked. May refuse, or add a note for the model
	BeforeModel   = "before_model"   // may refuse, or add a note
	AfterModel    = "after_model"    // Text: what the model wrote. May refuse, which ends the run
	BeforeTool    = "before_tool"    // Tool, Args. May refuse, or narrow the arguments, which are then checked and judged again
	AfterTool     = "after_tool"     // Tool, Args, Text: the result. May replace the text
	AfterRequest  = "after_request"  // Text: the answer. Only notified
)

// Hook is a program of an agent that is called around the agent's steps. It can refuse, narrow
// and annotate; no answer widens what the agent may do. An error of a hook refuses the step,
// except at AfterRequest.
type Hook interface {
	Fire(ctx context.Context, ev HookEvent) (HookAnswer, error)
}

// HookEvent is the step that a hook is called for.
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

// HookAnswer is a hook's answer. The zero value lets the step proceed unchanged.
type HookAnswer struct {
	Refuse string          `json:"refuse,omitempty"` // why the step is refused
	Note   string          `json:"note,omitempty"`   // for the model
	Args   json.RawMessage `json:"args,omitempty"`   // BeforeTool: replaces the arguments
	Text   *string         `json:"text,omitempty"`   // AfterTool: replaces the result's text
}

// HookOpener makes a hook from its declaration.
type HookOpener func(env Env, decode func(into any) error) (HookSource, error)

// HookSource is a Hook together with the files that determine what it does.
type HookSource interface {
	Hook
	Files() []string
	Close() error
}
