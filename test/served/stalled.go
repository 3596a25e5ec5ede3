package served

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"
)

// Stalled sends a request without the body that it announces. The answer must come
// nevertheless.
func Stalled(t testing.TB, address, path string) *http.Response {
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
