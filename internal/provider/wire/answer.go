package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
)

// Limits on what is read from the other side.
const (
	maxWhole  = 16 << 20 // an answer that is no stream
	maxEvent  = 16 << 20 // one event or line of a stream
	maxStream = 256 << 20
	maxError  = 64 << 10 // the body of a refusal
	maxDrain  = 4 << 10  // what may follow a stream's own end mark
	drainTime = 100 * time.Millisecond
)

// Answer is the answer to one request, being read. It belongs to one
// goroutine; Close may be called more than once.
type Answer struct {
	Status int
	Header http.Header

	client *Client
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // fires expired when the other side is silent for too long
	begun  bool        // a byte of the body was read
	ended  bool        // the body was read to its end
	read   int         // bytes of the body
	body   io.ReadCloser
}

// The causes with which a request is cancelled from here; fail makes coded errors of them.
var (
	errSilent = errors.New("the other side is silent")
	errClosed = errors.New("closed")
)

func (a *Answer) expired() { a.cancel(errSilent) }

// Read reads the body. The timer runs only while it waits: a slow consumer is
// not a silent provider.
func (a *Answer) Read(p []byte) (int, error) {
	if a.begun {
		a.timer.Reset(a.client.opt.Idle)
	}
	n, err := a.body.Read(p)
	a.timer.Stop()
	if n > 0 {
		a.begun = true
		a.read += n
	}
	if err == io.EOF {
		a.ended = true
	}
	return n, err
}

// All returns the rest of the body, of at most 16 MB.
func (a *Answer) All() ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(held{a}, maxWhole+1))
	if err != nil {
		return nil, a.fail(err)
	}
	if len(b) > maxWhole {
		return nil, tooLarge("the model's answer has more than %d MiB", maxWhole>>20)
	}
	return b, nil
}

// held reads an answer of which all is kept.
type held struct{ *Answer }

func (h held) Read(p []byte) (int, error) {
	n, err := h.Answer.Read(p)
	if full := llm.Hold(h.ctx, n); err == nil {
		err = full
	}
	return n, err
}

// Finish reads what may follow the stream's own end mark, for a moment only,
// so that the connection can be used again, and closes the answer.
func (a *Answer) Finish() {
	if !a.ended {
		stop := time.AfterFunc(drainTime, func() { a.cancel(errClosed) })
		io.CopyN(io.Discard, a.body, maxDrain) // whatever it says, the answer is complete
		stop.Stop()
	}
	a.Close()
}

// Close ends the request: the other side sees its connection closed unless the
// body was read to its end.
func (a *Answer) Close() {
	a.timer.Stop()
	a.cancel(errClosed)
	if a.body != nil {
		a.body.Close()
	}
}

// refused turns an answer that is none into a coded error.
func (a *Answer) refused() error {
	ok := a.Status/100 == 2
	page := strings.HasPrefix(a.Header.Get("Content-Type"), "text/html")
	if ok && !page {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(a, maxError))
	if err != nil && a.ctx.Err() != nil {
		return a.fail(err)
	}
	if ok { // a captive portal, a proxy's log-in page, the wrong port
		return a.client.Fault(CodeProvider, "answered with a web page: "+excerpt(body), 0).
			WithHint("check that %s is the API's address", a.client.BaseURL())
	}
	return a.client.Refused(a.Status, a.Header, body)
}

// fail turns an error of the transport into a coded one.
func (a *Answer) fail(err error) error {
	c := a.client
	switch cause := context.Cause(a.ctx); {
	case cause == nil && a.body == nil:
		return c.unreachable(err)
	case cause == nil:
		return c.Broken(err)
	case cause == errSilent && !a.begun:
		return fault.New(fault.Timeout, CodeFirstByte, "%s sent nothing for %s", c.opt.Name, c.opt.FirstByte).
			Retrying(fault.RetryBackoff, 0)
	case cause == errSilent:
		return fault.New(fault.Timeout, CodeIdle, "%s stopped in the middle of its answer for %s", c.opt.Name, c.opt.Idle).
			Retrying(fault.RetryBackoff, 0)
	case cause == errClosed:
		return fault.New(fault.Cancelled, CodeCancelled, "the answer was closed")
	default:
		return cancelled(cause)
	}
}

// cancelled is the coded error for a context that is done.
func cancelled(cause error) error {
	var coded *fault.Error
	if errors.As(cause, &coded) {
		return cause // whoever cancelled said why
	}
	return fault.Of(cause)
}
