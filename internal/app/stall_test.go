package app

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"steward/test/served"
)

// TestAProgramThatStalls: a program that stalls does not keep its connection to the
// services either.
func TestAProgramThatStalls(t *testing.T) {
	s := &agentServices{log: slog.New(slog.DiscardHandler)}
	if s.once.Do(s.listen); s.err != nil {
		t.Fatal(s.err)
	}
	defer s.http.Close()
	address, _, _ := strings.Cut(strings.TrimPrefix(s.url, "http://"), "/")
	if res := served.Stalled(t, address, "/services/v1/log"); res.StatusCode != http.StatusUnauthorized || !res.Close {
		t.Errorf("%s, and the connection ends: %v", res.Status, res.Close)
	}
}
