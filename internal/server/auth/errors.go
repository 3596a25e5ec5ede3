package auth

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"steward/client"
	"steward/internal/fault"
)

// StatusCancelled is the status of a cancelled request. There is no standard status for this; nginx
// uses 499, too.
const StatusCancelled = 499

// Status returns the HTTP status for a kind of error.
func Status(k fault.Kind) int {
	switch k {
	case fault.Invalid:
		return http.StatusBadRequest
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict:
		return http.StatusConflict
	case fault.Denied:
		return http.StatusForbidden
	case fault.Unauthentic:
		return http.StatusUnauthorized
	case fault.TooLarge:
		return http.StatusRequestEntityTooLarge
	case fault.RateLimited, fault.Exhausted:
		return http.StatusTooManyRequests
	case fault.NoSpace:
		return http.StatusInsufficientStorage
	case fault.Unsupported:
		return http.StatusUnprocessableEntity
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	case fault.Timeout:
		return http.StatusGatewayTimeout
	case fault.Cancelled:
		return StatusCancelled
	}
	return http.StatusInternalServerError
}

// StatusOf returns the HTTP status for an error.
func StatusOf(e *fault.Error) int {
	if e.Code == "media_type" {
		return http.StatusUnsupportedMediaType
	}
	return Status(e.Kind)
}

// Public returns the form of an error that clients may see. The message of an error without a code
// may contain anything (paths, queries), so it goes to the log only.
func Public(err error) *fault.Error {
	e := fault.Of(err)
	if e.Kind != fault.Internal || e.Code != "internal" {
		return e
	}
	return &fault.Error{Kind: fault.Internal, Code: "internal",
		Message: "internal error", Remedy: "see Steward's log"}
}

// FaultOf converts an error that a client received back to a fault.
func FaultOf(e *client.Error) error {
	return &fault.Error{Kind: fault.Kind(e.Kind), Code: e.Code, Message: e.Message, Remedy: e.Remedy,
		Retry: fault.Retry(e.Retry), After: e.After(), Details: e.Details, Cause: e.Cause}
}

// Log logs an error if it is an internal one. A nil log means the default logger.
func Log(r *http.Request, log *slog.Logger, err error) {
	if !fault.Is(err, fault.Internal) {
		return
	}
	if log == nil {
		log = slog.Default()
	}
	log.ErrorContext(r.Context(), "request failed", "path", r.URL.Path, "error", err)
}

// errorObject is the common form of an error over HTTP and WebSocket.
type errorObject struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Kind    fault.Kind     `json:"kind"`
	Remedy  string         `json:"remedy,omitzero"`
	Retry   fault.Retry    `json:"retry,omitzero"`
	AfterMS int64          `json:"retry_after_ms,omitzero"`
	Details map[string]any `json:"details,omitempty"`
}

// AppendMembers appends the JSON members of an error to an object: code, message, kind and, if
// present, remedy, retry, retry_after_ms and details. It writes no braces and no outer commas.
func AppendMembers(dst []byte, e *fault.Error) []byte {
	t := errorObject{Code: e.Code, Message: text(e), Kind: e.Kind, Remedy: e.Remedy, AfterMS: e.After.Milliseconds(), Details: e.Details}
	if e.Recoverable() {
		t.Retry = e.Retry
	}
	b, err := encode(t)
	if err != nil { // the details are not valid JSON: leave them out and keep the rest
		t.Details = nil
		b, _ = encode(t)
	}
	return append(dst, b[1:len(b)-1]...)
}

// ErrorBody returns the answer that reports an error: {"error":{…}}.
func ErrorBody(e *fault.Error) []byte {
	return append(AppendMembers([]byte(`{"error":{`), e), "}}\n"...)
}

func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// text returns the error's message with its cause, but without the remedy.
func text(e *fault.Error) string {
	c := *e
	c.Remedy = ""
	return c.Error()
}

// RetryAfter sets the Retry-After header if the error has a delay.
func RetryAfter(h http.Header, e *fault.Error) {
	if e.After > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((e.After+time.Second-1)/time.Second), 10))
	}
}

// WriteError answers a request with an error, as {"error":{…}}, and logs the error if it is an
// internal one.
func WriteError(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	Log(r, log, err)
	e := Public(err)
	RetryAfter(w.Header(), e)
	Reply(w, StatusOf(e), ErrorBody(e))
}

// Reply answers a request with JSON.
func Reply(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(body) // the client may be gone, so the error does not matter
}
