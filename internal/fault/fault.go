// Package fault holds Steward's coded errors. An error says what went wrong,
// who has to act, and whether a retry makes sense.
package fault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind is the small, closed set of error classes that servers translate into
// their protocol's status (HTTP, gRPC, exit codes).
type Kind string

// The kinds.
const (
	Invalid     Kind = "invalid"      // the caller's input is wrong; the same call fails again
	NotFound    Kind = "not_found"    // it does not exist, or this caller may not see it
	Conflict    Kind = "conflict"     // a precondition did not hold; read again, then decide
	Denied      Kind = "denied"       // not allowed
	Unauthentic Kind = "unauthentic"  // no identity, or a wrong one
	TooLarge    Kind = "too_large"    // over a size limit
	RateLimited Kind = "rate_limited" // try again after Error.After
	Exhausted   Kind = "exhausted"    // a budget or bound is used up
	NoSpace     Kind = "no_space"     // the disk is full
	Unsupported Kind = "unsupported"  // the component cannot do that
	Unavailable Kind = "unavailable"  // an external system did not answer; may be temporary
	Timeout     Kind = "timeout"      // it took too long
	Cancelled   Kind = "cancelled"    // cancelled by the caller
	Internal    Kind = "internal"     // a bug or failure in Steward
)

// Retry says how a caller may try again.
type Retry string

// The retry strategies.
const (
	RetryNone      Retry = "none"
	RetryImmediate Retry = "immediate"
	RetryBackoff   Retry = "backoff"
	RetryAfter     Retry = "after" // not before Error.After has passed
)

// Error is a coded error. Values are immutable once returned.
type Error struct {
	Kind    Kind
	Code    string         // stable, snake_case, e.g. "database_too_new"
	Message string         // what happened, for a person
	Remedy  string         // what to do next, for a person; may be empty
	Details map[string]any // facts for programs; never secrets
	Retry   Retry          // empty means RetryNone
	After   time.Duration  // with RetryAfter
	Cause   error
}

// Error returns the message, its cause and the remedy in one line.
func (e *Error) Error() string {
	s := e.Message
	if e.Cause != nil {
		if cause := e.Cause.Error(); cause != "" {
			s += ": " + cause
		}
	}
	if e.Remedy != "" {
		s += " (" + e.Remedy + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// New makes an error of a kind with a code and a formatted message. A %w verb
// in the format sets the cause (several verbs set several causes); the message
// then already includes its text.
func New(kind Kind, code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	e := &Error{Kind: kind, Code: code, Message: err.Error()}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		e.Cause = hidden{err.Unwrap()}
	case interface{ Unwrap() []error }:
		e.Cause = hidden{errors.Join(err.Unwrap()...)}
	}
	return e
}

// hidden is a cause whose text is already part of the message.
type hidden struct{ error }

func (hidden) Error() string   { return "" }
func (h hidden) Unwrap() error { return h.error }

// WithHint returns a copy of e that carries the remedy.
func (e *Error) WithHint(remedy string, args ...any) *Error {
	c := *e
	c.Remedy = fmt.Sprintf(remedy, args...)
	return &c
}

// Detail returns a copy of e with one more entry in Details.
func (e *Error) Detail(key string, value any) *Error {
	c := *e
	c.Details = make(map[string]any, len(e.Details)+1)
	for k, v := range e.Details {
		c.Details[k] = v
	}
	c.Details[key] = value
	return &c
}

// Retrying returns a copy of e with a retry strategy. after is used with RetryAfter only.
func (e *Error) Retrying(r Retry, after time.Duration) *Error {
	c := *e
	c.Retry, c.After = r, after
	return &c
}

// Of returns the coded error in err's chain. An error without one becomes
// Internal with the code "internal"; the errors of package context become
// Cancelled and Timeout. Of(nil) is nil.
func Of(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return &Error{Kind: Cancelled, Code: "cancelled", Message: "cancelled", Cause: hidden{err}}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Kind: Timeout, Code: "deadline_exceeded", Message: "the deadline passed", Cause: hidden{err}}
	}
	return &Error{Kind: Internal, Code: "internal", Message: err.Error(), Cause: hidden{err}}
}

// Is reports whether err carries a coded error of the kind.
func Is(err error, kind Kind) bool { return err != nil && Of(err).Kind == kind }

// HasCode reports whether err carries a coded error with the code.
func HasCode(err error, code string) bool { return err != nil && Of(err).Code == code }

// Recoverable reports whether trying again may help.
func (e *Error) Recoverable() bool { return e.Retry != "" && e.Retry != RetryNone }
