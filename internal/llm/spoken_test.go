package llm_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/tool"
)

// offered returns a request with tools, for a model that is not known to lack any ability.
func offered() *llm.Request {
	r := ask()
	r.Tools = llm.NewToolset(
		tool.Spec{Name: "files.read", Input: []byte(`{"type":"object","properties":{"path":{"type":"string"},"lines":{"type":"integer"}}}`)},
		tool.Spec{Name: "now", Input: []byte(`{"type":"object"}`)})
	return r
}

// An answer that is nothing but calls of offered tools, in the form of any family of models, is those calls.
func TestCallsAsText(t *testing.T) {
	const read = `files.read {"lines":2,"path":"1"}`
	for text, want := range map[string]string{
		`<tool_call>{"name": "now", "arguments": {}}</tool_call>`:                                                     "now {}",
		"<tool_call>\n{\"name\": \"files__read\", \"arguments\": {\"lines\":2,\"path\":\"1\"}}\n</tool_call>":         read,
		"<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"now\",\"arguments\":{}}":  "now {}|now {}",
		"```json\n{\"name\": \"files.read\", \"arguments\": {\"lines\":2,\"path\":\"1\"}}\n```":                       read,
		"```json\n{\"name\": \"now\", \"arguments\": {}}\n```\n```json\n{\"name\": \"now\", \"parameters\": {}}\n```": "now {}|now {}",
		`{"name": "now", "parameters": {}}`: "now {}",
		`{"type": "function", "function": {"name": "files__read", "arguments": "{\"lines\":2,\"path\":\"1\"}"}}`:                                                              read,
		`[{"name": "now", "arguments": {}}, {"name": "now", "arguments": {}}]`:                                                                                                "now {}|now {}",
		`{"tool_calls": [{"id": "a", "type": "function", "function": {"name": "now", "arguments": "{}"}}]}`:                                                                   "now {}",
		`<function=files__read>{"lines":2,"path":"1"}</function>`:                                                                                                             read,
		"<tool_call>\n<function=files__read>\n<parameter=path>\n1\n</parameter>\n<parameter=lines>\n2\n</parameter>\n</function>\n</tool_call>":                               read,
		`<function_calls><invoke name="files__read"><parameter name="path">1</parameter><parameter name="lines">2</parameter></invoke></function_calls>`:                      read,
		"<tool_call>files__read\n<arg_key>path</arg_key>\n<arg_value>1</arg_value>\n<arg_key>lines</arg_key>\n<arg_value>2</arg_value>\n</tool_call>":                         read,
		`[TOOL_CALLS][{"name": "now", "arguments": {}}]`:                                                                                                                      "now {}",
		`[TOOL_CALLS]files__read[ARGS]{"lines":2,"path":"1"}`:                                                                                                                 read,
		`[TOOL_CALLS]files__read{"lines":2,"path":"1"}`:                                                                                                                       read,
		`<|python_tag|>{"name": "now", "parameters": {}}`:                                                                                                                     "now {}",
		`functools[{"name": "now", "arguments": {}}]`:                                                                                                                         "now {}",
		`<|tool_call|>[{"name": "now", "arguments": {}}]<|/tool_call|>`:                                                                                                       "now {}",
		`<|tool_calls_section_begin|><|tool_call_begin|>functions.files__read:0<|tool_call_argument_begin|>{"lines":2,"path":"1"}<|tool_call_end|><|tool_calls_section_end|>`: read,
		"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>files__read\n```json\n{\"lines\":2,\"path\":\"1\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>":               read,
		`<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>files__read<｜tool▁sep｜>{"lines":2,"path":"1"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`:                                             read,
		`<|python_tag|>files__read.call(lines=2, path="1")`:                                                                                                                   read,
		`[files.read(lines=2, path='1'), now()]`:                                                                                                                              read + "|now {}",
		"```tool_code\nprint(default_api.files__read(lines=2, path=\"1\"))\n```":                                                                                              read,
		`<|tool_call_start|>[files__read(path="it's \"a\"\n", more={'a': [True, None, -1.5]})]<|tool_call_end|>`:                                                              `files.read {"path":"it's \"a\"\n","more":{"a":[true,null,-1.5]}}`,
		`<tool_call>{"name": "now"}</tool_call>`:                                                                                                                              "now {}",
		`<tool_call>{"name": "files_read", "parameters": {"lines":2,"path":"1"}}</tool_call>`:                                                                                 read,
		`<tool_call>{"name": "Files-Read", "arguments": {"lines":2,"path":"1"}}</tool_call>`:                                                                                  read,
		`<TOOLCALL>[{"name": "now", "arguments": {}}]</TOOLCALL>`:                                                                                                             "now {}",
		`<tools>{"name": "now", "arguments": {}}</tools>`:                                                                                                                     "now {}",
		`<seed:tool_call><function=now></function></seed:tool_call>`:                                                                                                          "now {}",
		`<longcat_tool_call>{"name": "now", "arguments": {}}</longcat_tool_call>`:                                                                                             "now {}",
		`<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "now", "parameters": {}}]<|END_ACTION|>`:                                                                         "now {}",
		`<|tool▁calls▁begin|><|tool▁call▁begin|>files__read<|tool▁sep|>{"lines":2,"path":"1"}<|tool▁call▁end|><|tool▁calls▁end|>`:                                             read,
		`<function=files__read{"lines":2,"path":"1"}></function>`:                                                                                                             read,
		`<function=files__read {"lines":2,"path":"1"}</function>`:                                                                                                             read,
		`<function(files__read)>{"lines":2,"path":"1"}<function>`:                                                                                                             read,
		"```JSON\n{\"tool_name\": \"now\", \"tool_args\": {}}\n```":                                                                                                           "now {}",
		`{"tool_call": {"name": "now", "params": {}}}`:                                                                                                                        "now {}",
		`{"function_calls": [{"name": "now", "arguments": {}}]}`:                                                                                                              "now {}",
	} {
		p := &script{name: "p", steps: []step{good(text)}}
		m := resolve(t, newModels(t, llm.Config{Providers: []llm.Provider{p}}), "p/m")
		g := readAll(t, m, offered())
		var got []string
		if g.reply != nil {
			for _, c := range (&message.Message{Role: message.Assistant, Blocks: g.reply.Blocks}).Calls() {
				got = append(got, c.Name+" "+string(c.Args))
			}
		}
		if s := strings.Join(got, "|"); s != want || g.text != "" || g.reply.Stop != message.StopTools || len(g.notices) > 0 {
			t.Errorf("%s\nbecame %q, and %+v", text, s, g)
		}
	}
}

// readAll reads an answer to the end.
func readAll(t *testing.T, m llm.Model, r *llm.Request) got {
	t.Helper()
	return read(t, t.Context(), m, r)
}

// A call that is not made is told of once, with what to do.
func TestStrayCallsAreTold(t *testing.T) {
	for _, text := range []string{
		`I look. <tool_call>{"name": "now", "arguments": {}}</tool_call>`,
		`<tool_call>{"name": "unknown", "arguments": {}}</tool_call>`,
		`<tool_call>{"name": "now", "arguments": {`,
		`{"name": "unknown", "arguments": {}}`,
		"I use this:\n```json\n{\"name\": \"now\", \"arguments\": {}}\n```",
		`Well: [TOOL_CALLS]now{}`,
		"I look.\nAction: now\nAction Input: {}",
		`<start_function_call>call:now{}<end_function_call>`,
	} {
		p := &script{name: "p", steps: []step{good(text), good(text)}}
		m := resolve(t, newModels(t, llm.Config{Providers: []llm.Provider{p}}), "p/m")
		for i := range 2 {
			g := readAll(t, m, offered())
			if g.err != nil || g.text != text || len(g.notices) != 1-i || i == 0 && !strings.Contains(g.notices[0], "steward models test p/m") {
				t.Errorf("%s\nbecame %+v", text, g)
			}
		}
	}
	for _, text := range []string{"hello", `{"name": "Anna", "age": 7}`, "Write `<tool_call>` before it.", `[see](now)`, `[now(see below)]`, "[]", `{"name": "now"}`, "```json\n{\"name\": \"Anna\"}\n```", `{"names": []}`} {
		p := &script{name: "p", steps: []step{good(text)}}
		if g := readAll(t, resolve(t, newModels(t, llm.Config{Providers: []llm.Provider{p}}), "p/m"), offered()); g.text != text || len(g.notices) > 0 {
			t.Errorf("%s\nbecame %+v", text, g)
		}
	}
}

// A model that answers nothing is asked once more, and then that is said.
func TestNothingIsNoAnswer(t *testing.T) {
	empty := func(stop message.Stop, blocks ...message.Block) step {
		s := step{}
		for i, b := range blocks {
			if r, ok := b.(*message.Reasoning); ok {
				s.events = append(s.events, llm.Event{Kind: llm.ReasoningDelta, Block: i, Text: r.Text})
			}
		}
		s.events = append(s.events, llm.Event{Kind: llm.Done, Reply: &llm.Reply{Blocks: blocks, Stop: stop}})
		return s
	}
	synctest.Test(t, func(t *testing.T) {
		for name, nothing := range map[string]step{
			"nothing":      empty(message.StopEnd),
			"white space":  empty(message.StopEnd, &message.Text{Text: " \n"}),
			"only thought": empty(message.StopEnd, &message.Reasoning{Text: "Hm."}),
			"its limit":    empty(message.StopLength, &message.Reasoning{Text: "Hm."}),
		} {
			p := &script{name: "p", steps: []step{nothing, good("now"), nothing, nothing}}
			m := resolve(t, newModels(t, llm.Config{Providers: []llm.Provider{p}}), "p/m")
			if g := readAll(t, m, ask()); g.err != nil || g.text != "now" || len(p.asked) != 2 {
				t.Errorf("%s: the second answer is %+v, of %d", name, g, len(p.asked))
			}
			g := readAll(t, m, ask())
			if f := fault.Of(g.err); g.err == nil || f.Code != "empty_answer" || f.Remedy == "" || len(p.asked) != 4 {
				t.Errorf("%s: %+v after %d", name, g, len(p.asked))
			}
		}
		p := &script{name: "p", steps: []step{empty(message.StopRefused)}}
		m := resolve(t, newModels(t, llm.Config{Providers: []llm.Provider{p}}), "p/m")
		if g := readAll(t, m, ask()); g.err != nil || len(g.notices) != 1 || len(p.asked) != 1 {
			t.Errorf("a refusal is %+v", g)
		}
	})
}
