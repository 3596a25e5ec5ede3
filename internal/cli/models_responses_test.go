package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/test/apis"
)

// OpenAI's presets use tools and reasoning over /v1/responses, statelessly: the reasoning goes back as
// it came. Over chat completions OpenAI refuses newer models that; so does this double, which follows
// https://platform.openai.com/docs/guides/reasoning and …/guides/migrate-to-responses.
func TestOpenAIsPresetsUseResponses(t *testing.T) {
	const thought = `{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA\/x=="}`
	const call = `{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_1","name":"math__evaluate","arguments":"{\"expression\": \"6*7\"}"}`
	var sent []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/models") {
			fmt.Fprint(w, `{"object":"list","data":[]}`)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = apis.CheckResponses(body)
		}
		if err != nil || r.URL.Path != "/v1/responses" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":"Function tools with reasoning_effort are not supported here. %v","type":"invalid_request_error"}}`, err)
			return
		}
		sent = append(sent, string(body))
		item := `{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"It is 42.","annotations":[]}]}`
		items := []string{item}
		if !strings.Contains(string(body), `"function_call_output"`) {
			items = []string{thought, call}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i, item := range items {
			fmt.Fprintf(w, "data: {\"type\":\"response.output_item.done\",\"output_index\":%d,\"item\":%s}\n\n", i, item)
		}
		fmt.Fprint(w, "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":2}}}\n\n")
	}))
	t.Cleanup(srv.Close)
	env := user(t, "OPENAI_API_KEY=sk-0123456789")
	conf := "providers: {openai: {base_url: \"" + srv.URL + "/v1\", dialect: responses}}\n"
	if err := os.WriteFile(filepath.Join(homeOf(env), ".config/steward/steward.yaml"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	names := app.Vendors()[0].Presets
	for _, model := range []string{names.Standard, names.Strong} {
		sent = nil
		code, out, errs := in(t, "", env, "ask", "--model", "openai/"+model, "what is 6 times 7?")
		if code != command.ExitOK || !strings.Contains(out, "It is 42.") || len(sent) != 2 {
			t.Fatalf("%s: %d %q %q, asked %d times", model, code, out, errs, len(sent))
		}
		for _, want := range []string{`{"model":"` + model + `","stream":true,"store":false`, `"include":["reasoning.encrypted_content"]`, `"name":"math__evaluate"`} {
			if !strings.Contains(sent[0], want) {
				t.Errorf("%s: %s is not in %s", model, want, sent[0])
			}
		}
		if !strings.Contains(sent[1], thought+",") || strings.Contains(sent[1], "previous_response_id") {
			t.Errorf("%s: the reasoning did not go back as it came: %s", model, sent[1])
		}
	}
}
