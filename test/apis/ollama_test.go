package apis

import (
	"strings"
	"testing"
)

func TestCheckOllama(t *testing.T) {
	const hi = `{"role":"user","content":"hi"}`
	const calls = `{"role":"assistant","content":"","tool_calls":[{"id":"1","function":{"name":"a","arguments":{}}},{"function":{"index":1,"name":"b","arguments":{}}}]}`
	const one, two = `{"role":"tool","content":"","tool_name":"a","tool_call_id":"1"}`, `{"role":"tool","content":"2","tool_name":"b"}`
	chat := func(members string, messages ...string) string {
		return `{"model":"m","stream":true,"messages":[` + strings.Join(messages, ",") + `]` + members + `}`
	}
	tool := func(parameters string) string {
		return chat(`,"tools":[{"type":"function","function":{"name":"a","description":"","parameters":`+parameters+`}}]`, hi)
	}
	said := strings.Replace(one, `"content":""`, `"content":"x"`, 1)
	for body, want := range map[string]string{
		`{"model":"m"}`:                    "",
		`{"model":"m","input":["a"]}`:      "",
		chat("", hi):                       "",
		chat("", hi, calls, said, two):     "",
		chat("", hi, calls, said, two, hi): "",
		chat(`,"format":{"type":"object"},"think":"low","keep_alive":-1,"truncate":false,"options":{"num_ctx":1}`, hi):                                       "",
		tool(`{"type":"object","properties":{"a":{"type":["string","null"],"enum":[1],"default":2,"anyOf":[{"items":true}]}},"additionalProperties":false}`): "",

		`{`:                                     "unexpected EOF",
		`{"model":""}`:                          "model is required",
		`{"model":"m","input":[]}`:              "nothing to embed",
		`{"model":"m","prompt":"x"}`:            "prompt",
		chat(""):                                "no messages",
		`{"model":"m","messages":[` + hi + `]}`: "not streamed",
		chat("", hi, `{"role":"assistant","content":"x"}`):            "last message",
		chat("", `{"role":"user"}`):                                   "no content",
		chat("", `{"role":"user","content":""}`):                      "empty message",
		chat("", `{"role":"robot","content":"x"}`):                    "role",
		chat("", `{"role":"user","content":"x","thinking":"y"}`):      "thinking in a message",
		chat("", `{"role":"user","content":"x","tool_name":"y"}`):     "tool_name or",
		chat("", `{"role":"system","content":"x","images":["AAAA"]}`): "images in a message",
		chat("", `{"role":"user","content":"x","images":[""]}`):       "empty image",
		chat("", `{"role":"user","content":"x","images":["?"]}`):      "base64",
		chat("", hi, `{"role":"tool","content":"x"}`):                 "without tool_name",
		chat("", hi, said):             "without a call",
		chat("", hi, calls):            "last message",
		chat("", hi, calls, said):      "have no results",
		chat("", hi, calls, said, hi):  "have no results",
		chat("", hi, calls, two, said): "answers call",
		chat("", hi, strings.Replace(calls, `{}`, `"{}"`, 1), said, two): "an object",
		tool(`{"type":"object"}`):                                                                         "no object with properties",
		tool(`{"type":"object","properties":{"a":true}}`):                                                 "unmarshal JSON boolean",
		chat(`,"tools":[{"type":"x","function":{"name":"a","parameters":{}}}]`, hi):                       "of type",
		chat(`,"format":"xml"`, hi):                                                                       "format",
		strings.Replace(tool(`{"type":"object","properties":{}}`), `"stream"`, `"format":{},"stream"`, 1): "keeps the model",
		chat(`,"think":"much"`, hi):                                                                       "think",
		chat(`,"keep_alive":true`, hi):                                                                    "keep_alive",
		chat(`,"options":{"num_predict":0}`, hi):                                                          "positive",
		chat(`,"options":{"stop":[""]}`, hi):                                                              "empty stop",
		chat(`,"options":{"top_q":1}`, hi):                                                                "top_q",
	} {
		refuses(t, CheckOllama, body, want)
	}
}
