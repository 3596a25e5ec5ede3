package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"steward/internal/secret"
)

// Text answers are masked however they are split; others pass unchanged.
func TestMaskingAnswers(t *testing.T) {
	m := &secret.Masker{}
	h := masking(m, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		w.Header().Set("Content-Length", "15")
		for _, part := range []string{"a can", "ary-1234", " b"} {
			if _, err := w.Write([]byte(part)); err != nil {
				t.Error(err)
			}
			http.NewResponseController(w).Flush()
		}
	}))
	get := func(typ string, header ...string) string {
		r := httptest.NewRequest("GET", "/?type="+url.QueryEscape(typ), nil)
		if header != nil {
			r.Header.Set(header[0], header[1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Header().Get("Content-Length") + "|" + w.Body.String()
	}
	if got := get("application/json"); got != "15|a canary-1234 b" {
		t.Errorf("without secrets: %q", got)
	}
	stream := httptest.NewRecorder() // a stream that began before a secret was known
	masking(m, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		if err := m.Add("C", "canary-1234"); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, "a canary-1234 b")
	})).ServeHTTP(stream, httptest.NewRequest("GET", "/", nil))
	if got := stream.Body.String(); got != "a «secret:C» b" {
		t.Errorf("a stream that had begun: %q", got)
	}
	for typ, want := range map[string]string{"application/json": "|a «secret:C» b", "text/event-stream": "|a «secret:C» b", "application/x-ndjson": "|a «secret:C» b",
		"application/octet-stream": "15|a canary-1234 b", "application/proto": "15|a canary-1234 b",
		"application/grpc+json": "15|a canary-1234 b", "application/connect+json": "15|a canary-1234 b"} {
		if got := get(typ); got != want {
			t.Errorf("%s: %q", typ, got)
		}
	}
	for _, header := range [][]string{{"Content-Type", "application/grpc+proto"}, {"Upgrade", "x"}} { // the request's headers do not matter
		if got := get("text/plain", header...); got != "|a «secret:C» b" {
			t.Errorf("%s: %q", header[0], got)
		}
	}
}
