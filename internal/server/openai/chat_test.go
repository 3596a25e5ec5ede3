package openai_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/server/openai"
	"steward/internal/tool"
)

const hello = `"model":"test/one","messages":[{"role":"user","content":"hello"}]`

func delta(kind llm.Kind, block int, s string) llm.Event {
	return llm.Event{Kind: kind, Block: block, Text: s}
}

func call(block int, id, name string) llm.Event {
	return llm.Event{Kind: llm.CallStart, Block: block, CallID: id, Name: name}
}

func TestCompletion(t *testing.T) {
	weather := &message.ToolCall{CallID: "c1", Name: "get_weather", Args: []byte(`{"city":"Graz"}`)}
	clock := &message.ToolCall{CallID: "c2", Name: "clock", Args: []byte(`{}`)}
	weatherJSON := `{"id":"c1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Graz\"}"}}`
	for name, c := range map[string]struct {
		events  []llm.Event
		more    string
		message string
		finish  string
		tail    string
	}{
		"text": {[]llm.Event{delta(llm.TextDelta, 0, "Hi"), done(message.StopEnd, text("Hi"))}, "",
			`"content":"Hi","refusal":null`, "stop", ""},
		"reasoning": {[]llm.Event{done(message.StopEnd, &message.Reasoning{Text: "hm"}, text("Hi"), text("!"))}, "",
			`"content":"Hi!","refusal":null,"reasoning_content":"hm"`, "stop", ""},
		"calls": {[]llm.Event{done(message.StopTools, weather, clock)}, "",
			`"content":null,"refusal":null,"tool_calls":[` + weatherJSON + `,{"id":"c2","type":"function","function":{"name":"clock","arguments":"{}"}}]`, "tool_calls", ""},
		"one call at a time": {[]llm.Event{done(message.StopTools, weather, clock)}, `,"parallel_tool_calls":false`,
			`"content":null,"refusal":null,"tool_calls":[` + weatherJSON + `]`, "tool_calls", ""},
		"text and a call": {[]llm.Event{done(message.StopTools, text("I look."), weather)}, "",
			`"content":"I look.","refusal":null,"tool_calls":[` + weatherJSON + `]`, "tool_calls", ""},
		"cut":      {[]llm.Event{done(message.StopLength, text("Hi"))}, "", `"content":"Hi","refusal":null`, "length", ""},
		"bound":    {[]llm.Event{done(message.StopBound, text("Hi"))}, "", `"content":"Hi","refusal":null`, "length", ""},
		"refused":  {[]llm.Event{done(message.StopRefused)}, "", `"content":"","refusal":null`, "content_filter", ""},
		"sequence": {[]llm.Event{done(message.StopSequence, text("Hi"))}, "", `"content":"Hi","refusal":null`, "stop", ""},
		"begun anew": {[]llm.Event{delta(llm.TextDelta, 0, "Ho"), {Kind: llm.Reset}, delta(llm.TextDelta, 0, "Hi"), done(message.StopEnd, text("Hi"))}, "",
			`"content":"Hi","refusal":null`, "stop", ""},
		"notice": {[]llm.Event{{Kind: llm.Notice, Text: `no "effort"`}, {Kind: llm.Notice, Text: "b"}, done(message.StopEnd, text("Hi"))}, "",
			`"content":"Hi","refusal":null`, "stop", `,"steward":{"notices":["no \"effort\"","b"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, &node{events: c.events}, openai.Options{})
			status, h, b := do(t, s, "POST", "/v1/chat/completions", "{"+hello+c.more+"}")
			if status != 200 || h.Get("Content-Type") != "application/json" {
				t.Fatalf("got %d %s", status, b)
			}
			want := `{"id":"ID","object":"chat.completion","created":0,"model":"test/one","choices":[{"index":0,"message":{"role":"assistant",` +
				c.message + `},"logprobs":null,"finish_reason":"` + c.finish + `"}],"usage":` + usage + c.tail + `}`
			if got := tidy(t, b); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// A call without a provider's id gets a new one.
func TestCallWithoutID(t *testing.T) {
	n := &node{events: []llm.Event{done(message.StopTools, &message.ToolCall{Name: "a.b", Args: []byte("{}")}, &message.ToolCall{Name: "a.b", Args: []byte("{}")})}}
	_, _, b := do(t, serve(t, n, openai.Options{}), "POST", "/v1/chat/completions", "{"+hello+"}")
	var v struct {
		Choices []struct {
			Message struct {
				ToolCalls []struct {
					ID       string
					Function struct{ Name string }
				} `json:"tool_calls"`
			}
		}
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	calls := v.Choices[0].Message.ToolCalls
	if len(calls) != 2 || calls[0].ID == calls[1].ID || !strings.HasPrefix(calls[0].ID, "call_") || calls[0].Function.Name != "a__b" {
		t.Errorf("got %+v", calls)
	}
}

// chunks returns the data of a stream's events, without the last, [DONE].
func chunks(t *testing.T, b []byte) (out []string, ended bool) {
	t.Helper()
	for ev := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n\n"), "\n\n") {
		if strings.HasPrefix(ev, ":") {
			continue
		}
		data, ok := strings.CutPrefix(ev, "data: ")
		if !ok || strings.Contains(data, "\n") || ended {
			t.Fatalf("not an event: %q", ev)
		}
		if data == "[DONE]" {
			ended = true
			continue
		}
		out = append(out, data)
	}
	return out, ended
}

func TestStream(t *testing.T) {
	weather := &message.ToolCall{CallID: "c1", Name: "get_weather", Args: []byte(`{"city":"Graz"}`)}
	clock := &message.ToolCall{CallID: "c2", Name: "clock", Args: []byte(`{}`)}
	role := `{"role":"assistant","content":"","refusal":null}`
	for name, c := range map[string]struct {
		events []llm.Event
		more   string
		deltas []string
		finish string
		tail   string
	}{
		"text": {[]llm.Event{delta(llm.TextDelta, 0, "He"), delta(llm.TextDelta, 0, "llo \"you\""), delta(llm.TextDelta, 0, ""), done(message.StopEnd, text(`Hello "you"`))}, "",
			[]string{`{"content":"He"}`, `{"content":"llo \"you\""}`}, "stop", ""},
		"reasoning": {[]llm.Event{delta(llm.ReasoningDelta, 0, "hm"), delta(llm.TextDelta, 1, "Hi"), done(message.StopEnd, &message.Reasoning{Text: "hm"}, text("Hi"))}, "",
			[]string{`{"reasoning_content":"hm"}`, `{"content":"Hi"}`}, "stop", ""},
		"text that was not streamed": {[]llm.Event{done(message.StopLength, text("Hi"))}, "", []string{`{"content":"Hi"}`}, "length", ""},
		"nothing":                    {[]llm.Event{done(message.StopEnd)}, "", nil, "stop", ""},
		"parallel calls": {[]llm.Event{
			delta(llm.TextDelta, 0, "I look."), call(1, "c1", "get_weather"), delta(llm.CallArgs, 1, `{"city":`), call(2, "c2", "clock"),
			delta(llm.CallArgs, 1, `"Graz"}`), delta(llm.CallArgs, 2, "{}"), done(message.StopTools, text("I look."), weather, clock)}, "",
			[]string{`{"content":"I look."}`,
				`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"get_weather","arguments":""}}]}`,
				`{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]}`,
				`{"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"clock","arguments":""}}]}`,
				`{"tool_calls":[{"index":0,"function":{"arguments":"\"Graz\"}"}}]}`,
				`{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}`}, "tool_calls", ""},
		"calls that were streamed in part": {[]llm.Event{
			call(0, "c1", "get_weather"), call(0, "c1", "get_weather"), delta(llm.CallArgs, 0, `{"city":`), done(message.StopTools, weather, clock)}, "",
			[]string{`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"get_weather","arguments":""}}]}`,
				`{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]}`,
				`{"tool_calls":[{"index":0,"function":{"arguments":"\"Graz\"}"}}]}`,
				`{"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"clock","arguments":""}}]}`,
				`{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}`}, "tool_calls", ""},
		"one call at a time": {[]llm.Event{
			call(0, "c1", "get_weather"), call(1, "c2", "clock"), delta(llm.CallArgs, 1, `{}`), done(message.StopTools, weather, clock)}, `,"parallel_tool_calls":false`,
			[]string{`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"get_weather","arguments":""}}]}`,
				`{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":\"Graz\"}"}}]}`}, "tool_calls", ""},
		"begun anew before anything was shown": {[]llm.Event{{Kind: llm.Reset}, delta(llm.TextDelta, 0, "Hi"), done(message.StopEnd, text("Hi"))}, "",
			[]string{`{"content":"Hi"}`}, "stop", ""},
		"notice": {[]llm.Event{{Kind: llm.Notice, Text: "n"}, delta(llm.TextDelta, 0, "Hi"), done(message.StopEnd, text("Hi"))}, "",
			[]string{`{"content":"Hi"}`}, "stop", `,"steward":{"notices":["n"]}`},
	} {
		for _, withUsage := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := serve(t, &node{events: c.events}, openai.Options{})
				more, mid := c.more+`,"stream":true`, ""
				if withUsage {
					more += `,"stream_options":{"include_usage":true}`
					mid = `,"usage":null`
				}
				status, h, b := do(t, s, "POST", "/v1/chat/completions", "{"+hello+more+"}")
				if status != 200 || h.Get("Content-Type") != "text/event-stream" {
					t.Fatalf("got %d %s", status, b)
				}
				head := `{"id":"ID","object":"chat.completion.chunk","created":0,"model":"test/one","choices":[`
				var want []string
				for _, d := range append([]string{role}, c.deltas...) {
					want = append(want, head+`{"index":0,"delta":`+d+`,"logprobs":null,"finish_reason":null}]`+mid+`}`)
				}
				want = append(want, head+`{"index":0,"delta":{},"logprobs":null,"finish_reason":"`+c.finish+`"}]`+mid+c.tail+`}`)
				if withUsage {
					want = append(want, head+`],"usage":`+usage+`}`)
				}
				got, ended := chunks(t, b)
				if !ended {
					t.Errorf("no [DONE]: %s", b)
				}
				ids := map[string]bool{}
				for i, g := range got {
					id, _, _ := strings.Cut(g, `","object"`)
					ids[id] = true
					if g = tidy(t, []byte(g)); i >= len(want) || g != want[i] {
						t.Fatalf("chunk %d: got  %s\nwant %s", i, g, strings.Join(want[min(i, len(want)):], "\n"))
					}
				}
				if len(got) != len(want) || len(ids) != 1 {
					t.Errorf("%d chunks with %d ids, want %d with 1", len(got), len(ids), len(want))
				}
			})
		}
	}
}

func TestStreamFails(t *testing.T) {
	overloaded := fault.New(fault.Unavailable, "overloaded", "too much to do").WithHint("wait").Retrying(fault.RetryAfter, 3*time.Second)
	t.Run("before the first piece", func(t *testing.T) {
		s := serve(t, &node{err: overloaded}, openai.Options{})
		status, h, b := do(t, s, "POST", "/v1/chat/completions", "{"+hello+`,"stream":true}`)
		msg, typ, _, code := errorOf(t, b)
		if status != 503 || h.Get("Retry-After") != "3" || msg != "too much to do (wait)" || typ != "server_error" || code != "overloaded" {
			t.Errorf("got %d %v %s", status, h, b)
		}
	})
	for name, c := range map[string]struct {
		n    *node
		code string
	}{
		"in the middle":           {&node{events: []llm.Event{delta(llm.TextDelta, 0, "Hi")}, err: overloaded}, "overloaded"},
		"without an end":          {&node{events: []llm.Event{delta(llm.TextDelta, 0, "Hi")}}, "stream_broken"},
		"begun anew after a text": {&node{events: []llm.Event{delta(llm.TextDelta, 0, "Hi"), {Kind: llm.Reset}, done(message.StopEnd, text("Ho"))}}, "stream_broken"},
		"a fault of our own":      {&node{events: []llm.Event{delta(llm.TextDelta, 0, "Hi")}, err: errors.New("secret path")}, "internal"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.n, openai.Options{})
			status, _, b := do(t, s, "POST", "/v1/chat/completions", "{"+hello+`,"stream":true}`)
			got, ended := chunks(t, b)
			if status != 200 || ended || len(got) != 3 {
				t.Fatalf("got %d %s", status, b)
			}
			_, typ, _, code := errorOf(t, []byte(got[2]))
			if typ != "server_error" || code != c.code || strings.Contains(got[2], "secret") {
				t.Errorf("got %s", got[2])
			}
		})
	}
	t.Run("not streamed", func(t *testing.T) {
		status, _, b := do(t, serve(t, &node{}, openai.Options{}), "POST", "/v1/chat/completions", "{"+hello+`}`)
		if _, _, _, code := errorOf(t, b); status != 503 || code != "stream_broken" {
			t.Errorf("got %d %s", status, b)
		}
	})
}

// A disconnected client cancels the model's request.
func TestClientGoesAway(t *testing.T) {
	n := &node{pause: make(chan struct{})}
	s := serve(t, n, openai.Options{KeepAlive: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/chat/completions", strings.NewReader("{"+hello+`,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	// Keep-alives are sent while the model thinks.
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, ":") {
		t.Errorf("got %q, %v", line, err)
	}
	cancel()
	res.Body.Close()
	s.Close() // waits for the handler
	if !n.cancelled {
		t.Error("the model goes on")
	}
}

func TestWhatTheModelIsAsked(t *testing.T) {
	n := &node{events: []llm.Event{done(message.StopEnd, text("{}"))}}
	s := serve(t, n, openai.Options{})
	ask := func(body string) *llm.Request {
		t.Helper()
		status, _, b := do(t, s, "POST", "/v1/chat/completions", body)
		if status != 200 {
			t.Fatalf("got %d %s", status, b)
		}
		return n.asked
	}
	r := ask(`{"model":"test/one","messages":[
		{"role":"system","content":"Be brief."},
		{"role":"user","name":"ana","content":[{"type":"text","text":"Look:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk=","detail":"low"}},
			{"type":"image_url","image_url":{"url":"https://x.example/a.png"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;charset=x;base64,aGk="}}]},
		{"role":"assistant","content":"Calling.","refusal":null,"annotations":[],"audio":null,"reasoning_content":"hm",
			"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"x_y","arguments":"{\"q\":1}"}},{"id":"b","type":"function","function":{"name":"z","arguments":"not json"}}]},
		{"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"B"}]},
		{"role":"tool","tool_call_id":"a","content":""},
		{"role":"developer","content":[{"type":"text","text":"Be kind."}]},
		{"role":"assistant","content":[{"type":"text","text":"So "},{"type":"refusal","refusal":"no"}],"refusal":"."},
		{"role":"user","content":"And?"}],
		"tools":[{"type":"function","function":{"name":"x_y","description":"does x","parameters":{"type":"object"},"strict":true}},{"type":"function","function":{"name":"z","parameters":null}}],
		"tool_choice":{"type":"function","function":{"name":"x_y"}},"temperature":0.5,"max_tokens":9,"max_completion_tokens":10,"stop":["a","b"],"reasoning_effort":"minimal",
		"response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true,"schema":{"type":"object"}}},
		"n":1,"top_p":0.5,"frequency_penalty":0.5,"presence_penalty":0.5,"logit_bias":{},"logprobs":false,"top_logprobs":0,"modalities":["text"],"service_tier":"auto",
		"store":false,"user":"u","safety_identifier":"x","prompt_cache_key":"k","metadata":{"tag":"x"},"seed":7,"parallel_tool_calls":true,"stream":false,"stream_options":null}`)
	half, seed := 0.5, int64(7)
	if r.System != "Be brief.\n\nBe kind." || r.User != "ana" || r.ToolChoice != "x_y" ||
		!reflect.DeepEqual(r.Sampling, llm.Sampling{Temperature: &half, MaxTokens: 10, Stop: []string{"a", "b"}, Effort: llm.EffortLow,
			TopP: &half, Seed: &seed, FrequencyPenalty: &half, PresencePenalty: &half}) ||
		r.Schema.Name != "s" || string(r.Schema.JSON) != `{"type":"object"}` {
		t.Errorf("got %+v", r)
	}
	specs := r.Tools.Specs()
	if len(specs) != 2 || specs[0].Name != "x_y" || specs[0].Description != "does x" || string(specs[1].Input) != `{"type":"object","properties":{}}` || specs[0].Effect != tool.Query {
		t.Errorf("got %+v", specs)
	}
	msgs := r.Transcript.Messages()
	if err := message.CheckHistory(msgs); err != nil {
		t.Error(err)
	}
	var shape []string
	for _, m := range msgs {
		if err := message.Validate(m); err != nil {
			t.Error(err)
		}
		shape = append(shape, string(m.Role)+":"+m.Text())
	}
	if want := []string{"user:Look:", "assistant:Calling.", "tool:B", "tool:", "assistant:So no.", "user:And?"}; !reflect.DeepEqual(shape, want) {
		t.Errorf("got %q, want %q", shape, want)
	}
	first := msgs[0].Blocks
	img, file := first[1].(*message.Image), first[3].(*message.File)
	if img.MIME != "image/png" || string(img.Data) != "hi" || first[2].(*message.Image).URL != "https://x.example/a.png" ||
		file.Name != "a.pdf" || file.MIME != "application/pdf" || string(file.Data) != "hi" || img.Origin != "user" {
		t.Errorf("got %+v", first)
	}
	res := msgs[2].Result()
	if res.Name != "z" || res.CallID != "b" || res.Call.Block != 3 || string(msgs[1].Calls()[1].Args) != "not json" {
		t.Errorf("got %+v", res)
	}

	r = ask(`{"model":"default","messages":[{"role":"system","content":"Say hi."}],"max_tokens":5,"stop":"x","response_format":{"type":"json_object"},"tool_choice":"auto"}`)
	if r.System != "" || r.Transcript.Messages()[0].Text() != "Say hi." || r.Transcript.Messages()[0].Role != message.User ||
		r.Sampling.MaxTokens != 5 || !reflect.DeepEqual(r.Sampling.Stop, []string{"x"}) || string(r.Schema.JSON) != `{"type":"object"}` || r.Tools != nil || r.ToolChoice != "" {
		t.Errorf("got %+v", r)
	}
	for _, choice := range []string{"none", "auto", "required"} {
		r = ask(`{` + hello + `,"tools":[{"type":"function","function":{"name":"z"}}],"tool_choice":"` + choice + `","response_format":{"type":"text"}}`)
		if r.ToolChoice != choice || r.Schema != nil {
			t.Errorf("got %+v", r)
		}
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	fn := func(s string) string { return `"tools":[{"type":"function","function":` + s + `}]` }
	msgs := func(s string) string { return `{"model":"test/one","messages":[` + s + `]}` }
	calling := `{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":""}}]}`
	for body, want := range map[string]string{
		``:                            "400 invalid_json ",
		`{`:                           "400 invalid_json ",
		`[]`:                          "400 member_invalid ",
		"{\"model\":\"\xff\"}":        "400 invalid_utf8 ",
		`{` + hello + `,"model":"x"}`: "400 duplicate_member model",
		`{"messages":[{}]}`:           "400 invalid_value model",
		`{"model":"test/one"}`:        "400 invalid_value messages",
		`{"model":5}`:                 "400 member_invalid model",
		`{"model":"nope","messages":[{"role":"user","content":"x"}]}`: "404 model_not_found model",

		`{` + hello + `,"stream_options":{}}`:                      "400 invalid_value stream_options",
		`{` + hello + `,"temperature":3}`:                          "400 invalid_value temperature",
		`{` + hello + `,"temperature":"hot"}`:                      "400 member_invalid temperature",
		`{` + hello + `,"max_tokens":0}`:                           "400 invalid_value max_tokens",
		`{` + hello + `,"max_completion_tokens":-1}`:               "400 invalid_value max_completion_tokens",
		`{` + hello + `,"stop":5}`:                                 "400 invalid_value stop",
		`{` + hello + `,"stop":""}`:                                "400 invalid_value stop",
		`{` + hello + `,"stop":["1","2","3","4","5"]}`:             "400 invalid_value stop",
		`{` + hello + `,"reasoning_effort":"wild"}`:                "400 invalid_value reasoning_effort",
		`{` + hello + `,"metadata":{"a":1}}`:                       "400 member_invalid metadata.a",
		`{` + hello + `,"response_format":{"type":"xml"}}`:         "400 invalid_value response_format.type",
		`{` + hello + `,"response_format":{"type":"json_schema"}}`: "400 invalid_value response_format.json_schema",
		`{` + hello + `,"response_format":{"type":"json_schema","json_schema":{"name":"a b","schema":{}}}}`: "400 invalid_value response_format.json_schema.name",
		`{` + hello + `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":1}}}`:    "400 invalid_value response_format.json_schema.schema",

		`{` + hello + `,"tools":[{"type":"custom","custom":{"name":"x"}}]}`:                                                 "400 unsupported_parameter tools[0].type",
		`{` + hello + `,` + fn(`{"name":"a.b"}`) + `}`:                                                                      "400 invalid_value tools[0].function.name",
		`{` + hello + `,` + fn(`{"name":"a","parameters":[]}`) + `}`:                                                        "400 invalid_value tools[0].function.parameters",
		`{` + hello + `,"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"a"}}]}`: "400 invalid_value tools[1].function.name",
		`{` + hello + `,"tool_choice":"required"}`:                                                                          "400 invalid_value tool_choice",
		`{` + hello + `,` + fn(`{"name":"a"}`) + `,"tool_choice":"any"}`:                                                    "400 invalid_value tool_choice",
		`{` + hello + `,` + fn(`{"name":"a"}`) + `,"tool_choice":7}`:                                                        "400 invalid_value tool_choice",
		`{` + hello + `,` + fn(`{"name":"a"}`) + `,"tool_choice":{"type":"allowed_tools"}}`:                                 "400 unsupported_parameter tool_choice",
		`{` + hello + `,` + fn(`{"name":"a"}`) + `,"tool_choice":{"type":"function","function":{"name":"b"}}}`:              "400 invalid_value tool_choice",

		msgs(`5`):                                   "400 invalid_value messages[0]",
		msgs(`{"role":5}`):                          "400 invalid_value messages[0].role",
		msgs(`{"role":"king","content":"x"}`):       "400 invalid_value messages[0].role",
		msgs(`{"role":"function","content":"x"}`):   "400 invalid_value messages[0].tool_call_id",
		msgs(`{"role":"user"}`):                     "400 invalid_value messages[0].content",
		msgs(`{"role":"user","content":""}`):        "400 invalid_value messages[0].content",
		msgs(`{"role":"user","content":5}`):         "400 invalid_value messages[0].content",
		msgs(`{"role":"assistant","content":null}`): "400 invalid_value messages",
		msgs(`{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}`):                               "400 invalid_value messages[0].content[0].input_audio.data",
		msgs(`{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}`):                "400 unsupported_parameter messages[0].content[0].type",
		msgs(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}`):         "400 invalid_value messages[0].content[0].image_url.url",
		msgs(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:text/html;base64,aGk="}}]}`): "400 invalid_value messages[0].content[0].image_url.url",
		msgs(`{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}`):                                "400 unsupported_parameter messages[0].content[0].file.file_id",
		msgs(`{"role":"user","content":[{"type":"file","file":{"file_data":"data:x,y"}}]}`):                       "400 invalid_value messages[0].content[0].file.file_data",
		msgs(`{"role":"tool","tool_call_id":"a","content":"x"}`):                                                  "400 invalid_value messages[0].tool_call_id",
		msgs(calling): "400 invalid_value messages",
		msgs(calling + `,{"role":"user","content":"y"}`):                                                                     "400 invalid_value messages",
		msgs(calling + `,{"role":"tool","tool_call_id":"b","content":"y"}`):                                                  "400 invalid_value messages[2].tool_call_id",
		msgs(calling + `,{"role":"tool","tool_call_id":"a","content":"y"},{"role":"tool","tool_call_id":"a","content":"y"}`): "400 invalid_value messages[3].tool_call_id",
		msgs(`{"role":"assistant","tool_calls":[{"id":"","type":"function","function":{"name":"f","arguments":""}}]}`):       "400 invalid_value messages",
		msgs(`{"role":"assistant","tool_calls":[{"id":"a","type":"custom"}]}`):                                               "400 unsupported_parameter messages[0].tool_calls[0].type",
		msgs(`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f f","arguments":""}}]}`):    "400 invalid_value messages[0].tool_calls[0].function.name",
		`{"model":"test/one","messages":[{"role":"user","content":"` + strings.Repeat("x", 5000) + `"}]}`:                    "413 too_large ",
	} {
		n := &node{}
		s := serve(t, n, openai.Options{MaxBody: 4000})
		status, h, b := do(t, s, "POST", "/v1/chat/completions", body)
		_, typ, param, code := errorOf(t, b)
		got := strings.TrimSpace(fmt.Sprint(status, " ", code, " ", param))
		if got != strings.TrimSpace(want) || typ != "invalid_request_error" || h.Get("Content-Type") != "application/json" {
			t.Errorf("%.300s:\ngot  %s (%s)\nwant %s", body, got, b, want)
		}
		if n.asked != nil {
			t.Errorf("%s: and yet the model was asked", body)
		}
	}
}

func TestWhatIsPassedOver(t *testing.T) {
	const hello = `"model":"test/one","messages":[{"role":"user","content":"hello"}]`
	for body, want := range map[string]string{
		`{` + hello + `}`: "",
		`{` + hello + `,"n":1,"store":false,"logprobs":null,"user":"u","prompt_cache_key":"k","service_tier":"flex","modalities":["text"]}`: "",
		`{` + hello + `,"store":true,"verbosity":"low","foo":{"bar":1},"functions":[],"n":1,"best_of":1}`:                                   "foo, store, verbosity",
		`{` + hello + `,"stream":true,"stream_options":{"x":1},"prediction":{}}`:                                                            "prediction",
	} {
		n := &node{events: []llm.Event{done(message.StopEnd, text("ok"))}}
		status, h, b := do(t, serve(t, n, openai.Options{}), "POST", "/v1/chat/completions", body)
		if status != 200 || h.Get("Steward-Ignored") != want || n.asked == nil {
			t.Errorf("%s: %d %q %s", body, status, h.Get("Steward-Ignored"), b)
		}
	}
}

// TestWhatChangesTheMeaningIsRefused: a member that asks for another answer than Steward gives is not ignored.
func TestWhatChangesTheMeaningIsRefused(t *testing.T) {
	for member, value := range map[string]string{"n": "3", "best_of": "2", "logprobs": "true", "top_logprobs": "5", "logit_bias": `{"50256":-100}`,
		"modalities": `["text","audio"]`, "audio": `{"voice":"alloy"}`, "functions": `[{"name":"f"}]`, "function_call": `"auto"`,
		"web_search_options": "{}", "background": "true", "suffix": `"x"`, "echo": "true", "max_tool_calls": "1"} {
		for path, question := range map[string]string{"/v1/chat/completions": `"messages":[{"role":"user","content":"hello"}]`, "/v1/responses": `"input":"hello"`} {
			n := &node{events: []llm.Event{done(message.StopEnd, text("ok"))}}
			status, _, b := do(t, serve(t, n, openai.Options{}), "POST", path, `{"model":"test/one",`+question+`,"`+member+`":`+value+`}`)
			said, _, param, code := errorOf(t, b)
			if status != 400 || code != "unsupported_parameter" || param != member || !strings.Contains(said, member) || n.asked != nil {
				t.Errorf("%s: %s: %d %s", path, member, status, b)
			}
		}
	}
	n := &node{events: []llm.Event{done(message.StopEnd, text("ok"))}}
	if status, _, b := do(t, serve(t, n, openai.Options{}), "POST", "/v1/responses", `{"model":"test/one","input":"hello","include":["message.output_text.logprobs"]}`); status != 400 {
		t.Errorf("include: %d %s", status, b)
	}
}

func TestAnAnswerThatDoesNotFitItsSchema(t *testing.T) {
	const body = `{"model":"test/one","messages":[{"role":"user","content":"hello"}],"response_format":{"type":"json_schema","json_schema":{"name":"s",
		"schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}}`
	ask := func(more string, stop message.Stop, answers ...string) (int, string, int) {
		n := &node{}
		asked := 0
		n.stream = func() []llm.Event {
			asked++
			return []llm.Event{done(stop, text(answers[min(asked, len(answers))-1]))}
		}
		status, _, b := do(t, serve(t, n, openai.Options{}), "POST", "/v1/chat/completions", body+more+"}")
		return status, string(b), asked
	}
	if status, b, asked := ask("", message.StopEnd, `{"a":1}`); status != 200 || asked != 1 || !strings.Contains(b, `{\"a\":1}`) {
		t.Errorf("one that fits: %d, asked %d times, %s", status, asked, b)
	}
	if status, b, asked := ask("", message.StopEnd, `{"a":"x"}`, `{"a":2}`); status != 200 || asked != 2 || !strings.Contains(b, `{\"a\":2}`) || strings.Contains(b, `\"x\"`) {
		t.Errorf("one that was repaired: %d, asked %d times, %s", status, asked, b)
	}
	if status, b, asked := ask(`,"stream":true`, message.StopEnd, "no", `{"a":2}`); status != 200 || asked != 2 || !strings.Contains(b, `{\"a\":2}`) || strings.Contains(b, `"no"`) {
		t.Errorf("one that was repaired and streamed: %d, asked %d times, %s", status, asked, b)
	}
	if status, b, asked := ask("", message.StopEnd, `{"a":"x"}`); status != 503 || asked != 2 || !strings.Contains(b, "schema_unmet") {
		t.Errorf("one that never fits: %d, asked %d times, %s", status, asked, b)
	}
	if status, b, asked := ask("", message.StopLength, `{"a":`); status != 200 || asked != 1 || !strings.Contains(b, `"finish_reason":"length"`) {
		t.Errorf("one that was cut short: %d, asked %d times, %s", status, asked, b)
	}
}

// The labels that a policy sees for a call without a conversation: attachments and
// results of the caller's tools have unknown authors.
func TestLabelsOfWhatIsSent(t *testing.T) {
	const foreign = message.Private | message.Untrusted
	for name, c := range map[string]struct {
		always message.Labels
		msgs   string
		want   message.Labels
	}{
		"words":         {0, `{"role":"system","content":"be kind"},{"role":"user","content":"hello"},{"role":"assistant","content":"hi"},{"role":"user","content":"and?"}`, 0},
		"a picture":     {0, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]}`, foreign},
		"a file":        {0, `{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,aGk="}}]}`, foreign},
		"a result":      {0, `{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"y"}`, foreign},
		"of a program":  {foreign, `{"role":"user","content":"hello"}`, foreign},
		"words already": {message.Secret, `{"role":"user","content":"hello"}`, message.Secret},
	} {
		n := &node{events: []llm.Event{{Kind: llm.Done, Reply: &llm.Reply{}}}}
		s := serve(t, n, openai.Options{Labels: c.always})
		if status, _, body := do(t, s, "POST", "/v1/chat/completions", `{"model":"test/one","messages":[`+c.msgs+`]}`); status != 200 {
			t.Errorf("%s: %d %s", name, status, body)
			continue
		}
		if n.asked.Labels != c.want {
			t.Errorf("%s: %v", name, n.asked.Labels.Names())
		}
	}
}
