package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	"steward/internal/server/api"
	"steward/internal/server/httpauth"
)

// inside is a transport that hands requests to a handler in this process, as
// those of one caller. Answers are read while they are written.
type inside struct {
	handler http.Handler
	caller  httpauth.Caller
	serving sync.WaitGroup
}

// insideError is an error of the handler's own, as it is: nobody but this
// process is told.
type insideError struct{ error }

func (e insideError) Unwrap() error { return e.error }

// RoundTrip implements http.RoundTripper.
func (t *inside) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(httpauth.With(r.Context(), t.caller))
	in := r.Clone(ctx)
	if in.Body == nil {
		in.Body = http.NoBody
	}
	read, write := io.Pipe()
	w := &answering{header: http.Header{}, body: write, begun: make(chan int, 1)}
	t.serving.Go(func() {
		defer cancel()
		defer in.Body.Close()
		defer w.end()
		t.handler.ServeHTTP(w, in)
	})
	status := <-w.begun
	if w.failed != nil {
		return nil, insideError{w.failed}
	}
	res := &http.Response{StatusCode: status, Status: http.StatusText(status), Header: w.header, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Body: read}
	if status == http.StatusSwitchingProtocols {
		res.Body = w.taken
	}
	return res, nil
}

// CloseIdleConnections waits for handlers whose answers have been read.
func (t *inside) CloseIdleConnections() { t.serving.Wait() }

// answering is an answer that is being written.
type answering struct {
	header http.Header
	body   *io.PipeWriter
	begun  chan int // gets the status, once
	once   sync.Once
	failed error // set before begun gets anything

	own, taken net.Conn // the ends of the connection that the handler takes over
}

func (a *answering) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answering) WriteHeader(status int) {
	a.once.Do(func() {
		if status == http.StatusSwitchingProtocols {
			a.own, a.taken = net.Pipe()
		}
		a.begun <- status
	})
}

// Hijack implements http.Hijacker, for a handler that has switched protocols.
func (a *answering) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if a.own == nil {
		return nil, nil, http.ErrNotSupported
	}
	return a.own, bufio.NewReadWriter(bufio.NewReader(a.own), bufio.NewWriter(a.own)), nil
}

// Write implements http.ResponseWriter.
func (a *answering) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

var _ api.ErrorTaker = (*answering)(nil)

// Fail implements api.ErrorTaker.
func (a *answering) Fail(err error) {
	first := false
	a.once.Do(func() {
		first, a.failed = true, err
		a.begun <- http.StatusInternalServerError
	})
	if !first {
		a.body.CloseWithError(insideError{err}) //nolint:errcheck // it never fails
	}
}

// end ends the answer. A handler that broke off has panicked.
func (a *answering) end() {
	broke := recover()
	if a.own != nil {
		a.own.Close() //nolint:errcheck // it never fails
	}
	if err, ok := broke.(error); broke != nil && !(ok && errors.Is(err, http.ErrAbortHandler)) {
		panic(broke)
	}
	a.WriteHeader(http.StatusOK)
	if broke != nil {
		a.body.CloseWithError(io.ErrUnexpectedEOF) //nolint:errcheck // it never fails
		return
	}
	a.body.Close() //nolint:errcheck // it never fails
}
