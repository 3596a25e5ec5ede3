// Package otlp is a collector of traces for tests: OTLP over HTTP, as https://opentelemetry.io/docs/specs/otlp/
// describes it.
package otlp

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector keeps the spans that are sent to it.
type Collector struct {
	URL string

	mu   sync.Mutex
	all  []*otlp.Span
	keys []string
	raw  string
}

// New starts a collector that ends with the test.
func New(t testing.TB) *Collector {
	t.Helper()
	s := &Collector{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		var in collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(b, &in)
		}
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %s: %v", r.URL, r.Header.Get("Content-Type"), err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.keys = append(s.keys, r.Header.Get("Authorization"))
		s.raw += string(b)
		for _, rs := range in.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				s.all = append(s.all, ss.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	s.URL = srv.URL
	return s
}

// Named returns the spans with a name.
func (s *Collector) Named(name string) (out []*otlp.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.all {
		if x.Name == name {
			out = append(out, x)
		}
	}
	return out
}

// Keys returns the header Authorization of each request.
func (s *Collector) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.keys)
}

// Raw returns everything that was sent.
func (s *Collector) Raw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw
}

// ID returns the ID of a trace or a span as it is written.
func ID(b []byte) string { return hex.EncodeToString(b) }

// Attr returns an attribute of a span as text.
func Attr(s *otlp.Span, key string) string {
	i := slices.IndexFunc(s.Attributes, func(kv *common.KeyValue) bool { return kv.Key == key })
	if i < 0 {
		return ""
	}
	switch v := s.Attributes[i].Value.Value.(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_ArrayValue:
		return v.ArrayValue.Values[0].GetStringValue()
	}
	return s.Attributes[i].Value.String()
}
