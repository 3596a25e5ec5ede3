// Package intent defines the record of a side effect that was requested and may not have
// happened yet, and the state machine of that record.
package intent

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"steward/internal/id"
	"steward/internal/message"
)

// State is the state of an intent.
type State string

// The states. Proposed, Awaiting, Approved and Executing are in flight. The others are
// settled; of these, Unknown waits for a person to resolve it.
const (
	Proposed  State = "proposed"          // recorded, not yet authorized
	Awaiting  State = "awaiting_approval" // policy requires a person's approval
	Approved  State = "approved"          // may start, once
	Executing State = "executing"         // the effect may be happening or have happened
	Done      State = "done"
	Failed    State = "failed"    // it certainly did not happen, or the receiver refused it
	Unknown   State = "unknown"   // nobody knows whether it happened
	Denied    State = "denied"    // by policy or by a person
	Cancelled State = "cancelled" // withdrawn before it started
	Expired   State = "expired"   // nobody answered in time
)

// Intent is one side effect. Encode and Decode convert it to and from its stored form. Its
// State is also stored on the resource, so that intents in flight can be queried.
type Intent struct {
	Key       string      `json:"key"` // idempotency key, see Key
	Tool      string      `json:"tool"`
	Version   string      `json:"version,omitzero"` // the tool's
	Args      string      `json:"args"`             // canonical JSON: authorized, shown and executed
	ArgsHash  string      `json:"args_hash"`        // see HashArgs
	Call      message.Ref `json:"-"`
	User      string      `json:"user,omitzero"`
	Agent     string      `json:"agent,omitzero"`
	Request   id.ID       `json:"request,omitzero"`
	Deferred  bool        `json:"deferred,omitzero"` // performed when the run ends
	State     State       `json:"state"`
	Reason    string      `json:"reason,omitzero"` // why it is asked about, was denied, failed, …
	Created   time.Time   `json:"created,omitzero"`
	Expires   time.Time   `json:"expires,omitzero"` // of the question to a person
	Approval  *Approval   `json:"approval,omitzero"`
	DeniedBy  string      `json:"denied_by,omitzero"`  // the person who denied it
	DeniedVia string      `json:"denied_via,omitzero"` // the channel on which that person answered, as in Approval

	Lineage   []string       `json:"lineage,omitzero"`   // the agents on whose behalf Agent acts
	Labels    message.Labels `json:"labels,omitzero"`    // of everything the model was shown
	Rule      string         `json:"rule,omitzero"`      // the policy rule that decided
	Policy    string         `json:"policy,omitzero"`    // the policy's version
	Approvers string         `json:"approvers,omitzero"` // the group that is asked; empty: the user
	Mask      []string       `json:"mask,omitzero"`      // of the result, before anyone sees it: see policy.Obligations
	Cap       int            `json:"cap,omitzero"`       // likewise, in bytes; 0: the tool's own limit
	Fixed     bool           `json:"fixed,omitzero"`     // the call was fixed before anything untrusted was read: see policy.Flow
	Open      []string       `json:"open,omitzero"`      // JSON pointers to the parts that were not fixed
	Undoes    string         `json:"undoes,omitzero"`    // URI text of the intent that this one undoes
	Undone    string         `json:"undone,omitzero"`    // URI text of the intent that undid this one
	Retries   string         `json:"retries,omitzero"`   // URI text of the intent that this one retries
	Retried   string         `json:"retried,omitzero"`   // URI text of the intent that retried this one
	Dead      bool           `json:"dead,omitzero"`      // it ended badly, and needs someone's attention
	Resolved  *Resolution    `json:"resolved,omitzero"`  // a person's answer to whether an unknown effect happened
	Attempts  int            `json:"attempts,omitzero"`  // how often the execution was started
	// Result is the encoded tool result once the intent is settled, so that a crash between
	// the effect and the record of the conversation loses nothing.
	Result []byte `json:"-"`
}

// Approval is a person's recorded approval. It covers exactly what was shown.
type Approval struct {
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	ArgsHash string    `json:"args_hash"`
	Version  string    `json:"version"` // of the tool
	Expires  time.Time `json:"expires,omitzero"`
	Shown    string    `json:"shown,omitzero"`  // hash over everything the person was shown
	Grant    string    `json:"grant,omitzero"`  // URI text of the standing approval that gave it
	Edited   string    `json:"edited,omitzero"` // the arguments as they were before the person changed them
	Via      string    `json:"via,omitzero"`    // the channel on which the person answered; empty: a terminal or the API
}

// Resolution is a person's answer to whether an effect with an unknown outcome happened.
type Resolution struct {
	By   string    `json:"by"`
	At   time.Time `json:"at"`
	Done bool      `json:"done"`
	Note string    `json:"note,omitzero"`
}

// HashArgs returns the hash that binds an approval to canonical arguments: SHA-256 in hex.
func HashArgs(args []byte) string {
	sum := sha256.Sum256(args)
	return hex.EncodeToString(sum[:])
}

// Key derives the idempotency key of an effect from the tool, its canonical arguments and
// the identity of the call. The identity is CallIdentity for an inline call, and the URI
// text of the interaction for a deferred one, so that the same effect requested twice in
// one turn is one effect. The key never depends on anything that a model or a provider
// generates.
func Key(tool string, args []byte, identity string) string {
	return id.Derive("effect", identity, tool, string(args)).String()
}

// RetryKey derives the idempotency key of another attempt at an effect that certainly did
// not happen. It uses the key of the previous attempt and the URI text of the new intent,
// so two retries of one effect are two effects.
func RetryKey(key, uri string) string { return id.Derive("effect", "retry", key, uri).String() }

// CallIdentity returns the identity of one call: its message and block.
func CallIdentity(call message.Ref) string { return call.String() }
