package openai_test

import (
	"testing"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/server/openai"
)

// What a policy is told of a call without a conversation: nobody knows who
// wrote what is attached, and what tools of the caller have told.
func TestLabelsOfWhatIsSent(t *testing.T) {
	const foreign = message.Private | message.Untrusted
	for name, c := range map[string]struct {
		always message.Labels
		msgs   string
		want   message.Labels
	}{
		"words":         {0, `{"role":"system","content":"be kind"},{"role":"user","content":"hello"},{"role":"assistant","content":"hi"},{"role":"user","content":"and?"}`, 0},
		"a picture":     {0, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]}`, foreign},
		"a file":        {0, `{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,aGk="}}]}`, foreign},
		"a result":      {0, `{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"y"}`, foreign},
		"of a program":  {foreign, `{"role":"user","content":"hello"}`, foreign},
		"words already": {message.Secret, `{"role":"user","content":"hello"}`, message.Secret},
	} {
		n := &node{events: []llm.Event{{Kind: llm.Done, Reply: &llm.Reply{}}}}
		s := serve(t, n, openai.Options{Labels: c.always})
		if status, _, body := do(t, s, "POST", "/v1/chat/completions", `{"model":"test/one","messages":[`+c.msgs+`]}`); status != 200 {
			t.Errorf("%s: %d %s", name, status, body)
			continue
		}
		if n.asked.Labels != c.want {
			t.Errorf("%s: %v", name, n.asked.Labels.Names())
		}
	}
}
