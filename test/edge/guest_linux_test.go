package edge_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
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

// TestAGuestTakesNoMemory sends with a guest's key what took gigabytes, many at a time and in every way.
// The owner is answered meanwhile.
func TestAGuestTakesNoMemory(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{})
	n.Must("users", "add", "gus", "--role", "guest")
	gus := n.Key("gus")
	text := strings.Repeat("word ", 6<<20)
	tiny := func(size int) string {
		const one = `{"role":"user","content":"a"},`
		return "[" + strings.TrimSuffix(strings.Repeat(one, size/len(one)), ",") + "]"
	}
	var work sync.WaitGroup
	for range 8 { // frames of 30 MB and of 5 MB, which is less than what is taken at once
		work.Go(func() {
			c := n.Dial(gus)
			c.Send(map[string]any{"type": "message", "content": text})
			if f := c.Read(); f.Code != "too_large" && f.Code != "too_many_waiting" {
				t.Errorf("a frame of 30 MB: %s %s", f.Type, f.Code)
			}
			c.Send(map[string]any{"type": "message", "content": text[:5<<20]})
			c.Read()
			c.Close()
		})
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/api/v1/convert?from=openai&to=anthropic", "/api/v1/import"} {
		member := map[string]string{"/v1/responses": "input"}[path]
		wrap := func(list string) []byte {
			switch {
			case member == "" && strings.HasPrefix(path, "/api"):
				return []byte(list)
			case member == "":
				member = "messages"
			}
			return fmt.Appendf(nil, `{"model":"default","%s":%s}`, member, list)
		}
		large, middle := wrap(tiny(27<<20)), wrap(tiny(5<<20))
		for range 4 {
			work.Go(func() {
				sends(t, n, gus, path, large)
				sends(t, n, gus, path, middle)
			})
		}
	}
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	for answered := 0; ; answered++ {
		select {
		case <-done:
		default:
			if status, b := n.HTTP("GET", "/api/v1/conversations", nil); status != http.StatusOK {
				t.Errorf("the owner: %d %s", status, b)
			}
			continue
		}
		t.Logf("%d answers to the owner, %d MB at most", answered, peak(t, n)>>20)
		break
	}
	if got := peak(t, n); got > 300<<20 {
		t.Errorf("a guest took it to %d MB", got>>20)
	}
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
