package request

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
)

// maxMessage bounds the text that an external error message adds to an error, in bytes.
const maxMessage = 4 << 10

// maxRetryAfter bounds the wait that an external error may ask for.
const maxRetryAfter = 24 * time.Hour

// Fault returns the coded error that an error envelope describes, or nil for an envelope
// of another type. The kind is the detail "kind" if Steward wrote it, and is otherwise
// derived from the words of the code.
func (e *Envelope) Fault() *fault.Error {
	if e.Type != TypeError {
		return nil
	}
	code := snakeCase(e.Code)
	message := e.Message
	if message == "" {
		message = strings.ReplaceAll(code, "_", " ")
	}
	f := &fault.Error{Code: code, Message: clip(message, maxMessage), Retry: fault.Retry(e.Retry)}
	if f.Retry == fault.RetryAfter {
		f.After = min(time.Duration(e.RetryAfter*float64(time.Second)), maxRetryAfter)
		if f.After < 0 { // overflow: the number is too large
			f.After = maxRetryAfter
		}
	}
	if f.Retry == fault.RetryNone {
		f.Retry = ""
	}
	f.Details, f.Kind, f.Remedy = e.details()
	if f.Kind == "" {
		f.Kind = kindOf(code, e.Recoverable)
	}
	return f
}

// details separates the details that Steward uses itself from the rest.
func (e *Envelope) details() (rest map[string]any, kind fault.Kind, remedy string) {
	if len(e.Details) == 0 {
		return nil, "", ""
	}
	if err := json.Unmarshal(e.Details, &rest); err != nil {
		var other any
		if json.Unmarshal(e.Details, &other) != nil {
			return nil, "", ""
		}
		return map[string]any{"details": other}, "", "" // an array or a scalar
	}
	if k, ok := rest["kind"].(string); ok && slices.Contains(kinds(), fault.Kind(k)) {
		kind = fault.Kind(k)
		delete(rest, "kind")
	}
	if r, ok := rest["remedy"].(string); ok {
		remedy = clip(r, maxMessage)
		delete(rest, "remedy")
	}
	if len(rest) == 0 {
		rest = nil
	}
	return rest, kind, remedy
}

func kinds() []fault.Kind {
	return []fault.Kind{fault.Invalid, fault.NotFound, fault.Conflict, fault.Denied, fault.Unauthentic, fault.TooLarge,
		fault.RateLimited, fault.Exhausted, fault.NoSpace, fault.Unsupported, fault.Unavailable, fault.Timeout, fault.Cancelled, fault.Internal}
}

// kindOf derives the kind of a program's error from the words of its code. A code without
// a known word is Invalid, or Unavailable if a retry may help.
func kindOf(code string, recoverable bool) fault.Kind {
	for _, c := range []struct {
		kind  fault.Kind
		words []string
	}{
		{fault.Timeout, []string{"timeout", "timed_out", "deadline"}},
		{fault.RateLimited, []string{"rate_limit", "too_many", "throttl"}},
		{fault.TooLarge, []string{"too_large", "too_big", "too_long"}},
		{fault.NotFound, []string{"not_found", "no_such"}},
		{fault.Unauthentic, []string{"unauthentic", "unauthoriz", "auth_", "credential"}},
		{fault.Denied, []string{"denied", "forbidden", "permission"}},
		{fault.Conflict, []string{"conflict", "already_exists", "precondition"}},
		{fault.Unsupported, []string{"unsupported", "not_supported", "not_implemented"}},
		{fault.Exhausted, []string{"quota", "exhausted", "exceeded"}},
		{fault.Cancelled, []string{"cancel", "aborted"}},
		{fault.Invalid, []string{"invalid", "validation", "bad_", "parameter", "argument"}},
		{fault.Unavailable, []string{"unavailable", "connection", "network", "unreachable", "offline"}},
		{fault.Internal, []string{"internal", "crash", "panic", "exception"}},
	} {
		if slices.ContainsFunc(c.words, func(w string) bool { return strings.Contains(code, w) }) {
			return c.kind
		}
	}
	if recoverable {
		return fault.Unavailable
	}
	return fault.Invalid
}

// snakeCase converts a code to Steward's form: a-z, 0-9 and single underscores, at most 64
// bytes. "FileNotFoundError" becomes file_not_found_error.
func snakeCase(code string) string {
	var out []byte
	lower := false // the previous character was a lower-case letter
	for _, c := range []byte(code) {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
			if lower {
				out = append(out, '_')
			}
			lower = false
		} else {
			lower = c >= 'a' && c <= 'z'
		}
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			out = append(out, c)
		} else if len(out) > 0 && out[len(out)-1] != '_' {
			out = append(out, '_')
		}
	}
	s := strings.Trim(string(out[:min(len(out), 64)]), "_")
	return first(s, "tool_error")
}

// clip shortens a text at a rune boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
