package anthropic_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/wire"
	"steward/test/apis"
)

func provider(s *apis.Says) *anthropic.Provider {
	if s.Check == nil {
		s.Check = apis.CheckAnthropic
	}
	return anthropic.New(anthropic.Options{BaseURL: "http://vendor.test/v1/", Key: "k", HTTP: &http.Client{Transport: s}})
}

func event(json string) string { return "data: " + json + "\n\n" }

// stream makes an answer of events between message_start and the stop reason.
func stream(stop string, events ...string) string {
	s := event(`{"type":"message_start","message":{"usage":{"input_tokens":1}}}`)
	for _, e := range events {
		s += event(e)
	}
	return s + event(`{"type":"message_delta","delta":{"stop_reason":"`+stop+`"},"usage":{"output_tokens":2}}`) + event(`{"type":"message_stop"}`)
}

func user(blocks ...message.Block) *message.Message {
	return &message.Message{ID: id.New(), Role: message.User, Blocks: blocks}
}

func text(s string) message.Block { return &message.Text{Text: s} }

func ask(msgs ...*message.Message) *llm.Request {
	if len(msgs) == 0 {
		msgs = append(msgs, user(text("Hello")))
	}
	return &llm.Request{Tools: apis.Tools(), Transcript: llm.NewTranscript(msgs...)}
}

func TestStreams(t *testing.T) {
	const use = `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"math__multiply","input":{}}}`
	for _, c := range []struct{ name, body, want string }{
		{"redacted thinking", stream("end_turn", `{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"A\/+="}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"Hi"}}`), `reasoning "" {"data":"A\/+="};text "Hi";end`},
		{"thinking that is not shown", stream("end_turn", `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"S=="}}`), `reasoning "" {"signature":"S=="};end`},
		{"thinking without a signature", stream("end_turn", `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"hm"}}`),
			`reasoning "hm" ;end`},
		{"input that comes whole", stream("tool_use", `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"math__multiply","input":{"a": 1}}}`),
			`call toolu_1 math.multiply {"a": 1};tools`},
		{"unknown block", stream("end_turn", `{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}`, `{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"Hi"}}`), `text "Hi";end`},
		{"unknown events", stream("end_turn", `{"type":"something_new","index":3}`, `{"type":"ping"}`, `{"type":"content_block_delta","index":7,"delta":{"text":"x"}}`,
			`{"type":"content_block_start","index":-1,"content_block":{"type":"text","text":"x"}}`), `end`},
		{"index comes last", stream("end_turn", `{"content_block":{"text":"","type":"text"},"type":"content_block_start","index":0}`,
			`{"delta":{"text":"Hi","type":"text_delta"},"type":"content_block_delta","index":0}`), `text "Hi";end`},
		{"length in a call", stream("max_tokens", use, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}`), `call toolu_1 math.multiply {"a";length`},
		{"length before the arguments", stream("max_tokens", use), `call toolu_1 math.multiply ;length`},
		{"end_turn although there is a call", stream("end_turn", use), `call toolu_1 math.multiply {};tools`},
		{"tool_use without a call", stream("tool_use"), `length`},
		{"pause", stream("pause_turn"), `length`},
		{"window exceeded", stream("model_context_window_exceeded"), `length`},
		{"new stop reason", stream("whatever"), `end`},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply, _, err := apis.Collect(provider(&apis.Says{Status: 200, Bodies: []string{c.body}}).Model("claude-opus-4-6"), ask())
			if err != nil {
				t.Fatal(err)
			}
			if got := apis.Tell(reply); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if reply.Usage != (message.Usage{Input: 1, Output: 2}) {
				t.Errorf("usage %+v", reply.Usage)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, code string
		retry      bool
	}{
		{400, `{"error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`, "rate_limited", false},
		{402, `{"error":{"type":"billing_error","message":"pay"}}`, "rate_limited", false},
		{403, `{"error":{"type":"permission_error","message":"no"}}`, "auth_failed", false},
		{413, `{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, "context_too_long", false},
		{400, `{"error":{"type":"invalid_request_error","message":"output_config.format.schema: no"}}`, "schema_unsupported", false},
		{400, `{"error":{"type":"invalid_request_error","message":"input length and max_tokens exceed context limit: 1 + 2 > 2"}}`, "context_too_long", false},
		{504, `{"error":{"type":"timeout_error","message":"late"}}`, "provider_error", true},
		{502, `{"error":{"type":"not_found_error","message":"route"}}`, "provider_error", true},
		{404, `404 page not found`, "model_not_found", false},
		{200, event(`{"type":"error","error":{"type":"api_error","message":"oops"}}`), "provider_error", true},
		{200, event(`{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`), "rate_limited", true},
		{200, event(`{"type":"message_stop"}`), "stream_broken", true},
		{200, event(`{"type":`), "stream_broken", true},
		{200, event(`{"type":"message_start","message":{}}`) + stream("end_turn", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hi"}}`), "stream_broken", true},
		{200, ``, "stream_broken", true},
	} {
		_, _, err := apis.Collect(provider(&apis.Says{Status: c.status, Bodies: []string{c.body}}).Model("claude-opus-4-6"), ask())
		f := fault.Of(err)
		if err == nil || f.Code != c.code || f.Recoverable() != c.retry {
			t.Errorf("%d %s: code %q, retry %q: %v", c.status, c.body, f.Code, f.Retry, err)
		}
	}
}

// TestSettings: what each generation of models is asked, and the notices.
func TestSettings(t *testing.T) {
	warm, hot, one := 0.5, 1.5, 1.0
	for _, c := range []struct {
		model      string
		s          llm.Sampling
		choice     string
		has, hasNo string
		notices    int
	}{
		{"claude-3-haiku-20240307", llm.Sampling{Effort: llm.EffortHigh, Temperature: &warm}, "", `"max_tokens":4096,"temperature":0.5`, "thinking", 1},
		{"claude-3-5-haiku-latest", llm.Sampling{}, "", `"max_tokens":8192`, "thinking", 0},
		{"claude-3-7-sonnet-20250219", llm.Sampling{Effort: llm.EffortLow}, "", `"max_tokens":32000,"thinking":{"type":"enabled","budget_tokens":4096}`, "effort", 0},
		{"claude-sonnet-4-20250514", llm.Sampling{Effort: llm.EffortHigh, MaxTokens: 2000}, "", `"max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":1999}`, "effort", 0},
		{"claude-sonnet-4-5", llm.Sampling{Effort: llm.EffortHigh, MaxTokens: 500}, "", `"max_tokens":500`, "thinking", 1},
		{"claude-sonnet-4-5", llm.Sampling{Effort: llm.EffortMedium, Temperature: &warm}, "", `"budget_tokens":12000`, "temperature", 1},
		{"claude-sonnet-4-5", llm.Sampling{Temperature: &hot}, "", `"temperature":1`, "1.5", 1},
		{"claude-opus-4-6", llm.Sampling{Effort: llm.EffortMedium}, "", `"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"medium"}`, "budget", 0},
		{"claude-opus-4-6", llm.Sampling{Effort: llm.EffortNone, Temperature: &warm}, "", `"temperature":0.5`, "thinking", 0},
		{"claude-opus-4-6", llm.Sampling{Effort: llm.EffortLow}, "required", `"tool_choice":{"type":"any"}`, "thinking", 1},
		{"claude-opus-4-7", llm.Sampling{Temperature: &warm}, "", `"max_tokens":32000`, "temperature", 1},
		{"claude-opus-4-8", llm.Sampling{Temperature: &one}, "none", `"tool_choice":{"type":"none"}`, "temperature", 0},
		{"claude-opus-5", llm.Sampling{Effort: llm.EffortNone}, "", `"thinking":{"type":"disabled"}`, "effort", 0},
		{"claude-sonnet-5", llm.Sampling{}, "math.multiply", `"tool_choice":{"type":"tool","name":"math__multiply"},"max_tokens":32000,"thinking":{"type":"disabled"}`, "effort", 0},
		{"claude-sonnet-5-5", llm.Sampling{Effort: llm.EffortNone}, "", `"thinking":{"type":"between_tools"}`, "effort", 0},
		{"anthropic.claude-fable-5-1-v1:0", llm.Sampling{Effort: llm.EffortNone}, "", `"thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}},"output_config":{"effort":"low"}`, "disabled", 1},
		{"claude-mythos-preview", llm.Sampling{Effort: llm.EffortNone}, "", `"thinking":{"type":"adaptive"}`, "disabled", 1},
		{"claude-opus-5-5", llm.Sampling{}, "required", `"drop_block"`, "tool_choice", 1},
		{"claude-haiku-5-5", llm.Sampling{Effort: llm.EffortNone, Stop: []string{"a", "", " "}}, "", `"thinking":{"type":"disabled"},"stop_sequences":["a"]`, "effort", 1},
		{"kimi-k2", llm.Sampling{Effort: llm.EffortHigh}, "", `"max_tokens":8192,"thinking":{"type":"enabled","budget_tokens":8191}`, "effort", 0},
	} {
		s := &apis.Says{Status: 200, Bodies: []string{stream("end_turn")}}
		r := ask()
		r.Sampling, r.ToolChoice = c.s, c.choice
		_, notices, err := apis.Collect(provider(s).Model(c.model), r)
		if err != nil {
			t.Fatal(err)
		}
		rest := s.Sent[0][:strings.Index(s.Sent[0], `"messages"`)] + s.Sent[0][strings.LastIndex(s.Sent[0], `]`):]
		if !strings.Contains(s.Sent[0], c.has) || strings.Contains(rest, c.hasNo) || len(notices) != c.notices {
			t.Errorf("%s %+v: notices %q\n%s", c.model, c.s, notices, rest)
		}
		beta := s.Header.Get("Anthropic-Beta") != ""
		if beta != strings.Contains(s.Sent[0], "block_binding") {
			t.Errorf("%s: the beta header is %v", c.model, beta)
		}
		if s.Header.Get("Anthropic-Version") != "2023-06-01" || s.Header.Get("X-Api-Key") != "k" || s.Asked[0] != "http://vendor.test/v1/messages" {
			t.Errorf("%v %v", s.Header, s.Asked)
		}
	}
}

// TestOwnThinking: signed thinking goes back to the model that wrote it, byte
// for byte, and to no other.
func TestOwnThinking(t *testing.T) {
	meta := func(f string) message.Common {
		return message.Common{Meta: message.Meta{Provider: "anthropic", Fields: []byte(f)}}
	}
	wrote := &message.Message{ID: id.New(), Role: message.Assistant, Model: "anthropic/claude-opus-4-6", Stop: message.StopTools, Blocks: []message.Block{
		&message.Reasoning{Common: meta(`{"signature":"S\/=="}`), Text: "hm"},
		&message.Reasoning{Common: meta(`{"data":"D\/=="}`)},
		&message.ToolCall{CallID: "toolu_1", Name: "time.now", Args: []byte(`{}`)},
	}}
	answer := &message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{
		&message.ToolResult{Call: message.Ref{Message: wrote.ID, Block: 2}, CallID: "toolu_1", Status: message.OK}}}
	back := `{"type":"thinking","thinking":"hm","signature":"S\/=="},{"type":"redacted_thinking","data":"D\/=="},{"type":"tool_use"`
	for model, want := range map[string]bool{"claude-opus-4-6": true, "claude-opus-4-5": false, "claude-opus-5-5": false} {
		for effort, sends := range map[llm.Effort]bool{"": want, llm.EffortHigh: want, llm.EffortNone: false} {
			if model == "claude-opus-5-5" {
				sends = false
			}
			s := &apis.Says{Status: 200, Bodies: []string{stream("end_turn")}}
			r := ask(user(text("Hi")), wrote, answer)
			r.Sampling.Effort = effort
			if _, _, err := apis.Collect(provider(s).Model(model), r); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(s.Sent[0], back) != sends {
				t.Errorf("%s at effort %q:\n%s", model, effort, s.Sent[0])
			}
			// In the middle of a turn that it did not think in, an older model cannot begin to.
			if model == "claude-opus-4-5" && strings.Contains(s.Sent[0], `"thinking"`) {
				t.Errorf("thinking in the middle of a turn: %s", s.Sent[0])
			}
		}
	}
	// With its own thinking at the beginning of the turn it goes on.
	wrote.Model = "anthropic/claude-opus-4-5"
	s := &apis.Says{Status: 200, Bodies: []string{stream("end_turn")}}
	r := ask(user(text("Hi")), wrote, answer)
	r.Sampling.Effort = llm.EffortHigh
	if _, _, err := apis.Collect(provider(s).Model("claude-opus-4-5"), r); err != nil || !strings.Contains(s.Sent[0], `"type":"enabled"`) {
		t.Errorf("%v\n%s", err, s.Sent[0])
	}
}

// TestStructured: by output_config where it is known, else not at all.
func TestStructured(t *testing.T) {
	schema := `{"type":"object","properties":{"z":{"type":"string","minLength":1,"format":"zip"},"a":{"type":"array","items":{"type":"object","properties":{"n":{"type":"number","minimum":0}},"additionalProperties":true},"minItems":1,"maxItems":3},` +
		`"o":{"oneOf":[{"type":"string","format":"date"},{"type":"null"}]},"m":{"type":"object","additionalProperties":{"type":"string","pattern":"x"}},"any":true},"required":["z"],"$defs":{"d":{"type":"object","additionalProperties":false}},"minProperties":1}`
	adjusted := `{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"array","items":{"type":"object","properties":{"n":{"type":"number"}},"additionalProperties":false},"minItems":1},` +
		`"o":{"anyOf":[{"type":"string","format":"date"},{"type":"null"}]},"m":{"type":"object","additionalProperties":{"type":"string"}},"any":true},"required":["z"],"$defs":{"d":{"type":"object","additionalProperties":false}},"additionalProperties":false}`
	s := &apis.Says{Status: 200, Bodies: []string{stream("end_turn", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"{}"}}`)}}
	r := ask()
	s.Check = func([]byte) error { return nil } // some of the schema is refused by the real API, too
	r.Schema = &llm.Schema{Name: "x", JSON: []byte(schema)}
	if _, _, err := apis.Collect(provider(s).Model("claude-opus-4-6"), r); err != nil || !strings.Contains(s.Sent[0], `"format":{"type":"json_schema","schema":`+adjusted+`}`) {
		t.Errorf("%v\n%s", err, s.Sent[0])
	}
	// Others refuse it, so that it is asked for in words.
	s = &apis.Says{}
	if _, _, err := apis.Collect(provider(s).Model("claude-3-7-sonnet-20250219"), r); !fault.HasCode(err, "schema_unsupported") || len(s.Sent) > 0 {
		t.Errorf("%v, sent %q", err, s.Sent)
	}
}

// TestCacheMarks: on what is stable and on what is last, and never in what is kept.
func TestCacheMarks(t *testing.T) {
	s := &apis.Says{Status: 200, Bodies: []string{stream("end_turn")}}
	m := provider(s).Model("claude-opus-4-6")
	r := ask()
	send := func() string {
		if _, _, err := apis.Collect(m, r); err != nil {
			t.Fatal(err)
		}
		return s.Sent[len(s.Sent)-1]
	}
	const mark = `"cache_control":{"type":"ephemeral"}`
	if b := send(); strings.Count(b, mark) != 2 || !strings.Contains(b, mark+`}]`) {
		t.Errorf("without a system prompt the last tool and the last block are marked: %s", b)
	}
	r.System = "Be brief."
	if b := send(); strings.Count(b, mark) != 2 || !strings.Contains(b, `"text":"Be brief.",`+mark) {
		t.Errorf("with a system prompt that is marked: %s", b)
	}
	r.Transcript.Append(&message.Message{Role: message.Assistant, Blocks: []message.Block{text("Hi")}}, user(text("And?")))
	b := send()
	if strings.Count(b, mark) != 2 || !strings.Contains(b, `"text":"And?",`+mark+`}]}]`) || strings.Contains(b, `"Hello",`+mark) {
		t.Errorf("the mark moves on: %s", b)
	}
}

// TestPictures: what the API takes, and what the model is only told of.
func TestPictures(t *testing.T) {
	s := &apis.Says{Status: 200, Bodies: []string{stream("end_turn")}}
	r := ask(user(
		&message.Image{URL: "data:image/png;base64,aGk="}, &message.Image{URL: "http://x/a.png"}, &message.Image{MIME: "image/bmp", Data: []byte("BM")},
		&message.File{MIME: "application/pdf", Name: "a.pdf", Data: []byte("%PDF")}, &message.File{MIME: "application/zip", Name: "z.zip", Data: []byte("PK")}))
	_, notices, err := apis.Collect(provider(s).Model("claude-opus-4-6"), r)
	if err != nil || len(notices) != 3 {
		t.Errorf("%q, %v", notices, err)
	}
	for _, want := range []string{`"media_type":"image/png","data":"aGk="`, `image/bmp`, `http://x/a.png`, `"title":"a.pdf"`, `z.zip`} {
		if !strings.Contains(s.Sent[0], want) {
			t.Errorf("no %s in %s", want, s.Sent[0])
		}
	}
	for range provider(s).Model("claude-opus-4-6").Stream(context.Background(), r) {
		break // at the notice: nobody is asked
	}
	if len(s.Sent) != 1 {
		t.Errorf("%d requests", len(s.Sent))
	}
}

func TestModelPages(t *testing.T) {
	s := &apis.Says{Status: 200, Bodies: []string{
		`{"data":[{"id":"a","created_at":"2026-02-04T00:00:00Z","max_input_tokens":1000},{}],"has_more":true,"last_id":"a b"}`,
		`{"data":[{"id":"c"}],"has_more":false,"last_id":"c"}`,
	}}
	infos, err := provider(s).Models(context.Background())
	if err != nil || len(infos) != 2 || infos[0].Window != 1000 || infos[0].Created.Year() != 2026 || infos[1].Name != "c" {
		t.Errorf("%+v, %v", infos, err)
	}
	if want := "http://vendor.test/v1/models?limit=1000&after_id=a+b"; len(s.Asked) != 2 || s.Asked[1] != want {
		t.Errorf("%q", s.Asked)
	}
	// A server that says for ever that there is more.
	s.Bodies = []string{`{"data":[{"id":"a"}],"has_more":true,"last_id":"a"}`}
	if infos, err := provider(s).Models(context.Background()); err != nil || len(infos) != 2 {
		t.Errorf("%d, %v", len(infos), err)
	}
	if s.Bodies = []string{`{"data":`}; true {
		if _, err := provider(s).Models(context.Background()); fault.Of(err).Code != "stream_broken" {
			t.Errorf("%v", err)
		}
	}
	if s.Status = 401; true {
		if _, err := provider(s).Models(context.Background()); fault.Of(err).Code != "auth_failed" {
			t.Errorf("%v", err)
		}
	}
	if p := anthropic.New(anthropic.Options{}); p.Name() != "anthropic" {
		t.Error(p.Name())
	}
}

// A server that counts its blocks wrongly and uses an id again: no two calls
// have the same one.
func TestCallsAtOneIndexHaveIdsOfTheirOwn(t *testing.T) {
	use := `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"same","name":"` + apis.Tools().Specs()[0].Name + `","input":{}}}`
	m := provider(&apis.Says{Status: 200, Bodies: []string{stream("tool_use", use, use, use)}}).Model("m")
	reply, _, err := apis.Collect(m, ask())
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, b := range reply.Blocks {
		if c, ok := b.(*message.ToolCall); ok {
			ids[c.CallID] = true
		}
	}
	if len(ids) != 3 || !ids["same"] {
		t.Errorf("the ids are %v", ids)
	}
}

// A search on the vendor's own servers, as its documentation shows the stream.
var searched = stream("end_turn",
	`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\":"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":" \"rain\"}"}}`,
	`{"type":"content_block_stop","index":0}`,
	`{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result", "url":"https://w.test/1","title":"Rain","encrypted_content":"Ab=="}]}}`,
	`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"","citations":[]}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"It rains."}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","cited_text":"rain all day","url":"https://w.test/1","title":"Rain","encrypted_index":"E1=="}}}`,
	`{"type":"content_block_start","index":3,"content_block":{"type":"text","text":" Bring a coat."}}`)

func TestServerToolsAndCitationsAreKept(t *testing.T) {
	s := &apis.Says{Status: 200, Bodies: []string{searched}}
	reply, _, err := apis.Collect(provider(s).Model("claude-opus-4-6"), ask(user(text("Rain?"))))
	if err != nil || len(reply.Blocks) != 4 {
		t.Fatalf("%+v, %v", reply, err)
	}
	call, result := reply.Blocks[0].(*message.Vendor), reply.Blocks[1].(*message.Vendor)
	said := reply.Blocks[2].(*message.Text)
	if call.Kind != "server_tool_use" || result.Kind != "web_search_tool_result" || call.Meta.Provider != "anthropic" {
		t.Errorf("%+v, %+v", call, result)
	}
	if want := (message.Citation{URL: "https://w.test/1", Title: "Rain", Text: "rain all day"}); said.Text != "It rains." || len(said.Citations) != 1 || said.Citations[0] != want {
		t.Errorf("%+v", said)
	}
	m := &message.Message{ID: id.New(), Role: message.Assistant, Blocks: reply.Blocks, Model: "anthropic/claude-opus-4-6"}
	const back = `{"role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query": "rain"}},` +
		`{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result", "url":"https://w.test/1","title":"Rain","encrypted_content":"Ab=="}]},` +
		`{"type":"text","text":"It rains.","citations":[{"type":"web_search_result_location","cited_text":"rain all day","url":"https://w.test/1","title":"Rain","encrypted_index":"E1=="}]},` +
		`{"type":"text","text":" Bring a coat."}]}`
	if sent := again(t, s, m); !strings.Contains(sent, back) {
		t.Errorf("sent back as\n%s\nwant\n%s", sent, back)
	}
	for name, change := range map[string]func(*message.Message){
		"another provider's": func(m *message.Message) {
			for i, b := range m.Blocks {
				c := *b.Base()
				c.Meta.Provider = "other"
				switch b := b.(type) {
				case *message.Vendor:
					m.Blocks[i] = &message.Vendor{Common: c, Kind: b.Kind}
				case *message.Text:
					m.Blocks[i] = &message.Text{Common: c, Text: b.Text, Citations: b.Citations}
				}
			}
		},
		"a call without its result": func(m *message.Message) { m.Blocks = []message.Block{m.Blocks[0], m.Blocks[3]} },
		"a result without its call": func(m *message.Message) { m.Blocks = []message.Block{m.Blocks[1], m.Blocks[3]} },
		"of a document": func(m *message.Message) {
			m.Blocks = []message.Block{&message.Text{Text: "so", Citations: said.Citations, Common: message.Common{Meta: message.Meta{Provider: "anthropic",
				Fields: []byte(`{"citations":[{"type":"char_location","document_index":0}]}`)}}}}
		},
	} {
		c := *m
		c.Blocks = append([]message.Block{}, m.Blocks...)
		change(&c)
		if sent := again(t, s, &c); strings.Contains(sent, "srvtoolu_1") || strings.Contains(sent, "citations") {
			t.Errorf("%s: %s", name, sent)
		}
	}
	codec := provider(s).Codec("claude-opus-4-6")
	encoded, err := codec.Encode([]*message.Message{m})
	if err != nil {
		t.Fatal(err)
	}
	read, err := codec.Decode(encoded)
	if err != nil || len(read) != 1 || len(read[0].Citations()) != 1 {
		t.Fatalf("%v: %s", err, encoded)
	}
	if got, want := string(message.AppendBlocks(nil, read[0].Blocks)), string(message.AppendBlocks(nil, m.Blocks)); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// again asks anew after a message, and returns what was sent.
func again(t *testing.T, s *apis.Says, m *message.Message) string {
	t.Helper()
	if _, _, err := apis.Collect(provider(s).Model("claude-opus-4-6"), ask(user(text("Rain?")), m, user(text("And now?")))); err != nil {
		t.Fatal(err)
	}
	sent := s.Sent[len(s.Sent)-1]
	return sent
}

func TestServerToolsAreBounded(t *testing.T) {
	huge := `{"type":"content_block_start","index":%d,"content_block":{"type":"web_search_tool_result","tool_use_id":"s","content":"` + strings.Repeat("x", 1<<20) + `"}}`
	var events []string
	for i := range 5 {
		events = append(events, fmt.Sprintf(huge, i))
	}
	s := &apis.Says{Status: 200, Bodies: []string{stream("end_turn", events...)}}
	if _, _, err := apis.Collect(provider(s).Model("claude-opus-4-6"), ask(user(text("Rain?")))); !fault.HasCode(err, wire.CodeTooLarge) {
		t.Error(err)
	}
}

// A member that stands twice in what was found does not end the turn.
func TestServerToolsThatAreNoSoundJSONAreTold(t *testing.T) {
	for _, content := range []string{`{"a":1,"a":2}`, `[{"b":[{"a":1,"a":1}]}]`} {
		s := &apis.Says{Status: 200, Bodies: []string{stream("end_turn",
			`{"type":"content_block_start","index":0,"content_block":{"type":"web_search_tool_result","tool_use_id":"s","content":`+content+`}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"It rains."}}`)}}
		reply, notices, err := apis.Collect(provider(s).Model("claude-opus-4-6"), ask(user(text("Rain?"))))
		if err != nil || len(notices) != 1 || len(reply.Blocks) != 2 {
			t.Fatalf("%s: %+v, %q, %v", content, reply, notices, err)
		}
		if err := message.Validate(&message.Message{ID: id.New(), Role: message.Assistant, Blocks: reply.Blocks}); err != nil {
			t.Errorf("%s: %v", content, err)
		}
	}
}

// TestUploadsAndCompactionAreKept: blocks that belong to neither a call nor a result
// (https://platform.claude.com/docs/en/api/messages, ContainerUploadBlock;
// https://platform.claude.com/docs/en/build-with-claude/compaction).
func TestUploadsAndCompactionAreKept(t *testing.T) {
	const list = `[{"role":"user","content":[{"type":"text","text":"Go"}]},{"role":"assistant","content":[{"type":"compaction","content":"So \/ far."},` +
		`{"type":"container_upload", "file_id":"file_1"},{"type":"text","text":"Done."}]}]`
	codec := provider(&apis.Says{}).Codec("claude-opus-4-6")
	msgs, err := codec.Decode([]byte(list))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := codec.Encode(msgs); err != nil || string(got) != list {
		t.Errorf("%v\n%s\n%s", err, got, list)
	}
}
