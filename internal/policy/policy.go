// Package policy is the contract of the judge: what is asked before anything
// is read, called or changed, and what comes back. It holds the fixed judge
// that needs no configuration.
package policy

import (
	"context"

	"steward/internal/message"
	"steward/internal/tool"
)

// Verdict is a judge's answer.
type Verdict string

// The verdicts. Anything else, an error included, counts as Deny.
const (
	Allow Verdict = "allow"
	Deny  Verdict = "deny"
	Ask   Verdict = "ask" // a person decides
)

// Question is a tool call to be judged.
type Question struct {
	User     string
	Agent    string
	Tool     tool.Spec
	Args     []byte // canonical JSON: the bytes that the executor will get
	Labels   message.Labels
	Attended bool // a person is there who can be asked
}

// Decision is the answer with its reason, for the model and the record.
type Decision struct {
	Verdict Verdict
	Reason  string
	Rule    string // which rule decided
}

// Judge decides. Safe for concurrent use.
type Judge interface {
	Judge(ctx context.Context, q Question) (Decision, error)
}
