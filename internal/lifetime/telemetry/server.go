package telemetry

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/propagation"
)

// Servers returns a handler that counts the requests by server, and passes each on with the position in the
// trace that its header names. name returns the server of a request, one of a few words.
func (t *Telemetry) Servers(name func(*http.Request) string, next http.Handler) http.Handler {
	if t == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, positioned(r)) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server := name(r)
		open := t.connections.WithLabelValues(server)
		open.Inc()
		c := &counting{ResponseWriter: w}
		defer func() {
			open.Dec()
			code := c.code / 100
			if code == 0 {
				code = 2 // nothing was written; or it was taken over
			}
			t.httpRequests.WithLabelValues(server, strconv.Itoa(code)+"xx").Inc()
		}()
		next.ServeHTTP(c, positioned(r))
	})
}

// positioned returns a request with the position in the trace that its header names. A connection that is upgraded, as
// to a WebSocket, outlives what its caller traces, so that its header names nothing.
func positioned(r *http.Request) *http.Request {
	if r.Header.Get("Traceparent") == "" || r.Header.Get("Upgrade") != "" {
		return r
	}
	return r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
}

// counting is a http.ResponseWriter that keeps the status.
type counting struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (c *counting) WriteHeader(code int) {
	if c.code == 0 && code >= 200 {
		c.code = code
	}
	c.ResponseWriter.WriteHeader(code)
}

// Flush implements http.Flusher.
func (c *counting) Flush() {
	if f, ok := c.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap is for http.ResponseController.
func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }
