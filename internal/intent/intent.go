// Package intent is the record of a side effect that has been decided and
// perhaps not yet done, and the machine of its states.
package intent

import (
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

// Intent is one side effect. It is stored as JSON; its State rides on the
// resource as well, so that those in flight are found.
type Intent struct {
	Key      string      `json:"key"` // idempotency key, see Key
	Tool     string      `json:"tool"`
	Version  string      `json:"version"`   // the tool's
	Args     string      `json:"args"`      // canonical JSON: judged, shown and executed
	ArgsHash string      `json:"args_hash"` // SHA-256 of Args, hex
	Call     message.Ref `json:"-"`
	User     string      `json:"user"`
	Agent    string      `json:"agent,omitzero"`
	Request  id.ID       `json:"-"`
	State    State       `json:"state"`
	Reason   string      `json:"reason,omitzero"` // why it was denied, failed, …
	Created  time.Time   `json:"created"`
	Expires  time.Time   `json:"expires,omitzero"` // of the question to a person
	Approval *Approval   `json:"approval,omitzero"`
	Attempts int         `json:"attempts,omitzero"`
	// Result is the encoded tool result once Done or Failed, so that a crash
	// between the effect and the conversation's record loses nothing.
	Result []byte `json:"result,omitzero"`
}

// Approval is a person's recorded word. It binds exactly what was shown.
type Approval struct {
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	ArgsHash string    `json:"args_hash"`
	Version  string    `json:"version"` // of the tool
	Expires  time.Time `json:"expires,omitzero"`
}
