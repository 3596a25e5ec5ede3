// Package policy is the contract between Steward and an authorizer, which decides what may be
// done: the questions, and the answers. It knows no policy language.
package policy

import (
	"context"
	"slices"
	"time"

	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/tool"
)

// Verdict is the outcome of a decision.
type Verdict string

// The verdicts. Any other value means Deny.
const (
	Allow Verdict = "allow"
	Deny  Verdict = "deny"
	Ask   Verdict = "ask" // a person decides
)

// Point is a point in the runtime at which a decision is made.
type Point string

// The points.
const (
	PointTool     Point = "tool"     // a tool is called: Tool, Args, Flow, Labels
	PointIntent   Point = "intent"   // an action is about to begin: the same fields, decided once more
	PointAccess   Point = "access"   // Action on resources of Resource's type and space; Resource.URI is set only if a single one is written or deleted
	PointAgent    Point = "agent"    // the user is to approve Resource, an agent or a source of tools
	PointModel    Point = "model"    // data with Labels is to be sent to Model
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
	RoleAdmin   = "admin"   // manages other users
	RoleMember  = "member"  // the role of everybody without another one
	RoleGuest   = "guest"   // may talk, but changes nothing
	RoleService = "service" // a program: there is nobody to ask
)

// Principal is the user on whose behalf something is done.
type Principal struct {
	User   string
	Roles  []string
	Groups []string
}

// Has reports whether the principal has a role.
func (p Principal) Has(role string) bool { return slices.Contains(p.Roles, role) }

// Directory knows the users. Safe for concurrent use, and fast: every decision asks it.
type Directory interface {
	// Principal returns who a user is. A user with no record is a member of no group. An error
	// means that the answer is unknown.
	Principal(ctx context.Context, user string) (Principal, error)
}

// Question describes what is to be decided. Fields that do not apply to a point are zero.
type Question struct {
	Point    Point // zero: PointTool
	User     string
	Agent    string   // the path of the agent that acts; empty: the node's own
	Lineage  []string // the agents on whose behalf it acts, outermost first, without itself
	Tool     tool.Spec
	Args     []byte         // canonical JSON: the bytes that the executor will get
	Labels   message.Labels // of what the model was shown
	Flow     Flow
	Attended bool // a person is present who can be asked
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
	Local    bool // it runs on this machine or in its own network, so data sent to it stays there
}

// Left is what the request may still spend; zero members are unlimited.
type Left struct {
	Tokens int
	Cost   float64 // US dollars
}

// Flow says where a call and its arguments come from.
type Flow struct {
	// Fixed says that the tool and each argument either was fixed before anything untrusted was
	// read, or comes from a field that was named before.
	Fixed bool
	Open  []string // arguments that were not fixed: JSON pointers; "" is the call itself
	Why   string   // for a person: why it is not Fixed
	To    string   // of queries that reach outside: where it goes, such as "example.org" or "web.search"
	// Cleared and Refused: in this turn a person was asked about a query that goes to the same
	// place, and said yes or no.
	Cleared, Refused bool
}

// Decision is the answer to a Question.
type Decision struct {
	Verdict Verdict
	Reason  string
	Rule    string // the rule that decided
	Version string // of the policy; empty: it has none
	Always  bool   // it is a Deny of a rule that does not look at the arguments
	Obligations
}

// Obligations accompany a decision that is not Deny. A caller that cannot fulfil one must deny.
type Obligations struct {
	Mask      []string // fields of a result or a resource's body to replace by "***": JSON pointers, "*" for any one step
	Cap       int      // the most bytes of a tool result that the model is shown; 0: as the tool's spec says
	Approvers string   // a group whose members answer instead of the user; empty: the user answers
}

// Authorizer decides. It is safe for concurrent use, returns in bounded time, and does not panic.
// An error and an unknown verdict mean Deny.
type Authorizer interface {
	Authorize(ctx context.Context, q Question) (Decision, error)
}
