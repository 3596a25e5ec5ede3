package request

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"steward/internal/fault"
)

// MaxEnvelope is the maximum size of an envelope, in bytes.
const MaxEnvelope = 16 << 20

// The values of Status: first those of statuses, then those of results and responses.
const (
	StatusAcknowledged = "acknowledged"
	StatusRunning      = "running"
	StatusCompleted    = "completed"
	StatusError        = "error"

	StatusSuccess = "success"
	StatusPartial = "partial"
	StatusFailure = "failure"
)

// maxWord bounds IDs, names and codes, in bytes.
const maxWord = 256

// Check returns an error if the envelope is invalid for its type (Invalid,
// envelope_invalid).
func (e *Envelope) Check() error {
	switch {
	case e.RequestID == "":
		return badEnvelope("request_id is missing")
	case slices.ContainsFunc([]string{e.RequestID, e.ParentID, e.Action, e.Tool, e.TaskID, e.Sender, e.Target, e.Trace, e.Code}, tooLong):
		return badEnvelope("an id or a name is longer than %d bytes", maxWord)
	}
	switch e.Type {
	case TypeRequest:
		if e.Action == "" {
			return badEnvelope("a request has no action")
		}
		if len(e.Parameters) > 0 && e.Parameters[0] != '{' {
			return badEnvelope("parameters is not an object")
		}
	case TypeStatus:
		return e.among(StatusAcknowledged, StatusRunning, StatusCompleted, StatusError)
	case TypeResult, TypeResponse:
		return e.among(StatusSuccess, StatusPartial, StatusFailure)
	case TypeError:
		if e.Code == "" {
			return badEnvelope("an error has no error_code")
		}
		if e.Retry != "" && !slices.Contains(strategies(), e.Retry) {
			return badEnvelope("retry_strategy is %.40q, not one of none, immediate, backoff and after", e.Retry)
		}
	default:
		return badEnvelope("type is %.40q, not one of request, response, status, result and error", e.Type)
	}
	return nil
}

func tooLong(s string) bool { return len(s) > maxWord }

func (e *Envelope) among(words ...string) error {
	if slices.Contains(words, e.Status) {
		return nil
	}
	return badEnvelope("status is %.40q, not one of %s", e.Status, strings.Join(words, ", "))
}

func badEnvelope(format string, args ...any) error {
	return fault.New(fault.Invalid, "envelope_invalid", "invalid message: "+format, args...).
		WithHint("write each message as one line of JSON with type, request_id and the members of its type")
}

// Encode returns the envelope as one line, including the line end. It refuses an envelope
// that Check refuses.
func (e *Envelope) Encode() ([]byte, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, badEnvelope("%w", err)
	}
	return out.Bytes(), nil
}

// looseEnvelope accepts an envelope in all its formats.
type looseEnvelope struct {
	Type      string `json:"type"`
	RequestID string `json:"request_id"`
	ParentID  string `json:"parent_request_id"`
	Sender    string `json:"sender"`
	Target    string `json:"target"`
	Trace     string `json:"traceparent"`

	Action     string          `json:"action"`
	Parameters json.RawMessage `json:"parameters"`

	Status   string          `json:"status"`
	Tool     string          `json:"tool_name"`
	TaskID   string          `json:"task_id"`
	Progress *float64        `json:"progress"`
	Message  string          `json:"message"`
	Data     json.RawMessage `json:"data"`
	Result   json.RawMessage `json:"result"`
	Metadata json.RawMessage `json:"metadata"`
	Next     json.RawMessage `json:"next_actions"`

	Code        string          `json:"error_code"`
	Details     json.RawMessage `json:"details"`
	Recoverable *bool           `json:"recoverable"`
	Retry       any             `json:"retry_strategy"`
	RetryAfter  float64         `json:"retry_after"`
	Error       json.RawMessage `json:"error"`
}

// ParseEnvelope parses one envelope: exactly one JSON object, whose member names are
// case-sensitive and unique. It also accepts the older formats, and returns a checked
// envelope in the current one. It does not retain the input.
func ParseEnvelope(line []byte) (Envelope, error) {
	if len(line) > MaxEnvelope {
		return Envelope{}, fault.New(fault.TooLarge, "envelope_invalid", "the message has %d bytes; the limit is %d", len(line), MaxEnvelope).
			WithHint("send smaller messages")
	}
	var l looseEnvelope
	if err := jsonv2.Unmarshal(line, &l); err != nil {
		return Envelope{}, badEnvelope("%w", err)
	}
	e := Envelope{Type: strings.ToLower(l.Type), RequestID: l.RequestID, ParentID: l.ParentID,
		Sender: l.Sender, Target: l.Target, Trace: l.Trace,
		Action: l.Action, Parameters: firstPresent(l.Parameters),
		Status: strings.ToLower(l.Status), Tool: l.Tool, TaskID: l.TaskID, Message: l.Message,
		Data: firstPresent(l.Data, l.Result), Metadata: firstPresent(l.Metadata)}
	if next := firstPresent(l.Next); next != nil && json.Unmarshal(next, &e.NextActions) != nil {
		e.NextActions = []json.RawMessage{next}
	}
	if len(e.NextActions) == 0 {
		e.NextActions = nil
	}
	e.Progress = l.progress()
	e.inferType(&l)
	if e.Type == TypeError {
		l.fail(&e)
	}
	return e, e.Check()
}

func first(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

// firstPresent returns the first member that is present and not null, compacted so that it
// contains no line breaks.
func firstPresent(members ...json.RawMessage) json.RawMessage {
	for _, m := range members {
		if len(m) == 0 || string(m) == "null" {
			continue
		}
		var out bytes.Buffer
		if json.Compact(&out, m) == nil { // always nil: it has been parsed already
			return out.Bytes()
		}
	}
	return nil
}

// progress returns a fraction of 1. A value above 1 is taken as a percentage.
func (l *looseEnvelope) progress() float64 {
	p := l.Progress
	if p == nil {
		var under struct {
			Progress *float64 `json:"progress"`
		}
		if jsonv2.Unmarshal(l.Metadata, &under) == nil { // otherwise the metadata has no progress
			p = under.Progress
		}
	}
	switch {
	case p == nil || *p < 0:
		return 0
	case *p > 1:
		return math.Min(*p/100, 1)
	}
	return *p
}

// inferType determines the type of an envelope that has none, or that says "response" for
// an error, and translates its status to the current values.
func (e *Envelope) inferType(l *looseEnvelope) {
	failed := e.Status == StatusError || l.Code != "" || firstPresent(l.Error) != nil
	working := e.Status == StatusAcknowledged || e.Status == StatusRunning
	switch {
	case (e.Type == "" || e.Type == TypeResponse || e.Type == TypeResult) && failed:
		e.Type = TypeError
	case e.Type == "" && working:
		e.Type = TypeStatus
	case e.Type == "" && e.Action != "":
		e.Type = TypeRequest
	case e.Type == "" && (e.Status != "" || e.Data != nil):
		e.Type = TypeResult
	}
	switch e.Type {
	case TypeResult, TypeResponse:
		switch e.Status {
		case "", StatusCompleted, "ok":
			e.Status = StatusSuccess
		case "failed":
			e.Status = StatusFailure
		}
	case TypeError:
		e.Status = ""
	}
}

// fail fills in the fields of an error.
func (l *looseEnvelope) fail(e *Envelope) {
	e.Code, e.Details, e.RetryAfter = l.Code, firstPresent(l.Details), math.Max(l.RetryAfter, 0)
	retry, recoverable := l.Retry, l.Recoverable
	var under struct {
		Code        any             `json:"code"`
		ErrorCode   string          `json:"error_code"`
		Message     string          `json:"message"`
		Details     json.RawMessage `json:"details"`
		Recoverable *bool           `json:"recoverable"`
		Retry       any             `json:"retry_strategy"`
		RetryAfter  float64         `json:"retry_after"`
	}
	var text string
	switch raw := firstPresent(l.Error); {
	case raw == nil:
	case jsonv2.Unmarshal(raw, &under) == nil:
		code, _ := under.Code.(string) // a numeric code is ignored
		e.Code, e.Message = first(e.Code, code, under.ErrorCode), first(e.Message, under.Message)
		if e.Details == nil {
			e.Details = firstPresent(under.Details)
		}
		if retry == nil {
			retry = under.Retry
		}
		if recoverable == nil {
			recoverable = under.Recoverable
		}
		e.RetryAfter = math.Max(e.RetryAfter, under.RetryAfter)
	case jsonv2.Unmarshal(raw, &text) == nil:
		e.Message = first(e.Message, text)
	}
	e.Code = first(e.Code, "tool_error")
	e.reconcileRetry(retry, recoverable)
}

// reconcileRetry makes the retry strategy and the recoverable flag agree. An unknown strategy
// is ignored.
func (e *Envelope) reconcileRetry(strategy any, recoverable *bool) {
	if word, _ := strategy.(string); slices.Contains(strategies(), strings.ToLower(word)) {
		e.Retry = strings.ToLower(word)
	}
	switch {
	case recoverable != nil && !*recoverable:
		e.Retry = string(fault.RetryNone)
	case recoverable != nil && e.Retry == "", e.Retry == string(fault.RetryAfter) && e.RetryAfter == 0:
		e.Retry = string(fault.RetryBackoff)
	}
	e.Recoverable = e.Retry != "" && e.Retry != string(fault.RetryNone)
	if e.Retry != string(fault.RetryAfter) {
		e.RetryAfter = 0
	}
}

func strategies() []string {
	return []string{string(fault.RetryNone), string(fault.RetryImmediate), string(fault.RetryBackoff), string(fault.RetryAfter)}
}
