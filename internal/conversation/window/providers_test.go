package window_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/conversation/window"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/gemini"
	"steward/internal/provider/ollama"
	"steward/internal/provider/openai"
	"steward/internal/record"
	"steward/test/apis"
)

// vendor answers for a provider's service: it holds what it is asked against
// the strict rules, and says what was recorded.
type vendor struct {
	check func([]byte) error
	data  string
	asked int
}

func (v *vendor) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/api/show") { // Ollama's way to tell what a model can do
		return &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(`{"capabilities":["completion","tools","vision","thinking"]}`))}, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	v.asked++
	if err := v.check(body); err != nil {
		return nil, fmt.Errorf("the vendor's rules are broken: %w\n%s", err, body)
	}
	e, err := apis.Load("../../provider/" + v.data + "/testdata/text.http")
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: e.Status, Header: e.Header, Body: io.NopCloser(bytes.NewReader(e.Body)), Request: r}, nil
}

// models are one model of each provider, with the vendor that judges what it sends.
func models() map[string]func() (llm.Model, *vendor) {
	with := func(check func([]byte) error, data string, model func(*http.Client) llm.Model) func() (llm.Model, *vendor) {
		return func() (llm.Model, *vendor) {
			v := &vendor{check: check, data: data}
			return model(&http.Client{Transport: v}), v
		}
	}
	return map[string]func() (llm.Model, *vendor){
		"openai": with(apis.CheckOpenAI, "openai", func(c *http.Client) llm.Model {
			return openai.New(openai.Options{BaseURL: "http://vendor.test", Key: "k", HTTP: c}).Model("gpt-4.1")
		}),
		"anthropic": with(apis.CheckAnthropic, "anthropic", func(c *http.Client) llm.Model {
			return anthropic.New(anthropic.Options{BaseURL: "http://vendor.test", Key: "k", HTTP: c}).Model("claude-opus-4-6")
		}),
		"gemini 2": with(apis.CheckGemini, "gemini", func(c *http.Client) llm.Model {
			return gemini.New(gemini.Options{BaseURL: "http://vendor.test", Key: "k", HTTP: c}).Model("gemini-2.5-flash")
		}),
		"gemini 3": with(apis.CheckGemini3, "gemini", func(c *http.Client) llm.Model {
			return gemini.New(gemini.Options{BaseURL: "http://vendor.test", Key: "k", HTTP: c}).Model("gemini-3-pro-preview")
		}),
		"ollama": with(apis.CheckOllama, "ollama", func(c *http.Client) llm.Model {
			return ollama.New(ollama.Options{Host: "http://vendor.test", HTTP: c}).Model("qwen3")
		}),
	}
}

// sendable returns a view as it would be sent: what is open is answered, and a
// person has the last word if the assistant had it.
func sendable(msgs []*message.Message) []*message.Message {
	out := msgs[:len(msgs):len(msgs)]
	for _, c := range message.Dangling(msgs) {
		out = append(out, &message.Message{ID: id.Derive("answer", c.Ref.String()), Role: message.Tool, Blocks: []message.Block{
			&message.ToolResult{Call: c.Ref, CallID: c.CallID, Name: c.Name, Status: message.OK, Content: []message.Block{text("", "now")}}}})
	}
	if len(out) == 0 || out[len(out)-1].Role == message.Assistant || out[len(out)-1].Role == message.System {
		out = append(out, &message.Message{ID: id.Derive("go on"), Role: message.User, Blocks: []message.Block{text("user", "Go on.")}})
	}
	return out
}

func sends(t *rapid.T, name string, open func() (llm.Model, *vendor), msgs []*message.Message) {
	m, v := open()
	for _, err := range m.Stream(t.Context(), &llm.Request{Transcript: llm.NewTranscript(msgs...), Tools: apis.Tools(), System: "Be brief."}) {
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, told(msgs))
		}
	}
	if v.asked == 0 {
		t.Fatalf("%s was not asked", name)
	}
}

// TestProvidersAcceptViews: what is shown of any branch, in any state and
// fitted to any window, passes the strict rules of all vendors.
func TestProvidersAcceptViews(t *testing.T) {
	for name, open := range models() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				items := mess(t, draw(t))
				o := options().Draw(t, "options")
				sends(t, name, open, sendable(window.Render(items, o)))
				b := window.Budget{Window: rapid.Int64Range(1, 6000).Draw(t, "window")}
				kept, o := applied(window.Fit(items, b, count), items, b)
				sends(t, name, open, sendable(window.Render(kept, o)))
			})
		})
	}
}

// TestTheVendorsRefuse: the rules that views are held against refuse what
// Render exists to prevent.
func TestTheVendorsRefuse(t *testing.T) {
	c := &chat{}
	c.user("Read.")
	c.calls("call_1", "call_2")
	c.result("call_1", "one")
	state(c.result("call_2", "two"), record.Archived, "")
	c.user("Well?")
	var naive []*message.Message
	for _, it := range c.items {
		if it.State.State == "" {
			naive = append(naive, it.Message)
		}
	}
	for name, open := range models() {
		refused := false
		m, _ := open()
		for _, err := range m.Stream(t.Context(), &llm.Request{Transcript: llm.NewTranscript(naive...), Tools: apis.Tools()}) {
			refused = refused || err != nil
		}
		if !refused && name != "ollama" { // which has no rule for pairs
			t.Errorf("%s takes a call without its result", name)
		}
	}
}
