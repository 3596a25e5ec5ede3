package openai_test

import (
	"cmp"
	"net/url"
	"strings"
	"testing"

	"steward/internal/message"
	"steward/internal/provider/openai"
	"steward/internal/provider/providertest"
	"steward/internal/provider/wire"
)

// meta is what the streams of compatible servers bring.
func meta(b message.Block) string {
	switch b := b.(type) {
	case nil:
		return `{"reasoning_details":[ {"type":"reasoning.encrypted","data":"gAAA\/=="} ]}`
	case *message.Reasoning:
		return `{"field":"reasoning_content"}`
	case *message.Text:
		if b.Text != "" {
			return `{"refusal":true}`
		}
	case *message.ToolCall:
		return `{"extra_content":{"google": {"thought_signature":"EqoB\/+="}}}`
	}
	return ""
}

// known are members that the API, or a compatible one, takes back, and those
// that are Steward's own.
func known(b message.Block) []string {
	switch b.(type) {
	case nil:
		return []string{"reasoning_details"}
	case *message.ToolCall:
		return []string{"extra_content"}
	}
	return []string{"field", "refusal"}
}

// mask is the table in decode.go.
func mask(m *message.Message, official bool) {
	says := func(b message.Block) bool {
		t, text := b.(*message.Text)
		_, call := b.(*message.ToolCall)
		return call || text && t.Text != ""
	}
	silent := true
	for _, b := range m.Blocks {
		silent = silent && !says(b)
	}
	m.Meta.Fields = providertest.Members(m.Meta.Fields, "annotations", "audio", "images", "citations")
	if m.Role != message.Assistant || official || silent || m.Meta.Fields == nil {
		m.Meta = message.Meta{}
	}
	for i, b := range m.Blocks {
		if m.Role == message.Assistant {
			m.Blocks[i] = maskModel(b, official, len(m.Calls()) > 0)
		} else {
			m.Blocks[i] = maskShown(b, m.Role != message.System)
		}
		if r, ok := b.(*message.ToolResult); ok {
			for j, c := range r.Content {
				r.Content[j] = maskShown(c, true)
			}
		}
	}
}

func maskModel(b message.Block, official, calls bool) message.Block {
	c := b.Base()
	switch b := b.(type) {
	case *message.Text:
		refusal := b.Text != "" && strings.HasPrefix(string(c.Meta.Fields), `{"refusal":true`)
		if c.Meta = (message.Meta{}); refusal {
			c.Meta = message.Meta{Provider: "openai", Fields: []byte(`{"refusal":true}`)}
		}
	case *message.Reasoning:
		if !calls || b.Text == "" || string(c.Meta.Fields) != `{"field":"reasoning_content"}` {
			return providertest.Bare(b)
		}
	case *message.ToolCall:
		c.Meta.Fields = providertest.Members(c.Meta.Fields, "function", "annotations", "audio", "images", "citations")
		if official || c.Meta.Fields == nil {
			c.Meta = message.Meta{}
		}
	default:
		return providertest.Bare(b)
	}
	return b
}

func maskShown(b message.Block, shows bool) message.Block {
	b.Base().Meta = message.Meta{}
	switch b := b.(type) {
	case *message.Image:
		at, err := url.Parse(b.URL)
		fits := strings.HasPrefix(b.MIME, "image/") && wire.Printable(b.MIME)
		switch {
		case shows && b.URL == "" && fits:
		case shows && err == nil && (at.Scheme == "http" || at.Scheme == "https"):
		case shows && strings.HasPrefix(b.URL, "data:image/") && wire.Printable(b.URL) && strings.Contains(b.URL, ";base64,"):
		default:
			return providertest.Told(b, "[an image that cannot be shown here: "+wire.Short(cmp.Or(b.URL, b.MIME))+"]")
		}
	case *message.File:
		words, whole := wire.FileText(b)
		pdf := strings.HasPrefix(b.MIME, "application/pdf") && wire.Printable(b.MIME)
		if !whole && (!shows || b.URL != "" || len(b.Data) == 0 || !pdf) {
			return providertest.Told(b, words)
		}
	}
	return b
}

func FuzzDecodeHistory(f *testing.F) {
	providertest.FuzzHistory(f, vendor(openai.Compatible),
		`[]`,
		`[{"role":"user","content":"Hi"}]`,
		`{"model":"gpt-4.1","messages":[{"role":"developer","content":"Be brief."},{"role":"user","name":"bob","content":[{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"low"}},{"type":"image_url","image_url":"data:image/png;base64,iVBORw=="},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERg=="}},{"type":"file","file":{"file_id":"file-1"}},{"type":"input_audio","input_audio":{"data":"AAAA","format":"mp3"}}]}]}`,
		`[{"role":"user","content":"Go"},{"role":"assistant","content":null,"reasoning_content":"Hm.","tool_calls":[{"id":"a","type":"function","function":{"name":"math__add","arguments":"{\"a\": 1}"},"extra_content":{"x":1}},{"type":"function","function":{"name":"now","arguments":{}}}]},{"role":"tool","tool_call_id":"a","content":"[denied] no"},{"role":"tool","content":[{"type":"text","text":"12:00"}]},{"role":"assistant","content":[{"type":"text","text":"Done"},{"type":"refusal","refusal":"No"}],"refusal":"Never","annotations":[]}]`,
		`[{"role":"user","content":"Go"},{"role":"assistant","function_call":{"name":"f","arguments":"{"}},{"role":"function","name":"f","content":"42"}]`,
		`[{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]},{"type":"text","text":"Hi"}]},{"role":"user","content":""}]`,
	)
}

// TestOthers: what other programs write.
func TestOthers(t *testing.T) {
	providertest.Reads(t, openai.New(openai.Options{}).Codec("").Decode, `{"model":"m","temperature":1,"messages":[
		{"role":"developer","content":"Be brief."},
		{"role":"user","name":"bob","content":[{"type":"text","text":"What?"},{"type":"image_url","image_url":{"url":"https://x.org/a.png","detail":"low"}},"and?"]},
		{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"math__add","arguments":{"a": 1}}},{"id":"b","function":{"name":"now","arguments":""}}]},
		{"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"[error] no"}]},
		{"role":"tool","content":{"sum":2}},
		{"role":"assistant","reasoning":"Hm.","content":[{"type":"output_text","text":"Two."}]}]}`,
		`{"role":"system","blocks":[{"type":"text","text":"Be brief."}],"meta":{"provider":"openai","fields":{"role":"developer"}}}`,
		`{"role":"user","blocks":[{"type":"text","text":"What?"},{"type":"image","mime":"image/png","url":"https://x.org/a.png","meta":{"provider":"openai","fields":{"image_url":{"detail":"low"}}}},{"type":"text","text":"and?"}],"meta":{"provider":"openai","fields":{"name":"bob"}}}`,
		`{"role":"assistant","blocks":[{"type":"tool_call","call_id":"call_375ff9a0da05-0","name":"math.add","args":"{\"a\": 1}"},{"type":"tool_call","call_id":"b","name":"now"}]}`,
		`{"role":"tool","blocks":[{"type":"tool_result","call":"#2/1","call_id":"b","name":"now","status":"error","content":[{"type":"text","text":"no"}]}]}`,
		`{"role":"tool","blocks":[{"type":"tool_result","call":"#2/0","call_id":"call_375ff9a0da05-0","name":"math.add","status":"ok","content":[{"type":"text","text":"{\"sum\":2}"}]}]}`,
		`{"role":"assistant","blocks":[{"type":"reasoning","text":"Hm.","meta":{"provider":"openai","fields":{"field":"reasoning"}}},{"type":"text","text":"Two."}],"final":true}`,
	)
	providertest.Reads(t, openai.New(openai.Options{Name: "far"}).Codec("").Decode, `[{"role":"assistant","content":"Hi","x":1}]`,
		`{"role":"assistant","blocks":[{"type":"text","text":"Hi"}],"final":true,"meta":{"provider":"far","fields":{"x":1}}}`)
	providertest.Reads(t, openai.New(openai.Options{}).Codec("").Decode, `[]`)
}

func TestUnreadable(t *testing.T) {
	user := func(part string) string { return `[{"role":"user","content":[` + part + `]}]` }
	providertest.Refuses(t, openai.New(openai.Options{}).Codec("").Decode,
		providertest.Unreadable{In: `[`, Code: wire.CodeHistory},
		providertest.Unreadable{In: `"x"`, Code: wire.CodeHistory, At: "messages"},
		providertest.Unreadable{In: `{"messages":{}}`, Code: wire.CodeHistory, At: "messages"},
		providertest.Unreadable{In: `[5]`, Code: wire.CodeHistory, At: "messages[0]"},
		providertest.Unreadable{In: `[{"role":"king","content":""}]`, Code: wire.CodeRole, At: "messages[0].role"},
		providertest.Unreadable{In: `[{"role":"user","content":5}]`, Code: wire.CodeHistory, At: "messages[0].content"},
		providertest.Unreadable{In: user(`{"type":"video"}`), Code: wire.CodePart, At: "messages[0].content[0]"},
		providertest.Unreadable{In: user(`"a",{"type":"text"}`), Code: wire.CodePart, At: "messages[0].content[1]"},
		providertest.Unreadable{In: user(`{"type":"image_url","image_url":{}}`), Code: wire.CodeHistory, At: "messages[0].content[0].image_url"},
		providertest.Unreadable{In: user(`{"type":"file","file":{"file_data":"?"}}`), Code: wire.CodeHistory, At: "messages[0].content[0].file.file_data"},
		providertest.Unreadable{In: user(`{"type":"thinking","thinking":"x"}`), Code: wire.CodeHistory, At: "messages[0]"},
		providertest.Unreadable{In: `[{"role":"assistant","tool_calls":[{"type":"custom"}]}]`, Code: wire.CodePart, At: "messages[0].tool_calls[0].type"},
		providertest.Unreadable{In: `[{"role":"assistant","tool_calls":[{"function":{"arguments":"{}"}}]}]`, Code: wire.CodeHistory, At: "messages[0]"},
		providertest.Unreadable{In: `[{"role":"tool","tool_call_id":"a","content":""}]`, Code: wire.CodeStray, At: "messages[0]"},
		providertest.Unreadable{In: `[{"role":"assistant","function_call":{"name":"f"}},{"role":"user","content":"x"}]`, Code: wire.CodeUnanswered, At: "messages[0]"},
	)
}
