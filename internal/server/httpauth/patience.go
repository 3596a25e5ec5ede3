package httpauth

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

// Patience is how long a peer may keep a request waiting. The deadlines of
// http.Server are no help: they are for whole requests, of which some last for
// as long as a model thinks, or a subscriber listens.
type Patience struct {
	Read  time.Duration // for the next bytes of a body; zero: 30 s
	Write time.Duration // until the next piece of an answer is taken; zero: a minute
	// Talks reports of a request over HTTP/2 whether its caller may be silent
	// for as long as he likes between what he sends. nil: none may.
	Talks func(r *http.Request) bool
}

func (p Patience) orDefaults() Patience {
	p.Read, p.Write = cmp.Or(p.Read, 30*time.Second), cmp.Or(p.Write, time.Minute)
	return p
}

// Wrap loses patience with peers that stop sending what they have announced,
// or do not read their answers. It belongs outside of everything else, the
// Guard too. Who takes a connection over (http.Hijacker) bounds it himself.
func (p Patience) Wrap(next http.Handler) http.Handler {
	p = p.orDefaults()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &answering{ResponseWriter: w, patience: p, rc: http.NewResponseController(w),
			old: r.ProtoMajor == 1, expects: r.Header.Get("Expect") != ""}
		talks := r.ProtoMajor == 2 && p.Talks != nil && p.Talks(r)
		if r.Body != nil && r.Body != http.NoBody && !talks {
			x.body = &awaited{ReadCloser: r.Body, patience: p.Read, rc: x.rc}
			r = r.WithContext(r.Context()) // net/http looks at the body of its own
			r.Body = x.body
		}
		defer x.leave()
		next.ServeHTTP(x, r)
		x.settle(http.StatusOK)
	})
}

// Server is the server of a handler; HTTP/1 is spoken unless Protocols say otherwise.
func (p Patience) Server(h http.Handler) *http.Server {
	p = p.orDefaults()
	return &http.Server{Handler: p.Wrap(h), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		HTTP2: &http.HTTP2Config{WriteByteTimeout: p.Write}} // a stream cannot be reset over a connection that takes nothing
}

// awaited is a body whose next bytes are waited for for a limited time. No
// deadline may stand outside of reads: at the end of the body net/http begins
// to watch the connection, and would take a deadline for the client's leaving.
type awaited struct {
	io.ReadCloser
	patience time.Duration
	rc       *http.ResponseController
	over     atomic.Bool // there is nothing more to wait for
}

// Read implements io.Reader.
func (b *awaited) Read(p []byte) (n int, err error) {
	if b.over.Load() {
		return b.ReadCloser.Read(p)
	}
	b.hurry(func() { n, err = b.ReadCloser.Read(p) })
	if errors.Is(err, io.EOF) {
		b.over.Store(true)
	}
	return n, err
}

// Close implements io.Closer: net/http reads what is left.
func (b *awaited) Close() (err error) {
	if b.over.Swap(true) {
		return b.ReadCloser.Close()
	}
	b.hurry(func() { err = b.ReadCloser.Close() })
	return err
}

// mostRest is how much of a body that nobody wants is read so that the
// connection can go on; net/http has the same bound.
const mostRest = 256 << 10

// rest reads what is left of the body, and reports whether that was all.
func (b *awaited) rest() bool {
	b.hurry(func() {
		_, err := io.CopyN(io.Discard, b.ReadCloser, mostRest+1)
		b.over.Store(errors.Is(err, io.EOF))
	})
	return b.over.Load()
}

// hurry reads under a deadline. Where none can be set nobody is waited for:
// what there is, is in memory.
func (b *awaited) hurry(read func()) {
	b.rc.SetReadDeadline(time.Now().Add(b.patience))
	read()
	b.rc.SetReadDeadline(time.Time{})
}

// answering is an answer whose peer has to take it.
type answering struct {
	http.ResponseWriter
	patience Patience
	rc       *http.ResponseController
	body     *awaited // nil: there is none, or it may take its time
	old      bool     // HTTP/1, where requests and answers of a connection take turns
	expects  bool     // the client sends its body once it is asked to
	settled  bool     // what is left of the body has been dealt with
	taken    bool     // the connection is somebody else's
}

// settle deals with what is left of the body before the head of the answer
// leaves. net/http would read it first, for as long as the peer lets it.
func (x *answering) settle(status int) {
	if x.settled || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	x.settled = true
	if !x.old || x.body == nil || x.body.over.Load() {
		return
	}
	if refused := status >= 400; refused || x.expects || !x.body.rest() {
		x.Header().Set("Connection", "close")
	}
}

// WriteHeader implements http.ResponseWriter.
func (x *answering) WriteHeader(status int) {
	x.settle(status)
	x.ResponseWriter.WriteHeader(status)
}

// mostPiece is how much has to be taken at once: a long answer over a slow
// line is no sign of a peer that does not read.
const mostPiece = 64 << 10

// Write implements io.Writer.
func (x *answering) Write(p []byte) (n int, err error) {
	x.settle(http.StatusOK)
	for more := true; more && err == nil; more = n < len(p) {
		piece := p[n:min(n+mostPiece, len(p))]
		x.hurry(func() {
			var took int
			took, err = x.ResponseWriter.Write(piece)
			n += took
		})
	}
	return n, err
}

// FlushError implements what http.ResponseController looks for.
func (x *answering) FlushError() (err error) {
	x.settle(http.StatusOK)
	x.hurry(func() { err = x.rc.Flush() })
	return err
}

// Flush implements http.Flusher.
func (x *answering) Flush() { x.FlushError() } //nolint:errcheck // the next write fails too

// hurry writes under a deadline. It does not stay: over HTTP/2 it would end an
// answer that waits for its next event.
func (x *answering) hurry(write func()) {
	x.rc.SetWriteDeadline(time.Now().Add(x.patience.Write))
	write()
	x.rc.SetWriteDeadline(time.Time{})
}

// Hijack implements http.Hijacker.
func (x *answering) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := x.rc.Hijack()
	x.taken = err == nil
	x.settled = x.settled || x.taken
	return c, rw, err
}

// Unwrap is for http.ResponseController.
func (x *answering) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// leave bounds what net/http does after the handler: it writes what it has
// kept back, and reads on in a body that is left.
func (x *answering) leave() {
	if x.taken {
		return
	}
	x.rc.SetWriteDeadline(time.Now().Add(x.patience.Write))
	if x.body != nil && !x.body.over.Load() {
		x.rc.SetReadDeadline(time.Now().Add(x.patience.Read))
	}
}
