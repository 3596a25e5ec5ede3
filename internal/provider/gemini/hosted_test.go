package gemini

import (
	"net/http"
	"strings"
	"testing"

	"steward/internal/message"
	"steward/test/apis"
)

// Google's own tools are offered beside functions, as https://ai.google.dev/gemini-api/docs/tool-combination
// shows it; what they read is foreign, and searches are counted.
func TestHostedTools(t *testing.T) {
	const answer = `data: {"candidates":[{"content":{"parts":[{"toolCall":{"toolType":"GOOGLE_SEARCH_WEB","id":"a","args":{"q": "rain"}},"thoughtSignature":"BBBB"},{"text":"Wet."}],"role":"model"},"finishReason":"STOP",` +
		`"groundingMetadata":{"webSearchQueries":["rain","rain graz"]},"urlContextMetadata":{"urlMetadata":[{"retrievedUrl":"https://w.test/","urlRetrievalStatus":"URL_RETRIEVAL_STATUS_SUCCESS"}]}}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1}}` + "\n\n"
	s := &apis.Says{Bodies: []string{answer}, Check: apis.CheckGemini}
	p := New(Options{BaseURL: "http://vendor.test", Key: "k", HTTP: &http.Client{Transport: s}, Tools: []string{"google_search", "url_context", "code_execution"}})
	r := apis.Hello()
	r.Tools = apis.Tools()
	reply, notices, err := apis.Collect(p.Model("gemini-3.5-flash"), r)
	if err != nil || len(notices) != 0 {
		t.Fatal(err, notices)
	}
	m := &message.Message{Role: message.Assistant, Blocks: reply.Blocks}
	if c := m.Citations(); reply.Usage.Searches != 2 || !m.Foreign() || len(c) != 1 || c[0].URL != "https://w.test/" || !strings.Contains(string(reply.Meta.Fields), `"urlContextMetadata":{"urlMetadata"`) {
		t.Errorf("%+v, %+v, %s", reply.Usage, c, reply.Meta.Fields)
	}
	if want := `]},{"googleSearch":{}},{"urlContext":{}},{"codeExecution":{}}],"toolConfig":{"includeServerSideToolInvocations":true}`; !strings.Contains(s.Sent[0], want) {
		t.Errorf("sent %s", s.Sent[0])
	}
	r.ToolChoice = "math.multiply"
	if _, _, err := apis.Collect(p.Model("gemini-3.5-flash"), r); err != nil || !strings.Contains(s.Sent[1], `"allowedFunctionNames":["math__multiply"]},"includeServerSideToolInvocations":true}`) {
		t.Errorf("%v, sent %s", err, s.Sent[1])
	}
	if _, notices, err := apis.Collect(p.Model("gemini-2.5-flash"), r); err != nil || len(notices) != 1 || strings.Contains(s.Sent[2], "googleSearch") {
		t.Errorf("%v %q, sent %s", err, notices, s.Sent[2])
	}
	if _, _, err := apis.Collect(p.Model("gemini-3.5-flash"), apis.Hello()); err != nil || strings.Contains(s.Sent[3], "googleSearch") {
		t.Errorf("without tools: %v, sent %s", err, s.Sent[3])
	}
}
