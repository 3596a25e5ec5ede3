package main

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
)

// stalled sends a request without the body that it announces. The answer must come
// nevertheless.
func stalled(t *testing.T, address, path string) *http.Response {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer sk-steward-unknown\r\nContent-Length: 1000\r\n\r\n", path, address); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// TestNobodyWithoutAKeyKeepsAConnection: a stalled request without a key does not keep
// its connection, on any server.
func TestNobodyWithoutAKeyKeepsAConnection(t *testing.T) {
	_, r := serveFor(t, user(t))
	for _, path := range []string{"/ws", "/v1/chat/completions", "/api/v1/keys", "/services/v1/log", "/tool.Tool/ListTools", "/nowhere"} {
		if res := stalled(t, strings.TrimPrefix(r.URL(), "http://"), path); res.StatusCode < 400 || !res.Close {
			t.Errorf("%s: %s, and the connection ends: %v", path, res.Status, res.Close)
		}
	}
}

// TestAProgramThatStalls: a program that stalls does not keep its connection to the
// services either.
func TestAProgramThatStalls(t *testing.T) {
	s := &agentServices{log: slog.New(slog.DiscardHandler)}
	if s.once.Do(s.listen); s.err != nil {
		t.Fatal(s.err)
	}
	defer s.http.Close()
	address, _, _ := strings.Cut(strings.TrimPrefix(s.url, "http://"), "/")
	if res := stalled(t, address, "/services/v1/log"); res.StatusCode != http.StatusUnauthorized || !res.Close {
		t.Errorf("%s, and the connection ends: %v", res.Status, res.Close)
	}
}
