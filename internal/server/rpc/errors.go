package rpc

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"steward/internal/fault"
	"steward/internal/server/httpauth"
)

// domain is that of google.rpc.ErrorInfo: whose error codes these are.
const domain = "steward"

// codeOf returns the code of gRPC for a kind of errors.
func codeOf(k fault.Kind) connect.Code {
	switch k {
	case fault.Invalid:
		return connect.CodeInvalidArgument
	case fault.NotFound:
		return connect.CodeNotFound
	case fault.Conflict:
		return connect.CodeAborted
	case fault.Denied:
		return connect.CodePermissionDenied
	case fault.Unauthentic:
		return connect.CodeUnauthenticated
	case fault.TooLarge, fault.RateLimited, fault.Exhausted, fault.NoSpace:
		return connect.CodeResourceExhausted
	case fault.Unsupported:
		return connect.CodeUnimplemented
	case fault.Unavailable:
		return connect.CodeUnavailable
	case fault.Timeout:
		return connect.CodeDeadlineExceeded
	case fault.Cancelled:
		return connect.CodeCanceled
	}
	return connect.CodeInternal
}

// asConnect tells an error as RPCs do: the code is that of its kind, the
// message says what happened and what to do, and a google.rpc.ErrorInfo says
// the same to programs (reason and error_code, kind, remedy, retry_strategy,
// retry_after_ms, recoverable, and the details). Where it says when to try
// again, a google.rpc.RetryInfo says it too.
func asConnect(err error) *connect.Error {
	if own, ok := errors.AsType[*connect.Error](err); ok {
		return own
	}
	e := httpauth.Public(err)
	out := connect.NewError(codeOf(e.Kind), errors.New(strings.ToValidUTF8(e.Error(), "\uFFFD")))
	add := func(m proto.Message) {
		if d, err := connect.NewErrorDetail(m); err == nil { // strings and numbers: cannot fail
			out.AddDetail(d)
		}
	}
	add(&errdetails.ErrorInfo{Reason: strings.ToUpper(e.Code), Domain: domain, Metadata: facts(e)})
	if e.After > 0 {
		add(&errdetails.RetryInfo{RetryDelay: durationpb.New(e.After)})
	}
	return out
}

// Bounds of an error's facts: with gRPC they travel as a header.
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
