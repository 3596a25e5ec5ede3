package edge_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"steward/test/edge"
)

// small returns a node with the offline model and a limit on its data segment.
// Unbounded use of memory ends it.
func small(t *testing.T) *edge.Node {
	n := edge.New(t, edge.Options{Env: []string{"GOMEMLIMIT=400MiB"}})
	n.ServeUnder([]string{"prlimit", "--data=" + strconv.Itoa(3<<30)})
	return n
}

func schema(text string) map[string]any {
	return map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "answer", "schema": json.RawMessage(text)}}
}

func TestTheOfflineModelRefusesASchemaWithoutEnd(t *testing.T) {
	t.Parallel()
	n := small(t)
	for _, s := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}},"required":["a","b"],"additionalProperties":false}`,
		`{"type":"object","$ref":"#"}`,
		`{"type":"object","properties":{"a":{"type":"array","minItems":40,"items":{"$ref":"#"}}},"required":["a"]}`,
		`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`,
	} {
		status, b := n.HTTP("POST", "/v1/chat/completions", map[string]any{"model": "offline/steward", "response_format": schema(s),
			"messages": []any{map[string]any{"role": "user", "content": "Say anything."}}})
		refused := strings.Contains(string(b), "schema_unsupported") || strings.Contains(string(b), "refers to itself without end")
		if status/100 != 4 && status != http.StatusNotImplemented || !refused {
			t.Errorf("%s: %d %s", s, status, b)
		}
	}
	if !n.Alive() {
		t.Fatal("the node has ended")
	}
}

func TestTheOfflineModelFillsASchemaFromWhatIsCertain(t *testing.T) {
	t.Parallel()
	n := small(t)
	status, b := n.HTTP("POST", "/v1/chat/completions", map[string]any{"model": "offline/steward",
		"response_format": schema(`{"type":"object","properties":{"email":{"type":"string","format":"email"},"priority":{"type":"string","enum":["low","high"]},"due":{"type":"string","format":"date"}},"required":["email","priority"],"additionalProperties":false}`),
		"messages":        []any{map[string]any{"role": "user", "content": "Ann (ann@example.com) needs it by 2026-04-01 with high priority."}}})
	var got struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal(b, &got); status != http.StatusOK || err != nil || len(got.Choices) != 1 ||
		got.Choices[0].Message.Content != `{"due":"2026-04-01","email":"ann@example.com","priority":"high"}` {
		t.Errorf("%d %v %s", status, err, b)
	}
}

func TestTheOfflineModelSaysThatAPromptIsTooLong(t *testing.T) {
	t.Parallel()
	n := small(t)
	for _, text := range []string{strings.Repeat("multiply 6 by 7 and then ", 800), strings.Repeat("«", 20<<10), strings.Repeat("a.b/", 5<<10)} {
		status, b := n.HTTP("POST", "/v1/chat/completions", map[string]any{"model": "offline/steward",
			"messages": []any{map[string]any{"role": "user", "content": text}}})
		if status != http.StatusOK || !strings.Contains(string(b), "I read at most 8192") {
			t.Errorf("%.20s: %d %.300s", text, status, b)
		}
	}
}

func TestTheOfflineEmbedderRefusesAHugeText(t *testing.T) {
	t.Parallel()
	n := small(t)
	status, b := n.HTTP("POST", "/v1/embeddings", map[string]any{"model": "offline/lexical", "input": strings.Repeat("word ", 4<<20)})
	if status != http.StatusRequestEntityTooLarge && status != http.StatusBadRequest {
		t.Errorf("%d %.300s", status, b)
	}
	status, b = n.HTTP("POST", "/v1/embeddings", map[string]any{"model": "offline/lexical", "input": strings.Repeat("word ", 300<<10)})
	if status/100 != 4 || !strings.Contains(string(b), "context_length_exceeded") {
		t.Errorf("%d %.300s", status, b)
	}
	if status, b = n.HTTP("POST", "/v1/embeddings", map[string]any{"model": "offline/lexical", "input": strings.Repeat("word ", 100<<10)}); status != http.StatusOK {
		t.Errorf("%d %.300s", status, b)
	}
}

// Clients that hang up leave no computation behind: the process becomes idle,
// and its CPU time stops growing.
func TestTheOfflineModelStopsWhenItsClientHangsUp(t *testing.T) {
	t.Parallel()
	n := small(t)
	var tools []any
	for i := range 500 {
		tools = append(tools, map[string]any{"type": "function", "function": map[string]any{"name": "tool_" + strconv.Itoa(i),
			"description": strings.Repeat("words that are many ", 50), "parameters": map[string]any{"type": "object"}}})
	}
	body, err := json.Marshal(map[string]any{"model": "offline/steward", "stream": true, "tools": tools,
		"messages": []any{map[string]any{"role": "user", "content": strings.Repeat("many words and more ", 400)}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL+"/v1/chat/completions", strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+n.Token())
		go cancel()
		if res, err := http.DefaultClient.Do(req); err == nil {
			_, _ = bufio.NewReader(res.Body).ReadByte() // part of the answer may have arrived
			res.Body.Close()
		} else if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		cancel()
	}
	still, last := 0, ""
	n.Until("the process comes to rest", func() bool {
		now := cpu(t, n.PID())
		if now == last {
			still++
		} else {
			still, last = 0, now
		}
		return still >= 10
	})
}

// cpu returns the CPU time that a process has used, in ticks.
func cpu(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	return fields[11] + " " + fields[12]
}
