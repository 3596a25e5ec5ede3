package edge_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"steward/test/edge"
)

// sends posts a body with a guest's key and returns the status and the code of the error.
func sends(t *testing.T, n *edge.Node, secret, path string, body []byte) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", n.URL+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error() // the server has closed the connection on what is far too large
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return res.StatusCode, err.Error()
	}
	return res.StatusCode, string(b)
}

// onDisk returns the size of the data folder.
func onDisk(t *testing.T, n *edge.Node) (size int64) {
	t.Helper()
	err := filepath.WalkDir(n.Data(), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // a file of the database may just have gone
		}
		if info, err := d.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// TestAGuestStoresItsQuota: what a guest stores in a day is bounded, and refused before it is stored. A
// restart does not forget it.
func TestAGuestStoresItsQuota(t *testing.T) {
	t.Parallel()
	const quota = 3_000_000
	n := edge.Serve(t, edge.Options{Settings: fmt.Sprintf("limits: {guest_storage: %d}\n", quota)})
	n.Must("users", "add", "gus", "--role", "guest")
	gus := n.Key("gus")
	before := onDisk(t, n)
	message := strings.Repeat("word ", 40<<10)
	ask := func() edge.Frame {
		c := n.Dial(gus)
		defer c.Close()
		c.Send(map[string]any{"type": "message", "content": message})
		return c.Read()
	}
	stored := 0
	for ; stored < 100; stored++ {
		if f := ask(); f.Type == "error" {
			if f.Code != "storage_used_up" {
				t.Errorf("%+v", f)
			}
			break
		}
	}
	if stored == 0 || stored == 100 {
		t.Fatalf("%d messages were stored", stored)
	}
	list := []byte(`[{"role":"user","content":"` + message + `"},{"role":"assistant","content":"yes"}]`)
	for _, x := range [][2]string{{"/api/v1/import", string(list)},
		{"/v1/chat/completions", `{"model":"agent:assistant","messages":[{"role":"user","content":"` + message + `"}]}`}} {
		if status, b := sends(t, n, gus, x[0], []byte(x[1])); status != http.StatusTooManyRequests || !strings.Contains(b, "storage_used_up") {
			t.Errorf("%s: %d %.300s", x[0], status, b)
		}
	}
	n.Stop()
	if grown := onDisk(t, n) - before; grown > quota {
		t.Errorf("the disk has %d bytes more", grown)
	}
	n.Serve()
	if f := ask(); f.Code != "storage_used_up" {
		t.Errorf("after a restart: %+v", f)
	}
	if _, b := n.HTTP("GET", "/api/v1/conversations", nil); strings.Contains(string(b), "storage_used_up") {
		t.Error("the owner is refused")
	}
}
