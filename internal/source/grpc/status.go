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

// Limits on a server's error.
const (
	maxErrorText = 2000 // bytes
	maxDetails   = 16
)

// meaning is how a gRPC status (https://grpc.io/docs/guides/status-codes/) is reported: its kind,
// whether a retry may help, and what to do next.
type meaning struct {
	kind   fault.Kind
	name   string
	retry  fault.Retry
	remedy string
}

const (
	otherArguments = "call the tool again with other arguments"
	otherMetadata  = "ask a person to add metadata to the source's declaration that the server accepts"
	lookAgain      = "check the current state and decide again"
	tryLater       = "try again later"
)

func meaningOf(c codes.Code) meaning {
	m, known := map[codes.Code]meaning{
		codes.Canceled:           {fault.Cancelled, "grpc_cancelled", fault.RetryNone, ""},
		codes.InvalidArgument:    {fault.Invalid, "grpc_invalid_argument", fault.RetryNone, otherArguments},
		codes.OutOfRange:         {fault.Invalid, "grpc_out_of_range", fault.RetryNone, otherArguments},
		codes.DeadlineExceeded:   {fault.Timeout, "grpc_deadline_exceeded", fault.RetryBackoff, tryLater},
		codes.NotFound:           {fault.NotFound, "grpc_not_found", fault.RetryNone, ""},
		codes.AlreadyExists:      {fault.Conflict, "grpc_already_exists", fault.RetryNone, lookAgain},
		codes.FailedPrecondition: {fault.Conflict, "grpc_failed_precondition", fault.RetryNone, lookAgain},
		codes.Aborted:            {fault.Conflict, "grpc_aborted", fault.RetryBackoff, lookAgain},
		codes.PermissionDenied:   {fault.Denied, "grpc_permission_denied", fault.RetryNone, otherMetadata},
		codes.Unauthenticated:    {fault.Denied, "grpc_unauthenticated", fault.RetryNone, otherMetadata},
		codes.ResourceExhausted:  {fault.Unavailable, "grpc_resource_exhausted", fault.RetryBackoff, tryLater},
		codes.Unavailable:        {fault.Unavailable, "grpc_unavailable", fault.RetryBackoff, tryLater},
		codes.Unimplemented:      {fault.Unsupported, "grpc_unimplemented", fault.RetryNone, "ask a person to compare the declaration with what the server offers"},
		codes.DataLoss:           {fault.Internal, "grpc_data_loss", fault.RetryNone, ""},
		codes.Internal:           {fault.Internal, "grpc_internal", fault.RetryNone, ""},
	}[c]
	if !known {
		return meaning{fault.Internal, "grpc_unknown", fault.RetryNone, ""}
	}
	return m
}

// failure returns the coded error for a failed call. Its details hold grpc_code and the server's
// own details (google.rpc). If the server reports an exhausted quota, the kind is RateLimited: the
// server has refused the call.
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
			continue // of an unknown type: only shown in the details
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
	e.Cause = shownCause{err}
	return e.WithHint("%s", is.remedy)
}

// shownCause is a cause whose text the message already contains.
type shownCause struct{ error }

func (shownCause) Error() string   { return "" }
func (t shownCause) Unwrap() error { return t.error }

func trimmed(said []string) (out []string) {
	for _, s := range said {
		s = strings.Map(func(r rune) rune { // control characters could move a terminal's cursor
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

// decoded returns a detail of an error as JSON, or only its type.
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

// ended returns the error of a call that ended because ctx is done.
func ended(ctx context.Context, what string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.New(fault.Timeout, "grpc_deadline_exceeded", "%s did not answer in time: %w", what, context.Cause(ctx)).
			WithHint("try again later, or raise timeout in the source's declaration").Retrying(fault.RetryBackoff, 0)
	}
	return fault.New(fault.Cancelled, "grpc_cancelled", "the call of %s was canceled: %w", what, context.Cause(ctx))
}
