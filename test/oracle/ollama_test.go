package oracle

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"testing"

	"github.com/ollama/ollama/api"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/ollama"
)

const ollamaData = "../../internal/provider/ollama/testdata/"

// Ollama's own client reads the same streams alike.
func TestOllamaReadsAlike(t *testing.T) {
	for _, name := range []string{"text", "unicode", "reasoning", "call", "parallel", "text_call", "no_args",
		"structured", "usage", "length", "empty"} {
		t.Run(name, func(t *testing.T) {
			client := answering(t, ollamaData+name+".http")
			ours := tellOf(replyOf(t, ollama.New(ollama.Options{HTTP: client}).Model("m")))
			if theirs := ollamaTells(t, client); ours != theirs {
				t.Errorf("we read\n%+v\nOllama's client\n%+v", ours, theirs)
			}
		})
	}
}

func ollamaTells(t *testing.T, client *http.Client) (out told) {
	t.Helper()
	c := api.NewClient(&url.URL{Scheme: "http", Host: "vendor.test"}, client)
	err := c.Chat(t.Context(), &api.ChatRequest{Model: "m"}, func(r api.ChatResponse) error {
		out.text += r.Message.Content
		out.reasoning += r.Message.Thinking
		for _, call := range r.Message.ToolCalls {
			out.call(call.Function.Name, call.Function.Arguments.ToMap())
		}
		if !r.Done {
			return nil
		}
		out.usage = message.Usage{Input: int64(r.PromptEvalCount), Output: int64(r.EvalCount)}
		switch {
		case r.DoneReason == "length":
			out.stop = message.StopLength
		case out.calls != "":
			out.stop = message.StopTools
		default:
			out.stop = message.StopEnd
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Ollama's types, which its server decodes requests into, hold the messages,
// options and format that Steward sends; of a tool's schema they keep what
// Ollama's templates can show.
func TestOllamaDecodesOurRequests(t *testing.T) {
	for _, r := range requests() {
		body := sentBody(t, ollamaData, func(c *http.Client) llm.Model { return ollama.New(ollama.Options{HTTP: c}).Model("m") }, r)
		var req api.ChatRequest
		if err := json.Unmarshal(body, &req); err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		again, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := members(t, body), members(t, again)
		for _, name := range []string{"model", "messages", "options", "format", "think", "stream", "truncate", "shift"} {
			if a, b := ours[name], theirs[name]; !reflect.DeepEqual(a, b) {
				t.Errorf("%s: we send\n%v\nOllama's types hold\n%v", name, a, b)
			}
		}
		if len(req.Tools) != len(r.Tools.Specs()) {
			t.Errorf("%d tools, of %d", len(req.Tools), len(r.Tools.Specs()))
		}
		for _, tool := range req.Tools {
			if tool.Function.Name == "math__multiply" && (tool.Function.Parameters.Properties.Len() != 2 || len(tool.Function.Parameters.Required) != 2) {
				t.Errorf("the parameters are %s", tool.Function.Parameters.String())
			}
		}
	}
}

// members decodes a request; an index of 0 is what its absence means.
func members(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	messages, _ := v["messages"].([]any)
	for _, m := range messages {
		calls, _ := m.(map[string]any)["tool_calls"].([]any)
		for _, c := range calls {
			f, _ := c.(map[string]any)["function"].(map[string]any)
			if f["index"] == 0.0 {
				delete(f, "index")
			}
		}
	}
	return v
}
