package edge_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"steward/test/edge"
)

// configure writes the settings of the machine's user. By default they name a
// model that Steward does not know.
func configure(n *edge.Node, settings string) {
	n.T.Helper()
	if !strings.Contains(settings, "models:") {
		settings += "models: {default: {use: openai/gpt-test}}\n"
	}
	n.Write(settings, ".config", "steward", "steward.yaml")
}

// converse makes many turns of one conversation with the same message.
func converse(t *testing.T, n *edge.Node, turns int, message map[string]any) {
	t.Helper()
	c := n.Dial()
	for range turns {
		a := c.Turn(message, nil)
		if message["conversation_id"] = a.Conversation; a.Code != "" {
			t.Fatalf("%s %s", a.Code, a.Text)
		}
	}
}

// tokensOf returns how many tokens the fake models count in a request.
func tokensOf(in edge.Asked) int { return len(in.Body) / 4 }

// If a server refuses a request as too long, in whatever words, it gets less in
// the same turn. After a restart, Steward sends nothing that it would refuse.
func TestAServersReportedWindowIsUsed(t *testing.T) {
	t.Parallel()
	const takes = 12_000
	for name, words := range map[string]string{
		"OpenAI":    `{"error":{"message":"This model's maximum context length is 12000 tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
		"vLLM":      `{"object":"error","message":"You passed %d input tokens and requested 0 output tokens. However, the model's context length is only 12000 tokens, resulting in a maximum input length of 12000 tokens. Please reduce the length of the input prompt.","type":"BadRequestError","param":"input_tokens","code":400}`,
		"llama.cpp": `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":%d,"n_ctx":12000}}`,
		"LM Studio": `{"error":"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: %d >= n_ctx: 12000). Try to load the model with a larger context length, or provide a shorter input."}`,
		"no number": `{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","code":"context_length_exceeded","n_prompt_tokens":%d}}`,
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
			if name == "OpenAI" {
				configure(n, "windows: {openai/gpt-test: 60000}\n") // wrong, like the size that the server lists
			}
			n.Serve()
			conv := ""
			turns := func(c *edge.Conn, count int) {
				t.Helper()
				for i := range count {
					a := c.Turn(map[string]any{"content": strings.Repeat("and so it goes on ", 250), "conversation_id": conv}, nil)
					if conv = a.Conversation; a.Code != "" || a.Text != "ok" {
						t.Fatalf("turn %d: %s %s", i, a.Code, a.Text)
					}
				}
			}
			c := n.Dial()
			turns(c, 20)
			strict.Store(true) // as if the server had been replaced
			turns(c, 1)
			if refused.Load() == 0 {
				t.Fatal("the server refused nothing: the test shows nothing")
			}
			turns(c, 2)
			n.Kill()
			before := refused.Load()
			n.Serve()
			turns(n.Dial(), 3)
			if name != "OpenAI" && refused.Load() != before { // each start trusts the settings again
				t.Errorf("after a restart %d requests more are refused", refused.Load()-before)
			}
		})
	}
}

// lists wraps script: the server lists its model with a window of takes tokens.
// asked counts the requests for it.
func lists(takes int, asked *atomic.Int64, script http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			script.ServeHTTP(w, r)
			return
		}
		if asked != nil {
			asked.Add(1)
		}
		fmt.Fprintf(w, `{"object":"list","data":[{"id":"gpt-test","object":"model","created":1,"max_model_len":%d}]}`, takes)
	})
}

// An unknown model is assumed to take at most 32,768 tokens. A long
// conversation is trimmed to fit, and a longer message is refused, with the
// numbers, before it is sent.
func TestAnUnknownWindowIsBounded(t *testing.T) {
	t.Parallel()
	var largest atomic.Int64
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		largest.Store(max(largest.Load(), int64(tokensOf(in))))
		return edge.Reply{Text: "ok"}
	})})
	configure(n, "")
	n.Serve()
	converse(t, n, 20, map[string]any{"content": strings.Repeat("more and more of it ", 500)})
	if got := largest.Load(); got > 32_768 || got < 5_000 {
		t.Errorf("%d tokens were sent at once", got)
	}
	before := largest.Load()
	a := n.Ask(strings.Repeat("more and more of it ", 40_000), nil)
	if a.Code != "context_too_long" || !strings.Contains(a.Text, "at least") || !strings.Contains(a.Text, "openai/gpt-test") {
		t.Errorf("%s %s", a.Code, a.Text)
	}
	if largest.Load() != before {
		t.Errorf("%d tokens were sent all the same", largest.Load())
	}
}

// A window that a server reports is used, and requested only once.
func TestAServerIsAskedForTheWindow(t *testing.T) {
	t.Parallel()
	for _, takes := range []int{8_192, 200_000} {
		var asked, largest atomic.Int64
		script := edge.Script(t, func(in edge.Asked) edge.Reply {
			largest.Store(max(largest.Load(), int64(tokensOf(in))))
			return edge.Reply{Text: "ok"}
		})
		n := edge.New(t, edge.Options{Model: lists(takes, &asked, script)})
		configure(n, "")
		n.Serve()
		converse(t, n, 30, map[string]any{"content": strings.Repeat("more and more of it ", 250)})
		if got := int(largest.Load()); got > takes || takes > 100_000 && got < 35_000 {
			t.Errorf("of %d tokens %d are used", takes, got)
		}
		if asked.Load() == 0 || asked.Load() > 2 { // once at the start, once for the window
			t.Errorf("it was asked %d times", asked.Load())
		}
	}
}

// Ollama reports a model's window through /api/show.
func TestOllamaIsAskedForTheWindow(t *testing.T) {
	t.Parallel()
	var largest atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/tags", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"models":[{"name":"small:1b"}]}`) })
	mux.HandleFunc("GET /api/version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"version":"0.12.0"}`) })
	mux.HandleFunc("POST /api/show", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"capabilities":["completion","tools"],"model_info":{"general.architecture":"small","small.context_length":8192}}`)
	})
	mux.HandleFunc("POST /api/chat", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		largest.Store(max(largest.Load(), int64(len(body)/4)))
		fmt.Fprintln(w, `{"model":"small:1b","message":{"role":"assistant","content":"ok"},"done":true,"done_reason":"stop"}`)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	n := edge.Serve(t, edge.Options{Env: []string{"OLLAMA_HOST=" + s.URL}})
	converse(t, n, 20, map[string]any{"content": strings.Repeat("more and more of it ", 250), "model": "ollama/small:1b"})
	if got := largest.Load(); got > 8192 || got < 2000 {
		t.Errorf("%d tokens were sent at once", got)
	}
}

// If the system prompt already fills the window, nothing is sent. The error gives
// the numbers and says what to do. Tools never fill it: only those are shown that
// fit.
func TestAPromptThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(edge.Asked) edge.Reply {
		asked.Add(1)
		return edge.Reply{Text: "ok"}
	})})
	configure(n, "windows: {openai/gpt-test: 2048}\n")
	n.Write("name: wordy\ndescription: Has much to say.\n", "data", "agents", "wordy", "agent.yaml")
	n.Write(strings.Repeat("You say what you know, and you know much. ", 300), "data", "agents", "wordy", "PROMPT.md")
	n.Must("agents", "approve", "wordy", "--yes")
	n.Serve()
	if a := n.Ask("Hello?", nil); a.Text != "ok" || asked.Swap(0) != 1 {
		t.Errorf("%s %s", a.Code, a.Text)
	}
	a := n.Dial().Turn(map[string]any{"content": "Hello?", "agent": "wordy"}, nil)
	f := a.Frames[len(a.Frames)-1]
	if a.Code != "context_too_long" || !strings.Contains(a.Text, "the system prompt and the tools take at least") || !strings.Contains(a.Text, "leaves 1536") || !strings.Contains(f.Remedy, "windows") {
		t.Errorf("%s %s %s", a.Code, a.Text, f.Remedy)
	}
	if asked.Load() != 0 {
		t.Error("it was sent all the same")
	}
}

// Whether a call fits a budget is calculated in tokens as the server counts
// them. A refusal states what the call would cost, what is spent and the limit.
func TestABudgetGoesByTheServersCount(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		return edge.Reply{Text: "ok", Input: tokensOf(in)}
	})})
	configure(n, "windows: {openai/gpt-test: 1000000}\nlimits: {cost: 3.5}\nprices: {openai/gpt-test: {input: 100, output: 0}}\n")
	n.Serve()
	say := func(words int) string { return n.Ask(strings.Repeat("so it goes on ", words), nil).Text }
	i := 0
	n.Until("what costs 2.30 USD is affordable", func() bool { // an uncorrected estimate would be 4 USD
		i++
		if text := say(500 + 300*(i%4)); text != "ok" {
			t.Fatal(text)
		}
		return say(6_000) == "ok"
	})
	text := say(20_000)
	for _, want := range []string{"its input is about", "USD", "0.0000 of 3.5000 USD are spent", "openai/gpt-test"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s: want %s", text, want)
		}
	}
}

// chained serves a chain of two models. first answers for the first one.
func chained(t *testing.T, settings string, first func(edge.Asked) edge.Reply) (n *edge.Node, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var names []string
	n = edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		mu.Lock()
		names = append(names, in.Model)
		mu.Unlock()
		if in.Model == "first" {
			return first(in)
		}
		return edge.Reply{Text: fmt.Sprintf("%s, with %d tools", in.Model, min(len(in.Tools), 1))}
	})})
	configure(n, "models: {default: {use: [openai/first, openai/second]"+settings)
	n.Serve()
	return n, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return names
	}
}

// If the first model of a chain refuses a request that the next one can handle,
// the next one answers, with its own tools, effort and larger window.
func TestTheNextModelOfAChainDoesWhatTheFirstCannot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ settings, refusal, want string }{
		"tools (vLLM)":                    {"}}\n", `{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","code":400}`, "second, with 1 tools"},
		"effort (OpenAI)":                 {", effort: high}}\n", `{"error":{"message":"Unsupported parameter: 'reasoning_effort' is not supported with this model.","type":"invalid_request_error","param":"reasoning_effort","code":"unsupported_parameter"}}`, "second, with 1 tools"},
		"length, and the next takes more": {"}}\nwindows: {openai/second: 32000}\n", `{"error":{"message":"This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.","code":"context_length_exceeded"}}`, "second, with 1 tools"},
		"length, and the next takes less": {"}}\nwindows: {openai/first: 8000, openai/second: 4000}\n", `{"error":{"message":"This model's maximum context length is 8000 tokens. However, your messages resulted in 9000 tokens.","code":"context_length_exceeded"}}`, "context_too_long"},
		"another 400":                     {"}}\n", `{"error":{"message":"Invalid value for 'messages'.","code":"invalid_value"}}`, "request_refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, asked := chained(t, c.settings, func(in edge.Asked) edge.Reply {
				if strings.HasPrefix(name, "tools") && len(in.Tools) == 0 {
					return edge.Reply{Text: "first, without tools"}
				}
				return edge.Refuse(400, c.refusal)
			})
			a := n.Ask("Hello?", nil)
			if a.Text != c.want && a.Code != c.want {
				t.Errorf("%s %q, want %s; asked were %v", a.Code, a.Text, c.want, asked())
			}
		})
	}
}

// If a model's server asks for a pause, no turn calls the model until the pause
// is over. The next model of the chain is used at once.
func TestAPausedModelIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	for _, after := range []string{"7200", "30"} {
		n, asked := chained(t, "}}\n", func(edge.Asked) edge.Reply {
			return edge.Refuse(429, `{"error":{"message":"Rate limit reached for requests","type":"requests","code":"rate_limit_exceeded"}}`, "Retry-After", after)
		})
		for range 3 {
			if a := n.Ask("Hello?", nil); a.Text != "second, with 1 tools" {
				t.Fatalf("%s %s", a.Code, a.Text)
			}
		}
		if got := strings.Join(asked(), " "); got != "first second second second" {
			t.Errorf("after %s: asked were %s", after, got)
		}
	}
}
