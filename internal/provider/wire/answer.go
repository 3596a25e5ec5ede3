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

// Limits on what is read from the server.
const (
	maxWhole  = 16 << 20 // an answer that is not a stream
	maxEvent  = 16 << 20 // one event or line of a stream
	maxStream = 256 << 20
	maxError  = 64 << 10 // the body of a refusal
	maxDrain  = 4 << 10  // what may follow a stream's own end mark
	drainTime = 100 * time.Millisecond
)

// Answer is the answer to one request, while it is being read. It is not safe for concurrent use.
// Close may be called more than once.
type Answer struct {
	Status int
	Header http.Header

	client *Client
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // fires expired when the server is silent for too long
	begun  bool        // a byte of the body was read
	ended  bool        // the body was read to its end
	read   int         // bytes of the body
	body   io.ReadCloser
}

// The causes for which the client itself cancels a request; fail converts them to coded errors.
var (
	errSilent = errors.New("the other side is silent")
	errClosed = errors.New("closed")
)

func (a *Answer) expired() { a.cancel(errSilent) }

// Read reads the body. The timer runs only while Read waits, because a slow consumer does not mean
// that the provider is silent.
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

// held reads an answer that is kept in full.
type held struct{ *Answer }

func (h held) Read(p []byte) (int, error) {
	n, err := h.Answer.Read(p)
	if full := llm.Hold(h.ctx, n); err == nil {
		err = full
	}
	return n, err
}

// Finish reads briefly what may follow the stream's own end mark, so that the connection can be
// reused, and closes the answer.
func (a *Answer) Finish() {
	if !a.ended {
		stop := time.AfterFunc(drainTime, func() { a.cancel(errClosed) })
		io.CopyN(io.Discard, a.body, maxDrain) // the answer is complete, whatever follows
		stop.Stop()
	}
	a.Close()
}

// Close ends the request. Unless the body was read to its end, this closes the connection.
func (a *Answer) Close() {
	a.timer.Stop()
	a.cancel(errClosed)
	if a.body != nil {
		a.body.Close()
	}
}

// refused returns the coded error for an answer that is not a success.
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

// fail converts a transport error to a coded error.
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

// cancelled returns the coded error for a context that is done.
func cancelled(cause error) error {
	var coded *fault.Error
	if errors.As(cause, &coded) {
		return cause // the code that cancelled has given its reason
	}
	return fault.Of(cause)
}
