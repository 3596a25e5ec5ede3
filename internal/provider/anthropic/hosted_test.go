package anthropic_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/anthropic"
	"steward/test/apis"
)

// The tools that run at Anthropic are offered where Steward's are, bounded, and billed searches are
// counted. Their forms are after https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool,
// …/web-fetch-tool and …/code-execution-tool.
func TestHostedTools(t *testing.T) {
	body := strings.Replace(searched, `"usage":{"output_tokens":2}`, `"usage":{"output_tokens":2,"server_tool_use":{"web_search_requests":3,"web_fetch_requests":1}}`, 1)
	s := &apis.Says{Bodies: []string{body}, Check: apis.CheckAnthropic}
	model := anthropic.New(anthropic.Options{BaseURL: "http://vendor.test", Key: "k", HTTP: &http.Client{Transport: s}, Tools: []string{"web_search", "web_fetch", "code_execution"}}).Model("claude-sonnet-5")
	r := ask(user(text("Rain?")))
	reply, _, err := apis.Collect(model, r)
	if err != nil {
		t.Fatal(err)
	}
	m := &message.Message{Role: message.Assistant, Blocks: reply.Blocks}
	if reply.Usage.Searches != 3 || !m.Foreign() {
		t.Errorf("%+v, foreign: %v", reply.Usage, m.Foreign())
	}
	want := `{"type":"web_search_20250305","name":"web_search","max_uses":8},{"type":"web_fetch_20250910","name":"web_fetch","max_uses":8,"max_content_tokens":50000,"citations":{"enabled":true}},` +
		`{"type":"code_execution_20250825","name":"code_execution","cache_control":{"type":"ephemeral"}}]`
	if !strings.Contains(s.Sent[0], want) {
		t.Errorf("sent %s", s.Sent[0])
	}
	if _, _, err := apis.Collect(model, apis.Hello()); err != nil || strings.Contains(s.Sent[1], "web_search") {
		t.Errorf("without tools: %s, %v", s.Sent[1], err)
	}
}

// A cloud has no betas, and maybe the model in the path and a version in the body.
func TestCloudsHaveAnotherHead(t *testing.T) {
	s := &apis.Says{Bodies: []string{searched, searched}}
	o := anthropic.Options{Name: "far", BaseURL: "http://cloud.test", HTTP: &http.Client{Transport: s}, Head: `"anthropic_version":"v"`,
		Path: func(model string) string { return "/model/" + model + "/invoke" },
		List: func(context.Context) ([]llm.Info, error) { return nil, nil }}
	p := anthropic.New(o)
	r := ask(user(text("Rain?")))
	r.Sampling.Effort = llm.EffortHigh
	reply, _, err := apis.Collect(p.Model("eu.anthropic.claude-sonnet-5-5-v1:0"), r)
	if err != nil || reply.Model != "far/eu.anthropic.claude-sonnet-5-5-v1:0" {
		t.Fatalf("%+v, %v", reply, err)
	}
	if s.Asked[0] != "http://cloud.test/model/eu.anthropic.claude-sonnet-5-5-v1:0/invoke" || s.Header["Anthropic-Beta"] != nil {
		t.Errorf("asked %s, %v", s.Asked[0], s.Header)
	}
	if sent := s.Sent[0]; !strings.HasPrefix(sent, `{"anthropic_version":"v","messages":[`) || strings.Contains(sent, `"stream"`) || strings.Contains(sent, `"model"`) || strings.Contains(sent, "block_binding") {
		t.Errorf("sent %s", sent)
	}
	o.Head, o.Path = "", nil
	if _, _, err := apis.Collect(anthropic.New(o).Model("eu.anthropic.claude-sonnet-5-5-v1:0"), r); err != nil || s.Header["Anthropic-Beta"] != nil || strings.Contains(s.Sent[1], "block_binding") {
		t.Errorf("%v, %v, %s", err, s.Header, s.Sent[1])
	}
}
