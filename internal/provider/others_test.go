package provider_test

import (
	"strconv"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/gemini"
	"steward/internal/provider/ollama"
	"steward/internal/provider/openai"
	"steward/internal/provider/wire"
)

var anthropicSeeds = []string{
	`[]`,
	`[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]`,
	`{"model":"m","system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}},{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}},{"type":"image","source":{"type":"file","file_id":"f1"}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"notes"},"title":"notes.txt","citations":{"enabled":true}},{"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERg=="},"context":"c"}]}]}`,
	`[{"role":"user","content":"Go"},{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"sig="},{"type":"redacted_thinking","data":"data="},{"type":"text","text":"Let me see."},{"type":"tool_use","id":"toolu_1","name":"math__add","input":{"a": 1},"caller":{"type":"direct"}}]},{"role":"assistant","content":[{"type":"tool_use","name":"now","input":{"malformed_arguments":"{"}}]},{"role":"user","content":[{"type":"text","text":"Hurry"},{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":"[denied] no"},{"type":"tool_result","content":[{"type":"text","text":"12:00"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}}]}]},{"role":"assistant","content":"Done"}]`,
	`{"system":"S","messages":[{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"thinking","thinking":"unsigned"}]},{"role":"system","content":"x"},{"role":"user","content":[]}]}`,
}

var geminiSeeds = []string{
	`[]`,
	`{"contents":[{"parts":[{"text":"Hi"}]}],"system_instruction":{"parts":{"text":"Be brief."}}}`,
	`{"system_instruction":"Be brief.","contents":[{"role":"user","parts":[{"text":"What is it?"},{"inline_data":{"mime_type":"image/png","data":"iVBORw=="}},{"fileData":{"fileUri":"https://example.com/a.pdf"}},{"inlineData":{"mimeType":"application/pdf","data":"JVBERg==","displayName":"a.pdf"}}]},{"role":"model","parts":[{"text":"A picture."}]}]}`,
	`[{"role":"user","parts":[{"text":"Go"}]},{"role":"model","parts":[{"text":"Hm.","thought":true},{"text":"","thoughtSignature":"AAAA"},{"functionCall":{"id":"a","name":"math__add","args":{"a": 1}},"thought_signature":"BBBB"},{"functionCall":{"name":"now"}},{"inlineData":{"mimeType":"image/png","data":"iVBORw=="},"thoughtSignature":"CCCC"}]},{"role":"user","parts":[{"functionResponse":{"id":"a","name":"math__add","response":{"error":"[denied] no"}}},{"functionResponse":{"name":"now","response":{"time":"12:00"},"parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw=="}}]}}]},{"role":"model","parts":[{"text":"Done"}]}]`,
	`[{"role":"user","parts":[{"text":"Go"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{"_malformed_arguments":"{"}},"thoughtSignature":"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="}]},{"role":"function","parts":[{"functionResponse":{"name":"f","response":{"output":"42"},"willContinue":false}}]}]`,
}

var ollamaSeeds = []string{
	`[]`,
	`[{"role":"system","content":"Be brief."},{"role":"user","content":"What is it?","images":["iVBORw==","data:image/png;base64,iVBORw=="]}]`,
	`{"model":"m","messages":[{"role":"user","content":"Go"},{"role":"assistant","content":"","thinking":"Hm.","tool_calls":[{"id":"a","function":{"index":0,"name":"math__add","arguments":{"a": 1}},"x":1},{"type":"function","function":{"name":"now","arguments":"{\"_malformed_arguments\":\"{\"}"}}]},{"role":"tool","content":"[denied] no","tool_name":"math__add","tool_call_id":"a"},{"role":"tool","content":"12:00","images":["iVBORw=="]},{"role":"assistant","content":"Done","images":["iVBORw=="]}]}`,
	`[{"role":"user","content":null},{"role":"assistant","tool_calls":[{"function":{"name":"f"}},{"function":{"name":"g"}}]},{"role":"tool","name":"g","content":"2"},{"role":"tool","content":""},{"role":"user","name":"bob","content":""}]`,
}

var openaiSeeds = []string{
	`[]`,
	`[{"role":"user","content":"Hi"}]`,
	`{"model":"gpt-4.1","messages":[{"role":"developer","content":"Be brief."},{"role":"user","name":"bob","content":[{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"low"}},{"type":"image_url","image_url":"data:image/png;base64,iVBORw=="},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERg=="}},{"type":"file","file":{"file_id":"file-1"}},{"type":"input_audio","input_audio":{"data":"AAAA","format":"mp3"}}]}]}`,
	`[{"role":"user","content":"Go"},{"role":"assistant","content":null,"reasoning_content":"Hm.","tool_calls":[{"id":"a","type":"function","function":{"name":"math__add","arguments":"{\"a\": 1}"},"extra_content":{"x":1}},{"type":"function","function":{"name":"now","arguments":{}}}]},{"role":"tool","tool_call_id":"a","content":"[denied] no"},{"role":"tool","content":[{"type":"text","text":"12:00"}]},{"role":"assistant","content":[{"type":"text","text":"Done"},{"type":"refusal","refusal":"No"}],"refusal":"Never","annotations":[]}]`,
	`[{"role":"user","content":"Go"},{"role":"assistant","function_call":{"name":"f","arguments":"{"}},{"role":"function","name":"f","content":"42"}]`,
	`[{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]},{"type":"text","text":"Hi"}]},{"role":"user","content":""}]`,
}

var responsesSeeds = []string{
	`[]`,
	`"Hi"`,
	`{"model":"gpt-5.4","instructions":"Be brief.","input":[{"role":"developer","content":"Rhyme."},{"type":"message","role":"user","content":[{"type":"input_text","text":"What is it?"},{"type":"input_image","image_url":"https://example.com/a.png","detail":"low"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw==","detail":"auto"},{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERg=="},{"type":"input_file","file_id":"file-1"},{"type":"input_file","file_url":"https://example.com/a.pdf"}]}]}`,
	`[{"role":"user","content":"Go"},{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"gAAA"},{"type":"message","id":"msg_1","status":"completed","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"Let me see.","annotations":[{"type":"url_citation","url":"https://example.com","title":"E","start_index":0,"end_index":3}],"logprobs":[]},{"type":"refusal","refusal":"No"}]},{"type":"function_call","id":"fc_1","call_id":"a","name":"math__add","arguments":"{\"a\": 1}","status":"completed"},{"type":"function_call","call_id":"b","name":"now","arguments":{}},{"type":"function_call_output","call_id":"a","output":"[denied] no"},{"type":"function_call_output","call_id":"b","output":[{"type":"input_text","text":"12:00"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw=="}]},{"role":"assistant","content":"Done"}]`,
	`[{"role":"user","content":"Go"},{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"x"}},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi"}]},{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"Hm"}]},{"type":"item_reference","id":"x"}]`,
}

// TestOthers: what other programs write is read as messages, here in their
// stored form, in which ids stand as "#0", "#1", … and the message's own and its
// predecessor's are left out.
func TestOthers(t *testing.T) {
	reads(t, anthropic.New(anthropic.Options{}).Codec(""), `{"model":"m","system":"Be brief.","messages":[
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
		`{"role":"assistant","blocks":[{"type":"text","text":"Done."}],"final":true}`)
	reads(t, anthropic.New(anthropic.Options{}).Codec(""), `[{"role":"user","content":[]},{"role":"system","content":["Hush."]}]`,
		`{"role":"user","blocks":[{"type":"text"}]}`, `{"role":"system","blocks":[{"type":"text","text":"Hush."}]}`)
	reads(t, gemini.New(gemini.Options{}).Codec(""), `{"system_instruction":{"parts":{"text":"Be brief."}},"contents":[
		{"parts":[{"text":"Go"},{"inline_data":{"mime_type":"image/png","data":"AAEC"}},{"fileData":{"fileUri":"https://x.org/a.pdf","displayName":"a"},"videoMetadata":{"fps":1}}]},
		{"role":"model","parts":[{"thought_signature":"QUJD","function_call":{"name":"math__add","args":{"a": 1}}},{"functionCall":{"name":"now"}}]},
		{"role":"function","x":7,"parts":[{"functionResponse":{"name":"now","response":{"time":"12:00"}}},{"function_response":{"name":"math__add","response":{"error":"boom"},"willContinue":false}}]},
		{"role":"model","parts":[{"text":"Hm.","thought":true},{"text":"Done."},{"text":"","thoughtSignature":"REVG"}]}]}`,
		`{"role":"system","blocks":[{"type":"text","text":"Be brief."}]}`,
		`{"role":"user","blocks":[{"type":"text","text":"Go"},{"type":"image","mime":"image/png","data":"AAEC"},{"type":"file","mime":"application/pdf","name":"a","url":"https://x.org/a.pdf","meta":{"provider":"gemini","fields":{"videoMetadata":{"fps":1}}}}]}`,
		`{"role":"assistant","blocks":[{"type":"tool_call","call_id":"gemini-call-481f735f3e77-0","name":"math.add","args":"{\"a\": 1}","meta":{"provider":"gemini","fields":{"thoughtSignature":"QUJD"}}},{"type":"tool_call","call_id":"gemini-call-481f735f3e77-1","name":"now","args":"{}"}]}`,
		`{"role":"tool","blocks":[{"type":"tool_result","call":"#2/1","call_id":"gemini-call-481f735f3e77-1","name":"now","status":"ok","content":[{"type":"text","text":"{\"time\":\"12:00\"}"}],"meta":{"provider":"gemini","fields":{"content":{"x":7}}}}]}`,
		`{"role":"tool","blocks":[{"type":"tool_result","call":"#2/0","call_id":"gemini-call-481f735f3e77-0","name":"math.add","status":"error","content":[{"type":"text","text":"boom"}],"meta":{"provider":"gemini","fields":{"willContinue":false}}}]}`,
		`{"role":"assistant","blocks":[{"type":"reasoning","text":"Hm.","meta":{"provider":"gemini","fields":{"thought":true}}},{"type":"text","text":"Done."},{"type":"reasoning","meta":{"provider":"gemini","fields":{"thoughtSignature":"REVG"}}}],"final":true}`)
	reads(t, gemini.New(gemini.Options{}).Codec(""), `{"systemInstruction":"Be brief.","contents":[{"role":"user","parts":[]}]}`,
		`{"role":"system","blocks":[{"type":"text","text":"Be brief."}]}`, `{"role":"user","blocks":[{"type":"text"}]}`)
	reads(t, ollama.New(ollama.Options{}).Codec(""), `{"model":"m","messages":[
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
		`{"role":"assistant","blocks":[{"type":"text","text":"Two."}],"final":true}`)
	reads(t, openai.New(openai.Options{}).Codec(""), `{"model":"m","temperature":1,"messages":[
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
		`{"role":"assistant","blocks":[{"type":"reasoning","text":"Hm.","meta":{"provider":"openai","fields":{"field":"reasoning"}}},{"type":"text","text":"Two."}],"final":true}`)
	reads(t, openai.New(openai.Options{Name: "far"}).Codec(""), `[{"role":"assistant","content":"Hi","x":1}]`,
		`{"role":"assistant","blocks":[{"type":"text","text":"Hi"}],"final":true,"meta":{"provider":"far","fields":{"x":1}}}`)
	reads(t, openai.New(openai.Options{}).Codec(""), `[]`)
}

func reads(t *testing.T, codec llm.Codec, in string, want ...string) {
	t.Helper()
	msgs, err := codec.Decode([]byte(in))
	if err != nil {
		t.Fatalf("%s: %v", in, err)
	}
	var got []string
	for _, m := range msgs {
		s := string(message.Append(nil, m))
		s = strings.Replace(s, `"id":"`+m.ID.String()+`",`, "", 1)
		s = strings.Replace(s, `"prev":"`+m.Prev.String()+`",`, "", 1)
		for i, m := range msgs {
			s = strings.ReplaceAll(s, m.ID.String(), "#"+strconv.Itoa(i))
		}
		got = append(got, s)
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("%s\nis read as\n%s\nnot as\n%s", in, g, w)
	}
}

// TestUnreadable: a history that cannot be read is refused with a code and the place.
func TestUnreadable(t *testing.T) {
	user := func(part string) string { return `[{"role":"user","content":[` + part + `]}]` }
	parts := func(part string) string { return `[{"role":"user","parts":[` + part + `]}]` }
	for _, v := range []struct {
		codec llm.Codec
		bad   []struct{ in, code, at string }
	}{
		{anthropic.New(anthropic.Options{}).Codec(""), []struct{ in, code, at string }{
			{`{"messages":[{"role":"tool"}]}`, wire.CodeRole, "messages[0].role"},
			{`[{"role":"user","content":5}]`, wire.CodeHistory, "messages[0].content"},
			{user(`{"type":"search_result"}`), wire.CodePart, "messages[0].content[0]"},
			{user(`{"type":"text","text":[]}`), wire.CodeHistory, "messages[0].content[0].text"},
			{user(`{"type":"image","source":{"type":"base64","data":"?"}}`), wire.CodeHistory, "messages[0].content[0].source.data"},
			{user(`{"type":"image"}`), wire.CodeHistory, "messages[0].content[0].source"},
			{user(`{"type":"tool_result","tool_use_id":"a"}`), wire.CodeStray, "messages[0].content[0]"},
			{user(`{"type":"thinking","thinking":"x"}`), wire.CodeHistory, "messages[0]"},
			{`[{"role":"assistant","content":[{"type":"redacted_thinking"}]}]`, wire.CodeHistory, "messages[0].content[0]"},
			{`[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":"x"}]}]`, wire.CodeHistory, "messages[0].content[0].input"},
			{`[{"role":"assistant","content":[{"type":"tool_use","name":"f"}]},{"role":"user","content":"x"}]`, wire.CodeUnanswered, "messages[0]"},
		}},
		{gemini.New(gemini.Options{}).Codec(""), []struct{ in, code, at string }{
			{`[{"role":"assistant"}]`, wire.CodeRole, "contents[0].role"},
			{parts(`{"executableCode":{}}`), wire.CodePart, "contents[0].parts[0]"},
			{parts(`{"text":"a","inlineData":{"mimeType":"image/png","data":"AAEC"}}`), wire.CodePart, "contents[0].parts[0]"},
			{parts(`{"text":5}`), wire.CodeHistory, "contents[0].parts[0].text"},
			{parts(`{"fileData":{}}`), wire.CodeHistory, "contents[0].parts[0].fileData"},
			{parts(`{"functionCall":{"name":"f"}}`), wire.CodeHistory, "contents[0]"},
			{parts(`{"functionResponse":{"name":"f"}}`), wire.CodeStray, "contents[0].parts[0].functionResponse"},
			{`[{"role":"model","parts":[{"text":"x","thoughtSignature":"?"}]}]`, wire.CodeHistory, "contents[0].parts[0].thoughtSignature"},
			{`[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"parts":[{"functionResponse":{"name":"f","parts":[{"functionCall":{"name":"g"}}]}}]}]`, wire.CodePart, "contents[1].parts[0].functionResponse.parts"},
			{`[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"parts":[{"text":"x"}]}]`, wire.CodeUnanswered, "contents[0]"},
		}},
		{ollama.New(ollama.Options{}).Codec(""), []struct{ in, code, at string }{
			{`[{"role":"developer","content":""}]`, wire.CodeRole, "messages[0].role"},
			{`[{"role":"user","content":["a"]}]`, wire.CodeHistory, "messages[0].content"},
			{`[{"role":"user","images":["?"]}]`, wire.CodeHistory, "messages[0].images[0]"},
			{`[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":[]}}]}]`, wire.CodeHistory, "messages[0].tool_calls[0].function.arguments"},
			{`[{"role":"assistant","tool_calls":[{"function":{}}]}]`, wire.CodeHistory, "messages[0]"},
			{`[{"role":"tool","content":"x"}]`, wire.CodeStray, "messages[0]"},
			{`[{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]},{"role":"assistant","content":"x"},{"role":"user","content":"y"}]`, wire.CodeUnanswered, "messages[0]"},
		}},
		{openai.New(openai.Options{}).Codec(""), []struct{ in, code, at string }{
			{`[`, wire.CodeHistory, ""},
			{`"x"`, wire.CodeHistory, "messages"},
			{`{"messages":{}}`, wire.CodeHistory, "messages"},
			{`[5]`, wire.CodeHistory, "messages[0]"},
			{`[{"role":"king","content":""}]`, wire.CodeRole, "messages[0].role"},
			{`[{"role":"user","content":5}]`, wire.CodeHistory, "messages[0].content"},
			{user(`{"type":"video"}`), wire.CodePart, "messages[0].content[0]"},
			{user(`"a",{"type":"text"}`), wire.CodePart, "messages[0].content[1]"},
			{user(`{"type":"image_url","image_url":{}}`), wire.CodeHistory, "messages[0].content[0].image_url"},
			{user(`{"type":"file","file":{"file_data":"?"}}`), wire.CodeHistory, "messages[0].content[0].file.file_data"},
			{user(`{"type":"thinking","thinking":"x"}`), wire.CodeHistory, "messages[0]"},
			{`[{"role":"assistant","tool_calls":[{"type":"custom"}]}]`, wire.CodePart, "messages[0].tool_calls[0].type"},
			{`[{"role":"assistant","tool_calls":[{"function":{"arguments":"{}"}}]}]`, wire.CodeHistory, "messages[0]"},
			{`[{"role":"tool","tool_call_id":"a","content":""}]`, wire.CodeStray, "messages[0]"},
			{`[{"role":"assistant","function_call":{"name":"f"}},{"role":"user","content":"x"}]`, wire.CodeUnanswered, "messages[0]"},
		}},
	} {
		for _, b := range v.bad {
			msgs, err := v.codec.Decode([]byte(b.in))
			f := fault.Of(err)
			if err == nil || msgs != nil || f.Kind != fault.Invalid || f.Code != b.code {
				t.Errorf("%s: %v, want %s", b.in, err, b.code)
				continue
			}
			if at, _ := f.Details["at"].(string); at != b.at || !strings.Contains(err.Error(), b.at) {
				t.Errorf("%s: the place is %q, want %q: %v", b.in, at, b.at, err)
			}
		}
	}
}
