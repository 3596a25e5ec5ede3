package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"steward/internal/cli/command"
	"steward/internal/llm"
	"steward/test/apis"
)

// plainServer speaks OpenAI's chat protocol, as a small server does whose model takes neither tools nor
// images nor forms: it refuses them as llama.cpp and vLLM do (see the refusals in
// internal/provider/openai/quirks_test.go), and uses tools in words if it is told how.
type plainServer struct {
	mu   sync.Mutex
	sent []string
}

func (p *plainServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/models") {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"plain","object":"model","created":1}]}`)
		return
	}
	var in struct {
		Tools          []json.RawMessage
		ResponseFormat json.RawMessage `json:"response_format"`
		Messages       []struct {
			Role    string
			Content any
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	all, err := json.Marshal(in.Messages)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	p.sent = append(p.sent, string(all))
	p.mu.Unlock()
	refuse := func(message string) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"object":"error","message":%q,"code":400}`, message)
	}
	answer := "Hello."
	last := apis.Written(in.Messages[len(in.Messages)-1].Content)
	switch {
	case len(in.Tools) > 0:
		refuse(`"auto" tool choice requires --enable-auto-tool-choice`)
		return
	case strings.Contains(string(all), "image_url"):
		refuse("image input is not supported")
		return
	case in.ResponseFormat != nil:
		answer = "There are 24 legs."
	case strings.Contains(last, "The result of text.hash"):
		answer = "The hash is " + last[strings.LastIndex(last, "\n")+1:]
	case strings.Contains(last, "The result of tools.find") && strings.Contains(last, "\ntext.hash: "):
		answer = `{\"tool\": \"text.hash\", \"arguments\": {\"text\": \"hello\"}}`
	case strings.Contains(last, "hash"):
		answer = `{\"tool\": \"tools.find\", \"arguments\": {\"query\": \"hash a text\"}}`
	}
	answer = strings.ReplaceAll(strings.ReplaceAll(answer, `\"`, `"`), `"`, `\"`)
	answer = strings.ReplaceAll(answer, "\n", `\n`)
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"plain\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"%s\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", answer)
}

// What models test finds is printed, remembered and used: a model without tools finds and calls one in
// words, and a model without images is told of a picture.
func TestModelsAreTestedAndAdaptedTo(t *testing.T) {
	p := &plainServer{}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	env := user(t)
	if err := os.WriteFile(filepath.Join(homeOf(env), ".config/steward/steward.yaml"), []byte("providers: {box: {base_url: \""+srv.URL+"/v1\"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := in(t, "", env, "models", "test")
	if f := strings.Fields(out); code != command.ExitOK || len(f) != 11 || f[4] != "box/plain" || f[5] != "no" || f[7] != "no" || f[9] != "no" {
		t.Fatalf("%d %q %q", code, out, errs)
	}
	var kept map[string]llm.Tested
	text, err := os.ReadFile(filepath.Join(homeOf(env), ".local/share/steward/tested-models.json"))
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if can, known := kept["box/plain"].Can[llm.CanTools]; err != nil || can || !known {
		t.Errorf("%s: %v", text, err)
	}
	p.sent = nil
	if code, out, errs := in(t, "", env, "ask", "what is the hash of hello?"); code != command.ExitOK || !strings.Contains(out, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824") {
		t.Errorf("a tool in words: %d %q %q", code, out, errs)
	}
	picture := filepath.Join(homeOf(env), "dot.png")
	if err := os.WriteFile(picture, apis.PNG(), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := in(t, "", env, "ask", "--file", picture, "what is it?"); code != command.ExitOK || !strings.Contains(errs, "does not accept images") {
		t.Errorf("a picture: %d %q", code, errs)
	}
	if all := strings.Join(p.sent, "\n"); strings.Contains(all, "image_url") || !strings.Contains(all, "[an image that you cannot see: image/png") {
		t.Errorf("sent: %s", all)
	}
	if code, _, errs := in(t, "", env, "models", "test", "nobody/x"); code != command.ExitFailed || !strings.Contains(errs, "no provider") {
		t.Errorf("an unknown model: %d %q", code, errs)
	}
	srv.Close()
	if code, out, errs := in(t, "", env, "models", "test", "box/plain"); code != command.ExitOK || !strings.Contains(out, "? (") || !strings.Contains(out, "cannot be reached") {
		t.Errorf("without the server: %d %q %q", code, out, errs)
	}
	if again, err := os.ReadFile(filepath.Join(homeOf(env), ".local/share/steward/tested-models.json")); err != nil || string(again) != string(text) {
		t.Errorf("a failed test replaced a result: %s, %v", again, err)
	}
}
