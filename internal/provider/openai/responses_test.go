package openai_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/openai"
	"steward/test/apis"
)

// responses returns OpenAI's responses API behind a transport.
func responses(s *apis.Says, set func(*openai.Options)) llm.Model {
	s.Check = apis.CheckResponses
	o := openai.Options{BaseURL: "http://vendor.test/v1", HTTP: &http.Client{Transport: s}, Dialect: openai.Responses, Rules: openai.Official}
	if set != nil {
		set(&o)
	}
	return openai.New(o).Model("gpt-5.4")
}

// stream makes a stream of events, ended by response.completed.
func stream(events ...string) string {
	var b strings.Builder
	for _, e := range append(events, `{"type":"response.completed","response":{"status":"completed","output":[],"usage":{"input_tokens":3,"output_tokens":2}}}`) {
		fmt.Fprintf(&b, "data: %s\n\n", e)
	}
	return b.String()
}

// The items of a web search, after https://platform.openai.com/docs/guides/tools-web-search.
const (
	searched = `{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"weather \/ Graz","sources":[{"type":"url","url":"https://example.com/w"}]}}`
	cited    = `{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Sunny.","logprobs":[],"annotations":[{"type":"url_citation","url":"https://example.com/w","title":"Weather","start_index":0,"end_index":6},{"type":"file_citation","file_id":"file-1","filename":"w.pdf","index":6}]}]}`
	thought  = `{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"One."},{"type":"summary_text","text":"Two."}],"encrypted_content":"gAA\/A=="}`
)

func done(i int, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, i, item)
}

// TestServersTools: a tool that ran at the server is a block of its own, foreign
// and kept byte for byte, and goes back with what was said of it.
func TestServersTools(t *testing.T) {
	body := stream(done(0, thought), `{"type":"response.web_search_call.searching","output_index":1}`, `{"type":"response.from.the.future","output_index":{}}`,
		done(1, searched), done(2, cited), done(3, `{"id":"x","type":"hologram","shape":[1, 2]}`))
	s := says(200, "text/event-stream", body)
	model := responses(s, func(o *openai.Options) { o.Tools, o.Stores = []string{"web_search", "file_search"}, []string{"vs_1"} })
	reply, _, err := apis.Collect(model, hello())
	if err != nil {
		t.Fatal(err)
	}
	m := &message.Message{Role: message.Assistant, Blocks: reply.Blocks, Model: reply.Model}
	v, ok := reply.Blocks[1].(*message.Vendor)
	if !ok || v.Kind != "web_search_call" || string(v.Meta.Fields) != searched || !m.Foreign() {
		t.Errorf("the search is %+v, foreign: %v", reply.Blocks[1], m.Foreign())
	}
	if h, ok := reply.Blocks[3].(*message.Vendor); !ok || h.Kind != "hologram" {
		t.Errorf("an item of a new type is %+v", reply.Blocks[3])
	}
	if r, ok := reply.Blocks[0].(*message.Reasoning); !ok || r.Text != "One.\n\nTwo." || string(r.Meta.Fields) != thought {
		t.Errorf("the reasoning is %+v", reply.Blocks[0])
	}
	want := []message.Citation{{URL: "https://example.com/w", Title: "Weather"}, {Title: "w.pdf"}}
	if c := m.Citations(); m.Text() != "Sunny." || len(c) != 2 || c[0] != want[0] || c[1] != want[1] {
		t.Errorf("%q cites %+v", m.Text(), c)
	}
	if reply.Usage.Searches != 1 {
		t.Errorf("%d searches", reply.Usage.Searches)
	}
	again := &llm.Request{Transcript: llm.NewTranscript(apis.Linked([]*message.Message{apis.User("Hi"), m, apis.User("And tomorrow?")})...), Tools: apis.Tools()}
	if _, _, err := apis.Collect(model, again); err != nil {
		t.Fatal(err)
	}
	for _, back := range []string{thought + "," + searched + ",", `"annotations":[{"type":"url_citation","url":"https://example.com/w"`,
		`{"type":"web_search"},{"type":"file_search","vector_store_ids":["vs_1"]}]`, `"max_tool_calls":16`, `"file_search_call.results","reasoning.encrypted_content","web_search_call.action.sources"`} {
		if !strings.Contains(s.Sent[1], back) {
			t.Errorf("%s is not in\n%s", back, s.Sent[1])
		}
	}
	if strings.Contains(s.Sent[1], "hologram") || strings.Contains(s.Sent[1], "previous_response_id") {
		t.Errorf("sent back: %s", s.Sent[1])
	}
	other := responses(s, func(o *openai.Options) { o.Name = "far" })
	if _, _, err := apis.Collect(other, again); err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"rs_1", "ws_1", "msg_1", "web_search"} {
		if strings.Contains(s.Sent[2], own) {
			t.Errorf("another provider was sent %s: %s", own, s.Sent[2])
		}
	}
}

// TestServersToolsNeedTools: requests without tools, such as summaries, use none of the server's.
func TestServersToolsNeedTools(t *testing.T) {
	s := says(200, "text/event-stream", stream(done(0, cited)))
	model := responses(s, func(o *openai.Options) { o.Tools = []string{"web_search", "file_search"} })
	if _, _, err := apis.Collect(model, apis.Hello()); err != nil || strings.Contains(s.Sent[0], "web_search") {
		t.Errorf("%v, %s", err, s.Sent[0])
	}
	_, notices, err := apis.Collect(model, hello())
	if err != nil || len(notices) != 1 || !strings.Contains(notices[0], "vector stores") {
		t.Errorf("%v, %q", err, notices)
	}
}

// TestOtherResponses: what other servers send, or a server that does not stream.
func TestOtherResponses(t *testing.T) {
	call := `{"type":"function_call","call_id":"a","name":"math__multiply","arguments":"{\"a\":1}"}`
	for name, c := range map[string]struct{ typ, body, want string }{
		"a whole response": {"application/json", `{"object":"response","status":"completed","output":[` + cited + `,` + call + `]}`,
			`text "Sunny.";call a math.multiply {"a":1};tools`},
		"output in the last event only": {"text/event-stream", "data: " + `{"type":"response.completed","response":{"status":"completed","output":[` + call + "]}}\n\n",
			`call a math.multiply {"a":1};tools`},
		"deltas alone": {"text/event-stream", stream(`{"type":"response.reasoning_text.delta","output_index":0,"delta":"Hm"}`, `{"type":"response.output_text.delta","output_index":1,"delta":"Hi"}`,
			`{"type":"response.function_call_arguments.delta","output_index":7,"delta":"{}"}`, `{"type":"response.output_text.delta","output_index":0,"delta":"!"}`),
			`reasoning "Hm" ;text "Hi";end`},
		"a call id twice": {"text/event-stream", stream(done(0, call), done(1, call), done(1, call)), ``},
		"filtered":        {"text/event-stream", `data: {"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}}` + "\n\n", "refused"},
	} {
		reply, _, err := apis.Collect(responses(says(200, c.typ, c.body), nil), hello())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := apis.Tell(reply); got != c.want && c.want != "" {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		calls := (&message.Message{Blocks: reply.Blocks}).Calls()
		if name == "a call id twice" && (len(calls) != 2 || calls[0].CallID == calls[1].CallID) {
			t.Errorf("the calls are %s", apis.Tell(reply))
		}
	}
}

// TestFailedResponses: errors in the middle of a stream.
func TestFailedResponses(t *testing.T) {
	failed := func(code string) string {
		return `data: {"type":"response.failed","response":{"status":"failed","error":{"code":"` + code + `","message":"Sorry."}}}` + "\n\n"
	}
	for body, code := range map[string]string{
		failed("rate_limit_exceeded"): "rate_limited", failed("server_error"): "provider_error", failed("invalid_prompt"): "request_refused",
		failed("image_parse_error"): "request_refused", failed("something_new"): "provider_error",
		`data: {"type":"error","code":"context_length_exceeded","message":"Too long.","param":"input","sequence_number":1}` + "\n\n":                           "context_too_long",
		`data: {"type":"error","error":{"type":"invalid_request_error","param":"reasoning.summary","message":"Verify."}}` + "\n\n":                             "effort_unsupported",
		`data: {"type":"error","error":{"type":"invalid_request_error","param":"text.format.schema","message":"Not strict."}}` + "\n\n":                        "schema_unsupported",
		`data: {"type":"response.completed","response":{"status":"in_progress"}}` + "\n\n":                                                                     "stream_broken",
		`data: {"type":"response.completed","response":` + "\n\n":                                                                                              "stream_broken",
		"data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"message\"}}\n\ndata: [DONE]\n\n":                               "stream_broken",
		"data: " + `{"type":"response.output_item.done","output_index":0,"item":{"type":"web_search_call","x":"` + strings.Repeat("x", 5<<20) + `"}}` + "\n\n": "reply_too_large",
	} {
		_, _, err := apis.Collect(responses(says(200, "text/event-stream", body), nil), hello())
		if got := fault.Of(err); err == nil || got.Code != code {
			t.Errorf("%.150s: %v, want %s", body, err, code)
		}
	}
	var endless strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&endless, `data: {"type":"response.output_item.added","output_index":%d,"item":{"type":"message"}}`+"\n\n", i)
	}
	if _, _, err := apis.Collect(responses(says(200, "text/event-stream", endless.String()), nil), hello()); fault.Of(err).Code != "reply_too_large" {
		t.Errorf("endless items: %v", err)
	}
}

// TestResponsesSettings: what the responses API is asked for.
func TestResponsesSettings(t *testing.T) {
	warm := 0.5
	seed := int64(1)
	for _, c := range []struct {
		model    string
		sampling llm.Sampling
		has, not string
		notices  int
	}{
		{"gpt-5.4", llm.Sampling{Effort: llm.EffortLow, MaxTokens: 5}, `"reasoning":{"effort":"low","summary":"auto"},"max_output_tokens":16`, "temperature", 0},
		{"gpt-5.4", llm.Sampling{Effort: llm.EffortNone, Temperature: &warm}, `"reasoning":{"effort":"none"},"temperature":0.5`, "summary", 0},
		{"gpt-4.1", llm.Sampling{Temperature: &warm, Seed: &seed, Stop: []string{"x"}}, `"temperature":0.5`, "encrypted_content", 2},
		{"gpt-4.1", llm.Sampling{Effort: llm.EffortHigh}, `"store":false`, "reasoning", 1},
		{"o3", llm.Sampling{Temperature: &warm}, `"include":["reasoning.encrypted_content"]`, "temperature", 1},
	} {
		s := says(200, "text/event-stream", stream(done(0, cited)))
		s.Check = apis.CheckResponses
		r := hello()
		r.Sampling = c.sampling
		p := openai.New(openai.Options{BaseURL: "http://vendor.test/v1", HTTP: &http.Client{Transport: s}, Dialect: openai.Responses, Rules: openai.Official})
		_, notices, err := apis.Collect(p.Model(c.model), r)
		if err != nil || len(notices) != c.notices || !strings.Contains(s.Sent[0], c.has) || strings.Contains(s.Sent[0], c.not) {
			t.Errorf("%+v: %v, %q, %s", c, err, notices, s.Sent[0])
		}
	}
}
