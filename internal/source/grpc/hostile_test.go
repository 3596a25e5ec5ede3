package grpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/test/must"
)

// hashes serves the hash tools with one handler for both, and opens them.
func hashes(t testing.TB, decl string, h handler) (*server, *source, tool.Tool) {
	t.Helper()
	srv := serve(t, describing(t, "testdata/hash.proto"), serving{handle: map[string]handler{"Sha256Hash": h, "Md5Hash": h}})
	s := open(t, tool.Env{Name: "h"}, "host: "+srv.address+"\n"+decl)
	return srv, s, s.Tool(specOf(t, s, "h.sha256_hash"))
}

func fails(err error) handler {
	return func(context.Context, *dynamicpb.Message, func(proto.Message) error) error { return err }
}

func with(c codes.Code, msg string, details ...protoadapt.MessageV1) error {
	st, err := status.New(c, msg).WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return st.Err()
}

func TestStatusOfTheServer(t *testing.T) {
	for _, c := range []struct {
		err     error
		kind    fault.Kind
		code    string
		retry   fault.Retry
		certain bool
		says    string
	}{
		{with(codes.InvalidArgument, "bad", &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "input", Description: "too short"}}}),
			fault.Invalid, "grpc_invalid_argument", fault.RetryNone, true, "InvalidArgument: bad; input: too short"},
		{with(codes.OutOfRange, "x"), fault.Invalid, "grpc_out_of_range", fault.RetryNone, true, ""},
		{with(codes.NotFound, "x"), fault.NotFound, "grpc_not_found", fault.RetryNone, true, ""},
		{with(codes.AlreadyExists, "x"), fault.Conflict, "grpc_already_exists", fault.RetryNone, true, ""},
		{with(codes.Aborted, "x"), fault.Conflict, "grpc_aborted", fault.RetryBackoff, true, ""},
		{with(codes.FailedPrecondition, "", &errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{{Subject: "terms", Description: "not accepted"}}}),
			fault.Conflict, "grpc_failed_precondition", fault.RetryNone, true, "FailedPrecondition: terms: not accepted"},
		{with(codes.PermissionDenied, "x"), fault.Denied, "grpc_permission_denied", fault.RetryNone, true, "metadata"},
		{with(codes.Unauthenticated, "x"), fault.Denied, "grpc_unauthenticated", fault.RetryNone, true, "metadata"},
		{with(codes.ResourceExhausted, "disk"), fault.Unavailable, "grpc_resource_exhausted", fault.RetryBackoff, false, ""},
		{with(codes.ResourceExhausted, "", &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "you", Description: "ten a day"}}}),
			fault.RateLimited, "grpc_resource_exhausted", fault.RetryBackoff, true, "you: ten a day"},
		{with(codes.ResourceExhausted, "slow", &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Minute)}),
			fault.RateLimited, "grpc_resource_exhausted", fault.RetryAfter, true, ""},
		{with(codes.Unavailable, "later"), fault.Unavailable, "grpc_unavailable", fault.RetryBackoff, false, ""},
		{with(codes.DeadlineExceeded, "x"), fault.Timeout, "grpc_deadline_exceeded", fault.RetryBackoff, false, ""},
		{with(codes.Unimplemented, "x"), fault.Unsupported, "grpc_unimplemented", fault.RetryNone, true, ""},
		{with(codes.Canceled, "x"), fault.Cancelled, "grpc_cancelled", fault.RetryNone, false, ""},
		{with(codes.Internal, "x", &errdetails.LocalizedMessage{Locale: "de", Message: "kaputt"}), fault.Internal, "grpc_internal", fault.RetryNone, false, "kaputt"},
		{with(codes.DataLoss, "x"), fault.Internal, "grpc_data_loss", fault.RetryNone, false, ""},
		{errors.New("plain\x1b[2J"), fault.Internal, "grpc_unknown", fault.RetryNone, false, "Unknown: plain [2J"},
	} {
		t.Run(c.code, func(t *testing.T) {
			srv, _, tl := hashes(t, "", fails(c.err))
			_, err := call(t.Context(), tl, `{"input":"x"}`)
			e := wantCode(t, err, c.kind, c.code)
			if e.Retry != c.retry || tool.CertainlyNotDone(err) != c.certain || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error = %v, retry %s, certain %v", err, e.Retry, tool.CertainlyNotDone(err))
			}
			if e.Details["grpc_code"] != status.Code(c.err).String() || status.Code(err) != status.Code(c.err) {
				t.Errorf("details = %v, status %v", e.Details, status.Code(err))
			}
			if n := srv.calls.Load(); n != 1 {
				t.Errorf("an action was called %d times", n)
			}
		})
	}
}

func TestDetailsOfAnError(t *testing.T) {
	info := &errdetails.ErrorInfo{Reason: "NO_INK", Domain: "printer", Metadata: map[string]string{"tray": "2"}}
	st := status.New(codes.FailedPrecondition, strings.Repeat("é", 5000)).Proto()
	for range 20 {
		d := must.Get(anypb.New(info))
		st.Details = append(st.Details, d)
	}
	st.Details[1] = &anypb.Any{TypeUrl: "type.googleapis.com/who.Knows", Value: []byte{1}}
	_, _, tl := hashes(t, "", fails(status.FromProto(st).Err()))
	_, err := call(t.Context(), tl, `{"input":"x"}`)
	e := wantCode(t, err, fault.Conflict, "grpc_failed_precondition")
	details := e.Details["details"].([]any)
	if len(details) != maxDetails || len(err.Error()) > 2*maxErrorText {
		t.Errorf("%d details, %d bytes", len(details), len(err.Error()))
	}
	if got := fmt.Sprint(details[0]); !strings.Contains(got, "reason:NO_INK") || !strings.Contains(got, "tray:2") {
		t.Errorf("details = %s", got)
	}
	if got := fmt.Sprint(details[1]); got != "map[@type:type.googleapis.com/who.Knows]" {
		t.Errorf("an unknown detail = %s", got)
	}
}

func TestRetries(t *testing.T) {
	soon := with(codes.Unavailable, "", &errdetails.RetryInfo{RetryDelay: durationpb.New(10 * time.Millisecond)})
	n := 0
	flaky := func(_ context.Context, in *dynamicpb.Message, send func(proto.Message) error) error {
		if n++; n < 3 {
			return soon
		}
		return send(in)
	}
	srv, _, tl := hashes(t, "effects: {Sha256Hash: query}", flaky)
	_, err := call(t.Context(), tl, `{"input":"x"}`) // the caller retries and counts the attempts
	if e := wantCode(t, err, fault.Unavailable, "grpc_unavailable"); srv.calls.Load() != 1 || e.Retry != fault.RetryAfter || e.After != 10*time.Millisecond {
		t.Errorf("a query: %+v after %d calls", e, srv.calls.Load())
	}
	n = 0
	srv, _, tl = hashes(t, "", flaky)
	_, err = call(t.Context(), tl, `{"input":"x"}`)
	if wantCode(t, err, fault.Unavailable, "grpc_unavailable"); srv.calls.Load() != 1 {
		t.Errorf("an action was called %d times", srv.calls.Load())
	}
	// A method that declares itself idempotent is retried with the same idempotency key.
	n = 0
	srv = serve(t, describing(t, "testdata/kinds.proto"), serving{handle: map[string]handler{"Keep": flaky}})
	s := open(t, tool.Env{}, "host: "+srv.address)
	if _, err := call(t.Context(), s.Tool(specOf(t, s, "test.keep")), `{"name":"x"}`); err != nil || srv.calls.Load() != 3 || srv.metadata("idempotency-key") != "key-1" {
		t.Errorf("an idempotent action: %v after %d calls", err, srv.calls.Load())
	}
	n = -10
	srv.calls.Store(0)
	_, err = call(t.Context(), s.Tool(specOf(t, s, "test.keep")), `{"name":"x"}`)
	if wantCode(t, err, fault.Unavailable, "grpc_unavailable"); srv.calls.Load() != maxAttempts {
		t.Errorf("an idempotent action: %v after %d calls", err, srv.calls.Load())
	}
	// The server asks for a longer wait than a call allows.
	n = 0
	srv, _, tl = hashes(t, "effects: {Sha256Hash: query}", func(context.Context, *dynamicpb.Message, func(proto.Message) error) error {
		return with(codes.Unavailable, "", &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Hour)})
	})
	_, err = call(t.Context(), tl, `{"input":"x"}`)
	if e := wantCode(t, err, fault.Unavailable, "grpc_unavailable"); srv.calls.Load() != 1 || e.After != time.Hour {
		t.Errorf("%+v after %d calls", e, srv.calls.Load())
	}
}

func TestHang(t *testing.T) {
	_, _, tl := hashes(t, "timeout: 2s", func(ctx context.Context, _ *dynamicpb.Message, _ func(proto.Message) error) error {
		<-ctx.Done()
		return ctx.Err()
	})
	_, err := call(t.Context(), tl, `{"input":"x"}`)
	if e := wantCode(t, err, fault.Timeout, "grpc_deadline_exceeded"); tool.CertainlyNotDone(err) || !e.Recoverable() {
		t.Errorf("error = %+v", e)
	}
}

// A server may accept the connection and stay silent.
func TestSilence(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	})
	defer done.Wait()
	defer l.Close()
	s := open(t, tool.Env{}, "host: "+l.Addr().String())
	_, err := s.Announce(within(t, 200*time.Millisecond))
	wantCode(t, err, fault.Timeout, "grpc_deadline_exceeded")
	tl := s.Tool(tool.Spec{Name: "test.x", Input: []byte(`{"type":"object"}`), Effect: tool.Action})
	_, err = call(within(t, 200*time.Millisecond), tl, `{}`)
	if wantCode(t, err, fault.Timeout, "grpc_deadline_exceeded"); !tool.CertainlyNotDone(err) {
		t.Error("nothing was sent")
	}
}

func TestNobodyThere(t *testing.T) {
	l := must.Get(net.Listen("tcp", aside))
	address := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	write(t, dir, "tools/hash.proto", read(t, "testdata/hash.proto"))
	for _, env := range []tool.Env{{Name: "h"}, {Name: "h", Dir: dir}} {
		s := open(t, env, "host: "+address+"\neffects: {Md5Hash: query}")
		spec := tool.Spec{Name: "h.sha256_hash", Input: []byte(`{"type":"object"}`), Effect: tool.Action}
		if s.fixed != nil {
			spec = specOf(t, s, "h.sha256_hash")
		} else if _, err := s.Announce(t.Context()); !fault.HasCode(err, "grpc_unavailable") {
			t.Errorf("Announce = %v", err)
		}
		tl := s.Tool(spec)
		for range 2 { // also while the connection is being repaired
			_, err := call(t.Context(), tl, `{"input":"x"}`)
			e := wantCode(t, err, fault.Unavailable, "grpc_unavailable")
			if !tool.CertainlyNotDone(err) || !e.Recoverable() || !strings.Contains(err.Error(), "connection refused") {
				t.Errorf("error = %v", err)
			}
		}
		// Once the server is up, it is used at once: callers wait for the repair.
		srv := serve(t, describing(t, "testdata/hash.proto"), serving{listen: address, handle: map[string]handler{"Sha256Hash": echo}})
		repaired(t, func() error { _, err := s.Announce(t.Context()); return err })
		spec = specOf(t, s, "h.sha256_hash")
		repaired(t, func() error { _, err := call(t.Context(), s.Tool(spec), `{"input":"x"}`); return err })
		srv.Stop()
	}
}

// repaired repeats an operation until the connection is repaired. That may take longer than the operation
// waits.
func repaired(t *testing.T, do func() error) {
	t.Helper()
	for err := do(); err != nil; err = do() {
		if !fault.HasCode(err, "grpc_unavailable") {
			t.Fatal(err)
		}
	}
}

// If the connection breaks during a call, the outcome is unknown.
func TestReset(t *testing.T) {
	var srv *server
	cut := make(chan struct{})
	h := func(ctx context.Context, in *dynamicpb.Message, send func(proto.Message) error) error {
		srv.conns.breakAll()
		<-ctx.Done()
		close(cut)
		return nil
	}
	srv, _, tl := hashes(t, "", h)
	_, err := call(t.Context(), tl, `{"input":"x"}`)
	if wantCode(t, err, fault.Unavailable, "grpc_unavailable"); tool.CertainlyNotDone(err) {
		t.Errorf("an action that may have happened: %v", err)
	}
	<-cut
}

func TestHugeAnswers(t *testing.T) {
	var before, after runtime.MemStats
	flood := func(_ context.Context, in *dynamicpb.Message, send func(proto.Message) error) error {
		out := dynamicpb.NewMessage(in.Descriptor().ParentFile().Messages().ByName("HashResponse"))
		out.Set(out.Descriptor().Fields().ByName("hash"), valueOf(strings.Repeat("x", 8<<20)))
		return send(out)
	}
	_, _, tl := hashes(t, "", flood)
	_, err := call(t.Context(), tl, `{"input":"x"}`)
	if e := wantCode(t, err, fault.Internal, "grpc_answer_too_large"); tool.CertainlyNotDone(err) || !strings.Contains(e.Remedy, "max_bytes") {
		t.Errorf("an action that happened: %v", err)
	}
	_, _, tl = hashes(t, "effects: {sha256_hash: query}\nmax_bytes: 1000", flood)
	_, err = call(t.Context(), tl, `{"input":"x"}`)
	wantCode(t, err, fault.TooLarge, "grpc_answer_too_large")

	// Small on the wire, large in memory.
	in := describing(t, "testdata/kinds.proto", "testdata/hash.proto")
	srv := serve(t, in, serving{handle: map[string]handler{"Keep": func(_ context.Context, in *dynamicpb.Message, send func(proto.Message) error) error {
		out := dynamicpb.NewMessage(in.Descriptor())
		out.ProtoReflect().SetUnknown(bytes.Repeat([]byte{2<<3 | 2, 0}, 2<<20-100)) // children
		return send(out)
	}}})
	s := open(t, tool.Env{}, "host: "+srv.address)
	tl = s.Tool(specOf(t, s, "test.keep"))
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, err = call(t.Context(), tl, `{"name":"x"}`)
	runtime.ReadMemStats(&after)
	wantCode(t, err, fault.Internal, "grpc_answer_too_large")
	if rise := after.TotalAlloc - before.TotalAlloc; rise > 64<<20 {
		t.Errorf("%d MiB were used", rise>>20)
	}
}

func TestBrokenAnswers(t *testing.T) {
	in := describing(t, "testdata/kinds.proto", "testdata/old.proto")
	junk := func(b []byte) handler {
		return func(_ context.Context, in *dynamicpb.Message, send func(proto.Message) error) error {
			out := dynamicpb.NewMessage(in.Descriptor().ParentFile().Messages().ByName("Answer"))
			out.SetUnknown(b)
			return send(out)
		}
	}
	for _, b := range [][]byte{{1<<3 | 2, 2, 0xff, 0xff}, {2<<3 | 2, 2, 1<<3 | 2, 5}, bytes.Repeat([]byte{2<<3 | 3}, 3000)} {
		srv := serve(t, in, serving{handle: map[string]handler{"Ask": junk(b)}})
		s := open(t, tool.Env{}, "host: "+srv.address)
		_, err := call(t.Context(), s.Tool(specOf(t, s, "test.ask")), `{"what":"x"}`)
		if !fault.Is(err, fault.Internal) || tool.CertainlyNotDone(err) {
			t.Errorf("%x: %v", b[:3], err)
		}
	}
}
