package openai_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/server/openai"
)

const asked = `"model":"test/one","input":"Hello"`

// types returns the types of the events of a stream, and the last event.
func types(t *testing.T, body []byte) (list []string, last string) {
	t.Helper()
	for _, block := range strings.Split(strings.TrimSpace(string(body)), "\n\n") {
		typ, data, ok := strings.Cut(strings.TrimPrefix(block, "event: "), "\ndata: ")
		var e struct {
			Type string `json:"type"`
			Seq  int    `json:"sequence_number"`
		}
		if !ok || json.Unmarshal([]byte(data), &e) != nil || e.Type != typ || e.Seq != len(list) {
			t.Fatalf("not event %d: %s", len(list), block)
		}
		list, last = append(list, strings.TrimPrefix(typ, "response.")), data
	}
	return list, last
}

func thinking() *node {
	text := &message.Text{Text: "It rains.", Citations: []message.Citation{{URL: "https://example.com", Title: "W"}}}
	call := &message.ToolCall{CallID: "c1", Name: "get_weather", Args: []byte(`{"a":1}`)}
	return &node{events: []llm.Event{
		{Kind: llm.Notice, Text: "mind"}, {Kind: llm.ReasoningDelta, Text: "Hm."}, {Kind: llm.TextDelta, Block: 1, Text: "It "}, {Kind: llm.TextDelta, Block: 1, Text: "rains."},
		{Kind: llm.CallStart, Block: 2, CallID: "c1", Name: "get_weather"}, {Kind: llm.CallArgs, Block: 2, Text: `{"a"`},
		{Kind: llm.Done, Reply: &llm.Reply{Model: "test/one", Blocks: []message.Block{&message.Reasoning{Text: "Hm."}, text, call}, Stop: message.StopTools,
			Usage: message.Usage{Input: 20, Output: 7, Reasoning: 3, CacheRead: 5}}},
	}}
}

// TestResponses: a model's answer as a response, whole and as the vendor's events.
func TestResponses(t *testing.T) {
	tools := `,"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object"}}],"tool_choice":{"type":"function","name":"get_weather"},"include":["reasoning.encrypted_content"],"store":true`
	n := thinking()
	status, h, b := do(t, serve(t, n, openai.Options{}), "POST", "/v1/responses", "{"+asked+tools+`,"instructions":"Be brief.","reasoning":{"effort":"low","summary":"auto"},"max_output_tokens":50}`)
	if status != 200 || h.Get("Steward-Ignored") != "" {
		t.Fatalf("%d %s: %s", status, h.Get("Steward-Ignored"), b)
	}
	for _, want := range []string{`"object":"response"`, `"status":"completed"`, `"summary":[{"type":"summary_text","text":"Hm."}]`, `{"type":"output_text","text":"It rains."`,
		`"call_id":"c1","name":"get_weather","arguments":"{\"a\":1}"`, `"input_tokens":20`, `"cached_tokens":5`, `"reasoning_tokens":3`, `"total_tokens":27`,
		`"url":"https://example.com"`, `"notices":["mind"]`, `"error":null`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s is not in %s", want, b)
		}
	}
	r := n.asked
	if r.System != "Be brief." || r.ToolChoice != "get_weather" || r.Sampling.Effort != llm.EffortLow || r.Sampling.MaxTokens != 50 || len(r.Tools.Specs()) != 1 {
		t.Errorf("the model was asked %+v", r)
	}

	_, _, b = do(t, serve(t, thinking(), openai.Options{}), "POST", "/v1/responses", "{"+asked+tools+`,"stream":true}`)
	list, last := types(t, b)
	want := "created in_progress output_item.added reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.done reasoning_summary_part.done output_item.done " +
		"output_item.added content_part.added output_text.delta output_text.delta output_text.done content_part.done output_item.done " +
		"output_item.added function_call_arguments.delta function_call_arguments.delta function_call_arguments.done output_item.done completed"
	if got := strings.Join(list, " "); got != want {
		t.Errorf("the events are\n%s, want\n%s", got, want)
	}
	if !strings.Contains(last, `"arguments":"{\"a\":1}"`) || !strings.Contains(last, `"total_tokens":27`) {
		t.Errorf("the last event is %s", last)
	}
}

// TestResponsesItems: a client sends back what it was given, with the results of its calls.
func TestResponsesItems(t *testing.T) {
	n := thinking()
	body := `{"model":"test/one","input":[{"role":"developer","content":"Rhyme."},{"role":"user","content":[{"type":"input_text","text":"Weather?"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw==","detail":"auto"}]},
		{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":null},
		{"id":"fc_1","type":"function_call","status":"completed","call_id":"c1","name":"get_weather","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"rain"}]}`
	if status, _, b := do(t, serve(t, n, openai.Options{}), "POST", "/v1/responses", body); status != 200 {
		t.Fatalf("%d %s", status, b)
	}
	msgs := n.asked.Transcript.Messages()
	if n.asked.System != "Rhyme." || len(msgs) != 3 || len(msgs[0].Blocks) != 2 || msgs[1].Calls()[0].CallID != "c1" || msgs[2].Text() != "rain" {
		t.Errorf("the model was shown %+v", msgs)
	}
	for _, m := range msgs {
		for _, b := range m.Blocks {
			if b.Base().Meta.Fields != nil {
				t.Errorf("a client set the metadata %s", b.Base().Meta.Fields)
			}
		}
	}
}

// TestResponsesRefused: what the server does not do is refused, with the name that the parameter has in
// this API.
func TestResponsesRefused(t *testing.T) {
	for body, want := range map[string][2]string{
		`{"input":"x"}`:                                                                           {"invalid_value", `"model"`},
		`{"model":"test/one"}`:                                                                    {"invalid_value", `"input"`},
		`{"model":"test/one","input":[]}`:                                                         {"invalid_value", `"input"`},
		`{"model":"nobody","input":"x"}`:                                                          {"model_not_found", `"model"`},
		"{" + asked + `,"previous_response_id":"r"}`:                                              {"unsupported_parameter", `"previous_response_id"`},
		"{" + asked + `,"conversation":"c"}`:                                                      {"unsupported_parameter", `"conversation"`},
		"{" + asked + `,"max_output_tokens":0}`:                                                   {"invalid_value", `"max_output_tokens"`},
		"{" + asked + `,"reasoning":{"effort":"x"}}`:                                              {"invalid_value", `"reasoning.effort"`},
		"{" + asked + `,"tools":[{"type":"web_search"}]}`:                                         {"unsupported_parameter", `"tools[0].type"`},
		"{" + asked + `,"tools":[{"type":"function","name":"a b"}]}`:                              {"invalid_value", `"tools[0].name"`},
		"{" + asked + `,"tools":[7]}`:                                                             {"invalid_value", `"tools[0]"`},
		"{" + asked + `,"tool_choice":{"type":"function","name":"a"}}`:                            {"invalid_value", `"tool_choice"`},
		"{" + asked + `,"text":{"format":{"type":"json_schema","name":"n","schema":7}}}`:          {"invalid_value", `"text.format.schema"`},
		"{" + asked + `,"text":{"format":{"type":"yaml"}}}`:                                       {"invalid_value", `"text.format.type"`},
		`{"model":"test/one","input":[{"type":"item_reference","id":"x"}]}`:                       {"unsupported_parameter", `"input[0].type"`},
		`{"model":"test/one","input":[{"type":"web_search_call","id":"x","status":"completed"}]}`: {"unsupported_parameter", `"input[0].type"`},
		`{"model":"test/one","input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"1","name":"a","arguments":"{}"}]}`: {"invalid_value", `"input"`},
		`{"model":"test/one","input":[{"role":"user","content":"x"},{"type":"function_call_output","call_id":"1","output":"{}"}]}`:        {"invalid_value", ``},
		`{"model":"test/one","input":7}`: {"invalid_value", ``},
	} {
		status, _, b := do(t, serve(t, &node{}, openai.Options{}), "POST", "/v1/responses", body)
		if status < 400 || status >= 500 || !strings.Contains(string(b), `"code":"`+want[0]+`"`) || !strings.Contains(string(b), `"param":`+want[1]) {
			t.Errorf("%s: %d %s", body, status, b)
		}
	}
}

// TestResponsesEnds: how a response ends that is not completed.
func TestResponsesEnds(t *testing.T) {
	cut := &node{events: []llm.Event{{Kind: llm.TextDelta, Text: "It"}, {Kind: llm.Done, Reply: &llm.Reply{Blocks: []message.Block{&message.Text{Text: "It"}}, Stop: message.StopLength}}}}
	for _, stream := range []string{"true", "false"} {
		_, _, b := do(t, serve(t, cut, openai.Options{}), "POST", "/v1/responses", "{"+asked+`,"stream":`+stream+`}`)
		if !strings.Contains(string(b), `"status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"}`) {
			t.Errorf("stream %s: %s", stream, b)
		}
	}
	broken := &node{events: []llm.Event{{Kind: llm.TextDelta, Text: "It"}}, err: fault.New(fault.Unavailable, "overloaded", "too much to do")}
	_, _, b := do(t, serve(t, broken, openai.Options{}), "POST", "/v1/responses", "{"+asked+`,"stream":true}`)
	if list, last := types(t, b); list[len(list)-1] != "failed" || !strings.Contains(last, `"error":{"code":"overloaded"`) {
		t.Errorf("%s", b)
	}
	broken.events = nil
	if status, _, b := do(t, serve(t, broken, openai.Options{}), "POST", "/v1/responses", "{"+asked+`,"stream":true}`); status != 503 {
		t.Errorf("%d %s", status, b)
	}
	two := &node{events: []llm.Event{{Kind: llm.Done, Reply: &llm.Reply{Stop: message.StopTools, Blocks: []message.Block{
		&message.ToolCall{CallID: "1", Name: "f", Args: []byte("{}")}, &message.ToolCall{CallID: "2", Name: "f", Args: []byte("{}")}}}}}}
	_, _, b = do(t, serve(t, two, openai.Options{}), "POST", "/v1/responses", "{"+asked+`,"parallel_tool_calls":false,"tools":[{"type":"function","name":"f"}]}`)
	if strings.Count(string(b), `"type":"function_call"`) != 1 {
		t.Errorf("%s", b)
	}
}

// TestResponsesOfAgents: an agent answers, and its conversation is continued.
func TestResponsesOfAgents(t *testing.T) {
	n := &node{frames: turnFrames}
	status, h, b := do(t, serve(t, n, openai.Options{}), "POST", "/v1/responses", `{"model":"agent:personal/email","input":"Hi","stream":true}`)
	list, last := types(t, b)
	if status != 200 || h.Get("Steward-Conversation") != mine || list[len(list)-1] != "completed" || !strings.Contains(last, `"type":"message"`) {
		t.Errorf("%d %v %s", status, h, b)
	}
	if status, _, b := do(t, serve(t, n, openai.Options{}), "POST", "/v1/responses", `{"model":"test/one","input":"Hi","metadata":{"conversation_id":"`+foreign+`"}}`); status != 404 {
		t.Errorf("another's conversation: %d %s", status, b)
	}
}
