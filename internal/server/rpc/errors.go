package rpc

import (
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"steward/internal/fault"
	"steward/internal/server/auth"
)

// domain is the domain of Steward's error codes in google.rpc.ErrorInfo.
const domain = "steward"

// codeOf maps the kinds of errors to gRPC's codes. All other kinds are internal.
var codeOf = map[fault.Kind]connect.Code{
	fault.Invalid:     connect.CodeInvalidArgument,
	fault.NotFound:    connect.CodeNotFound,
	fault.Conflict:    connect.CodeAborted,
	fault.Denied:      connect.CodePermissionDenied,
	fault.Unauthentic: connect.CodeUnauthenticated,
	fault.TooLarge:    connect.CodeResourceExhausted,
	fault.RateLimited: connect.CodeResourceExhausted,
	fault.Exhausted:   connect.CodeResourceExhausted,
	fault.NoSpace:     connect.CodeResourceExhausted,
	fault.Unsupported: connect.CodeUnimplemented,
	fault.Unavailable: connect.CodeUnavailable,
	fault.Timeout:     connect.CodeDeadlineExceeded,
	fault.Cancelled:   connect.CodeCanceled,
}

// connectError converts an error to that of an RPC. The code follows from the kind, and the message says
// what happened and what to do. A google.rpc.ErrorInfo holds the same for programs: reason and
// error_code, kind, remedy, retry_strategy, retry_after_ms, recoverable, and the details. If the error
// has a retry delay, a google.rpc.RetryInfo follows.
func connectError(err error) *connect.Error {
	if own, ok := errors.AsType[*connect.Error](err); ok {
		return own
	}
	e := auth.Public(err)
	out := connect.NewError(cmp.Or(codeOf[e.Kind], connect.CodeInternal), errors.New(strings.ToValidUTF8(e.Error(), "\uFFFD")))
	add := func(m proto.Message) {
		if d, err := connect.NewErrorDetail(m); err == nil { // strings and numbers cannot fail
			out.AddDetail(d)
		}
	}
	add(&errdetails.ErrorInfo{Reason: strings.ToUpper(e.Code), Domain: domain, Metadata: facts(e)})
	if e.After > 0 {
		add(&errdetails.RetryInfo{RetryDelay: durationpb.New(e.After)})
	}
	return out
}

// Limits of an error's metadata, which gRPC sends in a header.
const (
	maxFact  = 500 // bytes
	maxFacts = 20
)

func facts(e *fault.Error) map[string]string {
	out := map[string]string{"error_code": e.Code, "kind": string(e.Kind), "recoverable": strconv.FormatBool(e.Recoverable())}
	set := func(key, value string) {
		if value != "" && len(out) < maxFacts {
			if len(value) > maxFact {
				value = value[:maxFact]
			}
			out[key] = strings.ToValidUTF8(value, "")
		}
	}
	set("remedy", e.Remedy)
	set("retry_strategy", string(e.Retry))
	if e.After > 0 {
		set("retry_after_ms", strconv.FormatInt(e.After.Milliseconds(), 10))
	}
	for key, v := range e.Details {
		if _, own := out[key]; own {
			continue
		}
		if s, ok := v.(string); ok {
			set(key, s)
		} else if b, err := json.Marshal(v); err == nil {
			set(key, string(b))
		}
	}
	return out
}
