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
