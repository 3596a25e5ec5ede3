//go:build long

package edge_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"steward/test/edge"
)

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
