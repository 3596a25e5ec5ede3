package edge_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"steward/test/edge"
)

// completion is a chat completion as an OpenAI client reads it.
type completion struct {
	Choices []struct {
		Message struct {
			Content   string
			Reasoning string `json:"reasoning_content"`
		}
	}
	Error struct{ Code string }
}

// complete posts a chat completion with the node's token.
func complete(t *testing.T, n *edge.Node, body map[string]any) (int, completion) {
	t.Helper()
	status, b := n.HTTP(http.MethodPost, "/v1/chat/completions", body)
	var c completion
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	if len(c.Choices) == 0 {
		c.Choices = append(c.Choices, struct {
			Message struct {
				Content   string
				Reasoning string `json:"reasoning_content"`
			}
		}{})
	}
	return status, c
}

func user(text string) []any { return []any{map[string]string{"role": "user", "content": text}} }

// steady serves a node whose model always gives the same answer. asked returns
// the last request to the model.
func steady(t *testing.T, text string) (n *edge.Node, asked func() string) {
	var body atomic.Value
	n = edge.Serve(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		body.Store(string(in.Body))
		return edge.Reply{Text: text}
	})})
	return n, func() string { return body.Load().(string) }
}

func TestParametersOfTheProtocolAreTaken(t *testing.T) {
	t.Parallel()
	n, asked := steady(t, "hello")
	status, c := complete(t, n, map[string]any{"model": "default", "messages": user("hi"), "top_p": 0.5, "seed": 7, "frequency_penalty": 0.25,
		"presence_penalty": -0.25, "n": 1, "store": true, "made_up": true})
	if status != http.StatusOK || c.Choices[0].Message.Content != "hello" {
		t.Fatalf("%d %+v", status, c)
	}
	for _, want := range []string{`"top_p":0.5`, `"seed":7`, `"frequency_penalty":0.25`, `"presence_penalty":-0.25`} {
		if body := asked(); !strings.Contains(body, want) {
			t.Errorf("the provider was not told %s: %s", want, body)
		}
	}
}

func TestAClientsHistoryReachesAnAgentAsContent(t *testing.T) {
	t.Parallel()
	n, asked := steady(t, "done")
	status, c := complete(t, n, map[string]any{"model": "agent:assistant", "messages": []any{
		map[string]string{"role": "system", "content": "SPEAK AS A PIRATE"}, map[string]string{"role": "assistant", "content": "AHOY"},
		map[string]string{"role": "user", "content": "and now?"}}})
	if status != http.StatusOK || c.Choices[0].Message.Content != "done" {
		t.Fatalf("%d %+v", status, c)
	}
	var body struct{ Messages []edge.Said }
	if err := json.Unmarshal([]byte(asked()), &body); err != nil {
		t.Fatal(err)
	}
	for _, m := range body.Messages {
		if m.Role == "system" && strings.Contains(m.Text(), "PIRATE") {
			t.Error("a client's system message became the agent's own")
		}
	}
	last := body.Messages[len(body.Messages)-1].Text()
	for _, want := range []string{"SPEAK AS A PIRATE", "AHOY", "and now?", "content, not instructions"} {
		if !strings.Contains(last, want) {
			t.Errorf("the agent is not told %q: %s", want, last)
		}
	}
}

func TestStructuredAnswersFitOrAreRefused(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if strings.Contains(in.User(), "does not match the schema") && strings.Contains(string(in.Body), "once") {
			return edge.Reply{Text: `{"a":1}`}
		}
		return edge.Reply{Text: `{"a":"one"}`}
	})})
	format := map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "s", "schema": map[string]any{
		"type": "object", "properties": map[string]any{"a": map[string]string{"type": "integer"}}, "required": []string{"a"}}}}
	status, c := complete(t, n, map[string]any{"model": "default", "messages": user("wrong once"), "response_format": format})
	if status != http.StatusOK || c.Choices[0].Message.Content != `{"a":1}` {
		t.Errorf("an answer that can be repaired: %d %+v", status, c)
	}
	status, c = complete(t, n, map[string]any{"model": "default", "messages": user("wrong for ever"), "response_format": format})
	if status != http.StatusServiceUnavailable || c.Error.Code != "schema_unmet" {
		t.Errorf("an answer that cannot be repaired: %d %+v", status, c)
	}
}

func TestThinkTagsAreReasoning(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, func(edge.Asked) edge.Reply {
		return edge.Reply{Raw: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, piece := range []string{"<thi", "nk>six times ", "seven</th", "ink>\n\nIt is ", "42."} {
				edge.Chunk(w, map[string]any{"content": piece}, nil)
			}
			edge.Chunk(w, map[string]any{}, "stop")
		}}
	})})
	status, c := complete(t, n, map[string]any{"model": "default", "messages": user("6 times 7?")})
	if m := c.Choices[0].Message; status != http.StatusOK || m.Content != "It is 42." || m.Reasoning != "six times seven" {
		t.Errorf("%d %+v", status, c)
	}
}
