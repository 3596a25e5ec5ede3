package oracle

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	openaisdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/server/auth"
	face "steward/internal/server/openai"
	"steward/internal/turn"
	"steward/test/built"
)

// faceNode is a model that first calls the caller's tool and, when it has the
// result, answers with it.
type faceNode struct{}

func (faceNode) Stream(_ context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		msgs := r.Transcript.Messages()
		last := msgs[len(msgs)-1]
		reply := &llm.Reply{Model: "test/one", Stop: message.StopEnd, Usage: message.Usage{Input: 20, Output: 7, Reasoning: 3, CacheRead: 5}}
		var events []llm.Event
		switch {
		case last.Text() == "fail":
			yield(llm.Event{Kind: llm.TextDelta, Text: "so "}, nil)
			yield(llm.Event{}, fault.New(fault.Unavailable, "overloaded", "too much to do"))
			return
		case last.Role == message.Tool:
			text := "It is " + last.Text() + "."
			events = []llm.Event{{Kind: llm.TextDelta, Text: "It is "}, {Kind: llm.TextDelta, Text: last.Text() + "."}}
			reply.Blocks = []message.Block{&message.Text{Text: text}}
		default:
			args := `{"city":"Graz"}`
			events = []llm.Event{{Kind: llm.CallStart, CallID: "c1", Name: "get_weather"}, {Kind: llm.CallArgs, Text: args[:5]}, {Kind: llm.CallArgs, Text: args[5:]}}
			reply.Blocks = []message.Block{&message.ToolCall{CallID: "c1", Name: "get_weather", Args: []byte(args)}}
			reply.Stop = message.StopTools
		}
		for _, ev := range append(events, llm.Event{Kind: llm.Done, Reply: reply}) {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func (n faceNode) Resolve(name string) (llm.Resolved, error) {
	if name != "test/one" {
		return llm.Resolved{}, fault.New(fault.NotFound, "model_not_found", "there is no model %q", name)
	}
	return llm.Resolved{Name: name, Model: n}, nil
}

func (faceNode) Models(context.Context) (llm.Listing, []string) {
	return llm.Listing{Models: []llm.Listed{{Provider: "test", Info: llm.Info{Name: "one"}}}}, []string{"default"}
}

func (faceNode) Agents(context.Context) []kits.AgentView { return nil }

func (faceNode) ReadAttached(context.Context, string, string, []message.Block) error { return nil }

func (faceNode) FitRequest(_ context.Context, _ []string, _ *llm.Request, msgs []*message.Message, _ bool) ([]*message.Message, error) {
	return msgs, nil
}

func (faceNode) Embed(_ context.Context, _ string, texts []string) (llm.Vectors, error) {
	v := llm.Vectors{Tokens: 3}
	for range texts {
		v.Values = append(v.Values, []float32{0.25, -0.5})
	}
	return v, nil
}

func (faceNode) Send(_ context.Context, _ string, t turn.Input) (turn.Accepted, error) {
	return turn.Accepted{}, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %s", t.Conversation)
}

func (faceNode) Watch(context.Context, string, id.ID, turn.Cursor) iter.Seq2[turn.Frame, error] {
	return func(func(turn.Frame, error) bool) {}
}

func faceClient(t *testing.T) openaisdk.Client {
	guard := auth.New(auth.Options{Token: func() (string, error) { return "sk-steward-test", nil }})
	h := guard.Wrap(face.Handler(face.Options{Node: faceNode{}}), face.WriteError)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return openaisdk.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("sk-steward-test"), option.WithMaxRetries(0))
}

func faceQuestion(text string) openaisdk.ChatCompletionNewParams {
	return openaisdk.ChatCompletionNewParams{
		Model:    "test/one",
		Messages: []openaisdk.ChatCompletionMessageParamUnion{openaisdk.SystemMessage("Be brief."), openaisdk.UserMessage(text)},
		Tools: []openaisdk.ChatCompletionToolUnionParam{openaisdk.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: "get_weather", Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}})},
		StreamOptions: openaisdk.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
}

// OpenAI's own client holds a conversation with a tool over our face, both
// ways, and sends back what it was given.
func TestOpenAIClientOverOurFace(t *testing.T) {
	c := faceClient(t)
	q := faceQuestion("What is the weather in Graz?")
	whole := q
	whole.StreamOptions = openaisdk.ChatCompletionStreamOptionsParam{}
	first, err := c.Chat.Completions.New(t.Context(), whole)
	if err != nil {
		t.Fatal(err)
	}
	calls := first.Choices[0].Message.ToolCalls
	if len(calls) != 1 || calls[0].ID != "c1" || calls[0].Function.Arguments != `{"city":"Graz"}` || first.Choices[0].FinishReason != "tool_calls" {
		t.Fatalf("got %s", first.RawJSON())
	}
	q.Messages = append(q.Messages, first.Choices[0].Message.ToParam(), openaisdk.ToolMessage("sunny", "c1"))
	stream := c.Chat.Completions.NewStreaming(t.Context(), q)
	var acc openaisdk.ChatCompletionAccumulator
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			t.Fatalf("the chunk does not fit: %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	u := acc.Usage
	if acc.Choices[0].Message.Content != "It is sunny." || acc.Choices[0].FinishReason != "stop" || u.TotalTokens != 27 ||
		u.PromptTokensDetails.CachedTokens != 5 || u.CompletionTokensDetails.ReasoningTokens != 3 {
		t.Errorf("got %+v", acc.ChatCompletion)
	}
}

func TestOpenAIClientReadsOurCalls(t *testing.T) {
	c := faceClient(t)
	stream := c.Chat.Completions.NewStreaming(t.Context(), faceQuestion("What is the weather in Graz?"))
	var acc openaisdk.ChatCompletionAccumulator
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	calls := acc.Choices[0].Message.ToolCalls
	if len(calls) != 1 || calls[0].ID != "c1" || calls[0].Function.Name != "get_weather" || calls[0].Function.Arguments != `{"city":"Graz"}` {
		t.Errorf("got %+v", calls)
	}
}

func TestOpenAIClientReadsOurErrors(t *testing.T) {
	c := faceClient(t)
	q := faceQuestion("x")
	q.StreamOptions = openaisdk.ChatCompletionStreamOptionsParam{}
	q.Model = "nope"
	_, err := c.Chat.Completions.New(t.Context(), q)
	var e *openaisdk.Error
	if !errors.As(err, &e) || e.StatusCode != http.StatusNotFound || e.Code != "model_not_found" || e.Param != "model" || e.Type != "invalid_request_error" {
		t.Errorf("got %v", err)
	}
	q.Model, q.N = "test/one", param.NewOpt[int64](2)
	if _, err = c.Chat.Completions.New(t.Context(), q); err != nil { // it is passed over, and a header says so
		t.Errorf("got %v", err)
	}
	stream := c.Chat.Completions.NewStreaming(t.Context(), faceQuestion("fail"))
	text := ""
	for stream.Next() {
		for _, ch := range stream.Current().Choices {
			text += ch.Delta.Content
		}
	}
	if err := stream.Err(); err == nil || text != "so " {
		t.Errorf("after %q: %v", text, err)
	}
}

func TestOpenAIClientReadsOurModelsAndEmbeddings(t *testing.T) {
	c := faceClient(t)
	page, err := c.Models.List(t.Context())
	if err != nil || len(page.Data) != 2 || page.Data[1].ID != "test/one" || page.Data[1].OwnedBy != "test" {
		t.Errorf("got %+v, %v", page, err)
	}
	if m, err := c.Models.Get(t.Context(), "test/one"); err != nil || m.ID != "test/one" {
		t.Errorf("got %+v, %v", m, err)
	}
	e, err := c.Embeddings.New(t.Context(), openaisdk.EmbeddingNewParams{Model: "embed", Input: openaisdk.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b"}}})
	if err != nil || len(e.Data) != 2 || e.Data[1].Embedding[1] != -0.5 || e.Usage.TotalTokens != 3 {
		t.Errorf("got %+v, %v", e, err)
	}
}

// A program that uses OpenAI's own client needs a base URL and a key, from the
// environment as ever, and nothing else: here with the shipped binary.
func TestOpenAIClientNeedsABaseURLAndAKey(t *testing.T) {
	dir := t.TempDir()
	binary, err := built.Program("steward/cmd/steward")
	if err != nil {
		t.Fatal(err)
	}
	steward := func(args ...string) *exec.Cmd {
		cmd := exec.Command(binary, args...)
		cmd.Env, cmd.Dir = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "OLLAMA_HOST=127.0.0.1:1", "STEWARD_LISTEN=127.0.0.1:0"}, dir
		return cmd
	}
	server := steward("serve", "--json")
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(server.Process.Signal(os.Interrupt), server.Wait()); err != nil {
			t.Error(err)
		}
	})
	var notice struct{ URL string }
	if err := json.NewDecoder(out).Decode(&notice); err != nil {
		t.Fatal(err)
	}
	token, err := steward("token").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("OPENAI_BASE_URL", notice.URL+"/v1")
	t.Setenv("OPENAI_API_KEY", strings.TrimSpace(string(token)))
	c := openaisdk.NewClient()
	q := openaisdk.ChatCompletionNewParams{Model: "default", Messages: []openaisdk.ChatCompletionMessageParamUnion{openaisdk.UserMessage("hello")}}
	if answer, err := c.Chat.Completions.New(t.Context(), q); err != nil || len(answer.Choices) != 1 || answer.Choices[0].Message.Content == "" {
		t.Errorf("%+v, %v", answer, err)
	}
	stream := c.Chat.Completions.NewStreaming(t.Context(), q)
	said := ""
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			said += choice.Delta.Content
		}
	}
	if err := stream.Err(); err != nil || said == "" {
		t.Errorf("%q, %v", said, err)
	}
	if _, err := c.Chat.Completions.New(t.Context(), q, option.WithAPIKey("none"), option.WithMaxRetries(0)); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("another key: %v", err)
	}
}
