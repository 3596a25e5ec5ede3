package edge_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"steward/test/edge"
)

// TestRequestsOfProgramsAreFitted: what a program sends over OpenAI's API goes to the model only as far as
// its window reaches, like a conversation's messages.
func TestRequestsOfProgramsAreFitted(t *testing.T) {
	t.Parallel()
	largest := 0
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(a edge.Asked) edge.Reply {
		size := 0
		for _, m := range a.Messages {
			size += len(m.Text())
		}
		largest = max(largest, size)
		return edge.Reply{Text: "yes"}
	})})
	configure(n, "models: {default: openai/tiny}\nwindows: {openai/tiny: 2048}\n")
	n.Serve()
	said := func(role, text string) string { return fmt.Sprintf(`{"role":%q,"content":%q}`, role, text) }
	var turns []string
	for range 40 {
		turns = append(turns, said("user", strings.Repeat("many words ", 200)), said("assistant", strings.Repeat("so it is ", 200)))
	}
	long := "[" + strings.Join(append(turns, said("user", "and now?")), ",") + "]"
	huge := "[" + said("user", strings.Repeat("many words ", 15000)) + "]"
	for path, member := range map[string]string{"/v1/chat/completions": "messages", "/v1/responses": "input"} {
		ask := func(list, more string) (int, string) {
			status, b := sends(t, n, n.Token(), path, fmt.Appendf(nil, `{"model":"default","%s":%s%s}`, member, list, more))
			return status, b
		}
		if status, b := ask(long, ""); status != http.StatusOK || !strings.Contains(b, "were left out") {
			t.Errorf("%s: a long history: %d %.300s", path, status, b)
		}
		for _, c := range [][2]string{{huge, ""}, {long, `,"truncation":"disabled"`}} {
			if status, b := ask(c[0], c[1]); status != http.StatusBadRequest || !strings.Contains(b, "context_length_exceeded") {
				t.Errorf("%s: what does not fit: %d %.300s", path, status, b)
			}
		}
	}
	if largest == 0 || largest > 8<<10 {
		t.Errorf("%d bytes went out", largest)
	}
}
