package apis

import (
	"strings"
	"testing"
)

func TestCheckAnthropic(t *testing.T) {
	says := func(messages string) string { return `{"model":"m","max_tokens":9,"messages":[` + messages + `]}` }
	with := func(members string) string {
		return strings.TrimSuffix(says(`{"role":"user","content":[{"type":"text","text":"Hi"}]}`), "}") + members + "}"
	}
	user := func(blocks string) string { return `{"role":"user","content":[` + blocks + `]}` }
	model := func(blocks string) string { return `{"role":"assistant","content":[` + blocks + `]}` }
	const hi = `{"type":"text","text":"Hi"}`
	const use = `{"type":"tool_use","id":"t1","name":"a","input":{}}`
	const res = `{"type":"tool_result","tool_use_id":"t1","content":"x"}`
	const tools = `,"tools":[{"name":"a","input_schema":{"type":"object"}}]`
	talk := func(first, second string, members ...string) string { // user, assistant, user, with a tool
		return strings.TrimSuffix(says(user(hi)+","+model(first)+","+user(second)), "}") + tools + strings.Join(members, "") + "}"
	}
	think := `{"type":"thinking","thinking":"hm","signature":"s"}`
	block := func(b string) string { return says(user(b)) }
	image := func(source string) string { return block(`{"type":"image","source":` + source + `}`) }
	format := func(s string) string {
		return with(`,"output_config":{"format":{"type":"json_schema","schema":` + s + `}}`)
	}
	refusals(t, CheckAnthropic, [][2]string{
		{with(""), ""}, {talk(use, res), ""}, {talk(think+","+use, res, `,"thinking":{"type":"adaptive","display":"summarized"}`), ""},
		{with(`,"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}],"temperature":1,"stop_sequences":["a"],"metadata":{"user_id":"x"}`), ""},
		{`{`, "not a request"}, {with(`,"top_x":1`), "unknown"}, {`{"model":"m","messages":[]}`, "max_tokens"}, {says(""), "first and the last"},
		{says(model(hi)), "first and the last"}, {says(user(hi) + "," + model(hi)), "first and the last"},
		{says(user(hi) + `,{"role":"system","content":[` + hi + `]},` + user(hi)), "role"}, {says(user("")), "no content"},
		{with(`,"system":[]`), "system"}, {with(`,"system":[{"type":"image"}]`), "type"}, {with(`,"system":[{"type":"text","text":" "}]`), "non-whitespace"},
		{block(`{"type":"text","text":"\n "}`), "non-whitespace"}, {block(`{"type":"text"}`), "non-whitespace"}, {block(use), "cannot have"}, {block(`{"type":"video"}`), "cannot have"},
		{block(`{"type":"text","text":"x","id":"1"}`), "extra inputs"}, {block(`{"type":"text","text":"x","cache_control":{"type":"x"}}`), "ephemeral"},
		{talk(hi, res), "answers no call"}, {talk(use, hi), "without tool_result"}, {talk(use, hi+","+res), "after other content"}, {talk(use, res+","+res), "answers no call"},
		{talk(use+","+use, res), "unique"}, {says(user(hi) + "," + model(use) + "," + user(res)), "define tools"}, {talk(use+","+think, res), "final block"},
		{talk(strings.Replace(use, "t1", "t:1", 1), res), "id"}, {talk(strings.Replace(use, `"a"`, `"a.b"`, 1), res), "name"}, {talk(strings.Replace(use, `{}`, `"{}"`, 1), res), "dictionary"},
		{talk(`{"type":"thinking","thinking":"x"},`+use, res), "signature"}, {talk(`{"type":"redacted_thinking"},`+use, res), "data"},
		{talk(use, strings.Replace(res, `"x"`, `[{"type":"text","text":""}]`, 1)), "non-whitespace"}, {talk(use, strings.Replace(res, `"x"`, `[{"type":"tool_result"}]`, 1)), "type"},
		{talk(use, strings.Replace(res, `"x"`, `7`, 1)), "messages[2]"}, {talk(use, strings.Replace(res, `t1`, ``, 1)), "tool_use_id"}, {talk(use, strings.Replace(res, `,"content":"x"`, ``, 1)), ""},
		{image(`{"type":"base64","media_type":"image/png","data":"aGk="}`), ""}, {image(`{"type":"url","url":"https://x"}`), ""}, {image(`null`), "missing"},
		{image(`{"type":"base64","media_type":"image/bmp","data":"aGk="}`), "base64"}, {image(`{"type":"url","url":"http://x"}`), "HTTPS"}, {image(`{"type":"file"}`), "source"},
		{with(`,"tools":[]`), "empty"}, {with(`,"tools":[{"name":"a","input_schema":{}}]`), "input_schema"}, {with(`,"tools":[{"name":"a b","input_schema":{"type":"object"}}]`), "name"},
		{with(`,"tool_choice":{"type":"auto"}`), "without tools"}, {talk(use, res, `,"tool_choice":{"type":"tool","name":"b"}`), "names no tool"}, {talk(use, res, `,"tool_choice":{"type":"some"}`), "tool_choice"},
		{with(`,"thinking":{"type":"x"}`), "type"}, {with(`,"thinking":{"type":"enabled"}`), "budget_tokens"}, {with(`,"thinking":{"type":"enabled","budget_tokens":1024}`), "1024"},
		{with(`,"thinking":{"type":"disabled","display":"omitted"}`), "display"}, {with(`,"thinking":{"type":"adaptive","block_binding":{}}`), "prefix_mismatch"},
		{talk(use, res, `,"tool_choice":{"type":"any"},"thinking":{"type":"adaptive"}`), "forces tool use"}, {with(`,"thinking":{"type":"adaptive"},"temperature":0.5`), "temperature"},
		{strings.Replace(talk(use, res, `,"thinking":{"type":"enabled","budget_tokens":1024}`), `:9,`, `:2000,`, 1), "must start with a thinking block"},
		{with(`,"temperature":1.1`), "temperature"}, {with(`,"stop_sequences":[" "]`), "stop_sequences"}, {with(`,"stop_sequences":[]`), "stop_sequences"}, {with(`,"metadata":{"user_id":"a@b"}`), "opaque"},
		{with(`,"output_config":{}`), "empty"}, {with(`,"output_config":{"effort":"none"}`), "effort"}, {with(`,"output_config":{"format":{"type":"x"}}`), "type"},
		{format(`{"type":"object","additionalProperties":false,"properties":{"a":{"minLength":1}}}`), "minLength"}, {format(`{"type":"object"}`), "additionalProperties"},
		{format(`{"anyOf":[{"items":{"type":"object"}}]}`), "schema.anyOf[0][]"}, {format(`{"anyOf":{"x":1}}`), "schema.anyOf.x"}, {format(`{"type":"object","additionalProperties":false}`), ""},
		{says(user(strings.Repeat(`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},`, 5) + hi)), "5 cache marks"},
	})
}
