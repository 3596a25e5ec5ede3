package edge_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"steward/test/edge"
)

// streams returns an answer of the data of events.
func streams(data ...string) edge.Reply {
	return edge.Reply{Raw: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, d := range data {
			io.WriteString(w, "data: "+d+"\n\n") //nolint:errcheck // the caller may be gone
		}
	}}
}

// delta returns the data of an event with a piece of the answer.
func delta(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text is always JSON
	}
	return `{"choices":[{"index":0,"delta":{"content":` + string(quoted) + `}}]}`
}

const (
	stops = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	ends  = "[DONE]"
)

// counted counts the requests for answers.
func counted(t *testing.T, asks *atomic.Int64, reply func(edge.Asked) edge.Reply) http.Handler {
	return edge.Script(t, func(in edge.Asked) edge.Reply {
		asks.Add(1)
		return reply(in)
	})
}

// What local models and their servers leave in an answer is not shown, and an answer is read once, however its
// stream ends.
func TestAnswersOfLocalModels(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		data []string
		says string
	}{
		"no finish reason":        {[]string{delta("hello"), ends}, "hello"},
		"no finish reason, usage": {[]string{delta("hello"), `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":1}}`}, "hello"},
		"no opening tag":          {[]string{delta("I greet. "), delta("</think> hello"), stops, ends}, "hello"},
		"harmony": {[]string{delta("<|channel|>analysis<|message|>I greet.<|end|><|start|>assistant<|chan"), delta("nel|>final<|message|>hello<|return|>"), stops, ends},
			"hello"},
		"special token": {[]string{delta("hello<|im_"), delta("end|>\n"), stops, ends}, "hello"},
		"cut pair":      {[]string{`{"choices":[{"index":0,"delta":{"content":"hi \ud83d"}}]}`, `{"choices":[{"index":0,"delta":{"content":"\ude00!"}}]}`, stops, ends}, "hi 😀!"},
		"cut bytes":     {[]string{"{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi \xf0\x9f\"}}]}", "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\x98\x80!\"}}]}", stops, ends}, "hi 😀!"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asks atomic.Int64
			n := edge.New(t, edge.Options{Model: counted(t, &asks, func(edge.Asked) edge.Reply { return streams(test.data...) })})
			if r := n.Run("ask", "hello"); r.Code != 0 || r.Out != test.says+"\n" || strings.Contains(r.Err, "anew") {
				t.Errorf("%+v", r)
			}
			if asks.Load() != 1 {
				t.Errorf("it was asked %d times", asks.Load())
			}
			if r := n.Run("ask", "-q", "hello"); r.Out != test.says+"\n" {
				t.Errorf("quietly: %+v", r)
			}
		})
	}
}

// A model that answers nothing is asked once more; then that is said, and it is a failure.
func TestAnEmptyAnswerIsAFailure(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]string{
		"nothing":             {delta(""), stops, ends},
		"an unclosed thought": {delta("<think>I wonder"), stops, ends},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asks atomic.Int64
			n := edge.New(t, edge.Options{Model: counted(t, &asks, func(in edge.Asked) edge.Reply {
				if strings.Contains(in.User(), "twice") && asks.Load() == 2 {
					return edge.Reply{Text: "hello"}
				}
				return streams(data...)
			})})
			if r := n.Run("ask", "-q", "twice"); r.Code != 0 || r.Out != "hello\n" {
				t.Errorf("the second answer is %+v", r)
			}
			asks.Store(0)
			if r := n.Run("ask", "hello"); r.Code == 0 || !strings.Contains(r.Err, "answered nothing") || asks.Load() != 2 {
				t.Errorf("%+v, asked %d times", r, asks.Load())
			}
		})
	}
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, func(edge.Asked) edge.Reply { return edge.Reply{Text: "hello"} })})
	history := []any{map[string]any{"role": "user", "content": "hi"}, map[string]any{"role": "assistant", "content": ""}, map[string]any{"role": "user", "content": "hello?"}}
	if status, c := complete(t, n, map[string]any{"model": "default", "messages": history}); status != 200 || c.Choices[0].Message.Content != "hello" {
		t.Errorf("a history with an empty answer: %d %+v", status, c)
	}
}

// A call that a model writes as text is made, if the text is nothing else. Otherwise the user is told.
func TestACallAsTextIsMade(t *testing.T) {
	t.Parallel()
	for _, form := range []string{
		`<tool_call>{"name": "%s", "arguments": {"expression":"20+22"}}</tool_call>`,
		"```json\n{\"name\": \"%s\", \"arguments\": {\"expression\":\"20+22\"}}\n```",
		`<function=%s>{"expression":"20+22"}</function>`,
		`[%s(expression="20+22")]`,
		"```tool_code\nprint(%s(expression='20+22'))\n```",
		`<|python_tag|>%s.call(expression="20+22")`,
		`[TOOL_CALLS]%s[ARGS]{"expression":"20+22"}`,
		`<|channel|>commentary to=functions.%s <|constrain|>json<|message|>{"expression":"20+22"}<|call|>`,
	} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
				if results := in.Results(); len(results) > 0 {
					return edge.Reply{Text: "It is " + results[0]}
				}
				return edge.Reply{Text: fmt.Sprintf(form, "math__evaluate")}
			})})
			if r := n.Run("ask", "-q", "What is 20+22?"); r.Code != 0 || !strings.HasPrefix(r.Out, "It is ") || !strings.Contains(r.Out, "42") {
				t.Errorf("%s: %+v", form, r)
			}
		})
	}
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(edge.Asked) edge.Reply {
		return edge.Reply{Text: `I look: <tool_call>{"name": "nothing", "arguments": {}}</tool_call>`}
	})})
	if r := n.Run("ask", "hello"); r.Code != 0 || strings.Count(r.Err, "steward models test openai/") != 1 {
		t.Errorf("a call that is not made: %+v", r)
	}
}

// However a server words it that a request is too long, the conversation goes on.
func TestAnyWordsForTooLong(t *testing.T) {
	t.Parallel()
	const takes = 12_000
	for name, words := range map[string]string{
		"DashScope": `{"error":{"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 12000]","type":"invalid_request_error","code":"invalid_parameter_error","n":%d}}`,
		"gateway":   `{"error":{"message":"prompt is too long: %d tokens > 12000 maximum","type":"None","code":"400"}}`,
		"no words":  `{"error":{"message":"Bad Request","code":%d}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var strict atomic.Bool
			var refused atomic.Int64
			n := edge.New(t, edge.Options{Model: lists(60_000, nil, edge.Script(t, func(in edge.Asked) edge.Reply {
				if size := tokensOf(in); size > takes && strict.Load() {
					refused.Add(1)
					return edge.Refuse(400, fmt.Sprintf(words, size))
				}
				return edge.Reply{Text: "ok"}
			}))})
			configure(n, "")
			n.Serve()
			c, conv := n.Dial(), ""
			for i := range 16 {
				strict.Store(i >= 12)
				a := c.Turn(map[string]any{"content": strings.Repeat("and so it goes on ", 250), "conversation_id": conv}, nil)
				if conv = a.Conversation; a.Code != "" || a.Text != "ok" {
					t.Fatalf("turn %d: %s %s", i, a.Code, a.Text)
				}
			}
			if refused.Load() == 0 {
				t.Error("the server refused nothing: the test shows nothing")
			}
		})
	}
}
