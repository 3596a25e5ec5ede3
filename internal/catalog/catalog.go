// Package catalog finds agents in folders and sources in the settings, has a person approve them
// once, and provides those that may be used.
//
// A scan reads the folders into units: an agent or a source, with the bytes of everything that
// determines what it does. Nothing of a unit is started before it is approved, except to inspect it:
// then its sources announce their tools. An inspection lists files and tools as items with a hash
// over all of them. An approval names that hash, so it covers what was shown and nothing else. It is
// stored as a resource (agent.Agent, tool.Source), and each decision is a version of it.
//
// An approved unit gets a grant, which every call of its tools and hooks checks. The grant ends when
// the approval is withdrawn, a byte of the unit changes, or the agent above loses its own. Programs
// run from a snapshot, a copy of the approved bytes. If a source announces other tools than the
// approved ones, the unchanged tools stay available; new and changed ones are disabled until they are approved.
//
// The usable units form a Tree, an immutable value that is replaced at each change.
package catalog

import (
	"context"
	"encoding/json"
	"time"

	"steward/internal/llm"
	"steward/internal/resource"
	"steward/internal/service"
	"steward/internal/tool"
)

// Tree holds everything that may be used at one moment. It is immutable.
type Tree struct {
	Version uint64 // increases with every change
	Root    *Agent
	ByPath  map[string]*Agent // "personal_assistant/email"; the root is under ""
}

// Agent is an agent that may be used: it and all agents above it are approved and valid.
// Immutable.
type Agent struct {
	Path        string // names from the top, joined by "/"; empty: the root level
	Name        string
	Description string // for the level above: what it does, its capabilities and examples
	Version     string // its own version and the beginning of its hash; a run pins it
	Prompt      string // with its skills and the AGENTS.md beside it
	Model       string // an alias or "provider/model"; empty: that of the agent above
	Sampling    llm.Sampling
	Limits      Limits
	Parameters  []byte // JSON Schema of the arguments of NAME.ask; nil: one text, "request"
	Examples    []Example
	Metadata    resource.Metadata // without a purpose of its own, the definition's description is the purpose
	Config      json.RawMessage   // the definition's config, as JSON
	Services    service.Configs
	Bindings    service.Bindings       // its services, resolved through the levels above
	Hooks       map[string][]tool.Hook // by place (tool.BeforeRequest, …)
	Persona     bool                   // may take over a running conversation
	Dir         string

	// Tools are those of the agent's own level: the tools that its own sources offer and the
	// node's tools that it names. Child agents are not among them. The root level's list has only
	// the tools that the settings name.
	Tools    *tool.Registry
	Uses     []string // names and globs of the node's own tools that it may use, as Registry.Select takes them; none: none
	Deferred []string // names and globs of those of its tools whose actions are performed when the turn ends
	Children []*Agent // sorted by name

	Checks []Check // what the heartbeat of its users looks at
}

// Limits bound a run of an agent. Zero values mean the node's limits.
type Limits struct {
	Iterations int           `yaml:"iterations"`
	Time       time.Duration `yaml:"time"`
	Tokens     int64         `yaml:"tokens"`
	Cost       float64       `yaml:"cost"` // US dollars
}

// Check is a query whose result the heartbeat compares with the last one, without a model.
type Check struct {
	Name  string          `yaml:"name"`
	Query string          `yaml:"query"` // one of the agent's tools
	Args  json.RawMessage `yaml:"args"`
	Part  string          `yaml:"part"` // a JSON pointer (RFC 6901) to the part of the result that counts; empty: all of it
}

// maxChecks bounds the checks of an agent.
const maxChecks = 20

// Example is an utterance for the agent, and what a run of it should show.
type Example struct {
	Say    string   `yaml:"say" json:"say"`
	Tools  []string `yaml:"tools" json:"tools,omitzero"`   // called, in this order, among others
	Expect string   `yaml:"expect" json:"expect,omitzero"` // part of the answer, case ignored; empty: any answer
}

// Status says whether an agent or a source of the settings is approved.
type Status string

// The statuses.
const (
	Pending  Status = "pending"  // no decision yet, or it has changed since
	Approved Status = "approved" // as it is now
	Denied   Status = "denied"
	Revoked  Status = "revoked"
	Invalid  Status = "invalid" // see Problems
)

// Kinds of listings.
const (
	KindAgent  = "agent"  // a folder
	KindSource = "source" // an MCP server or a gRPC endpoint that the settings name: "mcp:NAME", "grpc:NAME"
)

// Listing describes an agent or a source as found, whether it may be used or not.
type Listing struct {
	Path        string         `json:"path"`
	Kind        string         `json:"kind"`
	Description string         `json:"description,omitzero"`
	Version     string         `json:"version,omitzero"`
	Status      Status         `json:"status"`
	Changed     bool           `json:"changed,omitzero"` // pending because it differs from what was approved
	Usable      bool           `json:"usable"`           // approved, and so are all agents above it
	Hash        string         `json:"hash,omitzero"`    // of the current content, and of the announced tools if they are known
	Static      string         `json:"static,omitzero"`  // of only the part that is known without starting anything
	By          string         `json:"by,omitzero"`      // who decided
	At          time.Time      `json:"at,omitzero"`
	Reason      string         `json:"reason,omitzero"`
	Tools       []string       `json:"tools,omitzero"`
	Waiting     []string       `json:"waiting,omitzero"` // if approved: tools that are new or different, and disabled until they are approved
	Gone        []string       `json:"gone,omitzero"`    // if approved: tools that are no longer announced
	Problems    []Problem      `json:"problems,omitzero"`
	Dir         string         `json:"dir,omitzero"`
	Examples    []Example      `json:"examples,omitzero"`
	Jobs        map[string]Job `json:"jobs,omitzero"`

	// Settings are a person's changes to what the source proposes for its tools; set if approved.
	Settings map[string]ToolSetting `json:"settings,omitempty"`
}

// Problem is a fault of a definition.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitzero"`
	Column  int    `json:"column,omitzero"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitzero"`
}

// Inspection is everything that an approval covers.
type Inspection struct {
	Listing
	// Hash is over all Items. An approval names it.
	Hash  string `json:"hash"`
	Items []Item `json:"items"`
	// Diff shows the changes since the last approval as a unified diff, in which control and
	// bidirectional characters are written out. It is empty if nothing was approved before.
	Diff string `json:"diff,omitzero"`
	// Warnings are what a person should look at: hidden characters, words in a tool's description
	// that address the model, names that resemble others.
	Warnings []string `json:"warnings,omitzero"`
	// Data describes how the tools' labels and targets are proposed. An approval accepts them
	// all, except where its settings say otherwise.
	Data string `json:"data,omitzero"`
}

// Item is one thing that is approved: a file, a tool.
type Item struct {
	Name string `json:"name"` // "agent.yaml", "PROMPT.md", "tool files.read", "file weather.py"
	Hash string `json:"hash"`
	Text string `json:"text,omitzero"` // as shown; long files by their hash only
}

// ToolSetting is what a person changes about a tool when approving it.
type ToolSetting struct {
	Effect tool.Effect `json:"effect,omitzero"`
	Asks   *bool       `json:"asks,omitzero"`
	Off    bool        `json:"off,omitzero"` // the model does not get the tool

	Yields  *[]string  `json:"yields,omitzero"`  // labels of what it returns
	Reach   tool.Reach `json:"reach,omitzero"`   // where its arguments go: here or out
	Targets *[]string  `json:"targets,omitzero"` // the arguments that name recipients or destinations
}

// Approver decides about agents and sources, for the servers. Paths are those of listings. Error
// codes: agent_not_found, agent_invalid, agent_changed (Conflict: the hash differs from that of
// what is there now), agent_denied, and those of the store.
type Approver interface {
	List(ctx context.Context) ([]Listing, error)
	// Listings is List as of the last reading; it reads nothing.
	Listings() []Listing
	// Inspect starts what must run in order to learn what it announces.
	Inspect(ctx context.Context, path string) (Inspection, error)
	Approve(ctx context.Context, by, path, hash string, set map[string]ToolSetting) (Listing, error)
	Deny(ctx context.Context, by, path, reason string) (Listing, error)
	Revoke(ctx context.Context, by, path, reason string) (Listing, error)
}
