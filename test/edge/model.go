package edge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"steward/test/apis"
)

// Call is a tool call for the model to make. Args is marshalled as JSON; a
// json.RawMessage or a string is sent unchanged.
type Call struct {
	Name string // as Steward names it, with dots
	Args any
}

// Reply is the model's answer to one request.
type Reply struct {
	Text   string
	Calls  []Call
	Finish string // finish reason of the protocol; empty: "stop" or "tool_calls"
	Input  int    // input tokens to report; 0: none
	// Raw, if not nil, writes the whole answer itself.
	Raw func(w http.ResponseWriter, r *http.Request)
}

// Refuse returns an answer with an error status and a body. Headers are pairs
// of name and value.
func Refuse(status int, body string, headers ...string) Reply {
	return Reply{Raw: func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body) //nolint:errcheck // the caller may be gone
	}}
}

// Said is a message of a request.
type Said struct {
	Role    string
	Content any // a string or a list of parts
	Calls   []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
	CallID string `json:"tool_call_id"`
}

// Text returns the message's content as one text.
func (s Said) Text() string {
	if text, ok := s.Content.(string); ok {
		return text
	}
	var b strings.Builder
	parts, _ := s.Content.([]any)
	for _, p := range parts {
		if m, ok := p.(map[string]any); ok {
			if text, ok := m["text"].(string); ok {
				b.WriteString(text)
			}
		}
	}
	return b.String()
}

// Asked is a request that the model received.
type Asked struct {
	Model    string
	Messages []Said
	Tools    []struct {
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
	Body []byte
}

// Last returns the newest message.
func (a Asked) Last() Said { return a.Messages[len(a.Messages)-1] }

// User returns the newest message of the user as text, as the user wrote it.
func (a Asked) User() string {
	for i := len(a.Messages) - 1; i >= 0; i-- {
		if text := a.Messages[i].Text(); a.Messages[i].Role == "user" && (apis.AsWritten(text) != "" || text == "") { // not only what was recalled
			return apis.AsWritten(text)
		}
	}
	return ""
}

// Results returns the tool results since the model's last message.
func (a Asked) Results() []string {
	var out []string
	for i := len(a.Messages) - 1; i >= 0 && a.Messages[i].Role == "tool"; i-- {
		out = append([]string{a.Messages[i].Text()}, out...)
	}
	return out
}

// Rounds returns how many replies the model has given since the user's last
// message.
func (a Asked) Rounds() int {
	n := 0
	for i := len(a.Messages) - 1; i >= 0 && a.Messages[i].Role != "user"; i-- {
		if a.Messages[i].Role == "assistant" {
			n++
		}
	}
	return n
}

// Script is a fake OpenAI server that streams chat completions. It checks each
// request as strictly as the vendor does and answers with reply, which may be
// called from several goroutines.
//
// When asked to look at tools awaiting approval, it has nothing to say. When asked which
// agent a message is for, it says the assistant.
func Script(t testing.TB, reply func(Asked) Reply) http.Handler {
	return script(t, seesNothing, Chooses("assistant", 1, ""), reply)
}

func seesNothing(Asked) Reply { return Reply{Text: `{"tools":[]}`} }

// Chooses returns an answer to the question which agent a message is for.
func Chooses(agent string, confidence float64, candidate string) func(Asked) Reply {
	return func(Asked) Reply {
		return Reply{Text: fmt.Sprintf(`{"agent":%q,"confidence":%v,"candidate":%q}`, agent, confidence, candidate)}
	}
}

// ScriptRouting is Script with choose answering the question which agent a message is for.
func ScriptRouting(t testing.TB, choose, reply func(Asked) Reply) http.Handler {
	return script(t, seesNothing, choose, reply)
}

// Steps returns a reply for Script that makes the calls one after the other and
// then repeats their results as text.
func Steps(calls ...Call) func(Asked) Reply {
	return func(in Asked) Reply {
		if in.Rounds() < len(calls) {
			return Reply{Calls: calls[in.Rounds() : in.Rounds()+1]}
		}
		return Reply{Text: strings.Join(in.Results(), "\n")}
	}
}

// ScriptLooking is Script with look answering the requests to look at tools
// awaiting approval.
func ScriptLooking(t testing.TB, look, reply func(Asked) Reply) http.Handler {
	return script(t, look, Chooses("assistant", 1, ""), reply)
}

func script(t testing.TB, look, choose, reply func(Asked) Reply) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"gpt-test","object":"model","created":1}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the request was cancelled
		}
		asked := Asked{Body: body}
		if err := json.Unmarshal(body, &asked); err != nil {
			t.Errorf("%v: %s", err, body)
			return
		}
		if err := apis.CheckOpenAI(body); err != nil {
			t.Errorf("%v: %.2000s", err, body)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if bytes.Contains(body, []byte(`"name":"look_at_tools"`)) {
			answer(t, w, r, asked, look(asked))
			return
		}
		if bytes.Contains(body, []byte(`"name":"choose_agent"`)) {
			answer(t, w, r, asked, choose(asked))
			return
		}
		answer(t, w, r, asked, reply(asked))
	})
	mux.HandleFunc("POST /v1/embeddings", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,0]}],"model":"gpt-test","usage":{"prompt_tokens":1,"total_tokens":1}}`)
	})
	return mux
}

func answer(t testing.TB, w http.ResponseWriter, r *http.Request, asked Asked, reply Reply) {
	if reply.Raw != nil {
		reply.Raw(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	finish := reply.Finish
	if reply.Text != "" {
		Chunk(w, map[string]any{"content": reply.Text}, nil)
	}
	for i, c := range reply.Calls {
		args, raw := c.Args.(string)
		if !raw {
			b, err := json.Marshal(c.Args)
			if err != nil {
				t.Error(err)
			}
			args = string(b)
		}
		Chunk(w, map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": fmt.Sprintf("call_%d_%d", len(asked.Messages), i), "type": "function",
			"function": map[string]any{"name": strings.ReplaceAll(c.Name, ".", "__"), "arguments": args}}}}, nil)
	}
	if finish == "" {
		if finish = "stop"; len(reply.Calls) > 0 {
			finish = "tool_calls"
		}
	}
	Chunk(w, map[string]any{}, finish)
	if reply.Input > 0 {
		fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":5,"total_tokens":%d}}`+"\n\n", reply.Input, reply.Input+5)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// Chunk writes one event of a streamed chat completion, for use in Reply.Raw.
func Chunk(w io.Writer, delta map[string]any, finish any) {
	b, err := json.Marshal(map[string]any{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test",
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
	if err != nil {
		panic(err) // a test's delta can always be marshalled
	}
	fmt.Fprintf(w, "data: %s\n\n", b) //nolint:errcheck // the caller may be gone
}
