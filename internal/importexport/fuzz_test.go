package importexport_test

import (
	"bytes"
	"context"
	"testing"

	"steward/internal/importexport"
)

// fuzz reads any input: nothing panics, and all chats obey the rules of histories
// (see read and check).
func fuzz(f *testing.F, format string, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	dir, forms := f.TempDir(), codecs()
	f.Fuzz(func(t *testing.T, b []byte) {
		o := importexport.Options{Format: format, MaxChat: 1 << 20, MaxTotal: 4 << 20, TempDir: dir, Codecs: forms}
		for c, err := range importexport.Read(context.Background(), bytes.NewReader(b), o) {
			if err != nil {
				continue
			}
			check(t, c)
			if c.Own != nil {
				for range c.Own.Messages {
				}
			}
		}
	})
}

func FuzzChatGPT(f *testing.F) {
	fuzz(f, importexport.ChatGPT, string(file(f, "chatgpt.json")),
		`{"mapping":{"a":{"message":{"author":{"role":"tool","name":"x"},"content":{"content_type":"thoughts","thoughts":[{"summary":"s"}]}}}}}`)
}

func FuzzClaude(f *testing.F) {
	fuzz(f, importexport.Claude, string(file(f, "claude.json")),
		`{"chat_messages":[{"sender":"assistant","content":[{"type":"tool_use","id":"1","name":"n","input":{}},{"type":"tool_result","tool_use_id":"1","content":"x"}]}]}`)
}

func FuzzSteward(f *testing.F) {
	text, _ := example(f)
	fuzz(f, importexport.Steward, text, `[`+text+`]`, `{"steward_export":1,"id":"01a1ff6c-5903-7932-ab09-9f1216b4128a","messages":[{}]}`)
}

func FuzzZip(f *testing.F) {
	fuzz(f, importexport.Auto, string(archive(f, map[string]string{"conversations.json": `[{"messages":[{"role":"user","content":"a"}]}]`, "file-a.png": "x"})))
}

func FuzzAuto(f *testing.F) {
	fuzz(f, "", `{"conversations":[{"messages":[]}],"a":{"b":"\""}}`, "[1,\"a\\\"]\",{}]", "\xef\xbb\xbf[]", `{"a":1}{"b":2}`, "{}\n[\n",
		`[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"x"}]`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,x"}}]}]}`, "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"tool\",\"content\":1}",
		`{"system":"S","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"x"},{"type":"hologram"}]}]}`,
		`{"contents":[{"parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"f"}},{"hologram":1}]},{"parts":[{"functionResponse":{"name":"f","response":{"output":"x"}}}]}]}`,
		`{"messages":[{"role":"user","content":"a","images":["AA=="]},{"role":"assistant","content":"","thinking":"x","tool_calls":[{"function":{"name":"f","arguments":{}}}]}]}`)
}
