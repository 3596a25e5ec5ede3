package auth

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Timeouts limits how long a peer may keep a request waiting. The deadlines of http.Server are
// unsuitable: they apply to whole requests, and some requests last as long as a model thinks or a
// subscriber listens.
type Timeouts struct {
	Read  time.Duration // for the next bytes of a body; zero: 30 s
	Write time.Duration // for the peer to accept the next piece of an answer; zero: a minute
	// MayPause reports whether the caller of a request over HTTP/2 may be silent for any length of
	// time between what it sends. If nil, no caller may.
	MayPause func(r *http.Request) bool
}

func (p Timeouts) orDefaults() Timeouts {
	p.Read, p.Write = cmp.Or(p.Read, 30*time.Second), cmp.Or(p.Write, time.Minute)
	return p
}

// Wrap ends requests whose peers stop sending what they have announced, or do not read their
// answers. It must be the outermost handler, outside the Guard too. A handler that takes over the
// connection (http.Hijacker) has to set its own limits.
func (p Timeouts) Wrap(next http.Handler) http.Handler {
	p = p.orDefaults()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &responseWriter{ResponseWriter: w, timeouts: p, rc: http.NewResponseController(w),
			old: r.ProtoMajor == 1, expects: r.Header.Get("Expect") != ""}
		talks := r.ProtoMajor == 2 && p.MayPause != nil && p.MayPause(r)
		if r.Body != nil && r.Body != http.NoBody && !talks {
			x.body = &deadlineBody{ReadCloser: r.Body, timeout: p.Read, rc: x.rc}
			r = r.WithContext(r.Context()) // a copy: net/http inspects the body of its own request
			r.Body = x.body
		}
		defer x.leave()
		next.ServeHTTP(x, r)
		x.drainBeforeHeader(http.StatusOK)
	})
}

// Server returns a server for a handler. It speaks HTTP/1 unless Protocols is set.
func (p Timeouts) Server(h http.Handler) *http.Server {
	p = p.orDefaults()
	return &http.Server{Handler: p.Wrap(h), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		HTTP2: &http.HTTP2Config{WriteByteTimeout: p.Write}} // a blocked connection cannot even carry the reset of a stream
}

// deadlineBody is a body whose reads have a deadline. The deadline must not remain set between reads: at
// the end of the body net/http begins to watch the connection, and would take a deadline for a
// disconnect.
type deadlineBody struct {
	io.ReadCloser
	timeout time.Duration
	rc      *http.ResponseController
	over    atomic.Bool // no more bytes are awaited
}

// Read implements io.Reader.
func (b *deadlineBody) Read(p []byte) (n int, err error) {
	if b.over.Load() {
		return b.ReadCloser.Read(p)
	}
	b.withDeadline(func() { n, err = b.ReadCloser.Read(p) })
	if errors.Is(err, io.EOF) {
		b.over.Store(true)
	}
	return n, err
}

// Close implements io.Closer: net/http reads what is left.
func (b *deadlineBody) Close() (err error) {
	if b.over.Swap(true) {
		return b.ReadCloser.Close()
	}
	b.withDeadline(func() { err = b.ReadCloser.Close() })
	return err
}

// maxRest is how much of an unread body is read so that the connection can be reused; net/http has
// the same limit.
const maxRest = 256 << 10

// drain reads what is left of the body, and reports whether it reached the end.
func (b *deadlineBody) drain() bool {
	b.withDeadline(func() {
		_, err := io.CopyN(io.Discard, b.ReadCloser, maxRest+1)
		b.over.Store(errors.Is(err, io.EOF))
	})
	return b.over.Load()
}

// withDeadline reads under a deadline. If no deadline can be set it does not wait: everything is in memory
// already.
func (b *deadlineBody) withDeadline(read func()) {
	b.rc.SetReadDeadline(time.Now().Add(b.timeout))
	read()
	b.rc.SetReadDeadline(time.Time{})
}

// responseWriter is a response writer whose peer must keep reading.
type responseWriter struct {
	http.ResponseWriter
	timeouts Timeouts
	rc       *http.ResponseController
	body     *deadlineBody // nil: there is none, or its reads have no deadline
	old      bool          // HTTP/1, where a connection alternates requests and answers
	expects  bool          // the client sends its body only after 100 Continue
	settled  bool          // what is left of the body has been dealt with
	taken    bool          // the handler has hijacked the connection
}

// drainBeforeHeader deals with what is left of the body before the header of the answer is sent. Otherwise
// net/http would read it first, for as long as the peer likes.
func (x *responseWriter) drainBeforeHeader(status int) {
	if x.settled || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	x.settled = true
	if !x.old || x.body == nil || x.body.over.Load() {
		return
	}
	if refused := status >= 400; refused || x.expects || !x.body.drain() {
		x.Header().Set("Connection", "close")
	}
}

// WriteHeader implements http.ResponseWriter.
func (x *responseWriter) WriteHeader(status int) {
	x.drainBeforeHeader(status)
	x.ResponseWriter.WriteHeader(status)
}

// maxPiece is how much is written under one deadline, because a long answer over a slow line does
// not mean that the peer has stopped reading.
const maxPiece = 64 << 10

// Write implements io.Writer.
func (x *responseWriter) Write(p []byte) (n int, err error) {
	x.drainBeforeHeader(http.StatusOK)
	for more := true; more && err == nil; more = n < len(p) {
		piece := p[n:min(n+maxPiece, len(p))]
		x.withDeadline(func() {
			var took int
			took, err = x.ResponseWriter.Write(piece)
			n += took
		})
	}
	return n, err
}

// FlushError implements the method that http.ResponseController looks for.
func (x *responseWriter) FlushError() (err error) {
	x.drainBeforeHeader(http.StatusOK)
	x.withDeadline(func() { err = x.rc.Flush() })
	return err
}

// Flush implements http.Flusher.
func (x *responseWriter) Flush() { x.FlushError() } //nolint:errcheck // the next write fails too

// withDeadline writes under a deadline and then removes it: over HTTP/2 it would end an answer that waits
// for its next event.
func (x *responseWriter) withDeadline(write func()) {
	x.rc.SetWriteDeadline(time.Now().Add(x.timeouts.Write))
	write()
	x.rc.SetWriteDeadline(time.Time{})
}

// Hijack implements http.Hijacker.
func (x *responseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := x.rc.Hijack()
	x.taken = err == nil
	x.settled = x.settled || x.taken
	return c, rw, err
}

// Unwrap is for http.ResponseController.
func (x *responseWriter) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// leave limits what net/http does after the handler: it writes what is buffered, and reads the rest
// of the body.
func (x *responseWriter) leave() {
	if x.taken {
		return
	}
	x.rc.SetWriteDeadline(time.Now().Add(x.timeouts.Write))
	if x.body != nil && !x.body.over.Load() {
		x.rc.SetReadDeadline(time.Now().Add(x.timeouts.Read))
	}
}
