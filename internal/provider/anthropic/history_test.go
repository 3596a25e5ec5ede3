package anthropic_test

import (
	"slices"
	"strings"
	"testing"

	"steward/internal/message"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/providertest"
	"steward/internal/provider/wire"
)

// meta is what the streams bring.
func meta(b message.Block) string {
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
}

// known are members that the API takes back.
func known(b message.Block) []string {
	if r, ok := b.(*message.Reasoning); ok {
		if strings.HasPrefix(string(r.Meta.Fields), `{"data":`) {
			return []string{"data"}
		}
		return []string{"signature"}
	}
	return []string{"caller"}
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// mask is the table in decode.go, for turns that are one message of the model's.
func mask(model string) func(m *message.Message) {
	return func(m *message.Message) {
		m.Meta = message.Meta{}
		last := -1
		for i, b := range m.Blocks {
			t, text := b.(*message.Text)
			_, call := b.(*message.ToolCall)
			if call || text && !blank(t.Text) {
				last = i
			}
		}
		for i, b := range m.Blocks {
			own := m.Model == "" || m.Model == model
			switch m.Role {
			case message.Assistant:
				m.Blocks[i] = maskModel(b, own && i < last)
			case message.System:
				m.Blocks[i] = maskSystem(b, blank(m.Text()))
			default:
				m.Blocks[i] = maskShown(b, false)
			}
			if r, ok := b.(*message.ToolResult); ok {
				spaces := !blank(r.Text()) || slices.ContainsFunc(r.Content, told)
				for j, c := range r.Content {
					r.Content[j] = maskShown(c, spaces)
				}
			}
		}
	}
}

func maskModel(b message.Block, thinks bool) message.Block {
	c := b.Base()
	switch b := b.(type) {
	case *message.Text:
		c.Meta = message.Meta{}
		if blank(b.Text) {
			b.Text = ""
		}
	case *message.Reasoning:
		fields := string(c.Meta.Fields)
		if !thinks || !strings.Contains(fields, `"signature"`) && !strings.Contains(fields, `"data"`) {
			return providertest.Bare(b)
		}
		if strings.HasPrefix(fields, `{"data":`) {
			b.Text = ""
		}
	case *message.ToolCall:
		if blank(string(b.Args)) && len(b.Args) > 0 {
			b.Args = []byte("{}")
		}
	default:
		return providertest.Bare(b)
	}
	return b
}

func maskSystem(b message.Block, silent bool) message.Block {
	b.Base().Meta = message.Meta{}
	if t, ok := b.(*message.Text); ok {
		if silent {
			t.Text = ""
		}
		return t
	}
	return providertest.Bare(b)
}

// maskShown: in a result white space goes with the other text, if there is any.
func maskShown(b message.Block, spaces bool) message.Block {
	b.Base().Meta = message.Meta{}
	switch b := b.(type) {
	case *message.Text:
		if !spaces && blank(b.Text) {
			b.Text = ""
		}
	case *message.Image:
		if mime, data, ok := wire.DataURL(b.URL); ok {
			b.MIME, b.Data, b.URL = mime, data, ""
		}
		if told(b) {
			return providertest.Told(b, "[an image that cannot be shown: "+b.MIME+" "+wire.Short(b.URL)+"]")
		}
	case *message.File:
		words, whole := wire.FileText(b)
		if !whole && told(b) {
			return providertest.Told(b, words)
		}
	}
	return b
}

// told reports whether an image or a file goes in words.
func told(b message.Block) bool {
	switch b := b.(type) {
	case *message.Image:
		mime, inline := b.MIME, len(b.Data) > 0
		if m, data, ok := wire.DataURL(b.URL); ok {
			mime, inline = m, len(data) > 0
		}
		fits := slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, mime)
		return !(fits && inline) && !strings.HasPrefix(b.URL, "https://")
	case *message.File:
		pdf := strings.HasPrefix(b.MIME, "application/pdf")
		return !pdf || len(b.Data) == 0 && !strings.HasPrefix(b.URL, "https://")
	}
	return false
}

func FuzzDecodeHistory(f *testing.F) {
	providertest.FuzzHistory(f, vendor("claude-opus-4-6"),
		`[]`,
		`[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]`,
		`{"model":"m","system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}},{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}},{"type":"image","source":{"type":"file","file_id":"f1"}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"notes"},"title":"notes.txt","citations":{"enabled":true}},{"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERg=="},"context":"c"}]}]}`,
		`[{"role":"user","content":"Go"},{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"sig="},{"type":"redacted_thinking","data":"data="},{"type":"text","text":"Let me see."},{"type":"tool_use","id":"toolu_1","name":"math__add","input":{"a": 1},"caller":{"type":"direct"}}]},{"role":"assistant","content":[{"type":"tool_use","name":"now","input":{"malformed_arguments":"{"}}]},{"role":"user","content":[{"type":"text","text":"Hurry"},{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":"[denied] no"},{"type":"tool_result","content":[{"type":"text","text":"12:00"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}}]}]},{"role":"assistant","content":"Done"}]`,
		`{"system":"S","messages":[{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"thinking","thinking":"unsigned"}]},{"role":"system","content":"x"},{"role":"user","content":[]}]}`,
	)
}

// TestOthers: what other programs write.
func TestOthers(t *testing.T) {
	providertest.Reads(t, anthropic.New(anthropic.Options{}).Codec("").Decode, `{"model":"m","system":"Be brief.","messages":[
		{"role":"user","content":[{"type":"text","text":"Go","cache_control":{"type":"ephemeral"}},{"type":"document","source":{"type":"text","data":"notes"},"title":"n.txt","citations":{"enabled":true}}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"s\/="},{"type":"tool_use","id":"a","name":"math__add","input":{"a": 1}}]},
		{"role":"assistant","content":[{"type":"tool_use","name":"now","input":{}}]},
		{"role":"user","content":[{"type":"text","text":"Well?"},{"type":"tool_result","tool_use_id":"a","is_error":true,"content":"boom","x":1},{"type":"tool_result","content":[{"type":"text","text":"12:00"}]}]},
		{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"now","input":{}}]},
		{"role":"user","uuid":7,"content":[{"type":"tool_result","tool_use_id":"c"}]},
		{"role":"assistant","content":"Done."}]}`,
		`{"role":"system","blocks":[{"type":"text","text":"Be brief."}]}`,
		`{"role":"user","blocks":[{"type":"text","text":"Go"},{"type":"file","mime":"text/plain","name":"n.txt","data":"bm90ZXM=","meta":{"provider":"anthropic","fields":{"citations":{"enabled":true}}}}]}`,
		`{"role":"assistant","blocks":[{"type":"reasoning","text":"Hm.","meta":{"provider":"anthropic","fields":{"signature":"s\/="}}},{"type":"tool_call","call_id":"a","name":"math.add","args":"{\"a\": 1}"},{"type":"tool_call","call_id":"toolu_b181f82b1f56-1","name":"now","args":"{}"}]}`,
		`{"role":"tool","blocks":[{"type":"tool_result","call":"#2/1","call_id":"a","name":"math.add","status":"error","content":[{"type":"text","text":"boom"}],"meta":{"provider":"anthropic","fields":{"x":1}}}]}`,
		`{"role":"tool","blocks":[{"type":"tool_result","call":"#2/2","call_id":"toolu_b181f82b1f56-1","name":"now","status":"ok","content":[{"type":"text","text":"12:00"}]}]}`,
		`{"role":"user","blocks":[{"type":"text","text":"Well?"}]}`,
		`{"role":"assistant","blocks":[{"type":"tool_call","call_id":"c","name":"now","args":"{}"}]}`,
		`{"role":"tool","blocks":[{"type":"tool_result","call":"#6/0","call_id":"c","name":"now","status":"ok","meta":{"provider":"anthropic","fields":{"message":{"uuid":7}}}}]}`,
		`{"role":"assistant","blocks":[{"type":"text","text":"Done."}],"final":true}`,
	)
	providertest.Reads(t, anthropic.New(anthropic.Options{}).Codec("").Decode, `[{"role":"user","content":[]},{"role":"system","content":["Hush."]}]`,
		`{"role":"user","blocks":[{"type":"text"}]}`, `{"role":"system","blocks":[{"type":"text","text":"Hush."}]}`)
}

func TestUnreadable(t *testing.T) {
	user := func(block string) string { return `[{"role":"user","content":[` + block + `]}]` }
	providertest.Refuses(t, anthropic.New(anthropic.Options{}).Codec("").Decode,
		providertest.Unreadable{In: `{"messages":[{"role":"tool"}]}`, Code: wire.CodeRole, At: "messages[0].role"},
		providertest.Unreadable{In: `[{"role":"user","content":5}]`, Code: wire.CodeHistory, At: "messages[0].content"},
		providertest.Unreadable{In: user(`{"type":"search_result"}`), Code: wire.CodePart, At: "messages[0].content[0]"},
		providertest.Unreadable{In: user(`{"type":"text","text":[]}`), Code: wire.CodeHistory, At: "messages[0].content[0].text"},
		providertest.Unreadable{In: user(`{"type":"image","source":{"type":"base64","data":"?"}}`), Code: wire.CodeHistory, At: "messages[0].content[0].source.data"},
		providertest.Unreadable{In: user(`{"type":"image"}`), Code: wire.CodeHistory, At: "messages[0].content[0].source"},
		providertest.Unreadable{In: user(`{"type":"tool_result","tool_use_id":"a"}`), Code: wire.CodeStray, At: "messages[0].content[0]"},
		providertest.Unreadable{In: user(`{"type":"thinking","thinking":"x"}`), Code: wire.CodeHistory, At: "messages[0]"},
		providertest.Unreadable{In: `[{"role":"assistant","content":[{"type":"redacted_thinking"}]}]`, Code: wire.CodeHistory, At: "messages[0].content[0]"},
		providertest.Unreadable{In: `[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":"x"}]}]`, Code: wire.CodeHistory, At: "messages[0].content[0].input"},
		providertest.Unreadable{In: `[{"role":"assistant","content":[{"type":"tool_use","name":"f"}]},{"role":"user","content":"x"}]`, Code: wire.CodeUnanswered, At: "messages[0]"},
	)
}
