package oracle

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"

	openaisdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/openai"
	"steward/test/apis"
)

const openaiData = "../../internal/provider/openai/testdata/"

// OpenAI's SDK reads the same streams alike.
func TestOpenAIReadsAlike(t *testing.T) {
	for _, name := range []string{"text", "unicode", "reasoning", "call", "parallel", "text_call", "bad_args", "no_args",
		"structured", "usage", "length", "refused", "empty"} {
		t.Run(name, func(t *testing.T) {
			client := answering(t, openaiData+name+".http")
			ours := tellOf(replyOf(t, openai.New(openai.Options{HTTP: client}).Model("gpt-4.1")))
			ours.reasoning = "" // the SDK does not model that of compatible servers
			if theirs := openaiTells(t, client); ours != theirs {
				t.Errorf("we read\n%+v\nthe SDK\n%+v", ours, theirs)
			}
		})
	}
}

func openaiTells(t *testing.T, client *http.Client) (out told) {
	t.Helper()
	c := openaisdk.NewClient(option.WithAPIKey("k"), option.WithHTTPClient(client), option.WithMaxRetries(0))
	s := c.Chat.Completions.NewStreaming(t.Context(), openaisdk.ChatCompletionNewParams{
		Model: "gpt-4.1", Messages: []openaisdk.ChatCompletionMessageParamUnion{openaisdk.UserMessage("Hello")},
	})
	acc := openaisdk.ChatCompletionAccumulator{}
	for s.Next() {
		if !acc.AddChunk(s.Current()) {
			t.Fatal("the SDK cannot accumulate a chunk")
		}
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	u := acc.Usage
	out.usage = message.Usage{Input: u.PromptTokens, Output: u.CompletionTokens,
		Reasoning: u.CompletionTokensDetails.ReasoningTokens, CacheRead: u.PromptTokensDetails.CachedTokens}
	choice := acc.Choices[0]
	out.text = choice.Message.Content + choice.Message.Refusal
	switch choice.FinishReason {
	case "stop":
		out.stop = message.StopEnd
	case "length":
		out.stop = message.StopLength
	case "tool_calls":
		out.stop = message.StopTools
	}
	if choice.Message.Refusal != "" {
		out.stop = message.StopRefused
	}
	for _, call := range choice.Message.ToolCalls {
		var args any = map[string]any{} // of a call without arguments
		if a := call.Function.Arguments; a != "" && json.Unmarshal([]byte(a), &args) != nil {
			args = a
		}
		out.call(call.Function.Name, args)
	}
	return out
}

// OpenAI's types hold all that Steward sends: decoded into them and written
// again, nothing is missing.
func TestOpenAIDecodesOurRequests(t *testing.T) {
	for _, rules := range []openai.Rules{openai.Official, openai.Compatible} {
		for _, r := range requests() {
			body := sentBody(t, openaiData, func(c *http.Client) llm.Model {
				return openai.New(openai.Options{HTTP: c, Rules: rules}).Model("gpt-4.1")
			}, r)
			if err := apis.CheckOpenAI(body); err != nil {
				t.Errorf("%v\n%s", err, body)
			}
			var req openaisdk.ChatCompletionNewParams
			if err := json.Unmarshal(body, &req); err != nil {
				t.Fatalf("%v\n%s", err, body)
			}
			again, err := json.Marshal(req)
			if err != nil {
				t.Fatal(err)
			}
			sent := withoutEmpty(t, body).(map[string]any)
			if sent["stream"] != true {
				t.Errorf("not a stream: %s", body)
			}
			delete(sent, "stream") // which the SDK says by its method
			held := withoutEmpty(t, again).(map[string]any)
			if c, named := sent["tool_choice"].(map[string]any); named { // of which the SDK's union decodes the type only
				held["tool_choice"].(map[string]any)["function"] = c["function"]
			}
			if !reflect.DeepEqual(withoutCompatible(sent), held) {
				t.Errorf("we send\n%s\nthe SDK's types hold\n%s", body, again)
			}
		}
	}
}

// withoutCompatible takes out what only compatible servers are sent.
func withoutCompatible(sent map[string]any) map[string]any {
	for _, m := range sent["messages"].([]any) {
		delete(m.(map[string]any), "reasoning_content")
		delete(m.(map[string]any), "reasoning_details")
	}
	return sent
}
