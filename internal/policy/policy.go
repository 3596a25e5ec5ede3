// Package policy is the contract of whoever decides what may be done: what is
// asked, and what is answered. It knows no language in which policies are
// written.
package policy

import (
	"context"
	"slices"
	"time"

	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/tool"
)

// Verdict is a decision in a word.
type Verdict string

// The verdicts. Whatever is none of them means Deny.
const (
	Allow Verdict = "allow"
	Deny  Verdict = "deny"
	Ask   Verdict = "ask" // a person decides
)

// Point is a place at which is decided.
type Point string

// The points.
const (
	PointTool     Point = "tool"     // a tool is called: Tool, Args, Flow, Labels
	PointIntent   Point = "intent"   // an action is about to begin: likewise, once more
	PointAccess   Point = "access"   // Action on resources of Resource's type and space; Resource.URI only for a single one that is written or deleted
	PointAgent    Point = "agent"    // Resource, an agent or a source of tools, is to be approved by the user
	PointModel    Point = "model"    // what has Labels is to be sent to Model
	PointDelegate Point = "delegate" // Agent asks the agent Target
)

// Points returns all points.
func Points() []Point {
	return []Point{PointTool, PointIntent, PointAccess, PointAgent, PointModel, PointDelegate}
}

// The actions on resources.
const (
	Read   = "read"
	Write  = "write"
	Delete = "delete"
)

// The roles.
const (
	RoleAdmin   = "admin"   // decides about agents, people and policies
	RoleMember  = "member"  // who has none is one
	RoleGuest   = "guest"   // talks, and changes nothing
	RoleService = "service" // a program: nobody is there to be asked
)

// Principal is on whose behalf something is done.
type Principal struct {
	User   string
	Roles  []string
	Groups []string
}

// Has reports whether the principal has a role.
func (p Principal) Has(role string) bool { return slices.Contains(p.Roles, role) }

// Directory knows the people. Safe for concurrent use, and fast: it is asked
// at each decision.
type Directory interface {
	// Principal returns who a user is. Of a user of whom nothing is recorded,
	// it returns a member of no group; an error means that it cannot be told.
	Principal(ctx context.Context, user string) (Principal, error)
}

// Question is what is to be decided. Fields that a point has no use for are zero.
type Question struct {
	Point    Point // zero: PointTool
	User     string
	Agent    string   // the path of the agent that acts; empty: the node's own
	Lineage  []string // the agents on whose behalf it acts, the outermost first, itself not among them
	Tool     tool.Spec
	Args     []byte         // canonical JSON: the bytes that the executor will get
	Labels   message.Labels // of what the model was shown
	Flow     Flow
	Attended bool // a person is there who can be asked
	Action   string
	Resource Resource
	Model    Model
	Target   string
	Left     Left
	At       time.Time // zero: now
}

// Resource is a resource as policies see it.
type Resource struct {
	URI   resource.URI
	Type  string
	Space resource.Space
	resource.Metadata
}

// Model is a model as policies see it.
type Model struct {
	Provider string
	Name     string
	Local    bool // it runs on this machine or in its own network: what it is sent stays there
}

// Left is what the request may still spend; zero members have no bound.
type Left struct {
	Tokens int
	Cost   float64 // US dollars
}

// Flow says where a call and its arguments come from.
type Flow struct {
	// Fixed: the tool, and each argument, was fixed before anything untrusted
	// was read, or comes from a field that was named before.
	Fixed bool
	Open  []string // arguments that were not: JSON pointers; "" is the call itself
	Why   string   // in a person's words, where it is not Fixed
	// A person has been asked about a query of the same source in
	// this turn, and has said yes (Cleared) or no (Refused).
	Cleared, Refused bool
}

// Decision is the answer to a Question.
type Decision struct {
	Verdict Verdict
	Reason  string
	Rule    string // which rule decided
	Version string // of the policy; empty: it has none
	Obligations
}

// Obligations go with a decision that is not Deny. Who cannot meet one, denies.
type Obligations struct {
	Mask      []string // fields of a result or a resource's body that are replaced by "***": JSON pointers, "*" for any one step
	Cap       int      // bytes of a tool result that the model is shown at most; 0: as the tool says
	Approvers string   // a group, one of whose members answers in the user's stead; empty: the user
}

// Authorizer decides. Safe for concurrent use. An error, no answer in time and an
// unknown verdict all mean Deny.
type Authorizer interface {
	Authorize(ctx context.Context, q Question) (Decision, error)
}
