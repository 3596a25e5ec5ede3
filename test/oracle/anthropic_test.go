package oracle

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"

	anthropicsdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/anthropic"
	"steward/test/apis"
)

const anthropicData = "../../internal/provider/anthropic/testdata/"

// Anthropic's SDK reads the same streams alike.
func TestAnthropicReadsAlike(t *testing.T) {
	for _, name := range []string{"text", "unicode", "reasoning", "call", "parallel", "text_call", "no_args",
		"structured", "usage", "length", "stop_sequence", "refused", "empty"} {
		t.Run(name, func(t *testing.T) {
			client := answering(t, anthropicData+name+".http")
			reply := replyOf(t, anthropic.New(anthropic.Options{HTTP: client}).Model("claude-opus-4-6"))
			theirs, signatures := anthropicTells(t, client)
			if ours := tellOf(reply); ours != theirs {
				t.Errorf("we read\n%+v\nthe SDK\n%+v", ours, theirs)
			}
			for _, b := range reply.Blocks {
				r, ok := b.(*message.Reasoning)
				if !ok {
					continue
				}
				var meta struct {
					Signature string `json:"signature"`
				}
				if err := json.Unmarshal(r.Meta.Fields, &meta); err != nil || len(signatures) != 1 || meta.Signature != signatures[0] {
					t.Errorf("our signature is %s, the SDK's %q (%v)", r.Meta.Fields, signatures, err)
				}
			}
		})
	}
}

func anthropicTells(t *testing.T, client *http.Client) (out told, signatures []string) {
	t.Helper()
	c := anthropicsdk.NewClient(option.WithAPIKey("k"), option.WithHTTPClient(client), option.WithMaxRetries(0))
	s := c.Messages.NewStreaming(t.Context(), anthropicsdk.MessageNewParams{
		Model: "claude-opus-4-6", MaxTokens: 100,
		Messages: []anthropicsdk.MessageParam{anthropicsdk.NewUserMessage(anthropicsdk.NewTextBlock("Hello"))},
	})
	var m anthropicsdk.Message
	for s.Next() {
		if err := m.Accumulate(s.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	u := m.Usage
	out.usage = message.Usage{Input: u.InputTokens + u.CacheCreationInputTokens + u.CacheReadInputTokens, Output: u.OutputTokens,
		Reasoning: u.OutputTokensDetails.ThinkingTokens, CacheRead: u.CacheReadInputTokens, CacheWrite: u.CacheCreationInputTokens}
	out.stop = map[anthropicsdk.StopReason]message.Stop{
		anthropicsdk.StopReasonEndTurn: message.StopEnd, anthropicsdk.StopReasonMaxTokens: message.StopLength,
		anthropicsdk.StopReasonStopSequence: message.StopSequence, anthropicsdk.StopReasonToolUse: message.StopTools,
		anthropicsdk.StopReasonRefusal: message.StopRefused,
	}[m.StopReason]
	for _, block := range m.Content {
		switch b := block.AsAny().(type) {
		case anthropicsdk.TextBlock:
			out.text += b.Text
		case anthropicsdk.ThinkingBlock:
			out.reasoning += b.Thinking
			signatures = append(signatures, b.Signature)
		case anthropicsdk.ToolUseBlock:
			var args any
			if err := json.Unmarshal(b.Input, &args); err != nil {
				t.Fatal(err)
			}
			out.call(b.Name, args)
		}
	}
	return out, signatures
}

// Anthropic's types hold all that Steward sends: decoded into them and written
// again, nothing is missing.
func TestAnthropicDecodesOurRequests(t *testing.T) {
	for _, model := range []string{"claude-3-7-sonnet-20250219", "claude-haiku-4-5", "claude-opus-4-6", "claude-sonnet-5"} {
		for _, r := range requests() {
			if r.Schema != nil && model == "claude-3-7-sonnet-20250219" {
				continue // it is held to no schema
			}
			body := sentBody(t, anthropicData, func(c *http.Client) llm.Model {
				return anthropic.New(anthropic.Options{HTTP: c}).Model(model)
			}, r)
			if err := apis.CheckAnthropic(body); err != nil {
				t.Errorf("%v\n%s", err, body)
			}
			var req anthropicsdk.MessageNewParams
			if err := json.Unmarshal(body, &req); err != nil {
				t.Fatalf("%v\n%s", err, body)
			}
			again, err := json.Marshal(req)
			if err != nil {
				t.Fatal(err)
			}
			sent := withoutEmpty(t, resultsAsBlocks(t, body)).(map[string]any)
			if sent["stream"] != true {
				t.Errorf("not a stream: %s", body)
			}
			delete(sent, "stream") // which the SDK says by its method
			if !reflect.DeepEqual(any(sent), withoutEmpty(t, again)) {
				t.Errorf("we send\n%s\nthe SDK's types hold\n%s", body, again)
			}
		}
	}
}

// resultsAsBlocks writes results given as one text in the other form that the
// API takes, the only one that the SDK has.
func resultsAsBlocks(t *testing.T, body []byte) []byte {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	for _, m := range v["messages"].([]any) {
		for _, b := range m.(map[string]any)["content"].([]any) {
			block := b.(map[string]any)
			if s, ok := block["content"].(string); ok {
				block["content"] = []any{map[string]any{"type": "text", "text": s}}
			}
		}
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
