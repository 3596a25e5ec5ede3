package grpc

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"steward/internal/fault"
)

// Bounds of what a server's error may tell.
const (
	maxErrorText = 2000 // bytes
	maxDetails   = 16
)

// meaning is what a gRPC status means here: its kind, whether trying again may
// help, and what to do next (https://grpc.io/docs/guides/status-codes/).
type meaning struct {
	kind   fault.Kind
	name   string
	retry  fault.Retry
	remedy string
}

const (
	otherArguments = "call the tool again with other arguments"
	otherMetadata  = "a person gives the source's declaration metadata that the server accepts"
	lookAgain      = "look at how things stand and decide anew"
	tryLater       = "try again later"
)

func meaningOf(c codes.Code) meaning {
	switch c {
	case codes.Canceled:
		return meaning{fault.Cancelled, "grpc_cancelled", fault.RetryNone, ""}
	case codes.InvalidArgument:
		return meaning{fault.Invalid, "grpc_invalid_argument", fault.RetryNone, otherArguments}
	case codes.OutOfRange:
		return meaning{fault.Invalid, "grpc_out_of_range", fault.RetryNone, otherArguments}
	case codes.DeadlineExceeded:
		return meaning{fault.Timeout, "grpc_deadline_exceeded", fault.RetryBackoff, tryLater}
	case codes.NotFound:
		return meaning{fault.NotFound, "grpc_not_found", fault.RetryNone, ""}
	case codes.AlreadyExists:
		return meaning{fault.Conflict, "grpc_already_exists", fault.RetryNone, lookAgain}
	case codes.FailedPrecondition:
		return meaning{fault.Conflict, "grpc_failed_precondition", fault.RetryNone, lookAgain}
	case codes.Aborted:
		return meaning{fault.Conflict, "grpc_aborted", fault.RetryBackoff, lookAgain}
	case codes.PermissionDenied:
		return meaning{fault.Denied, "grpc_permission_denied", fault.RetryNone, otherMetadata}
	case codes.Unauthenticated:
		return meaning{fault.Denied, "grpc_unauthenticated", fault.RetryNone, otherMetadata}
	case codes.ResourceExhausted:
		return meaning{fault.Unavailable, "grpc_resource_exhausted", fault.RetryBackoff, tryLater}
	case codes.Unavailable:
		return meaning{fault.Unavailable, "grpc_unavailable", fault.RetryBackoff, tryLater}
	case codes.Unimplemented:
		return meaning{fault.Unsupported, "grpc_unimplemented", fault.RetryNone, "a person compares the declaration with what the server offers"}
	case codes.DataLoss:
		return meaning{fault.Internal, "grpc_data_loss", fault.RetryNone, ""}
	case codes.Internal:
		return meaning{fault.Internal, "grpc_internal", fault.RetryNone, ""}
	}
	return meaning{fault.Internal, "grpc_unknown", fault.RetryNone, ""}
}

// failure makes a coded error of what a call came to. It tells in the details:
// grpc_code, and what the server says of google.rpc's details. A quota that the
// server says is used up is RateLimited: by that it has refused the call.
func failure(ctx context.Context, what string, err error, r resolver) error {
	var coded *fault.Error
	if errors.As(err, &coded) {
		return err
	}
	if done := ctx.Err(); done != nil {
		return ended(ctx, what)
	}
	st := status.Convert(err)
	is := meaningOf(st.Code())
	after := time.Duration(0)
	said := []string{clip(st.Message(), maxErrorText)}
	details := []any{}
	for i, d := range st.Proto().GetDetails() {
		if i == maxDetails {
			break
		}
		details = append(details, decoded(d, r))
		m, err := d.UnmarshalNew()
		if err != nil {
			continue // told as far as it can be read
		}
		switch m := m.(type) {
		case *errdetails.RetryInfo:
			is.retry, after = fault.RetryAfter, max(0, m.GetRetryDelay().AsDuration())
			if st.Code() == codes.ResourceExhausted {
				is.kind = fault.RateLimited
			}
		case *errdetails.QuotaFailure:
			is.kind = fault.RateLimited
			for _, v := range m.GetViolations() {
				said = append(said, v.GetSubject()+": "+v.GetDescription())
			}
		case *errdetails.BadRequest:
			for _, v := range m.GetFieldViolations() {
				said = append(said, v.GetField()+": "+v.GetDescription())
			}
		case *errdetails.PreconditionFailure:
			for _, v := range m.GetViolations() {
				said = append(said, v.GetSubject()+": "+v.GetDescription())
			}
		case *errdetails.LocalizedMessage:
			said = append(said, m.GetMessage())
		}
	}
	said = trimmed(said)
	e := fault.New(is.kind, is.name, "%s answered %s%s", what, st.Code(), clip(strings.Join(said, "; "), maxErrorText)).
		Retrying(is.retry, after).Detail("grpc_code", st.Code().String())
	if len(details) > 0 {
		e = e.Detail("details", details)
	}
	e.Cause = told{err}
	return e.WithHint("%s", is.remedy)
}

// told is a cause that the message has told.
type told struct{ error }

func (told) Error() string   { return "" }
func (t told) Unwrap() error { return t.error }

func trimmed(said []string) (out []string) {
	for _, s := range said {
		s = strings.Map(func(r rune) rune { // nothing that moves a terminal's cursor
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, clip(s, maxErrorText))
		if s = strings.TrimSpace(s); s != "" && s != ":" {
			out = append(out, s)
		}
	}
	if len(out) > 0 {
		out[0] = ": " + out[0]
	}
	return out
}

// decoded is a detail of an error as JSON, or its type alone.
func decoded(d *anypb.Any, r resolver) any {
	b, err := protojson.MarshalOptions{Resolver: r}.Marshal(d)
	if err == nil && len(b) <= 4*maxErrorText {
		var v any
		if err := json.Unmarshal(b, &v); err == nil {
			return v
		}
	}
	return map[string]any{"@type": clip(d.GetTypeUrl(), 200)}
}

// ended tells that a call was stopped from our side.
func ended(ctx context.Context, what string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.New(fault.Timeout, "grpc_deadline_exceeded", "%s did not answer in time: %w", what, context.Cause(ctx)).
			WithHint("try again later, or raise timeout in the source's declaration").Retrying(fault.RetryBackoff, 0)
	}
	return fault.New(fault.Cancelled, "grpc_cancelled", "the call of %s was stopped: %w", what, context.Cause(ctx))
}
