package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
)

func TestNewShowsItsCauseOnce(t *testing.T) {
	err := fault.New(fault.Unavailable, "unreachable", "no answer from %s: %w", "example.org", io.ErrUnexpectedEOF)
	if got := err.Error(); got != "no answer from example.org: unexpected EOF" {
		t.Errorf("Error = %q", got)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("the cause is not in the chain")
	}
	with := err.WithHint("check %s", "the network")
	if got := with.Error(); got != "no answer from example.org: unexpected EOF (check the network)" {
		t.Errorf("Error = %q", got)
	}
	literal := &fault.Error{Message: "it broke", Cause: io.EOF}
	if got := literal.Error(); got != "it broke: EOF" || !errors.Is(literal, io.EOF) {
		t.Errorf("Error = %q", got)
	}
	if err := fault.New(fault.Invalid, "x", "plain"); err.Cause != nil || err.Unwrap() != nil {
		t.Errorf("a cause from nowhere: %v", err.Cause)
	}
	two := fault.New(fault.Invalid, "x", "%w and %w", io.EOF, io.ErrShortWrite)
	if !errors.Is(two, io.EOF) || !errors.Is(two, io.ErrShortWrite) || two.Error() != "EOF and short write" {
		t.Errorf("two causes: %v, %v, %v", two, errors.Is(two, io.EOF), errors.Is(two, io.ErrShortWrite))
	}
}

func TestCopiesDoNotTouchTheOriginal(t *testing.T) {
	base := fault.New(fault.RateLimited, "rate_limited", "too fast").Detail("a", 1)
	more := base.Detail("b", 2).Retrying(fault.RetryAfter, time.Second).WithHint("wait")
	if len(base.Details) != 1 || base.Retry != "" || base.Remedy != "" || base.Recoverable() {
		t.Errorf("the original has changed: %#v", base)
	}
	if more.Details["a"] != 1 || more.Details["b"] != 2 || more.After != time.Second || !more.Recoverable() {
		t.Errorf("the copy: %#v", more)
	}
	if none := base.Retrying(fault.RetryNone, 0); none.Recoverable() {
		t.Error("RetryNone is recoverable")
	}
}

func TestOf(t *testing.T) {
	coded := fault.New(fault.NotFound, "gone", "it is gone")
	expired, cancel := context.WithTimeout(context.Background(), -1)
	defer cancel()
	for _, c := range []struct {
		err  error
		kind fault.Kind
		code string
	}{
		{coded, fault.NotFound, "gone"},
		{fmt.Errorf("reading: %w", coded), fault.NotFound, "gone"},
		{errors.Join(io.EOF, coded), fault.NotFound, "gone"},
		{fault.New(fault.Denied, "outer", "no: %w", coded), fault.Denied, "outer"},
		{context.Canceled, fault.Cancelled, "cancelled"},
		{fmt.Errorf("asking: %w", context.Canceled), fault.Cancelled, "cancelled"},
		{expired.Err(), fault.Timeout, "deadline_exceeded"},
		{io.EOF, fault.Internal, "internal"},
	} {
		got := fault.Of(c.err)
		if got.Kind != c.kind || got.Code != c.code || got.Error() == "" {
			t.Errorf("Of(%v) = %#v", c.err, got)
		}
		if !fault.Is(c.err, c.kind) || !fault.HasCode(c.err, c.code) || fault.HasCode(c.err, "other") || fault.Is(c.err, "other") {
			t.Errorf("Is and HasCode of %v", c.err)
		}
		if errors.Is(c.err, context.Canceled) && !errors.Is(got, context.Canceled) {
			t.Errorf("Of(%v) loses the cause", c.err)
		}
	}
	if fault.Of(nil) != nil || fault.Is(nil, fault.Internal) || fault.HasCode(nil, "internal") {
		t.Error("nil is no error")
	}
	if got := fault.Of(io.EOF).Error(); got != "EOF" {
		t.Errorf("told twice: %q", got)
	}
}

// However deep a coded error is wrapped, it is found, and each text is told once.
func TestWrapping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var err error = fault.New(fault.Conflict, "inner", "[inner]")
		for i := range rapid.IntRange(0, 6).Draw(t, "depth") {
			if rapid.Bool().Draw(t, "plain") {
				err = fmt.Errorf("<%d>: %w", i, err)
			} else {
				err = fault.New(fault.Internal, "outer", "<%d>: %w", i, err)
			}
		}
		var inner *fault.Error
		for e := err; e != nil; e = errors.Unwrap(e) {
			if f, ok := e.(*fault.Error); ok {
				inner = f
			}
		}
		if inner == nil || inner.Code != "inner" {
			t.Fatalf("not found in %v", err)
		}
		if n := count(err.Error(), "[inner]"); n != 1 {
			t.Fatalf("told %d times: %v", n, err)
		}
	})
}

func count(s, part string) (n int) {
	for i := 0; i+len(part) <= len(s); i++ {
		if s[i:i+len(part)] == part {
			n++
		}
	}
	return n
}
