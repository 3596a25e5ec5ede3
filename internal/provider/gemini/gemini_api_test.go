package gemini

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/test/apis"
)

func TestAddresses(t *testing.T) {
	for base, want := range map[string]string{
		"": "https://generativelanguage.googleapis.com/v1beta", "http://h": "http://h/v1beta",
		"http://h/": "http://h/v1beta", "http://h/v1beta/": "http://h/v1beta", "http://h/gw/v1": "http://h/gw/v1",
	} {
		if got := New(Options{BaseURL: base}).client.BaseURL(); got != want {
			t.Errorf("%q: %s", base, got)
		}
	}
	if p := New(Options{Name: "work"}); p.Name() != "work" {
		t.Error(p.Name())
	}
}

func TestRequestLine(t *testing.T) {
	var got string
	p := serving(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Method + " " + r.URL.String() + " " + r.Header.Get("X-Goog-Api-Key")
	})
	for model, want := range map[string]string{
		"gemini-3-pro":        "POST /v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse k",
		"models/gemini-3-pro": "POST /v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse k",
		"tunedModels/mine":    "POST /v1beta/tunedModels/mine:streamGenerateContent?alt=sse k",
	} {
		if _, _, err := apis.Collect(p.Model(model), apis.Hello()); !fault.HasCode(err, "stream_broken") || got != want {
			t.Errorf("%s, %v", got, err)
		}
	}
}

func TestModelsInPages(t *testing.T) {
	p := serving(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("pageToken") == "" {
			io.WriteString(w, `{"models":[{"name":"models/a","inputTokenLimit":7,"supportedGenerationMethods":["generateContent"]}],"nextPageToken":"x y"}`)
			return
		}
		io.WriteString(w, `{"models":[{"name":"models/b","supportedGenerationMethods":["embedContent"]},{"name":"models/c","supportedGenerationMethods":["predict"]}]}`)
	})
	list, err := p.Models(context.Background())
	if err != nil || len(list) != 2 || list[0].Name != "a" || list[0].Window != 7 || list[0].Embedder || list[1].Name != "b" || !list[1].Embedder {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := answering(t, "err_auth").Models(context.Background()); !fault.HasCode(err, "auth_failed") {
		t.Error(err)
	}
	bad := serving(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"models":[`) })
	if _, err := bad.Models(context.Background()); !fault.HasCode(err, "provider_error") {
		t.Error(err)
	}
}

func TestEmbed(t *testing.T) {
	requests := 0
	p := serving(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if err := apis.CheckGemini(body); err != nil || r.URL.Path != "/v1beta/models/gemini-embedding-001:batchEmbedContents" {
			t.Errorf("%s: %v", r.URL, err)
		}
		n := bytes.Count(body, []byte(`"model"`))
		io.WriteString(w, `{"embeddings":[`+strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"values":[%d,0.5]},`, requests), n), ",")+`],"usageMetadata":{"promptTokenCount":3}}`)
	})
	texts := make([]string, 150)
	v, err := p.Embedder("gemini-embedding-001").Embed(context.Background(), texts)
	if err != nil || len(v.Values) != 150 || v.Values[0][0] != 1 || v.Values[149][0] != 2 || v.Values[149][1] != 0.5 || v.Tokens != 6 || v.Model != "gemini/gemini-embedding-001" {
		t.Errorf("%d vectors, %d tokens, %q, %v", len(v.Values), v.Tokens, v.Model, err)
	}
	for answer, code := range map[string]string{
		`{"embeddings":[{"values":[1]}]}`:                  "provider_error",
		`{"embeddings":[{"values":["a"]},{"values":[1]}]}`: "provider_error",
		`{"embeddings":[{"values":[1]},{"values":[1]}]`:    "provider_error",
	} {
		bad := serving(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, answer) })
		if _, err := bad.Embedder("e").Embed(context.Background(), []string{"a", "b"}); !fault.HasCode(err, code) {
			t.Errorf("%s: %v", answer, err)
		}
	}
	if _, err := answering(t, "err_rate").Embedder("e").Embed(context.Background(), []string{"a"}); !fault.HasCode(err, "rate_limited") {
		t.Error(err)
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		status            int
		state, text, code string
	}{
		{400, "INVALID_ARGUMENT", "API key expired. Please renew the API key.", "auth_failed"},
		{403, "PERMISSION_DENIED", "Your API key was reported as leaked.", "auth_failed"},
		{401, "UNAUTHENTICATED", "Request had invalid authentication credentials.", "auth_failed"},
		{400, "FAILED_PRECONDITION", "User location is not supported for the API use.", ""},
		{400, "INVALID_ARGUMENT", "The input token count exceeds the maximum number of tokens allowed 131072.", "context_too_long"},
		{400, "INVALID_ARGUMENT", "Function calling is not enabled for models/gemma-3-27b-it", "tools_unsupported"},
		{400, "INVALID_ARGUMENT", "JSON mode is not enabled for models/gemma-3-27b-it", "schema_unsupported"},
		{400, "INVALID_ARGUMENT", "Function calling with a response mime type: 'application/json' is unsupported", "schema_unsupported"},
		{400, "INVALID_ARGUMENT", "Image input modality is not enabled for models/gemma-3-1b-it", "images_unsupported"},
		{504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete.", "provider_error"},
		{503, "UNAVAILABLE", "The model is overloaded.", "overloaded"},
		{404, "NOT_FOUND", "models/x is not found", "model_not_found"},
	} {
		body := fmt.Sprintf(`[{"error":{"code":%d,"status":%q,"message":%q}}]`, c.status, c.state, c.text)
		if r := explain(c.status, []byte(body)); r.Code != c.code || r.Message != c.text {
			t.Errorf("%s: %+v", body, r)
		}
	}
	r := explain(429, []byte(`{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.074824224s"}]}}`))
	if r.Code != "rate_limited" || r.After.Round(time.Millisecond) != 34075*time.Millisecond {
		t.Errorf("%+v", r)
	}
}
