package edge_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"steward/test/edge"
)

// vendor is a provider, with the answers to its list of models and to a question.
type vendor struct {
	env, model, list, path, stream string
	back                           string // the part that the next request returns to the provider; empty: none
}

// vendors are providers that stream an answer based on their own search, as
// their documentation shows it. The title tries to move the cursor.
var vendors = map[string]vendor{
	"anthropic": {"ANTHROPIC", "anthropic/claude-opus-4-6", `{"data":[{"id":"claude-opus-4-6","type":"model","created_at":"2026-01-01T00:00:00Z"}],"has_more":false}`, "/v1/messages",
		event(`{"type":"message_start","message":{"usage":{"input_tokens":1}}}`) +
			event(`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query": "rain"}}}`) +
			event(`{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result", "url":"https://w.test/1","encrypted_content":"Ab=="}]}}`) +
			event(`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}`) +
			event(`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"It rains."}}`) +
			event(`{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","cited_text":"all day","url":"https://w.test/1","title":"Rain\u001b[2J","encrypted_index":"E1=="}}}`) +
			event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`) + event(`{"type":"message_stop"}`),
		`{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result", "url":"https://w.test/1","encrypted_content":"Ab=="}]}`},
	"openai": {"OPENAI", "openai/gpt-test", `{"object":"list","data":[{"id":"gpt-test","object":"model","created":1}]}`, "/chat/completions",
		event(`{"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-test","choices":[{"index":0,"delta":{"content":"It rains."},"finish_reason":null}]}`) +
			event(`{"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-test","choices":[{"index":0,"delta":{"annotations":[{"type":"url_citation","url_citation":{"url":"https://w.test/1","title":"Rain\u001b[2J","start_index":0,"end_index":9}}]},"finish_reason":"stop"}]}`) +
			event("[DONE]"), ""},
	"gemini": {"GEMINI", "gemini/gemini-3-pro", `{"models":[{"name":"models/gemini-3-pro","supportedGenerationMethods":["generateContent"]}]}`, ":streamGenerateContent",
		event(`{"candidates":[{"content":{"role":"model","parts":[{"executableCode":{"language": "PYTHON","code":"look()"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"rain"}},{"text":"It rains."}]},"finishReason":"STOP","groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://w.test/1","title":"Rain\u001b[2J"}}]}}]}`),
		`{"executableCode":{"language": "PYTHON","code":"look()"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"rain"}}`},
}

func event(data string) string { return "data: " + data + "\n\n" }

// searching serves a node whose model is one of the vendors, and sent returns
// the newest request that the vendor was sent.
func searching(t *testing.T, v vendor) (n *edge.Node, sent func() string) {
	t.Helper()
	var last atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, v.path) {
			io.WriteString(w, v.list) //nolint:errcheck // the caller may be gone
			return
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		last.Store(string(b))
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, v.stream) //nolint:errcheck // the caller may be gone
	}))
	t.Cleanup(s.Close)
	base := map[string]string{"OPENAI": "OPENAI_BASE_URL=" + s.URL + "/v1", "ANTHROPIC": "ANTHROPIC_BASE_URL=" + s.URL, "GEMINI": "GOOGLE_GEMINI_BASE_URL=" + s.URL}
	n = edge.Serve(t, edge.Options{Env: []string{v.env + "_API_KEY=test-key", base[v.env]}})
	return n, func() string { return last.Load().(string) }
}

func TestWhatAProviderLookedUpIsKeptAndNamed(t *testing.T) {
	t.Parallel()
	for name, v := range vendors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, sent := searching(t, v)
			conn := n.Dial()
			a := conn.Turn(map[string]any{"content": "Rain?", "model": v.model}, nil)
			const named = `"citations":[{"url":"https://w.test/1","title":"Rain\u001b[2J"`
			if last := string(a.Frames[len(a.Frames)-1].Raw); a.Text != "It rains." || !strings.Contains(last, named) {
				t.Fatalf("the socket says %s", last)
			}
			_, stored := n.HTTP(http.MethodGet, "/api/v1/conversations/"+a.Conversation+"/messages", nil)
			if !strings.Contains(string(stored), named) || !strings.Contains(string(stored), `"labels":["untrusted"]`) {
				t.Errorf("stored: %s", stored)
			}
			conn.Turn(map[string]any{"content": "And now?", "conversation_id": a.Conversation}, nil)
			last := sent()
			if !strings.Contains(last, v.back) || v.back == "" && strings.Contains(last, "w.test") {
				t.Errorf("the next request is %s", last)
			}
			if _, b := n.HTTP(http.MethodPost, "/v1/chat/completions", map[string]any{"model": v.model, "messages": user("Rain?")}); !strings.Contains(string(b),
				`"annotations":[{"type":"url_citation","url_citation":{"url":"https://w.test/1","title":"Rain\u001b[2J","start_index":0,"end_index":9}}]`) {
				t.Errorf("the OpenAI server says %s", b)
			}
			if _, b := n.HTTP(http.MethodPost, "/v1/chat/completions", map[string]any{"model": v.model, "messages": user("Rain?"), "stream": true}); !strings.Contains(string(b),
				`"delta":{"annotations":[{"type":"url_citation"`) {
				t.Errorf("the OpenAI server streams %s", b)
			}
			if out := n.Must("conversations", "export", a.Conversation); !strings.Contains(out, "https://w.test/1") || !strings.Contains(out, "untrusted") {
				t.Errorf("the export says %s", out)
			}
		})
	}
}
