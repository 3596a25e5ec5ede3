package cli

import (
	"strings"
	"testing"

	"steward/test/served"
)

// TestNobodyWithoutAKeyKeepsAConnection: a stalled request without a key does not keep
// its connection, on any server.
func TestNobodyWithoutAKeyKeepsAConnection(t *testing.T) {
	_, r := serveFor(t, user(t))
	for _, path := range []string{"/ws", "/v1/chat/completions", "/api/v1/keys", "/services/v1/log", "/tool.Tool/ListTools", "/nowhere"} {
		if res := served.Stalled(t, strings.TrimPrefix(r.URL(), "http://"), path); res.StatusCode < 400 || !res.Close {
			t.Errorf("%s: %s, and the connection ends: %v", path, res.Status, res.Close)
		}
	}
}
