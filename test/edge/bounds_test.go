package edge_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"steward/test/edge"
)

// parallel returns many calls of a tool.
func parallel(n int, name string, args any) []edge.Call {
	calls := make([]edge.Call, n)
	for i := range calls {
		calls[i] = edge.Call{Name: name, Args: args}
	}
	return calls
}

// A model asks for hundreds of calls in one reply. Only a few of them are
// made, and the node keeps serving everybody.
func TestCallsOfOneReplyAreBounded(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if in.Rounds() < 2 {
			return edge.Reply{Calls: parallel(500, "math.multiply", map[string]any{"a": 6, "b": 7 + in.Rounds()})}
		}
		return edge.Reply{Text: fmt.Sprint(len(in.Results()), " results")}
	})})
	configure(n, "limits: {calls: 10}\nwindows: {openai/gpt-test: 10000000}\n")
	n.Serve()
	a := n.Ask("Multiply.", nil)
	ok, refused := 0, 0
	for _, r := range a.Results {
		switch {
		case r.Status == "ok":
			ok++
		case r.Status == "error" && strings.Contains(string(r.Raw), "at most 10 calls"):
			refused++
		}
	}
	if a.Text != "11 results" || ok != 20 || refused != 2 { // one of those beyond the limit is kept
		t.Errorf("%q: %d calls were run, %d refused, code %q", a.Text, ok, refused, a.Code)
	}
	if status, b := n.HTTP("GET", "/readyz", nil); status != http.StatusOK {
		t.Errorf("%d %s", status, b)
	}
}

// An endless reply ends with a coded error. The provider's request is cancelled
// and not retried.
func TestAReplyWithoutAnEndIsEnded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64<<10)
	for name, chunk := range map[string]func(i int) map[string]any{
		"text":      func(int) map[string]any { return map[string]any{"content": long} },
		"reasoning": func(int) map[string]any { return map[string]any{"reasoning_content": long} },
		"one call": func(int) map[string]any {
			return map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": "c", "type": "function",
				"function": map[string]any{"name": "math__multiply", "arguments": long}}}}
		},
		"many calls": func(i int) map[string]any {
			return map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": fmt.Sprint(i), "type": "function",
				"function": map[string]any{"name": "math__multiply", "arguments": "{}"}}}}
		},
		"unknown members": func(int) map[string]any { return map[string]any{"noise": []string{long}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			cancelled := make(chan struct{}, 10)
			n := edge.Serve(t, edge.Options{Model: edge.Script(t, func(edge.Asked) edge.Reply {
				requests.Add(1)
				return edge.Reply{Raw: func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					for i := 0; r.Context().Err() == nil; i++ {
						edge.Chunk(w, chunk(i), nil)
					}
					cancelled <- struct{}{}
				}}
			})})
			if a := n.Ask("Go on for ever.", nil); a.Code != "reply_too_large" {
				t.Errorf("%s: %.200s", a.Code, a.Text)
			}
			<-cancelled
			if requests.Load() != 1 {
				t.Errorf("the model was asked %d times", requests.Load())
			}
			if memory := peak(t, n); memory > 400<<20 {
				t.Errorf("it took %d MiB", memory>>20)
			}
			var list struct{ Conversations []json.RawMessage }
			if n.Get("/api/v1/conversations", &list); len(list.Conversations) != 1 {
				t.Errorf("%d conversations", len(list.Conversations))
			}
		})
	}
}

// A single stream event with a million elements ends its turn quickly.
func TestAnEventWithAMillionPartsIsRefused(t *testing.T) {
	t.Parallel()
	many := func(n int, form string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, form, i)
		}
		return strings.TrimPrefix(b.String(), ",")
	}
	events := map[string]string{
		"calls":   `{"choices":[{"index":0,"delta":{"tool_calls":[` + many(1_000_000, `,{"index":%d}`) + `]}}]}`,
		"members": `{"choices":[{"index":0,"delta":{` + many(400_000, `,"m%d":[1]`) + `}}]}`,
		"choices": `{"choices":[` + many(500_000, `,{"index":0,"delta":{"tool_calls":[{"index":%d}]}}`)[:12<<20] + `]}`,
	}
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		return edge.Reply{Raw: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", events[in.User()]) //nolint:errcheck // the caller may be gone
			edge.Chunk(w, map[string]any{}, "stop")
		}}
	})})
	for what := range events {
		if a := n.Ask(what, nil); a.Code != "reply_too_large" {
			t.Errorf("%s: %q %.200s", what, a.Code, a.Text)
		}
	}
}

// A model that stays silent when asked for a summary does not hold up the turn.
// The summary may use only part of the turn's time; after that a digest
// replaces it.
func TestASilentSummaryModelDoesNotDelayATurn(t *testing.T) {
	t.Parallel()
	var silent atomic.Int64
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if strings.HasPrefix(in.Messages[0].Text(), "You keep the notes") {
			return edge.Reply{Raw: func(_ http.ResponseWriter, r *http.Request) {
				silent.Add(1)
				<-r.Context().Done()
			}}
		}
		return edge.Reply{Text: "noted"}
	})})
	n.Write("models: {default: {use: [openai/gpt-test]}, fast: {use: [openai/gpt-test]}}\nwindows: {openai/gpt-test: 8192}\nlimits: {time: 6s}\n", ".config", "steward", "steward.yaml")
	n.Serve()
	ws, conv := n.Dial(), ""
	for i := 0; i < 40 && silent.Load() == 0; i++ {
		m := map[string]any{"content": strings.Repeat(fmt.Sprintf("It is number %d. ", i), 150)}
		if conv != "" {
			m["conversation_id"] = conv
		}
		a := ws.Turn(m, nil)
		if conv = a.Conversation; a.Code != "" || a.Text != "noted" && a.Stop != "bound" { // bound: the machine is very slow
			t.Fatalf("%q %q", a.Code, a.Text)
		}
	}
	if silent.Load() != 1 {
		t.Errorf("a summary was asked for %d times", silent.Load())
	}
}
