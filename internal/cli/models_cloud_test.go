package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"steward/internal/cli/command"
)

// clouds is a double of Bedrock and Vertex AI: the paths and the sign-in of
// https://docs.aws.amazon.com/bedrock/latest/userguide/inference-messages-api.html,
// https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest-rpc and
// https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai.
type clouds struct {
	mu  sync.Mutex
	got []string // path, sign-in and body of each request to a model
}

func (c *clouds) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	switch r.URL.Path {
	case "/inference-profiles":
		if r.Header.Get("Authorization") != "Bearer bedrock-key" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprint(w, `{"inferenceProfileSummaries":[{"inferenceProfileId":"eu.amazon.nova-lite-v1:0","createdAt":"2026-09-01T00:00:00Z"},{"inferenceProfileId":"eu.anthropic.claude-opus-4-6-v1","createdAt":"2026-02-05T00:00:00.5Z"},{"inferenceProfileId":"eu.anthropic.claude-sonnet-5-v1:0","createdAt":"2026-08-01T00:00:00Z"}]}`)
		return
	case "/token":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"ya29.token","expires_in":3599,"token_type":"Bearer"}`)
		return
	}
	c.mu.Lock()
	c.got = append(c.got, r.URL.EscapedPath()+" "+r.Header.Get("Authorization")+r.Header.Get("X-Api-Key")+" "+string(body))
	c.mu.Unlock()
	claude := []string{`{"type":"message_start","message":{"usage":{"input_tokens":3}}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hello from Claude."}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`, `{"type":"message_stop"}`}
	switch {
	case strings.Contains(r.URL.Path, "/anthropic/"):
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: "+strings.Join(claude, "\n\ndata: ")+"\n\n")
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"candidates":[{"content":{"parts":[{"text":"Hello from Gemini."}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2}}`+"\n\n")
	}
}

// Claude on Bedrock and Vertex and Gemini on Vertex answer, signed in as each cloud wants it, after
// secrets were masked.
func TestModelsInClouds(t *testing.T) {
	c := &clouds{}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	user := user(t, "AWS_BEARER_TOKEN_BEDROCK=bedrock-key", "GOOGLE_CLOUD_PROJECT=proj", "GOOGLE_APPLICATION_CREDENTIALS="+filepath.Join(t.TempDir(), "adc.json"))
	for _, e := range user {
		if file, ok := strings.CutPrefix(e, "GOOGLE_APPLICATION_CREDENTIALS="); ok {
			adc := `{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r","token_uri":"` + srv.URL + `/token"}`
			if err := os.WriteFile(file, []byte(adc), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	conf := "providers:\n  vertex: {base_url: \"" + srv.URL + "\"}\n  vertex-claude: {base_url: \"" + srv.URL + "\", region: europe-west1}\n  bedrock: {base_url: \"" + srv.URL + "/anthropic\"}\n"
	if err := os.WriteFile(filepath.Join(homeOf(user), ".config/steward/steward.yaml"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ model, says, path, signed, body string }{
		{"bedrock/eu.anthropic.claude-sonnet-5-v1:0", "Hello from Claude.", "/anthropic/v1/messages", "bedrock-key", `{"model":"eu.anthropic.claude-sonnet-5-v1:0"`},
		{"vertex-claude/claude-haiku-4-5@20251001", "Hello from Claude.", "/v1/projects/proj/locations/europe-west1/publishers/anthropic/models/claude-haiku-4-5@20251001:streamRawPredict", "Bearer ya29.token", `{"anthropic_version":"vertex-2023-10-16","stream":true`},
		{"vertex/gemini-3.5-flash", "Hello from Gemini.", "/v1/projects/proj/locations/global/publishers/google/models/gemini-3.5-flash:streamGenerateContent", "Bearer ya29.token", `{"contents":[`},
	} {
		c.got = nil
		code, out, errs := in(t, "", user, "ask", "-q", "--model", x.model, "hello")
		if code != command.ExitOK || !strings.Contains(out, x.says) || len(c.got) != 1 || !strings.HasPrefix(c.got[0], x.path+" "+x.signed+" "+x.body) {
			t.Fatalf("%s: %d %q %q: %q", x.model, code, out, errs, c.got)
		}
		if _, body, _ := strings.Cut(c.got[0], " {"); !json.Valid([]byte("{" + body)) {
			t.Errorf("%s was sent %s", x.model, body)
		}
	}
	code, out, errs := in(t, "", user, "models")
	if code != command.ExitOK || strings.Contains(out, "nova") || !strings.Contains(out, "bedrock/eu.anthropic.claude-opus-4-6-v1") || !strings.Contains(out, "vertex/gemini-3.5-flash") || !strings.Contains(out, "vertex-claude/claude-sonnet-4-6") {
		t.Errorf("%d %q %q", code, out, errs)
	}
}
