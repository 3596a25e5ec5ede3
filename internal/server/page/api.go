package page

import (
	"bytes"
	"net/http"

	"steward/client"
	"steward/internal/server/auth"
)

// api returns a client of the API that acts as the person.
func (v *visit) api() *client.Client {
	return client.New(client.Options{URL: "http://steward", HTTP: &http.Client{Transport: inside{v.API, v.caller.Inside()}}, Fault: auth.FaultOf})
}

// inside calls a handler in this process as a caller.
type inside struct {
	h      http.Handler
	caller auth.Caller
}

func (t inside) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(auth.With(r.Context(), t.caller))
	in.RequestURI = r.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &answer{header: http.Header{}, status: http.StatusOK}
	t.h.ServeHTTP(w, in)
	return &http.Response{Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: &body{Reader: bytes.NewReader(w.buf.Bytes())}, ContentLength: int64(w.buf.Len()), Request: r}, nil
}

// answer is an http.ResponseWriter that keeps the answer, whose size the API bounds.
type answer struct {
	header  http.Header
	status  int
	written bool
	buf     bytes.Buffer
}

func (w *answer) Header() http.Header { return w.header }

func (w *answer) WriteHeader(status int) {
	if !w.written {
		w.status, w.written = status, true
	}
}

func (w *answer) Write(b []byte) (int, error) {
	w.written = true
	return w.buf.Write(b)
}

type body struct{ *bytes.Reader }

func (*body) Close() error { return nil }
