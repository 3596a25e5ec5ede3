package gemini

import (
	"strings"
	"testing"

	"steward/internal/message"
	"steward/internal/provider/providertest"
	"steward/internal/provider/wire"
)

// meta is what the streams bring.
func meta(b message.Block) string {
	switch b := b.(type) {
	case *message.Reasoning:
		if b.Text == "" {
			return `{"thoughtSignature":"EqoBCqcBAdHtim+sig\/ABC=="}`
		}
		return `{"thought":true}`
	case *message.Text, *message.ToolCall, *message.Image:
		return `{"thoughtSignature":"EqoBCqcBAdHtim+sig\/ABC=="}`
	}
	return ""
}

// mask is the table in decode.go.
func mask(m *message.Message) {
	m.Meta = message.Meta{}
	for i, b := range m.Blocks {
		switch m.Role {
		case message.Assistant:
			m.Blocks[i] = maskModel(b)
		case message.System:
			if b.Base().Meta = (message.Meta{}); m.Text() == "" {
				m.Blocks[i] = providertest.Bare(b)
			} else if _, text := b.(*message.Text); !text {
				m.Blocks[i] = providertest.Bare(b)
			}
		default:
			m.Blocks[i] = maskShown(b)
		}
		if r, ok := b.(*message.ToolResult); ok {
			for j, c := range r.Content {
				r.Content[j] = maskShown(c)
			}
		}
	}
}

func maskModel(b message.Block) message.Block {
	c := b.Base()
	c.Meta.Fields = providertest.Members(c.Meta.Fields, "functionCall", "inlineData", "fileData")
	if c.Meta.Fields == nil {
		c.Meta = message.Meta{}
	}
	switch b := b.(type) {
	case *message.Text:
		if b.Text == "" && !hasSignature(c.Meta.Fields) {
			return providertest.Bare(b)
		}
		return b
	case *message.Reasoning:
		if c.Meta.Fields == nil || b.Text == "" && !hasSignature(c.Meta.Fields) {
			return providertest.Bare(b)
		}
		return b
	case *message.ToolCall:
		if strings.TrimSpace(string(b.Args)) == "" && len(b.Args) > 0 {
			b.Args = []byte("{}")
		}
		return b
	case *message.Image:
		if c.Meta.Fields != nil {
			return b
		}
	}
	return maskShown(b)
}

func maskShown(b message.Block) message.Block {
	b.Base().Meta = message.Meta{}
	switch b := b.(type) {
	case *message.Image:
		if !takes(b) {
			return providertest.Told(b, "[an image that cannot be shown here: "+b.URL+strings.Repeat(b.MIME, max(0, 1-len(b.URL)))+"]")
		}
	case *message.File:
		if words, whole := wire.FileText(b); !whole && !takes(b) {
			return providertest.Told(b, words)
		}
	}
	return b
}

func FuzzDecodeHistory(f *testing.F) {
	providertest.FuzzHistory(f, vendor("gemini-3-flash-preview", providertest.CheckGemini3),
		`[]`,
		`{"contents":[{"parts":[{"text":"Hi"}]}],"system_instruction":{"parts":{"text":"Be brief."}}}`,
		`{"system_instruction":"Be brief.","contents":[{"role":"user","parts":[{"text":"What is it?"},{"inline_data":{"mime_type":"image/png","data":"iVBORw=="}},{"fileData":{"fileUri":"https://example.com/a.pdf"}},{"inlineData":{"mimeType":"application/pdf","data":"JVBERg==","displayName":"a.pdf"}}]},{"role":"model","parts":[{"text":"A picture."}]}]}`,
		`[{"role":"user","parts":[{"text":"Go"}]},{"role":"model","parts":[{"text":"Hm.","thought":true},{"text":"","thoughtSignature":"AAAA"},{"functionCall":{"id":"a","name":"math__add","args":{"a": 1}},"thought_signature":"BBBB"},{"functionCall":{"name":"now"}},{"inlineData":{"mimeType":"image/png","data":"iVBORw=="},"thoughtSignature":"CCCC"}]},{"role":"user","parts":[{"functionResponse":{"id":"a","name":"math__add","response":{"error":"[denied] no"}}},{"functionResponse":{"name":"now","response":{"time":"12:00"},"parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw=="}}]}}]},{"role":"model","parts":[{"text":"Done"}]}]`,
		`[{"role":"user","parts":[{"text":"Go"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{"_malformed_arguments":"{"}},"thoughtSignature":"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="}]},{"role":"function","parts":[{"functionResponse":{"name":"f","response":{"output":"42"},"willContinue":false}}]}]`,
	)
}

// TestOthers: what other programs write.
func TestOthers(t *testing.T) {
	providertest.Reads(t, New(Options{}).Codec("").Decode, `{"system_instruction":{"parts":{"text":"Be brief."}},"contents":[
		{"parts":[{"text":"Go"},{"inline_data":{"mime_type":"image/png","data":"AAEC"}},{"fileData":{"fileUri":"https://x.org/a.pdf","displayName":"a"},"videoMetadata":{"fps":1}}]},
		{"role":"model","parts":[{"thought_signature":"QUJD","function_call":{"name":"math__add","args":{"a": 1}}},{"functionCall":{"name":"now"}}]},
		{"role":"function","x":7,"parts":[{"functionResponse":{"name":"now","response":{"time":"12:00"}}},{"function_response":{"name":"math__add","response":{"error":"boom"},"willContinue":false}}]},
		{"role":"model","parts":[{"text":"Hm.","thought":true},{"text":"Done."},{"text":"","thoughtSignature":"REVG"}]}]}`,
		`{"role":"system","blocks":[{"type":"text","text":"Be brief."}]}`,
		`{"role":"user","blocks":[{"type":"text","text":"Go"},{"type":"image","mime":"image/png","data":"AAEC"},{"type":"file","mime":"application/pdf","name":"a","url":"https://x.org/a.pdf","meta":{"provider":"gemini","fields":{"videoMetadata":{"fps":1}}}}]}`,
		`{"role":"assistant","blocks":[{"type":"tool_call","call_id":"gemini-call-481f735f3e77-0","name":"math.add","args":"{\"a\": 1}","meta":{"provider":"gemini","fields":{"thoughtSignature":"QUJD"}}},{"type":"tool_call","call_id":"gemini-call-481f735f3e77-1","name":"now","args":"{}"}]}`,
		`{"role":"tool","blocks":[{"type":"tool_result","call":"#2/1","call_id":"gemini-call-481f735f3e77-1","name":"now","status":"ok","content":[{"type":"text","text":"{\"time\":\"12:00\"}"}],"meta":{"provider":"gemini","fields":{"content":{"x":7}}}}]}`,
		`{"role":"tool","blocks":[{"type":"tool_result","call":"#2/0","call_id":"gemini-call-481f735f3e77-0","name":"math.add","status":"error","content":[{"type":"text","text":"boom"}],"meta":{"provider":"gemini","fields":{"willContinue":false}}}]}`,
		`{"role":"assistant","blocks":[{"type":"reasoning","text":"Hm.","meta":{"provider":"gemini","fields":{"thought":true}}},{"type":"text","text":"Done."},{"type":"reasoning","meta":{"provider":"gemini","fields":{"thoughtSignature":"REVG"}}}],"final":true}`,
	)
	providertest.Reads(t, New(Options{}).Codec("").Decode, `{"systemInstruction":"Be brief.","contents":[{"role":"user","parts":[]}]}`,
		`{"role":"system","blocks":[{"type":"text","text":"Be brief."}]}`, `{"role":"user","blocks":[{"type":"text"}]}`)
	for in, want := range map[string]string{"a": "a", "a_b_c": "aBC", "_a": "A", "a_": "a", "a__b": "aB", "": ""} {
		if got := camel(in); got != want {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}

func TestUnreadable(t *testing.T) {
	user := func(part string) string { return `[{"role":"user","parts":[` + part + `]}]` }
	providertest.Refuses(t, New(Options{}).Codec("").Decode,
		providertest.Unreadable{In: `[{"role":"assistant"}]`, Code: wire.CodeRole, At: "contents[0].role"},
		providertest.Unreadable{In: user(`{"executableCode":{}}`), Code: wire.CodePart, At: "contents[0].parts[0]"},
		providertest.Unreadable{In: user(`{"text":"a","inlineData":{"mimeType":"image/png","data":"AAEC"}}`), Code: wire.CodePart, At: "contents[0].parts[0]"},
		providertest.Unreadable{In: user(`{"text":5}`), Code: wire.CodeHistory, At: "contents[0].parts[0].text"},
		providertest.Unreadable{In: user(`{"fileData":{}}`), Code: wire.CodeHistory, At: "contents[0].parts[0].fileData"},
		providertest.Unreadable{In: user(`{"functionCall":{"name":"f"}}`), Code: wire.CodeHistory, At: "contents[0]"},
		providertest.Unreadable{In: user(`{"functionResponse":{"name":"f"}}`), Code: wire.CodeStray, At: "contents[0].parts[0].functionResponse"},
		providertest.Unreadable{In: `[{"role":"model","parts":[{"text":"x","thoughtSignature":"?"}]}]`, Code: wire.CodeHistory, At: "contents[0].parts[0].thoughtSignature"},
		providertest.Unreadable{In: `[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"parts":[{"functionResponse":{"name":"f","parts":[{"functionCall":{"name":"g"}}]}}]}]`, Code: wire.CodePart, At: "contents[1].parts[0].functionResponse.parts"},
		providertest.Unreadable{In: `[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"parts":[{"text":"x"}]}]`, Code: wire.CodeUnanswered, At: "contents[0]"},
	)
}
