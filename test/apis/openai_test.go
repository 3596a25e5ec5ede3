package apis

import (
	"strings"
	"testing"
)

// refusals checks a list of requests, each with a part of the expected error;
// empty means valid. An error of the schema may have any text.
func refusals(t *testing.T, check func([]byte) error, list [][2]string) {
	t.Helper()
	for _, c := range list {
		refuses(t, check, c[0], c[1])
	}
}

func refuses(t *testing.T, check func([]byte) error, body, want string) {
	t.Helper()
	err := check([]byte(body))
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) && !strings.HasPrefix(err.Error(), "not a request") && !strings.HasPrefix(err.Error(), "unknown object member") {
		t.Errorf("%s: %v, want %q", body, err, want)
	}
}

func TestCheckOpenAI(t *testing.T) {
	with := func(members string) string {
		return `{"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true` + members + `}`
	}
	says := func(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }
	const u = `{"role":"user","content":"Hi"}`
	called := func(calls string) string {
		return u + `,{"role":"assistant","tool_calls":[` + calls + `]}`
	}
	const c1 = `{"id":"1","type":"function","function":{"name":"a","arguments":"{}"}}`
	const r1 = `,{"role":"tool","tool_call_id":"1","content":"x"}`
	tool := func(f string) string { return with(`,"tools":[{"type":"function","function":` + f + `}]`) }
	const good = `{"name":"a","parameters":{"type":"object","properties":{}}}`
	content := func(parts string) string { return says(`{"role":"user","content":` + parts + `}`) }
	format := func(schema string) string {
		return with(`,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":` + schema + `}}`)
	}
	refusals(t, CheckOpenAI, [][2]string{
		{with(""), ""}, {tool(good), ""}, {says(called(c1) + r1), ""},
		{with(`,"stream_options":{"include_usage":true},"temperature":2,"stop":["a"],"reasoning_effort":"low","max_tokens":1`), ""},
		{`{`, "not a request"}, {with(`,"unknown":1`), "unknown"}, {with(`,"temperature":0,"temperature":0`), "duplicate"},
		{"{\"model\":\"\xff\"}", "not a request"}, {`{"messages":[]}`, "model"}, {says(""), "none"},
		{says(`{"role":"robot","content":"x"}`), "unknown role"}, {says(`{"role":"user","content":""}`), "empty"}, {says(`{"role":"user"}`), "missing"},
		{says(`{"role":"user","content":"x","tool_call_id":"1"}`), "tool_call_id"}, {says(`{"role":"user","content":"x","tool_calls":[]}`), "tool_calls"},
		{says(`{"role":"user","content":"x","refusal":"y"}`), "refusal"}, {says(u + `,{"role":"assistant"}`), "neither"},
		{says(u + `,{"role":"assistant","content":"x","tool_calls":[]}`), "empty"},
		{says(called(c1)), "no results"}, {says(called(c1) + "," + u), "must be followed"}, {says(u + r1), "answers no open call"},
		{says(called(c1) + r1 + r1), "answers no open call"}, {says(called(c1+","+c1) + r1), "twice"},
		{says(called(strings.Replace(c1, `"id":"1"`, `"id":""`, 1))), "id of 0"}, {says(called(strings.Replace(c1, `"1"`, `"`+strings.Repeat("x", 41)+`"`, 1))), "id of 41"},
		{says(called(strings.Replace(c1, `"a"`, `"a.b"`, 1))), "name"}, {says(called(strings.Replace(c1, `"{}"`, `{}`, 1))), "not a request"},
		{says(called(strings.Replace(c1, `,"arguments":"{}"`, ``, 1))), "arguments"}, {says(called(strings.Replace(c1, `"function",`, `"x",`, 1))), "type"},
		{tool(`{"name":"a.b"}`), "name"}, {tool(`{"name":"a","parameters":{"type":"object"}}`), "properties"}, {with(`,"tools":[]`), "0 of them"},
		{with(`,"tools":[{"type":"x"}]`), "type"}, {tool(good + `},{"type":"function","function":` + good), "twice"},
		{content(`[]`), "no parts"}, {content(`1`), "neither text"}, {content(`[{"type":"text","text":""}]`), "text part"}, {content(`[{"type":"video"}]`), "type"},
		{content(`[{"type":"image_url","image_url":{"url":"ftp://x"}}]`), "not a URL"}, {content(`[{"type":"image_url","image_url":{"url":"data:image/png,x"}}]`), "data URL"},
		{content(`[{"type":"image_url"}]`), "image_url"}, {content(`[{"type":"file","file":{"filename":"","file_data":"x"}}]`), "name"},
		{content(`[{"type":"file","file":{"filename":"x","file_data":"https://x"}}]`), "not a URL"}, {content(`[{"type":"image_url","image_url":{"url":"http://\u007f"}}]`), "invalid"},
		{with(`,"tool_choice":"auto"`), "without tools"}, {strings.Replace(tool(good), `,"tools"`, `,"tool_choice":"some","tools"`, 1), "names no tool"},
		{strings.Replace(tool(good), `,"tools"`, `,"tool_choice":{"type":"function","function":{"name":"b"}},"tools"`, 1), "names no tool"},
		{strings.Replace(tool(good), `,"tools"`, `,"tool_choice":{"type":"function","function":{"name":"a"}},"tools"`, 1), ""},
		{with(`,"temperature":2.1`), "temperature"}, {with(`,"max_tokens":1,"max_completion_tokens":1`), "beside"}, {with(`,"max_tokens":0`), "below 1"},
		{with(`,"stop":[]`), "stop"}, {with(`,"stop":["","a"]`), "stop"}, {with(`,"reasoning_effort":"huge"`), "effort"},
		{with(`,"user":"` + strings.Repeat("x", 65) + `"`), "64"}, {strings.Replace(with(`,"stream_options":{}`), `"stream":true,`, ``, 1), "without stream"},
		{with(`,"response_format":{"type":"text"}`), "json_schema"}, {with(`,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":1}}`), "no schema"},
		{format(`{"type":"object","properties":{"a":{"type":"object"}},"required":["a"],"additionalProperties":false}`), "schema.a"},
		{format(`{"type":"object","properties":{"a":{}},"additionalProperties":false}`), "required"}, {format(`{"anyOf":[{"not":{}}]}`), "schema.anyOf[0]"},
		{format(`{"items":{"oneOf":[]}}`), "schema[]"}, {format(`{"$defs":{"x":1}}`), "$defs.x"},
		{format(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`), ""},
		{`{"model":"m","input":["a"],"encoding_format":"base64"}`, ""}, {`{"model":"m","input":[],"encoding_format":"base64"}`, "0 texts"},
		{`{"model":"m","input":[""],"encoding_format":"base64"}`, "empty"}, {`{"model":"m","input":["a"]}`, "encoding_format"},
		{`{"model":"m","input":["a"],"encoding_format":"float","stream":true}`, "completion"},
	})
}

func TestUnknownMembersAndHugeNumbers(t *testing.T) {
	for message, want := range map[string]string{
		`{"role":"assistant","content":"Hi","odd":1}`:                      "unknown object member",
		`{"role":"assistant","odd":1}`:                                     "not a request of the API",
		`{"role":"assistant","content":"Hi","reasoning_details":[-1e999]}`: "",
	} {
		err := CheckOpenAI([]byte(`{"model":"m","messages":[{"role":"user","content":"Hi"},` + message + `]}`))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", message, err, want)
		}
	}
}

func TestCheckResponses(t *testing.T) {
	with := func(input, members string) string {
		return `{"model":"m","stream":true,"store":false,"input":[` + input + `]` + members + `}`
	}
	const u = `{"role":"user","content":"Hi"}`
	const c1 = `,{"type":"function_call","call_id":"1","name":"a","arguments":"{}"}`
	const r1 = `,{"type":"function_call_output","call_id":"1","output":"x"}`
	const think = `,{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"g"}`
	const said = `,{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[]}]}`
	const good = `{"type":"function","name":"a","strict":false,"parameters":{"type":"object","properties":{}}}`
	refusals(t, CheckResponses, [][2]string{
		{with(u, ""), ""}, {with(u+think+c1+r1, ""), ""}, {with(u+think+said, `,"tools":[`+good+`],"tool_choice":{"type":"function","name":"a"}`), ""},
		{with("", ""), "none"}, {with(u, `,"previous_response_id":"x"`), "unknown"}, {with(u+c1, ""), "no tool output"}, {with(u+r1, ""), "no tool call found"},
		{with(u+c1+c1+r1, ""), "twice"}, {with(u+think, ""), "following item"}, {with(u+think+","+u, ""), "following item"},
		{with(u, `,"tools":[`+good+`,`+good+`]`), "twice"}, {with(u, `,"tools":[`+good+`],"tool_choice":{"type":"function","name":"b"}`), "names no tool"},
		{with(u, `,"tool_choice":"auto"`), "without tools"}, {with(u, `,"max_output_tokens":5`), "minimum"},
		{with(u, `,"text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":{"type":"object"}}}`), "additionalProperties"},
	})
}
