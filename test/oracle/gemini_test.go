package oracle

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/genai"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/gemini"
	"steward/test/apis"
)

const geminiData = "../../internal/provider/gemini/testdata/"

// Google's SDK reads the same streams alike.
func TestGenaiReadsAlike(t *testing.T) {
	for _, name := range []string{"text", "unicode", "reasoning", "call", "parallel", "text_call", "no_args",
		"structured", "usage", "length", "refused", "empty", "signed_text", "bare_signature"} {
		t.Run(name, func(t *testing.T) {
			client := answering(t, geminiData+name+".http")
			reply := replyOf(t, gemini.New(gemini.Options{HTTP: client}).Model("gemini-3-pro"))
			ours := tellOf(reply)
			if theirs := genaiTells(t, client); ours != theirs {
				t.Errorf("we read\n%+v\nthe SDK\n%+v", ours, theirs)
			}
		})
	}
}

func genaiTells(t *testing.T, client *http.Client) (out told) {
	t.Helper()
	c, err := genai.NewClient(t.Context(), &genai.ClientConfig{APIKey: "k", Backend: genai.BackendGeminiAPI, HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range c.Models.GenerateContentStream(t.Context(), "gemini-3-pro", genai.Text("Hello"), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if u := r.UsageMetadata; u != nil {
			out.usage = message.Usage{
				Input:     int64(u.PromptTokenCount + u.ToolUsePromptTokenCount),
				Output:    int64(u.CandidatesTokenCount + u.ThoughtsTokenCount),
				Reasoning: int64(u.ThoughtsTokenCount), CacheRead: int64(u.CachedContentTokenCount),
			}
		}
		for _, cand := range r.Candidates {
			if cand.Content != nil {
				for _, p := range cand.Content.Parts {
					out.genaiPart(p)
				}
			}
			switch cand.FinishReason {
			case genai.FinishReasonStop:
				out.stop = message.StopEnd
			case genai.FinishReasonMaxTokens:
				out.stop = message.StopLength
			case genai.FinishReasonSafety:
				out.stop = message.StopRefused
			}
		}
	}
	if out.calls != "" {
		out.stop = message.StopTools
	}
	return out
}

func (out *told) genaiPart(p *genai.Part) {
	switch {
	case p.FunctionCall != nil:
		args := p.FunctionCall.Args
		if args == nil {
			args = map[string]any{}
		}
		out.call(p.FunctionCall.Name, args)
	case p.Thought:
		out.reasoning += p.Text
	default:
		out.text += p.Text
	}
}

// Google's types hold all that Steward sends: decoded into them and written
// again, nothing is missing.
func TestGenaiDecodesOurRequests(t *testing.T) {
	for _, model := range []string{"gemini-3-pro-preview", "gemini-2.5-flash"} {
		for _, r := range requests() {
			body := sentBody(t, geminiData, func(c *http.Client) llm.Model { return gemini.New(gemini.Options{HTTP: c}).Model(model) }, r)
			var req struct {
				Contents          []*genai.Content        `json:"contents"`
				SystemInstruction *genai.Content          `json:"systemInstruction,omitempty"`
				Tools             []*genai.Tool           `json:"tools,omitempty"`
				ToolConfig        *genai.ToolConfig       `json:"toolConfig,omitempty"`
				GenerationConfig  *genai.GenerationConfig `json:"generationConfig,omitempty"`
			}
			d := json.NewDecoder(bytes.NewReader(body))
			d.DisallowUnknownFields()
			if err := d.Decode(&req); err != nil {
				t.Fatalf("%v\n%s", err, body)
			}
			again, err := json.Marshal(req)
			if err != nil {
				t.Fatal(err)
			}
			if a, b := withoutEmpty(t, body), withoutEmpty(t, again); !reflect.DeepEqual(a, b) {
				t.Errorf("we send\n%s\nthe SDK's types hold\n%s", body, again)
			}
		}
	}
}

// withoutEmpty decodes JSON and drops empty strings and objects: Go's
// omitempty does so, and they mean the same to Google.
func withoutEmpty(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return prune(v)
}

func prune(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
	case map[string]any:
		for k, e := range v {
			e = prune(e)
			v[k] = e
			if m, ok := e.(map[string]any); e == "" || ok && len(m) == 0 {
				delete(v, k)
			}
		}
	}
	return v
}

// told is what a stream said, in a form that all sides can give.
type told struct {
	text, reasoning, calls string
	stop                   message.Stop
	usage                  message.Usage
}

func (out *told) call(wireName string, args any) {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err) // it came from JSON
	}
	out.calls += strings.ReplaceAll(wireName, "__", ".") + string(b) + "\n"
}

func tellOf(r *llm.Reply) told {
	out := told{stop: r.Stop, usage: r.Usage}
	for _, b := range r.Blocks {
		switch b := b.(type) {
		case *message.Text:
			out.text += b.Text
		case *message.Reasoning:
			out.reasoning += b.Text
		case *message.ToolCall:
			var args any
			if json.Unmarshal(b.Args, &args) != nil {
				args = string(b.Args)
			}
			out.call(b.Name, args)
		}
	}
	return out
}

// answering is a client whose every request gets the file's answer.
func answering(t *testing.T, file string) *http.Client {
	t.Helper()
	e, err := apis.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: e.Status, Header: e.Header, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Body: io.NopCloser(bytes.NewReader(e.Body)), ContentLength: -1}, nil
	})}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func replyOf(t *testing.T, m llm.Model) (reply *llm.Reply) {
	t.Helper()
	r := &llm.Request{Transcript: llm.NewTranscript(&message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: "Hello"}}})}
	for ev, err := range m.Stream(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == llm.Done {
			reply = ev.Reply
		}
	}
	return reply
}

// requests are all conversations that the providers' tests know, plain and
// with everything that can be set.
func requests() []*llm.Request {
	warm := 0.5
	var out []*llm.Request
	for _, c := range apis.Conversations() {
		out = append(out, &llm.Request{Transcript: llm.NewTranscript(c.Messages...)}, &llm.Request{
			Transcript: llm.NewTranscript(c.Messages...), System: "Be brief.", Tools: apis.Tools(), ToolChoice: "math.multiply",
			Sampling: llm.Sampling{Temperature: &warm, MaxTokens: 99, Stop: []string{"END"}, Effort: llm.EffortMedium},
		}, &llm.Request{Transcript: llm.NewTranscript(c.Messages...), Schema: apis.Schema()})
	}
	return out
}

// sentBody returns the body of the last request that a model sends, whose
// answers are those of the text scenario in dir.
func sentBody(t *testing.T, dir string, model func(*http.Client) llm.Model, r *llm.Request) (body []byte) {
	t.Helper()
	next := answering(t, dir+"text.http").Transport
	client := &http.Client{Transport: roundTrip(func(q *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(q.Body)
		if err != nil {
			return nil, err
		}
		body = b
		return next.RoundTrip(q)
	})}
	for _, err := range model(client).Stream(context.Background(), r) {
		if err != nil {
			t.Fatal(err)
		}
	}
	return body
}
