package oracle

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"testing"

	openaisdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/openai"
	"steward/test/apis"
)

const responsesData = openaiData + "responses/"

func responsesModel(c *http.Client) llm.Model {
	return openai.New(openai.Options{HTTP: c, Dialect: openai.Responses}).Model("gpt-5.4")
}

// OpenAI's SDK reads the same streams of the responses API alike.
func TestResponsesReadAlike(t *testing.T) {
	for _, name := range []string{"text", "unicode", "reasoning", "call", "parallel", "text_call", "bad_args", "no_args",
		"structured", "usage", "length", "refused", "empty"} {
		t.Run(name, func(t *testing.T) {
			client := answering(t, responsesData+name+".http")
			if ours, theirs := tellOf(replyOf(t, responsesModel(client))), responsesTell(t, client); ours != theirs {
				t.Errorf("we read\n%+v\nthe SDK\n%+v", ours, theirs)
			}
		})
	}
}

func responsesTell(t *testing.T, client *http.Client) (out told) {
	t.Helper()
	c := openaisdk.NewClient(option.WithAPIKey("k"), option.WithHTTPClient(client), option.WithMaxRetries(0))
	s := c.Responses.NewStreaming(t.Context(), responses.ResponseNewParams{Model: "gpt-5.4", Input: responses.ResponseNewParamsInputUnion{OfString: param.NewOpt("Hello")}})
	var last responses.Response
	for s.Next() {
		switch e := s.Current(); e.Type {
		case "response.completed", "response.incomplete":
			last = e.Response
		}
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return responseTold(last)
}

func responseTold(r responses.Response) (out told) {
	u := r.Usage
	out.usage = message.Usage{Input: u.InputTokens, Output: u.OutputTokens, Reasoning: u.OutputTokensDetails.ReasoningTokens, CacheRead: u.InputTokensDetails.CachedTokens}
	out.stop = message.StopEnd
	if r.Status == "incomplete" {
		out.stop = message.StopLength
	}
	for _, item := range r.Output {
		switch item.Type {
		case "message":
			for _, part := range item.Content {
				if out.text += part.Text + part.Refusal; part.Type == "refusal" {
					out.stop = message.StopRefused
				}
			}
		case "reasoning":
			for _, part := range item.Summary {
				out.reasoning += part.Text
			}
		case "function_call":
			out.stop = message.StopTools
			call := item.AsFunctionCall()
			var args any = map[string]any{} // of a call without arguments
			if a := call.Arguments; a != "" && json.Unmarshal([]byte(a), &args) != nil {
				args = a
			}
			out.call(call.Name, args)
		}
	}
	return out
}

// The SDK's types hold all that Steward sends to the responses API.
func TestResponsesDecodesOurRequests(t *testing.T) {
	for _, r := range requests() {
		body := sentBody(t, responsesData, responsesModel, r)
		if err := apis.CheckResponses(body); err != nil {
			t.Errorf("%v\n%s", err, body)
		}
		var req responses.ResponseNewParams
		if err := json.Unmarshal(body, &req); err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		again, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		sent, held := withoutEmpty(t, body).(map[string]any), withoutEmpty(t, again).(map[string]any)
		if sent["stream"] != true {
			t.Errorf("not a stream: %s", body)
		}
		delete(sent, "stream")                                       // which the SDK says by its method
		if c, named := sent["tool_choice"].(map[string]any); named { // of which the SDK's union decodes the type only
			held["tool_choice"].(map[string]any)["name"] = c["name"]
		}
		var in struct{ Input []json.RawMessage }
		if err := json.Unmarshal(body, &in); err != nil {
			t.Fatal(err)
		}
		for _, item := range in.Input {
			itemHeld(t, item)
		}
		delete(sent, "input") // whose union the SDK does not decode
		if !reflect.DeepEqual(sent, held) {
			t.Errorf("we send\n%s\nthe SDK's types hold\n%s", body, again)
		}
	}
}

// itemHeld: the SDK's type for an item of the model or a call's output holds all of it.
func itemHeld(t *testing.T, item []byte) {
	t.Helper()
	var is struct{ Type string }
	if err := json.Unmarshal(item, &is); err != nil {
		t.Fatal(err)
	}
	var v any
	switch is.Type {
	case "message":
		v = &responses.ResponseOutputMessageParam{}
	case "reasoning":
		v = &responses.ResponseReasoningItemParam{}
	case "function_call":
		v = &responses.ResponseFunctionToolCallParam{}
	default:
		return // unions of texts and lists, which the SDK only encodes
	}
	if err := json.Unmarshal(item, v); err != nil {
		t.Fatalf("%v\n%s", err, item)
	}
	again, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	sent, held := withoutEmpty(t, item), withoutEmpty(t, again)
	if !reflect.DeepEqual(sent, held) {
		t.Errorf("we send\n%s\nthe SDK's type holds\n%s", item, again)
	}
}

func responsesQuestion(text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: "test/one", Instructions: param.NewOpt("Be brief."),
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage(text, "user")}},
		Tools: []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "get_weather", Strict: param.NewOpt(false),
			Parameters: map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}}}},
		Reasoning: shared.ReasoningParam{Effort: "low"},
	}
}

// OpenAI's own client holds a conversation with a tool over our responses, and
// sends back the items that it was given.
func TestResponsesClientOverOurFace(t *testing.T) {
	c := faceClient(t)
	q := responsesQuestion("What is the weather in Graz?")
	first, err := c.Responses.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Output) != 1 || first.Output[0].CallID != "c1" || first.Output[0].AsFunctionCall().Arguments != `{"city":"Graz"}` || first.Status != "completed" {
		t.Fatalf("got %s", first.RawJSON())
	}
	streamed := lastResponse(t, c, q)
	if told, whole := responseTold(streamed), responseTold(*first); told != whole {
		t.Errorf("streamed %+v, whole %+v", told, whole)
	}
	call, result := first.Output[0].AsFunctionCall().ToParam(), responses.ResponseInputItemParamOfFunctionCallOutput("sunny")
	result.OfFunctionCallOutput.CallID = param.NewOpt("c1")
	q.Input.OfInputItemList = append(q.Input.OfInputItemList, responses.ResponseInputItemUnionParam{OfFunctionCall: &call}, result)
	r := lastResponse(t, c, q)
	if u := r.Usage; r.OutputText() != "It is sunny." || u.TotalTokens != 27 || u.InputTokensDetails.CachedTokens != 5 || u.OutputTokensDetails.ReasoningTokens != 3 {
		t.Errorf("got %s", r.RawJSON())
	}
}

// lastResponse reads a stream to its end, and holds its deltas against the items.
func lastResponse(t *testing.T, c openaisdk.Client, q responses.ResponseNewParams) (last responses.Response) {
	t.Helper()
	s := c.Responses.NewStreaming(t.Context(), q)
	text, args := "", ""
	for s.Next() {
		switch e := s.Current(); e.Type {
		case "response.output_text.delta":
			text += e.Delta
		case "response.function_call_arguments.delta":
			args += e.Delta
		case "response.output_text.done":
			if e.Text != text {
				t.Errorf("the deltas say %q, the part %q", text, e.Text)
			}
		case "response.function_call_arguments.done":
			if e.Arguments != args {
				t.Errorf("the deltas say %q, the call %q", args, e.Arguments)
			}
		case "response.completed":
			last = e.Response
		}
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return last
}

func TestResponsesClientReadsOurErrors(t *testing.T) {
	c := faceClient(t)
	q := responsesQuestion("x")
	q.Model = "nope"
	_, err := c.Responses.New(t.Context(), q)
	var e *openaisdk.Error
	if !errors.As(err, &e) || e.StatusCode != http.StatusNotFound || e.Code != "model_not_found" || e.Param != "model" {
		t.Errorf("got %v", err)
	}
	q = responsesQuestion("x")
	q.PreviousResponseID = param.NewOpt("resp_1")
	if _, err = c.Responses.New(t.Context(), q); !errors.As(err, &e) || e.StatusCode != http.StatusBadRequest || e.Param != "previous_response_id" {
		t.Errorf("got %v", err)
	}
	s := c.Responses.NewStreaming(t.Context(), responsesQuestion("fail"))
	failed := ""
	for s.Next() {
		if ev := s.Current(); ev.Type == "response.failed" {
			failed = string(ev.Response.Error.Code)
		}
	}
	if s.Err() != nil || failed != "overloaded" {
		t.Errorf("%q, %v", failed, s.Err())
	}
}
