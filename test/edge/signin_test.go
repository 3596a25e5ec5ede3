package edge_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"steward/client"
	"steward/test/edge"
	"steward/test/signin"
)

// A person signs in at an MCP server through the API, as the page does: the browser comes back to this machine, or,
// if it runs on another one, its address is pasted. The token is kept, and shown nowhere.
func TestSigningInAtAServerThroughTheAPI(t *testing.T) {
	t.Parallel()
	w := signin.New(t)
	n := edge.New(t, edge.Options{})
	n.Serve()
	do := func(method, path string, body any, want int) (out client.SignIn) {
		t.Helper()
		status, b := n.HTTP(method, "/api/v1/mcp/servers"+path, body)
		if status != want {
			t.Fatalf("%s %s: %d %s", method, path, status, b)
		}
		if strings.Contains(string(b), "access-token-") {
			t.Errorf("a token is shown: %s", b)
		}
		if status == 200 {
			if err := json.Unmarshal(b, &out); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	lacks := func() string {
		var out client.Servers
		n.Get("/api/v1/mcp/servers", &out)
		if len(out.Servers) != 1 || !out.Servers[0].SignsIn {
			t.Fatalf("%+v", out)
		}
		return out.Servers[0].Lacks
	}
	do("POST", "", map[string]string{"name": "greenhouse", "url": w.URL()}, 204)
	do("GET", "/greenhouse/signin", nil, 404)
	s := do("POST", "/greenhouse/signin", map[string]bool{}, 200)
	if s.State != client.SignInOpen || !strings.HasPrefix(s.URL, "http") || lacks() == "" {
		t.Fatalf("%+v", s)
	}
	s = do("POST", "/greenhouse/signin", map[string]bool{}, 200) // begun again: the first one ends
	res, err := http.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close() //nolint:errcheck // only that it came back counts
	if s = do("GET", "/greenhouse/signin?wait=true", nil, 200); s.State != client.SignInDone || s.URL != "" {
		t.Fatalf("%+v", s)
	}
	if why := lacks(); why != "" {
		t.Error(why)
	}

	w.RevokeAll()
	s = do("POST", "/greenhouse/signin", map[string]bool{}, 200)
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if res, err = c.Get(s.URL); err != nil {
		t.Fatal(err)
	}
	res.Body.Close() //nolint:errcheck // only where it leads counts
	do("PUT", "/greenhouse/signin", map[string]string{"address": "http://127.0.0.1/?code=x&state=y"}, 400)
	if s = do("PUT", "/greenhouse/signin", map[string]string{"address": res.Header.Get("Location")}, 200); s.State != client.SignInDone {
		t.Fatalf("%+v", s)
	}
	do("DELETE", "/greenhouse", nil, 204)
	if strings.Contains(n.Log(), "access-token-") {
		t.Error("the log has a token")
	}
}
