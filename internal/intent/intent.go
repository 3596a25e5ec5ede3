// Package intent is the record of a side effect that has been decided and
// perhaps not yet done, and the machine of its states.
package intent

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"steward/internal/id"
	"steward/internal/message"
)

// State is where an intent stands.
type State string

// The states. Proposed, Awaiting, Approved and Executing are in flight; the
// others are settled, of which Unknown waits for a person to resolve it.
const (
	Proposed  State = "proposed"          // recorded, not yet judged
	Awaiting  State = "awaiting_approval" // policy wants a person's word
	Approved  State = "approved"          // may start, once
	Executing State = "executing"         // the effect may be happening or have happened
	Done      State = "done"
	Failed    State = "failed"    // it certainly did not happen, or the receiver refused it
	Unknown   State = "unknown"   // nobody knows whether it happened
	Denied    State = "denied"    // by policy or by a person
	Cancelled State = "cancelled" // withdrawn before it started
	Expired   State = "expired"   // nobody answered in time
)

// Intent is one side effect. Encode and Decode are its stored form; its State
// rides on the resource as well, so that those in flight are found.
type Intent struct {
	Key      string      `json:"key"` // idempotency key, see Key
	Tool     string      `json:"tool"`
	Version  string      `json:"version,omitzero"` // the tool's
	Args     string      `json:"args"`             // canonical JSON: judged, shown and executed
	ArgsHash string      `json:"args_hash"`        // see HashArgs
	Call     message.Ref `json:"-"`
	CallID   string      `json:"call_id,omitzero"` // the provider's id of the call
	User     string      `json:"user,omitzero"`
	Agent    string      `json:"agent,omitzero"`
	Request  id.ID       `json:"request,omitzero"`
	Deferred bool        `json:"deferred,omitzero"` // processed when the run ends
	State    State       `json:"state"`
	Reason   string      `json:"reason,omitzero"` // why it is asked, was denied, failed, …
	Created  time.Time   `json:"created,omitzero"`
	Expires  time.Time   `json:"expires,omitzero"` // of the question to a person
	Approval *Approval   `json:"approval,omitzero"`
	DeniedBy string      `json:"denied_by,omitzero"` // the person who denied it

	Lineage   []string       `json:"lineage,omitzero"`   // the agents on whose behalf Agent acts
	Labels    message.Labels `json:"labels,omitzero"`    // of what the model was shown
	Rule      string         `json:"rule,omitzero"`      // of the policy, that decided
	Policy    string         `json:"policy,omitzero"`    // the policy's version
	Approvers string         `json:"approvers,omitzero"` // the group that is asked; empty: the user
	Mask      []string       `json:"mask,omitzero"`      // of the result, before anybody is shown it: see policy.Obligations
	Cap       int            `json:"cap,omitzero"`       // likewise, in bytes; 0: as the tool says
	Fixed     bool           `json:"fixed,omitzero"`     // the call was fixed before anything untrusted was read: see policy.Flow
	Open      []string       `json:"open,omitzero"`      // what of it was not: JSON pointers
	Undoes    string         `json:"undoes,omitzero"`    // URI text of the intent that this one takes back
	Undone    string         `json:"undone,omitzero"`    // URI text of the intent that took this one back
	Retries   string         `json:"retries,omitzero"`   // URI text of the intent that this one tries again
	Retried   string         `json:"retried,omitzero"`   // URI text of the intent that tried this one again
	Dead      bool           `json:"dead,omitzero"`      // it ended badly, and nobody does anything about it by themselves
	Resolved  *Resolution    `json:"resolved,omitzero"`  // a person's word about what was unknown
	Attempts  int            `json:"attempts,omitzero"`  // how often the execution was started
	// Result is the encoded tool result once it is settled, so that a crash
	// between the effect and the conversation's record loses nothing.
	Result []byte `json:"-"`
}

// Approval is a person's recorded word. It binds exactly what was shown.
type Approval struct {
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	ArgsHash string    `json:"args_hash"`
	Version  string    `json:"version"` // of the tool
	Expires  time.Time `json:"expires,omitzero"`
	Shown    string    `json:"shown,omitzero"`  // hash over all that the person was shown
	Grant    string    `json:"grant,omitzero"`  // URI text of the standing approval by which it was given
	Edited   string    `json:"edited,omitzero"` // the arguments as they were before the person changed them
}

// Resolution is a person's word about whether an effect happened that nobody
// could tell of.
type Resolution struct {
	By   string    `json:"by"`
	At   time.Time `json:"at"`
	Done bool      `json:"done"`
	Note string    `json:"note,omitzero"`
}

// HashArgs is the hash by which an approval binds canonical arguments: SHA-256, hex.
func HashArgs(args []byte) string {
	sum := sha256.Sum256(args)
	return hex.EncodeToString(sum[:])
}

// Key derives the idempotency key of an effect from the tool, its canonical
// arguments and the identity of the call: CallIdentity for an inline one; the
// URI text of the interaction for a deferred one, so that the same effect asked
// for twice in one turn is one effect. It never depends on anything that a
// model or a provider mints.
func Key(tool string, args []byte, identity string) string {
	return id.Derive("effect", identity, tool, string(args)).String()
}

// RetryKey derives the idempotency key of another attempt at an effect that
// certainly did not happen, from the key of the one before it and the URI text
// of its own intent: what was queued twice, and tried again twice, is two.
func RetryKey(key, uri string) string { return id.Derive("effect", "retry", key, uri).String() }

// CallIdentity is the identity of one call: its message and block.
func CallIdentity(call message.Ref) string { return call.String() }
