package ollama

import (
	"cmp"
	"strings"
	"testing"

	"steward/internal/message"
	"steward/internal/provider/providertest"
	"steward/internal/provider/wire"
)

// meta is what the streams bring.
func meta(b message.Block) string {
	if _, ok := b.(*message.ToolCall); ok {
		return `{"call":{"x":[ 1]},"function":{"index":0}}`
	}
	return ""
}

// mask is the table in decode.go.
func mask(m *message.Message) {
	m.Meta = message.Meta{}
	own := strings.HasPrefix(m.Model, "ollama/")
	said := ""
	for i, b := range m.Blocks {
		if m.Role == message.Assistant {
			m.Blocks[i] = maskModel(b, own)
		} else {
			m.Blocks[i] = maskShown(b, m.Role != message.System, &said)
		}
		if r, ok := b.(*message.ToolResult); ok {
			said := "Returned by"
			for j, c := range r.Content {
				if _, text := c.(*message.Text); !text { // which goes before
					r.Content[j] = maskShown(c, true, &said)
				}
				r.Content[j].Base().Meta = message.Meta{}
			}
		}
	}
}

func maskModel(b message.Block, own bool) message.Block {
	c := b.Base()
	switch b := b.(type) {
	case *message.Reasoning:
		marked := string(c.Meta.Fields) == thinkingMeta
		if b.Text == "" || !own && !marked {
			return providertest.Bare(b)
		}
	case *message.ToolCall:
		if strings.TrimSpace(string(b.Args)) == "" && len(b.Args) > 0 {
			b.Args = []byte("{}")
		}
	case *message.Image:
		c.Meta = message.Meta{}
		if b.URL != "" {
			return providertest.Bare(b)
		}
	case *message.Text:
		c.Meta = message.Meta{}
	default:
		return providertest.Bare(b)
	}
	return b
}

// maskShown: what a block is told as stands on lines of its own after what was
// said before.
func maskShown(b message.Block, shows bool, said *string) message.Block {
	b.Base().Meta = message.Meta{}
	words := ""
	switch b := b.(type) {
	case *message.Text:
		*said += b.Text
		return b
	case *message.Image:
		if b.URL == "" && shows {
			return b
		}
		words = "[an image that cannot be shown here: " + cmp.Or(b.URL, b.MIME) + "]"
	case *message.File:
		var whole bool
		if words, whole = wire.FileText(b); whole {
			*said += words
			return b
		}
	default:
		return b
	}
	if *said != "" {
		words = "\n" + words
	}
	*said += words + "\n"
	return providertest.Told(b, words+"\n")
}

func FuzzDecodeHistory(f *testing.F) {
	providertest.FuzzHistory(f, vendor("qwen3:8b", "completion", "tools", "thinking", "vision"),
		`[]`,
		`[{"role":"system","content":"Be brief."},{"role":"user","content":"What is it?","images":["iVBORw==","data:image/png;base64,iVBORw=="]}]`,
		`{"model":"m","messages":[{"role":"user","content":"Go"},{"role":"assistant","content":"","thinking":"Hm.","tool_calls":[{"id":"a","function":{"index":0,"name":"math__add","arguments":{"a": 1}},"x":1},{"type":"function","function":{"name":"now","arguments":"{\"_malformed_arguments\":\"{\"}"}}]},{"role":"tool","content":"[denied] no","tool_name":"math__add","tool_call_id":"a"},{"role":"tool","content":"12:00","images":["iVBORw=="]},{"role":"assistant","content":"Done","images":["iVBORw=="]}]}`,
		`[{"role":"user","content":null},{"role":"assistant","tool_calls":[{"function":{"name":"f"}},{"function":{"name":"g"}}]},{"role":"tool","name":"g","content":"2"},{"role":"tool","content":""},{"role":"user","name":"bob","content":""}]`,
	)
}

// TestOthers: what other programs write.
func TestOthers(t *testing.T) {
	providertest.Reads(t, New(Options{}).Codec("").Decode, `{"model":"m","messages":[
		{"role":"system","content":"Be brief."},
		{"role":"user","content":"Go","images":["iVBORw0KGgo=","data:image/gif;base64,AAEC"],"x":1},
		{"role":"assistant","content":"","thinking":"Hm.","tool_calls":[{"function":{"index":0,"name":"math__add","arguments":{"a": 1}}},{"id":"b","type":"function","function":{"name":"now","arguments":"{}"}}]},
		{"role":"tool","content":"[denied] no","tool_call_id":"b"},
		{"role":"tool","content":"2"},
		{"role":"assistant","content":"Two."}]}`,
		`{"role":"system","blocks":[{"type":"text","text":"Be brief."}]}`,
		`{"role":"user","blocks":[{"type":"text","text":"Go"},{"type":"image","mime":"image/png","data":"iVBORw0KGgo="},{"type":"image","mime":"image/gif","data":"AAEC"}],"meta":{"provider":"ollama","fields":{"x":1}}}`,
		`{"role":"assistant","blocks":[{"type":"reasoning","text":"Hm.","meta":{"provider":"ollama","fields":{"field":"thinking"}}},{"type":"tool_call","call_id":"ollama-call-09a9e86feee3-0","name":"math.add","args":"{\"a\": 1}","meta":{"provider":"ollama","fields":{"function":{"index":0}}}},{"type":"tool_call","call_id":"b","name":"now","args":"{}"}]}`,
		`{"role":"tool","blocks":[{"type":"tool_result","call":"#2/2","call_id":"b","name":"now","status":"denied","content":[{"type":"text","text":"no"}]}]}`,
		`{"role":"tool","blocks":[{"type":"tool_result","call":"#2/1","call_id":"ollama-call-09a9e86feee3-0","name":"math.add","status":"ok","content":[{"type":"text","text":"2"}]}]}`,
		`{"role":"assistant","blocks":[{"type":"text","text":"Two."}],"final":true}`,
	)
}

func TestUnreadable(t *testing.T) {
	providertest.Refuses(t, New(Options{}).Codec("").Decode,
		providertest.Unreadable{In: `[{"role":"developer","content":""}]`, Code: wire.CodeRole, At: "messages[0].role"},
		providertest.Unreadable{In: `[{"role":"user","content":["a"]}]`, Code: wire.CodeHistory, At: "messages[0].content"},
		providertest.Unreadable{In: `[{"role":"user","images":["?"]}]`, Code: wire.CodeHistory, At: "messages[0].images[0]"},
		providertest.Unreadable{In: `[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":[]}}]}]`, Code: wire.CodeHistory, At: "messages[0].tool_calls[0].function.arguments"},
		providertest.Unreadable{In: `[{"role":"assistant","tool_calls":[{"function":{}}]}]`, Code: wire.CodeHistory, At: "messages[0]"},
		providertest.Unreadable{In: `[{"role":"tool","content":"x"}]`, Code: wire.CodeStray, At: "messages[0]"},
		providertest.Unreadable{In: `[{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]},{"role":"assistant","content":"x"},{"role":"user","content":"y"}]`, Code: wire.CodeUnanswered, At: "messages[0]"},
	)
}
