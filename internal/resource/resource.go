package resource

import (
	"strings"
	"time"

	"steward/internal/id"
)

// Space is the owner of a resource: "user:NAME", "group:NAME" or System.
type Space string

// System is the space of the node itself.
const System Space = "system"

// UserSpace returns the space of a user.
func UserSpace(user string) Space { return Space("user:" + user) }

// User returns the user whose own space it is.
func (s Space) User() (string, bool) { return strings.CutPrefix(string(s), "user:") }

// GroupSpace returns the space of a group, which its members can read.
func GroupSpace(group string) Space { return Space("group:" + group) }

// Metadata is the four-part description that search uses to find agents for
// tasks, tools for requests and memories for prompts.
type Metadata struct {
	Purpose       string `json:"purpose,omitempty"`
	Instructions  string `json:"instructions,omitempty"`
	Applicability string `json:"applicability,omitempty"`
	Evaluation    string `json:"evaluation,omitempty"`
}

// Description joins the parts into the one text that is embedded.
func (m Metadata) Description() string {
	var s string
	for _, p := range []string{m.Purpose, m.Applicability, m.Instructions, m.Evaluation} {
		if p == "" {
			continue
		}
		if s != "" {
			s += "\n"
		}
		s += p
	}
	return s
}

// Resource is one version of one resource, as the store returns it.
type Resource struct {
	URI     URI
	Space   Space
	Version uint64 // 1 for the first, counting up by one
	Seq     uint64 // of the log entry that wrote this version
	State   string // a word while work is in progress; empty when settled
	At      time.Time
	Body    []byte
}

// Op is the operation that a log entry records.
type Op uint8

// The operations. Do not renumber them: existing databases contain the numbers.
const (
	OpPut    Op = 1
	OpDelete Op = 2
	OpErase  Op = 3 // deleted, and the bodies of all versions are gone for good
)

// Entry is one entry of the log: one change of one resource.
type Entry struct {
	Seq     uint64
	At      time.Time
	Space   Space
	Actor   string // a user's name, "agent:NAME" or "system"
	Request id.ID
	Op      Op
	URI     URI
	Version uint64
	State   string
	Body    []byte // nil for a deletion, or if erased since
}
