package openai_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/openai"
	"steward/test/apis"
)

func says(status int, typ, body string) *apis.Says {
	return &apis.Says{Status: status, Type: typ, Bodies: []string{body}}
}

func hello() *llm.Request {
	r := apis.Hello()
	r.Tools = apis.Tools()
	return r
}

func provider(s *apis.Says, d openai.Rules) *openai.Provider {
	if s.Check == nil {
		s.Check = apis.CheckOpenAI
	}
	return openai.New(openai.Options{BaseURL: "http://vendor.test/v1", HTTP: &http.Client{Transport: s}, Rules: d})
}

// chunks makes a stream of deltas, ended by a finish reason and [DONE].
func chunks(finish string, deltas ...string) string {
	var b strings.Builder
	for _, d := range deltas {
		fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":null}]}\n\n", d)
	}
	fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\ndata: [DONE]\n\n", finish)
	return b.String()
}

// TestCompatibleServers: what servers send that OpenAI does not. The comment
// names the kind of server.
func TestCompatibleServers(t *testing.T) {
	const mul = `"function":{"name":"math__multiply","arguments":`
	for _, c := range []struct{ name, body, want string }{
		{"whole calls without index in one chunk", // Ollama, Gemini's compatible server
			chunks("tool_calls", `{"tool_calls":[{"id":"a",`+mul+`"{\"a\":1}"}},{"id":"b",`+mul+`"{\"a\":2}"}}]}`),
			`call a math.multiply {"a":1};call b math.multiply {"a":2};tools`},
		{"whole calls without index, each in its chunk",
			chunks("tool_calls", `{"tool_calls":[{"id":"a",`+mul+`"{}"}}]}`, `{"tool_calls":[{"id":"b",`+mul+`"{}"}}]}`),
			`call a math.multiply {};call b math.multiply {};tools`},
		{"fragments without index",
			chunks("tool_calls", `{"tool_calls":[{"id":"a",`+mul+`""}}]}`, `{"tool_calls":[{"function":{"arguments":"{\"a\""}}]}`, `{"tool_calls":[{"function":{"arguments":":1}"}}]}`),
			`call a math.multiply {"a":1};tools`},
		{"all calls have index 0", // some gateways
			chunks("tool_calls", `{"tool_calls":[{"index":0,"id":"a",`+mul+`"{}"}}]}`, `{"tool_calls":[{"index":0,"id":"b",`+mul+`"{\"b\""}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`),
			`call a math.multiply {};call b math.multiply {"b":1};tools`},
		{"id and name in every chunk",
			chunks("tool_calls", `{"tool_calls":[{"index":0,"id":"a",`+mul+`"{\"a\""}}]}`, `{"tool_calls":[{"index":0,"id":"a",`+mul+`":1}"}}]}`),
			`call a math.multiply {"a":1};tools`},
		{"name in pieces",
			chunks("tool_calls", `{"tool_calls":[{"index":0,"id":"a","function":{"name":"math__"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"multiply"}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}`),
			`call a math.multiply {};tools`},
		{"index from 1, null index", chunks("tool_calls", `{"tool_calls":[{"index":1,"id":"a",`+mul+`"{}"}},{"index":null,"id":"b",`+mul+`"{}"}}]}`),
			`call a math.multiply {};call b math.multiply {};tools`},
		{"arguments as an object", chunks("tool_calls", `{"tool_calls":[{"index":0,"id":"a",`+mul+`{"a": 1}}}]}`),
			`call a math.multiply {"a": 1};tools`},
		{"arguments null", chunks("tool_calls", `{"tool_calls":[{"index":0,"id":"a",`+mul+`null}}]}`), `call a math.multiply {};tools`},
		{"unknown tool", chunks("tool_calls", `{"tool_calls":[{"index":0,"id":"a","function":{"name":"web__search","arguments":"{}"}}]}`),
			`call a web.search {};tools`},
		{"finish reason stop although there are calls", // vLLM, LM Studio
			chunks("stop", `{"tool_calls":[{"index":0,"id":"a",`+mul+`"{}"}}]}`), `call a math.multiply {};tools`},
		{"tool_calls without calls", chunks("tool_calls", `{"content":"Well","tool_calls":[]}`), `text "Well";length`},
		{"function_call without call", chunks("function_call", `{"content":"Well"}`), `text "Well";length`},
		{"length in the middle of a call", chunks("length", `{"tool_calls":[{"index":0,"id":"a",`+mul+`"{\"a\":"}}]}`), `call a math.multiply {"a":;length`},
		{"length before the arguments", chunks("length", `{"tool_calls":[{"index":0,"id":"a",`+mul+`""}}]}`), `call a math.multiply ;length`},
		{"text after a call", chunks("stop", `{"tool_calls":[{"index":0,"id":"a",`+mul+`""}}]}`, `{"content":"there"}`),
			`call a math.multiply {};text "there";tools`},
		{"text around reasoning", chunks("stop", `{"content":"a"}`, `{"reasoning":"b"}`, `{"content":"c"}`),
			`text "a";reasoning "b" {"field":"reasoning"};text "c";end`},
		{"reasoning told twice", // OpenRouter and others for both camps
			chunks("stop", `{"reasoning":"b","reasoning_content":"b"}`, `{"content":"c"}`), `reasoning "b" {"field":"reasoning"};text "c";end`},
		{"reasoning in parts", // Mistral
			chunks("stop", `{"content":[{"type":"thinking","thinking":[{"type":"text","text":"b"}]},{"type":"text","text":"c"}]}`), `reasoning "b" ;text "c";end`},
		{"refused by a filter", chunks("content_filter", `{"content":"a"}`), `text "a";refused`},
		{"refusal after text", chunks("stop", `{"content":"a"}`, `{"refusal":"no"}`), `text "a";text "no";refused`},
		{"unknown finish reason", chunks("eos", `{"content":"a"}`), `text "a";end`},
		{"no [DONE]", strings.TrimSuffix(chunks("stop", `{"content":"a"}`), "data: [DONE]\n\n"), `text "a";end`},
		{"second choice", `data: {"choices":[{"index":1,"delta":{"content":"x"},"finish_reason":"length"},{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n", `text "a";end`},
		{"empty events and comments", ": OPENROUTER PROCESSING\n\ndata:\n\n" + chunks("stop", `{"content":"a"}`), `text "a";end`},
		{"null error", `data: {"error":null,"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n", `text "a";end`},
		{"invalid UTF-8", chunks("stop", "{\"content\":\"a\xffb\"}"), `text "a` + "\uFFFD" + `b";end`},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply, _, err := apis.Collect(provider(says(200, "text/event-stream", c.body), openai.Compatible).Model("m"), hello())
			if err != nil {
				t.Fatal(err)
			}
			if got := apis.Tell(reply); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestMadeUpIDs: ids that are missing or come twice are replaced.
func TestMadeUpIDs(t *testing.T) {
	const f = `"function":{"name":"math__multiply","arguments":"{}"}`
	body := chunks("stop", `{"tool_calls":[{"index":0,`+f+`},{"index":1,"id":"x",`+f+`},{"index":2,"id":"x",`+f+`}]}`)
	reply, _, err := apis.Collect(provider(says(200, "text/event-stream", body), openai.Compatible).Model("m"), hello())
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, b := range reply.Blocks {
		id := b.(*message.ToolCall).CallID
		if id == "" || ids[id] || len(id) > 40 {
			t.Errorf("id %q", id)
		}
		ids[id] = true
	}
	if len(ids) != 3 || !ids["x"] {
		t.Errorf("%v", ids)
	}
}

// TestWholeAnswer: a server that does not stream.
func TestWholeAnswer(t *testing.T) {
	body := `{"id":"1","choices":[{"index":0,"message":{"role":"assistant","content":"a","tool_calls":[
		{"id":"x","type":"function","function":{"name":"math__multiply","arguments":"{}"}},
		{"type":"function","function":{"name":"math__multiply","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3}}`
	reply, _, err := apis.Collect(provider(says(200, "application/json; charset=utf-8", body), openai.Compatible).Model("m"), hello())
	if err != nil || len(reply.Blocks) != 3 || reply.Usage.Input != 3 || reply.Stop != message.StopTools {
		t.Errorf("%+v, %v", reply, err)
	}
	for _, bad := range []string{`{"choices":[`, `{"error":{"message":"no"}}`, `{}`} {
		if _, _, err := apis.Collect(provider(says(200, "application/json", bad), openai.Compatible).Model("m"), hello()); err == nil {
			t.Errorf("%s is an answer", bad)
		}
	}
}

// TestKeptMembers: what a compatible server adds goes back to it byte for
// byte, and to nobody else.
func TestKeptMembers(t *testing.T) {
	body := chunks("tool_calls",
		`{"reasoning_content":"hm","reasoning_details":[{"data":"A\/+"}],"provider_note":"x","annotations":[{"url":1}]}`,
		`{"reasoning_details":[ ],"provider_note":"y","level":1}`,
		`{"reasoning_details":[{"data":"B"}],"level":2,"role":"assistant","nothing":null}`,
		`{"tool_calls":[{"index":0,"id":"a","function":{"name":"math__multiply","arguments":"{}"},"extra_content":{"google":{"thought_signature":"S\u003d"}}}]}`)
	s := says(200, "text/event-stream", body)
	s.Check = func([]byte) error { return nil } // the members are a compatible server's
	reply, _, err := apis.Collect(provider(s, openai.Compatible).Model("m"), hello())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"reasoning_details":[{"data":"A\/+"},{"data":"B"}],"provider_note":"xy","annotations":[{"url":1}],"level":2}`
	if string(reply.Meta.Fields) != want || reply.Meta.Provider != "openai" {
		t.Errorf("meta %s", reply.Meta.Fields)
	}
	msgs := append(hello().Transcript.Messages(),
		&message.Message{Role: message.Assistant, Blocks: reply.Blocks, Meta: reply.Meta},
		&message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{CallID: "a", Status: message.OK}}})
	back := []string{`"reasoning_details":[{"data":"A\/+"},{"data":"B"}]`, `"extra_content":{"google":{"thought_signature":"S\u003d"}}`, `"reasoning_content":"hm"`, `"level":2`}
	for rules, wanted := range map[openai.Rules]bool{openai.Compatible: true, openai.Official: false} {
		if _, _, err := apis.Collect(provider(s, rules).Model("m"), &llm.Request{Transcript: llm.NewTranscript(msgs...)}); err != nil {
			t.Fatal(err)
		}
		sent := s.Sent[len(s.Sent)-1]
		for _, b := range back[:2] {
			if strings.Contains(sent, b) != wanted {
				t.Errorf("%s: %s in %s", rules, b, sent)
			}
		}
		if strings.Contains(sent, "annotations") {
			t.Errorf("annotations went back: %s", sent)
		}
		if rules == openai.Compatible && (!strings.Contains(sent, back[2]) || !strings.Contains(sent, back[3])) {
			t.Errorf("%s", sent)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, code string
		retry      bool
	}{
		{429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, "rate_limited", false},
		{402, `{"error":{"message":"Insufficient credits","code":402}}`, "rate_limited", false},
		{400, `{"error":{"message":"This model's maximum context length is 4096 tokens"}}`, "context_too_long", false},
		{400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, "context_too_long", false},
		{400, `{"error":{"message":"registry.ollama.ai/library/x does not support tools","type":"api_error"}}`, "tools_unsupported", false},
		{404, `{"error":{"message":"No endpoints found that support tool use.","code":404}}`, "tools_unsupported", false},
		{400, `{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice","code":400}`, "tools_unsupported", false},
		{400, `{"error":{"message":"x","param":"tools"}}`, "tools_unsupported", false},
		{400, `{"error":{"message":"This model does not support image inputs."}}`, "images_unsupported", false},
		{400, `{"error":{"message":"Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."}}`, "schema_unsupported", false},
		{400, `{"error":"plain"}`, "request_refused", false},
		{422, `{"detail":"Unprocessable"}`, "request_refused", false},
		{400, `{"code":"model_not_found","message":"no"}`, "model_not_found", false},
		{404, `404 page not found`, "model_not_found", false},
		{401, `{"error":{"message":"no","code":"invalid_api_key"}}`, "auth_failed", false},
		{500, `{"error":{"message":"tools is not supported"}}`, "provider_error", true},
		{200, `data: {"error":{"message":"Provider returned error","code":502}}` + "\n\n", "provider_error", true},
		{200, `data: {"error":{"message":"slow","code":429}}` + "\n\n", "rate_limited", true},
		{200, `data: {"error":{"message":"slow","code":"rate_limit_exceeded"}}` + "\n\n", "rate_limited", true},
		{200, `data: {"error":{"message":"busy","type":"overloaded_error"}}` + "\n\n", "overloaded", true},
		{200, `data: {"error":{"message":"what"}}` + "\n\n", "provider_error", true},
		{200, `data: {"choices":[}` + "\n\n", "stream_broken", true},
		{200, `data: {"choices":[]}` + "\n\ndata: [DONE]\n\n", "stream_broken", true},
		{200, ``, "stream_broken", true},
	} {
		_, _, err := apis.Collect(provider(says(c.status, "text/event-stream", c.body), openai.Compatible).Model("m"), hello())
		f := fault.Of(err)
		if err == nil || f.Code != c.code || f.Recoverable() != c.retry {
			t.Errorf("%d %s: code %q, retry %q: %v", c.status, c.body, f.Code, f.Retry, err)
		}
	}
}

// TestSettings: what goes out under which name, and what is left out with a notice.
func TestSettings(t *testing.T) {
	warm, one := 0.5, 1.0
	ok := chunks("stop", `{"content":"a"}`)
	for _, c := range []struct {
		rules      openai.Rules
		model      string
		s          llm.Sampling
		has, hasNo string
		notices    int
	}{
		{openai.Official, "gpt-4.1", llm.Sampling{MaxTokens: 5, Temperature: &warm, Stop: []string{"x"}}, `"temperature":0.5,"max_completion_tokens":5,"stop":["x"]`, "reasoning_effort", 0},
		{openai.Compatible, "m", llm.Sampling{MaxTokens: 5, Effort: llm.EffortNone}, `"reasoning_effort":"none","max_tokens":5`, "completion", 0},
		{openai.Official, "gpt-4o", llm.Sampling{Effort: llm.EffortHigh}, `"model":"gpt-4o"`, "reasoning_effort", 1},
		{openai.Official, "gpt-4o", llm.Sampling{Effort: llm.EffortNone}, `"model":"gpt-4o"`, "reasoning_effort", 0},
		{openai.Official, "gpt-5-chat-latest", llm.Sampling{Effort: llm.EffortLow}, `"model"`, "reasoning_effort", 1},
		{openai.Official, "gpt-5.1-chat-latest", llm.Sampling{Effort: llm.EffortLow}, `"model"`, "reasoning_effort", 1},
		{openai.Official, "gpt-5", llm.Sampling{Effort: llm.EffortNone, Temperature: &one}, `"reasoning_effort":"minimal","temperature":1`, "stop", 0},
		{openai.Official, "gpt-5-mini", llm.Sampling{Temperature: &warm, Stop: []string{"x"}}, `"model"`, "temperature", 2},
		{openai.Official, "o4-mini", llm.Sampling{Effort: llm.EffortNone}, `"reasoning_effort":"low"`, "temperature", 1},
		{openai.Official, "ft:o4-mini:org", llm.Sampling{Effort: llm.EffortMedium}, `"reasoning_effort":"medium"`, "temperature", 0},
		{openai.Official, "codex-mini", llm.Sampling{Effort: llm.EffortMedium}, `"reasoning_effort":"medium"`, "temperature", 0},
		{openai.Official, "gpt-5.1", llm.Sampling{Effort: llm.EffortNone, Temperature: &warm}, `"reasoning_effort":"none","temperature":0.5`, "stop", 0},
		{openai.Official, "gpt-6", llm.Sampling{Temperature: &warm}, `"model"`, "temperature", 1},
		{openai.Compatible, "m", llm.Sampling{Stop: []string{"1", "", "2", "3", "4", "5"}}, `"stop":["1","2","3","4"]`, `"5"`, 1},
	} {
		s := says(200, "text/event-stream", ok)
		r := hello()
		r.Sampling = c.s
		_, notices, err := apis.Collect(provider(s, c.rules).Model(c.model), r)
		if err != nil {
			t.Fatal(err)
		}
		rest := s.Sent[0][strings.LastIndex(s.Sent[0], `]`):]
		if !strings.Contains(s.Sent[0], c.has) || strings.Contains(rest, c.hasNo) || len(notices) != c.notices {
			t.Errorf("%s %+v: notices %q\n%s", c.model, c.s, notices, s.Sent[0])
		}
	}
}

func TestStrict(t *testing.T) {
	for schema, strict := range map[string]bool{
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`:                                                                                    true,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/x"}]}},"required":["a"],"additionalProperties":false,"$defs":{"x":{"type":"array","items":{"enum":[1]}}}}`: true,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":[],"additionalProperties":false}`:                                                                                       false,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`:                                                                                                                 false,
		`{"type":"object","properties":{"a":{"type":["object","null"]}},"required":["a"],"additionalProperties":false}`:                                                                           false,
		`{"type":"object","properties":{"a":{"oneOf":[]}},"required":["a"],"additionalProperties":false}`:                                                                                         false,
		`{"type":"object","properties":{"a":true},"required":["a"],"additionalProperties":false}`:                                                                                                 false,
		`{"type":"array","items":{}}`: false, `{"type":"object"}`: false, `nonsense`: false, `{"type":"object","anyOf":[]}`: false,
	} {
		s := says(200, "text/event-stream", chunks("stop", `{"content":"{}"}`))
		s.Check = func([]byte) error { return nil } // some are not JSON
		r := hello()
		r.Schema = &llm.Schema{JSON: []byte(schema)}
		if _, _, err := apis.Collect(provider(s, openai.Official).Model("gpt-4.1"), r); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(s.Sent[0], `"strict":true`); got != strict {
			t.Errorf("%s: strict is %v", schema, got)
		}
		if !strings.Contains(s.Sent[0], schema) {
			t.Errorf("the schema was changed: %s", s.Sent[0])
		}
	}
}

func TestNotices(t *testing.T) {
	s := says(200, "text/event-stream", chunks("stop", `{"content":"a"}`))
	zip := &message.File{MIME: "application/zip", Name: "a.zip", Data: []byte("PK")}
	r := &llm.Request{Transcript: llm.NewTranscript(&message.Message{Role: message.User, Blocks: []message.Block{zip}})}
	_, notices, err := apis.Collect(provider(s, openai.Compatible).Model("m"), r)
	if err != nil || len(notices) != 1 || !strings.Contains(notices[0], "a.zip") {
		t.Errorf("%q, %v", notices, err)
	}
	// A consumer that leaves at the notice asks nobody.
	for range provider(s, openai.Compatible).Model("m").Stream(context.Background(), r) {
		break
	}
	if len(s.Sent) != 1 {
		t.Errorf("%d requests", len(s.Sent))
	}
}

func TestDialects(t *testing.T) {
	for url, want := range map[string]openai.Rules{
		"https://api.openai.com/v1": openai.Official, "https://eu.api.openai.com/v1": openai.Official, "https://x.openai.azure.com/openai/v1": openai.Official,
		"http://localhost:8000/v1": openai.Compatible, "https://openai.com.evil.example": openai.Compatible, "https://notopenai.com": openai.Compatible, "\x7f": openai.Compatible,
	} {
		if got := openai.RulesOf(url); got != want {
			t.Errorf("%q: %s", url, got)
		}
	}
	for url, want := range map[string]openai.Dialect{
		"": openai.Responses, "https://api.openai.com/v1": openai.Responses, "https://eu.api.openai.com/v1": openai.Responses,
		"https://x.openai.azure.com/openai/v1": openai.Chat, "http://localhost:8000/v1": openai.Chat, "https://openai.com.evil.example": openai.Chat, "\x7f": openai.Chat,
	} {
		if got := openai.DialectOf(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
	if p := openai.New(openai.Options{}); p.Name() != "openai" {
		t.Error(p.Name())
	}
}

func TestModels(t *testing.T) {
	s := says(200, "application/json", `{"data":[{"id":"a","created":1,"max_model_len":4096},{"id":"embed-b","context_length":10},{}]}`)
	infos, err := provider(s, openai.Compatible).Models(context.Background())
	if err != nil || len(infos) != 2 || infos[0].Window != 4096 || infos[0].Created.Unix() != 1 || !infos[1].Embedder || infos[1].Window != 10 {
		t.Errorf("%+v, %v", infos, err)
	}
	if s.Bodies[0] = `{"data":[`; true {
		if _, err := provider(s, openai.Compatible).Models(context.Background()); fault.Of(err).Code != "stream_broken" {
			t.Errorf("%v", err)
		}
	}
	if s.Status = 401; true {
		if _, err := provider(s, openai.Compatible).Models(context.Background()); fault.Of(err).Code != "auth_failed" {
			t.Errorf("%v", err)
		}
	}
}

func TestEmbed(t *testing.T) {
	// 1.0 and -2.0 as little-endian float32, as OpenAI sends them; and as a list.
	body := `{"data":[{"index":1,"embedding":[0.5,2]},{"index":0,"embedding":"AACAPwAAAMA="}],"usage":{"prompt_tokens":7}}`
	s := says(200, "application/json", body)
	v, err := provider(s, openai.Compatible).Embedder("e").Embed(context.Background(), []string{"a", ""})
	if err != nil || fmt.Sprint(v) != "{openai/e [[1 -2] [0.5 2]] 7}" || s.Asked[0] != "http://vendor.test/v1/embeddings" {
		t.Errorf("%v, %v, %s", v, err, s.Asked)
	}
	for _, bad := range []string{
		`{"data":[{"index":5,"embedding":[1]}]}`, `{"data":[{"index":0,"embedding":[1]}]}`, `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}`,
		`{"data":[{"index":0,"embedding":"***"},{"index":1,"embedding":[1]}]}`, `{"data":[{"index":0,"embedding":"AADAfw=="},{"index":1,"embedding":[1]}]}`, `{`,
	} {
		s.Bodies[0] = bad
		if _, err := provider(s, openai.Compatible).Embedder("e").Embed(context.Background(), []string{"a", "b"}); fault.Of(err).Code != "stream_broken" {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if v, err := provider(s, openai.Compatible).Embedder("e").Embed(context.Background(), nil); err != nil || len(v.Values) != 0 {
		t.Errorf("%v, %v", v, err)
	}
	if s.Status = 500; true {
		if _, err := provider(s, openai.Compatible).Embedder("e").Embed(context.Background(), []string{"a"}); fault.Of(err).Code != "provider_error" {
			t.Errorf("%v", err)
		}
	}
}

// TestBatches: many texts go in several requests and come back in order.
func TestBatches(t *testing.T) {
	n := 0
	rt := roundTrip(func(r *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		out.WriteString(`{"data":[`)
		for i := range strings.Count(string(b), `"t`) {
			if i > 0 {
				out.WriteByte(',')
			}
			fmt.Fprintf(&out, `{"index":%d,"embedding":[%d]}`, i, n)
			n++
		}
		out.WriteString(`],"usage":{"prompt_tokens":1}}`)
		return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, Body: io.NopCloser(&out)}, nil
	})
	texts := make([]string, 600)
	for i := range texts {
		texts[i] = fmt.Sprint("t", i)
	}
	p := openai.New(openai.Options{BaseURL: "http://vendor.test", HTTP: &http.Client{Transport: rt}})
	v, err := p.Embedder("e").Embed(context.Background(), texts)
	if err != nil || v.Tokens != 3 {
		t.Fatalf("%d tokens, %v", v.Tokens, err)
	}
	for i, x := range v.Values {
		if x[0] != float32(i) {
			t.Fatalf("vector %d is %v", i, x)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestMembersThatAreNoSoundJSONAreTold(t *testing.T) {
	s := says(200, "text/event-stream", chunks("stop", `{"content":"It rains."}`, `{"annotations":[{"type":"url_citation","url_citation":{"url":"https://w.test/1","url":"https://w.test/1"}}]}`))
	reply, notices, err := apis.Collect(provider(s, openai.Compatible).Model("m"), hello())
	if err != nil || len(notices) != 1 || reply.Meta.Fields != nil {
		t.Fatalf("%+v, %q, %v", reply, notices, err)
	}
	if err := message.Validate(&message.Message{ID: id.New(), Role: message.Assistant, Blocks: reply.Blocks}); err != nil || len(reply.Blocks[0].(*message.Text).Citations) != 1 {
		t.Errorf("%v, %+v", err, reply.Blocks)
	}
}

func TestCitationsAreRead(t *testing.T) {
	for name, c := range map[string]struct{ delta, want string }{
		"OpenAI": {`{"annotations":[{"type":"url_citation","url_citation":{"end_index":9,"start_index":0,"title":"Rain","url":"https://w.test/1"}}]}`, `[{"url":"https://w.test/1","title":"Rain"}]`},
		"OpenRouter": {`{"annotations":[{"type":"url_citation","url_citation":{"url":"https://w.test/1","title":"Rain","content":"all day"}}]}`,
			`[{"url":"https://w.test/1","title":"Rain","text":"all day"}]`},
		"Perplexity": {`{"citations":["https://w.test/1","https://w.test/2"]}`, `[{"url":"https://w.test/1"},{"url":"https://w.test/2"}]`},
		"others":     {`{"annotations":[{"type":"file_citation"},7],"citations":{"a":1}}`, "[]"},
	} {
		s := says(200, "text/event-stream", chunks("stop", `{"content":"It rains."}`, c.delta))
		reply, _, err := apis.Collect(provider(s, "").Model("m"), hello())
		if err != nil {
			t.Fatal(name, err)
		}
		if got := string(message.AppendCitations(nil, reply.Blocks[0].(*message.Text).Citations)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
