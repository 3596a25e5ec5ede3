package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/gemini"
	"steward/internal/provider/ollama"
	"steward/internal/provider/openai"
	"steward/internal/tool"
	"steward/test/apis"
)

// dialect is a vendor's form of a stream, as a server or gateway that imitates it may send it.
type dialect struct {
	name string
	open func(http.RoundTripper) llm.Model
	text func(quoted string) string // the data of an event with a piece of text
	call func(quoted string) string // the events of a call of files.list, with a piece of its arguments
	stop string                     // the events that say why the answer ends
	mark string                     // the end mark
	line string                     // how the data of an event is written
}

func dialects() []dialect {
	const base = "http://local.test"
	sse := "data: %s\n\n"
	responses := `{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":%s}`
	return []dialect{{
		name: "openai chat",
		open: func(rt http.RoundTripper) llm.Model {
			return openai.New(openai.Options{BaseURL: base, HTTP: &http.Client{Transport: rt}}).Model("m")
		},
		text: func(q string) string { return `{"choices":[{"index":0,"delta":{"content":` + q + `}}]}` },
		call: func(q string) string {
			return `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"files__list","arguments":` + q + `}}]}}]}`
		},
		stop: `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, mark: "[DONE]", line: sse,
	}, {
		name: "openai responses",
		open: func(rt http.RoundTripper) llm.Model {
			return openai.New(openai.Options{BaseURL: base, Dialect: openai.Responses, HTTP: &http.Client{Transport: rt}}).Model("m")
		},
		text: func(q string) string { return fmt.Sprintf(responses, q) },
		call: func(q string) string {
			return `{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c","name":"files__list"}}` + "\x00" +
				`{"type":"response.function_call_arguments.delta","output_index":1,"delta":` + q + `}`
		},
		stop: `{"type":"response.completed","response":{"status":"completed"}}`, mark: "[DONE]", line: sse,
	}, {
		name: "anthropic",
		open: func(rt http.RoundTripper) llm.Model {
			return anthropic.New(anthropic.Options{BaseURL: base, HTTP: &http.Client{Transport: rt}}).Model("m")
		},
		text: func(q string) string {
			return `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":` + q + `}}`
		},
		call: func(q string) string {
			return `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c","name":"files__list","input":{}}}` + "\x00" +
				`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":` + q + `}}`
		},
		stop: `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, mark: `{"type":"message_stop"}`, line: sse,
	}, {
		name: "gemini",
		open: func(rt http.RoundTripper) llm.Model {
			return gemini.New(gemini.Options{BaseURL: base, HTTP: &http.Client{Transport: rt}}).Model("m")
		},
		text: func(q string) string { return `{"candidates":[{"content":{"parts":[{"text":` + q + `}]}}]}` },
		call: func(q string) string {
			var args string
			if json.Unmarshal([]byte(q), &args) != nil {
				args = "{}"
			}
			return `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"files__list","args":` + args + `}}]}}]}`
		},
		stop: `{"candidates":[{"finishReason":"STOP"}]}`, mark: "[DONE]", line: sse,
	}, {
		name: "ollama",
		open: func(rt http.RoundTripper) llm.Model {
			return ollama.New(ollama.Options{Host: base, HTTP: &http.Client{Transport: rt}}).Model("m")
		},
		text: func(q string) string { return `{"message":{"role":"assistant","content":` + q + `},"done":false}` },
		call: func(q string) string {
			var args string
			if json.Unmarshal([]byte(q), &args) != nil {
				args = "{}"
			}
			return `{"message":{"role":"assistant","tool_calls":[{"function":{"name":"files__list","arguments":` + args + `}}]},"done":false}`
		},
		stop: `{"message":{"role":"assistant"},"done_reason":"stop"}`, mark: `{"message":{"role":"assistant"},"done":true}`, line: "%s\n",
	}}
}

// answers asks a model of the dialect that streams the events, through everything that stands before a provider.
func (d dialect) answers(t *testing.T, events ...string) (*llm.Reply, string, []string, error) {
	t.Helper()
	var body strings.Builder
	for _, e := range events {
		for x := range strings.SplitSeq(e, "\x00") {
			if x != "" {
				fmt.Fprintf(&body, d.line, x)
			}
		}
	}
	says := &apis.Says{Type: "text/event-stream", Bodies: []string{body.String()}}
	models, err := llm.New(llm.Config{Providers: []llm.Provider{standing{d.open(says)}}, Retry: llm.RetryPolicy{Attempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.Resolve("p/m")
	if err != nil {
		t.Fatal(err)
	}
	r := apis.Hello()
	r.Tools = llm.NewToolset(tool.Spec{Name: "files.list", Description: "Lists files.", Input: []byte(`{"type":"object","properties":{"$top":{"type":"integer"},"in":{"type":"string"}}}`)})
	var shown strings.Builder
	var reply *llm.Reply
	var notices []string
	for ev, e := range m.Model.Stream(t.Context(), r) {
		switch {
		case e != nil:
			err = e
		case ev.Kind == llm.Reset:
			shown.Reset()
		case ev.Kind == llm.TextDelta:
			shown.WriteString(ev.Text)
		case ev.Kind == llm.Notice:
			notices = append(notices, ev.Text)
		case ev.Kind == llm.Done:
			reply = ev.Reply
		}
	}
	return reply, shown.String(), notices, err
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a text is always JSON
	}
	return string(b)
}

// TestForms: endings of streams, forms of reasoning, special tokens, empty answers, calls as text and characters
// in pieces are read alike in every dialect.
func TestForms(t *testing.T) {
	for _, d := range dialects() {
		t.Run(d.name, func(t *testing.T) {
			whole := func(text string) []string { return []string{d.text(quoted(text)), d.stop, d.mark} }
			for name, c := range map[string]struct {
				events []string
				text   string
				calls  string
				code   string
			}{
				"both ends":       {whole("hello"), "hello", "", ""},
				"mark alone":      {[]string{d.text(`"hello"`), d.mark}, "hello", "", ""},
				"done mark":       {[]string{d.text(`"hello"`), map[bool]string{true: d.mark, false: "[DONE]"}[d.line == "%s\n"]}, "hello", "", ""},
				"no end":          {[]string{d.text(`"hello"`)}, "", "", "stream_broken"},
				"call, no stop":   {[]string{d.call(quoted(`{"in":"a"}`)), d.mark}, "", `files.list {"in":"a"}`, ""},
				"renamed":         {[]string{d.call(quoted(`{"top":5}`)), d.stop, d.mark}, "", `files.list {"$top":5}`, ""},
				"empty":           {whole(""), "", "", "empty_answer"},
				"white space":     {whole(" \n"), "", "", "empty_answer"},
				"only thought":    {whole("<think>hm"), "", "", "empty_answer"},
				"thought":         {whole("<think>hm</think>hello"), "hello", "", ""},
				"unopened":        {whole("hm, so </think> hello"), "hello", "", ""},
				"harmony":         {whole("<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>hello<|return|>"), "hello", "", ""},
				"token":           {whole("hello<|im_end|>"), "hello", "", ""},
				"call as text":    {whole(`<tool_call>{"name":"files__list","arguments":{"$top":5}}</tool_call>`), "", `files.list {"$top":5}`, ""},
				"call in a fence": {whole("```json\n{\"name\":\"files.list\",\"arguments\":{\"in\":\"a\"}}\n```"), "", `files.list {"in":"a"}`, ""},
				"surrogates":      {[]string{d.text(`"hi \ud83d"`), d.text(`"\ude00!"`), d.stop, d.mark}, "hi 😀!", "", ""},
			} {
				if d.name == "anthropic" && name == "surrogates" {
					c.events = []string{d.text(`""`), `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi \ud83d"}}`,
						`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ude00!"}}`, d.stop, d.mark}
				}
				reply, shown, notices, err := d.answers(t, c.events...)
				if c.code != "" {
					if !fault.HasCode(err, c.code) {
						t.Errorf("%s: the error is %v, want %s", name, err, c.code)
					}
					continue
				}
				if err != nil || reply == nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				m := &message.Message{Role: message.Assistant, Blocks: reply.Blocks}
				var calls []string
				for _, x := range m.Calls() {
					calls = append(calls, x.Name+" "+string(x.Args))
				}
				if m.Text() != c.text || shown != c.text || strings.Join(calls, "|") != c.calls || len(notices) > 0 {
					t.Errorf("%s: the text is %q, shown as %q, the calls are %q; %q", name, m.Text(), shown, calls, notices)
				}
			}
		})
	}
}

// standing is a provider of one model.
type standing struct{ model llm.Model }

func (standing) Name() string                               { return "p" }
func (s standing) Model(string) llm.Model                   { return s.model }
func (standing) Models(context.Context) ([]llm.Info, error) { return nil, nil }

// TestOverflow: a refusal of what is too long is recognised in every dialect, with the window, whoever words it.
func TestOverflow(t *testing.T) {
	for _, d := range dialects() {
		for text, window := range map[string]int{
			"Range of input length should be [1, 30720]":                                              30720,
			"prompt is too long: 208310 tokens > 200000 maximum":                                      200000,
			"Input is too long for requested model.":                                                  0,
			"the request has 5000 tokens, and the context has room for 4096":                          4096,
			"length of prompt_tokens (40000) must be less than max_seq_len (32768).":                  32768,
			"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).": 1048576,
		} {
			for _, form := range []string{`{"error":{"message":%s}}`, `{"type":"error","error":{"type":"invalid_request_error","message":%s}}`,
				`{"error":{"code":400,"status":"INVALID_ARGUMENT","message":%s}}`, `{"error":%s}`, `{"message":%s}`, `%s`} {
				for _, status := range []int{400, 413} {
					says := &apis.Says{Status: status, Type: "application/json", Bodies: []string{fmt.Sprintf(form, quoted(text))}}
					_, _, err := apis.Collect(d.open(says), apis.Hello())
					f := fault.Of(err)
					if got, _ := f.Details["window"].(int); f.Code != "context_too_long" || got != window {
						t.Errorf("%s: %d %s became %s with the window %d, want %d", d.name, status, says.Bodies[0], f.Code, got, window)
					}
				}
			}
		}
	}
}
