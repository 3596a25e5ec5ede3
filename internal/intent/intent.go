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
	Key      string // idempotency key, see Key
	Tool     string
	Version  string // the tool's
	Args     string // canonical JSON: judged, shown and executed
	ArgsHash string // see HashArgs
	Call     message.Ref
	CallID   string // the provider's id of the call
	User     string
	Agent    string
	Request  id.ID
	Deferred bool // processed when the run ends
	State    State
	Reason   string // why it is asked, was denied, failed, …
	Created  time.Time
	Expires  time.Time // of the question to a person
	Approval *Approval
	DeniedBy string // the person who denied it
	Attempts int    // how often the execution was started
	// Result is the encoded tool result once it is settled, so that a crash
	// between the effect and the conversation's record loses nothing.
	Result []byte
}

// Approval is a person's recorded word. It binds exactly what was shown.
type Approval struct {
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	ArgsHash string    `json:"args_hash"`
	Version  string    `json:"version"` // of the tool
	Expires  time.Time `json:"expires,omitzero"`
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

// CallIdentity is the identity of one call: its message and block.
func CallIdentity(call message.Ref) string { return call.String() }
