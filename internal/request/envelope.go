package request

import (
	"encoding/json"
	"time"
)

// The types of envelopes.
const (
	TypeRequest  = "request"
	TypeResponse = "response"
	TypeStatus   = "status"
	TypeResult   = "result"
	TypeError    = "error"
)

// ActionExecute is the action of a request envelope that names no other.
const ActionExecute = "execute"

// Envelope is the message format between components that do not share memory: a program
// and Steward. Which fields are present depends on Type; Check verifies the required ones.
// ParseEnvelope also accepts older formats (an error under "error" with "code", a status
// in a response, progress under "metadata"). Encode always writes this one.
type Envelope struct {
	Type      string    `json:"type"`
	RequestID string    `json:"request_id"`
	ParentID  string    `json:"parent_request_id,omitzero"`
	Timestamp time.Time `json:"timestamp,omitzero"` // informative; ParseEnvelope ignores it
	Sender    string    `json:"sender,omitzero"`
	Target    string    `json:"target,omitzero"`
	Trace     string    `json:"traceparent,omitzero"` // W3C trace context

	// request
	Action     string          `json:"action,omitzero"`
	Parameters json.RawMessage `json:"parameters,omitzero"`

	// status, result, response
	Status   string  `json:"status,omitzero"` // status: acknowledged, running, completed, error; result and response: success, partial, failure
	Tool     string  `json:"tool_name,omitzero"`
	TaskID   string  `json:"task_id,omitzero"`
	Progress float64 `json:"progress,omitzero"` // 0 to 1

	Message     string            `json:"message,omitzero"` // in a person's words
	Data        json.RawMessage   `json:"data,omitzero"`
	Metadata    json.RawMessage   `json:"metadata,omitzero"`
	NextActions []json.RawMessage `json:"next_actions,omitzero"` // suggestions for the model; Steward never acts on them

	// error
	Code        string          `json:"error_code,omitzero"`
	Details     json.RawMessage `json:"details,omitzero"`
	Recoverable bool            `json:"recoverable,omitzero"`
	Retry       string          `json:"retry_strategy,omitzero"` // none, immediate, backoff, after
	RetryAfter  float64         `json:"retry_after,omitzero"`    // seconds, with after
}
