// Package provider_test holds the contract that all providers keep: one table
// of behaviours, run over each with its vendor's recorded answers and rules.
package provider_test

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/gemini"
	"steward/internal/provider/ollama"
	"steward/internal/provider/openai"
	"steward/test/apis"
	"steward/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// vendor is a provider under test. Its answers stand in NAME/testdata, one raw
// HTTP exchange per scenario (SCENARIO.http), those of a further dialect in a
// folder there, if they differ.
type vendor struct {
	name, model string
	dialect     string
	open        func(options) llm.Provider
	check       func(body []byte) error // the vendor's rules for a request's body
	usage       message.Usage           // what the scenario usage reports
	echo        map[string][]string     // by scenario: what the next request says again, byte for byte
	lacks       map[string]string       // scenarios that the API has no form for, and why

	// meta returns the metadata that the vendor's own streams give such a
	// block, a JSON object, or "" for none; nil stands for the message itself.
	meta func(b message.Block) string

	// joint is what stands on the wire between two turns of the user's that the
	// vendor takes for one; empty for a vendor that knows no turns.
	joint string
}

// options are what the tests set when they make a provider.
type options struct {
	base            string
	http            *http.Client
	firstByte, idle time.Duration
}

// testKey must never be seen in an error.
const testKey = "key-5e1f-that-nobody-may-see"

func anthropicOf(model string) vendor {
	return vendor{
		name: "anthropic", model: model, check: apis.CheckAnthropic,
		open: func(o options) llm.Provider {
			return anthropic.New(anthropic.Options{BaseURL: o.base, Key: testKey, HTTP: o.http, FirstByte: o.firstByte, Idle: o.idle})
		},
		usage: message.Usage{Input: 100, Output: 50, Reasoning: 20, CacheRead: 40, CacheWrite: 10},
		echo: map[string][]string{
			"call":      {`"id":"toolu_01T1x1fJ34qAmk2tNTrN7Up6"`, `"tool_use_id":"toolu_01T1x1fJ34qAmk2tNTrN7Up6"`, `{"a": 6, "b": 7}`},
			"text_call": {`"caller":{"type":"direct"}`},
			"bad_args":  {`"input":{"malformed_arguments":"{\"a\": 6, \"b\": "}`},
		},
		joint: `]},{"role":"user","content":[`,
		meta: func(b message.Block) string {
			switch b := b.(type) {
			case *message.Reasoning:
				if b.Text == "" {
					return `{"data":"EmwKAhgBEgy3va3pzix\/LafPsn4a"}`
				}
				return `{"signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds+\/="}`
			case *message.ToolCall:
				return `{"caller":{ "type":"direct" }}`
			}
			return ""
		},
	}
}

func openaiOf(model string, d openai.Rules) vendor {
	return vendor{
		name: "openai", model: model, check: apis.CheckOpenAI,
		open: func(o options) llm.Provider {
			return openai.New(openai.Options{BaseURL: o.base, Key: testKey, HTTP: o.http, FirstByte: o.firstByte, Idle: o.idle, Rules: d})
		},
		usage: message.Usage{Input: 100, Output: 50, Reasoning: 20, CacheRead: 40},
		echo: map[string][]string{
			"call":     {`"id":"call_DdmO9pD3xa9XTPNJ32zg2hcA"`, `"tool_call_id":"call_DdmO9pD3xa9XTPNJ32zg2hcA"`},
			"bad_args": {`"arguments":"{\"a\": 6, \"b\": "`},
			"parallel": {`"arguments":"{\"text\":\"héllo \\\"wörld\\\"\",\"algorithm\":\"sha256\"}"`},
			"refused":  {`"refusal":"I'm sorry, I can't assist with that."`},
		},
		meta: func(b message.Block) string {
			switch b := b.(type) {
			case nil:
				return `{"reasoning_details":[ {"type":"reasoning.encrypted","data":"gAAA\/=="} ]}`
			case *message.Reasoning:
				return `{"field":"reasoning_content"}`
			case *message.Text:
				if b.Text != "" {
					return `{"refusal":true}`
				}
			case *message.ToolCall:
				return `{"extra_content":{"google": {"thought_signature":"EqoB\/+="}}}`
			}
			return ""
		},
	}
}

// responsesOf is OpenAI's responses API.
func responsesOf(model string) vendor {
	return vendor{
		name: "openai", model: model, dialect: "responses", check: apis.CheckResponses,
		open: func(o options) llm.Provider {
			return openai.New(openai.Options{BaseURL: o.base, Key: testKey, HTTP: o.http, FirstByte: o.firstByte, Idle: o.idle,
				Dialect: openai.Responses, Rules: openai.Official, Tools: []string{"web_search", "file_search", "code_interpreter"}, Stores: []string{"vs_1"}})
		},
		usage: message.Usage{Input: 100, Output: 50, Reasoning: 20, CacheRead: 40},
		echo: map[string][]string{
			"text":      {`"id":"msg_67c9fdcf37fc8190ba82116e33fb28c500","status":"completed","phase":"final_answer"`},
			"reasoning": {`{"id":"rs_67c9fdcf37fc8190ba82116e33fb28c50","type":"reasoning","encrypted_content":"gAAAAABotE+sig/ABC==","summary":[{"type":"summary_text","text":"The user greets me. I greet back."}]}`},
			"call":      {`"call_id":"call_DdmO9pD3xa9XTPNJ32zg2hcA","name"`, `"call_id":"call_DdmO9pD3xa9XTPNJ32zg2hcA","output":"42"`, `"id":"fc_12345xyz0","status":"completed"`},
			"text_call": {`"phase":"commentary"`},
			"bad_args":  {`"arguments":"{\"a\": 6, \"b\": "`},
			"parallel":  {`"arguments":"{\"text\":\"héllo \\\"wörld\\\"\",\"algorithm\":\"sha256\"}"`},
			"refused":   {`{"type":"refusal","refusal":"I'm sorry, I can't assist with that."}`},
		},
		lacks: map[string]string{"stop_sequence": "there are no stop sequences"},
		meta: func(b message.Block) string {
			switch b := b.(type) {
			case *message.Reasoning:
				return `{"type":"reasoning","id":"rs_1","summary":[ ],"encrypted_content":"gAAA\/=="}`
			case *message.Text:
				if len(b.Text)%2 == 0 {
					return `{"refusal":true,"item":{"id":"msg_1"}}`
				}
				return `{"annotations":[{"type":"url_citation", "url":"https:\/\/example.com"}],"item":{"id":"msg_1","status":"completed","phase":"commentary"}}`
			case *message.ToolCall:
				return `{"item":{"id":"fc\/1","status":"completed"}}`
			}
			return ""
		},
	}
}

func geminiOf(model string) vendor {
	check := apis.CheckGemini
	if strings.HasPrefix(model, "gemini-3") {
		check = apis.CheckGemini3
	}
	return vendor{
		name: "gemini", model: model, check: check,
		open: func(o options) llm.Provider {
			return gemini.New(gemini.Options{BaseURL: o.base, Key: testKey, HTTP: o.http, FirstByte: o.firstByte, Idle: o.idle})
		},
		usage: message.Usage{Input: 125, Output: 39, Reasoning: 30, CacheRead: 64},
		echo: map[string][]string{
			"reasoning": {`"thought":true`},
			"call":      {`"id":"8f2b1a3c"`, `"thoughtSignature":"EqoBCqcBAdHtim+sig/ABC=="`},
			"parallel":  {`"thoughtSignature":"EqoBCqcBAdHtim+sig/ABC=="`},
			"text_call": {`"id":"8f2b1a3d"`, `"thoughtSignature":"AY89a18Xk/9f+T0ZqQ=="`},
		},
		lacks: map[string]string{
			"bad_args":      "arguments are an object; a call that Gemini itself could not read ends in MALFORMED_FUNCTION_CALL",
			"stop_sequence": "the finish reason is STOP, as for an answer that is complete",
		},
		joint: `]},{"role":"user","parts":[`,
		meta: func(b message.Block) string {
			switch b := b.(type) {
			case *message.Reasoning:
				if b.Text != "" {
					return `{"thought":true}`
				}
				return `{"thoughtSignature":"EqoBCqcBAdHtim+sig\/ABC=="}`
			case *message.Text, *message.ToolCall, *message.Image:
				return `{"thoughtSignature":"EqoBCqcBAdHtim+sig\/ABC=="}`
			}
			return ""
		},
	}
}

// ollamaOf is an Ollama whose model can do everything: see asking.RoundTrip.
func ollamaOf(model string) vendor {
	return vendor{
		name: "ollama", model: model, check: apis.CheckOllama,
		open: func(o options) llm.Provider {
			if o.firstByte == 0 {
				o.firstByte = 120 * time.Second // what the others wait by default
			}
			return ollama.New(ollama.Options{Host: o.base, Key: testKey, HTTP: o.http, FirstByte: o.firstByte, Idle: o.idle})
		},
		usage: message.Usage{Input: 26, Output: 9},
		echo: map[string][]string{
			"reasoning": {`"thinking":"The user greets me. I greet back."`},
			"call":      {`"id":"call_k3j9x2qp"`, `"tool_call_id":"call_k3j9x2qp"`, `"index":0`},
			"text_call": {`"id":"call_k3j9x2qq"`, `"tool_call_id":"call_k3j9x2qq"`, `"index":1`},
		},
		lacks: map[string]string{
			"bad_args":      "arguments are an object",
			"stop_sequence": "done_reason is stop, as for an answer that is complete",
			"refused":       "there is no sign of a refusal but its words",
		},
		meta: func(b message.Block) string {
			if _, ok := b.(*message.ToolCall); ok {
				return `{"function":{"index":0}}`
			}
			return ""
		},
	}
}

// providers are one model of each provider, of which all is tested.
func providers() []vendor {
	full := anthropicOf("claude-opus-4-6")
	full.echo["reasoning"] = []string{`"signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds+/="`, `"thinking":"The user greets me. I greet back."`}
	return []vendor{full, openaiOf("gpt-4.1", openai.Compatible), responsesOf("gpt-5.4"), geminiOf("gemini-3-flash-preview"), ollamaOf("qwen3:8b")}
}

// generations are models that allow other things than those of providers: what
// is sent to them is tested.
func generations() []vendor {
	out := []vendor{geminiOf("gemini-2.5-flash")}
	for _, name := range []string{"gpt-4.1", "o3", "gpt-5", "gpt-5.1"} {
		out = append(out, openaiOf(name, openai.Official), responsesOf(name))
	}
	for _, name := range []string{"claude-3-haiku-20240307", "claude-3-5-sonnet-20241022", "claude-3-7-sonnet-20250219", "claude-sonnet-4-20250514", "kimi-k2"} {
		v := anthropicOf(name)
		v.lacks = map[string]string{"structured": "there is no output_config.format"}
		out = append(out, v)
	}
	for _, name := range []string{
		"claude-haiku-4-5", "claude-opus-4-8", "claude-opus-5", "claude-fable-5-1", "claude-opus-5-5", "claude-sonnet-5-5",
		"claude-haiku-5-5",
	} {
		out = append(out, anthropicOf(name))
	}
	return out
}

// each runs a test over vendors, side by side.
func each(t *testing.T, list []vendor, test func(t *testing.T, v vendor)) {
	for _, v := range list {
		t.Run(v.name+" "+v.model, func(t *testing.T) {
			t.Parallel()
			test(t, v)
		})
	}
}

// script returns a scenario's exchange, or nil if the vendor lacks it.
func (v vendor) script(t testing.TB, scenario string) *apis.Exchange {
	t.Helper()
	if v.lacks[scenario] != "" {
		return nil
	}
	e, err := apis.Load(filepath.Join(v.name, "testdata", v.dialect, scenario+".http"))
	if errors.Is(err, fs.ErrNotExist) {
		e, err = apis.Load(filepath.Join(v.name, "testdata", scenario+".http"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// provider returns the vendor's provider at a client, its requests checked.
func (v vendor) provider(t testing.TB, o options) llm.Provider {
	if o.base == "" {
		o.base = "http://vendor.test"
	}
	o.http = &http.Client{Transport: &asking{t: t, v: v, next: o.http.Transport}}
	return v.open(o)
}

// asking passes requests on and holds their bodies against the rules.
type asking struct {
	t      testing.TB
	v      vendor
	next   http.RoundTripper
	bodies [][]byte
}

func (a *asking) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/api/show") { // Ollama is asked first what a model can do
		able := io.NopCloser(strings.NewReader(`{"capabilities":["completion","tools","thinking","vision"]}`))
		return &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{}, Body: able}, r.Context().Err()
	}
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(body)
		if err != nil || r.ContentLength != int64(len(b)) {
			a.t.Errorf("the request says %d bytes and has %d: %v", r.ContentLength, len(b), err)
		}
		if err := a.v.check(b); err != nil {
			a.t.Errorf("%s's rules: %v\n%s", a.v.name, err, b)
		}
		a.bodies = append(a.bodies, b)
	}
	return a.next.RoundTrip(r)
}
