package ollama_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/server/ollama"
	"steward/internal/turn"
)

// The exchanges are those of https://github.com/ollama/ollama/blob/main/docs/api.md, and what Home Assistant's
// integration sends (homeassistant/components/ollama: entity.py, config_flow.py).

const end = `,"done":true,"done_reason":"stop","total_duration":0,"load_duration":0,"prompt_eval_count":20,"prompt_eval_duration":0,"eval_count":7,"eval_duration":0}`

func say(model, members string) string {
	return `{"model":"` + model + `","created_at":"T","message":{"role":"assistant",` + members + `}`
}

func TestChat(t *testing.T) {
	light := &message.ToolCall{Name: "HassTurnOn", Args: []byte(`{"name":"lamp","area":["a"]}`)}
	clock := &message.ToolCall{CallID: "c2", Name: "clock", Args: []byte(``)}
	tools := `,"tools":[{"type":"function","function":{"name":"HassTurnOn","description":"on","parameters":{"type":"object","properties":{"name":{"type":"string"}}}}},{"type":"function","function":{"name":"clock"}}]`
	calls := `"tool_calls":[{"id":"ID","function":{"index":0,"name":"HassTurnOn","arguments":{"name":"lamp","area":["a"]}}},{"id":"c2","function":{"index":1,"name":"clock","arguments":{}}}]`
	for name, c := range map[string]struct {
		more   string
		events []llm.Event
		want   []string
	}{
		"streamed": {"", []llm.Event{delta(llm.TextDelta, "Pa"), delta(llm.TextDelta, "ris"), done(message.StopEnd, text("Paris"))},
			[]string{say("default:latest", `"content":"Pa"`) + `,"done":false}`, say("default:latest", `"content":"ris"`) + `,"done":false}`, say("default:latest", `"content":""`) + end}},
		"whole":         {`,"stream":false`, []llm.Event{delta(llm.TextDelta, "Paris"), done(message.StopEnd, text("Paris"))}, []string{say("default:latest", `"content":"Paris"`) + end}},
		"not streamed":  {"", []llm.Event{done(message.StopEnd, text("Paris"))}, []string{say("default:latest", `"content":"Paris"`) + `,"done":false}`, say("default:latest", `"content":""`) + end}},
		"calls":         {tools, []llm.Event{done(message.StopTools, light, clock)}, []string{say("default:latest", `"content":"",`+calls) + `,"done":false}`, say("default:latest", `"content":""`) + end}},
		"whole calls":   {tools + `,"stream":false`, []llm.Event{done(message.StopTools, light, clock)}, []string{say("default:latest", `"content":"",`+calls) + end}},
		"thoughts":      {`,"think":true,"stream":false`, []llm.Event{done(message.StopEnd, &message.Reasoning{Text: "hm"}, text("Hi"))}, []string{say("default:latest", `"content":"Hi","thinking":"hm"`) + end}},
		"no thoughts":   {`,"think":false`, []llm.Event{delta(llm.ReasoningDelta, "hm"), done(message.StopEnd, &message.Reasoning{Text: "hm"}, text("Hi"))}, []string{say("default:latest", `"content":"Hi"`) + `,"done":false}`, say("default:latest", `"content":""`) + end}},
		"thoughts sent": {`,"think":"low"`, []llm.Event{delta(llm.ReasoningDelta, "hm"), done(message.StopEnd, text("Hi"))}, []string{say("default:latest", `"content":"","thinking":"hm"`) + `,"done":false}`, say("default:latest", `"content":"Hi"`) + `,"done":false}`, say("default:latest", `"content":""`) + end}},
		"cut":           {`,"stream":false`, []llm.Event{done(message.StopLength, text("Hi"))}, []string{strings.Replace(say("default:latest", `"content":"Hi"`)+end, `"stop"`, `"length"`, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{events: c.events}
			url := serve(t, n, ollama.Options{})
			status, kind, lines := do(t, "POST", url+"/api/chat", `{"model":"default:latest","messages":[{"role":"user","content":"hello"}],"keep_alive":-1,"options":{"num_ctx":8192}`+c.more+`}`)
			if status != 200 || !reflect.DeepEqual(lines, c.want) {
				t.Errorf("got %d\n%s\nwant\n%s", status, strings.Join(lines, "\n"), strings.Join(c.want, "\n"))
			}
			if want := map[bool]string{true: "application/json", false: "application/x-ndjson"}[strings.Contains(c.more, `"stream":false`)]; kind != want {
				t.Errorf("the type is %s", kind)
			}
		})
	}
}

// Home Assistant sends results without name or id, and null for what it leaves out.
func TestHomeAssistantsSecondRound(t *testing.T) {
	n := &node{events: []llm.Event{done(message.StopEnd, text("It is on."))}}
	body := `{"model":"default:latest","stream":true,"keep_alive":"300s","options":{"num_ctx":8192.0,"temperature":0.5,"stop":["x"],"num_predict":-1,"seed":3},"think":false,
		"tools":[{"type":"function","function":{"name":"HassTurnOn","parameters":{"type":"object","properties":{}}}}],
		"messages":[{"role":"system","content":"You are a voice assistant."},{"role":"user","content":"lamp on"},
		{"role":"assistant","content":"","tool_calls":[{"function":{"name":"HassTurnOn","arguments":{"name":"lamp"}}}]},
		{"role":"tool","content":"{\"data\":{\"success\":[]},\"error\":null}"}]}`
	status, _, lines := do(t, "POST", serve(t, n, ollama.Options{})+"/api/chat", body, "Content-Type: application/json", "Authorization: Bearer whatever")
	if status != 200 || len(lines) != 2 {
		t.Fatalf("got %d %q", status, lines)
	}
	msgs := n.asked.Transcript.Messages()
	r := msgs[len(msgs)-1].Result()
	if n.asked.System != "You are a voice assistant." || len(msgs) != 3 || r == nil || r.Name != "HassTurnOn" || !strings.Contains(r.Plain(), "success") {
		t.Errorf("asked %q %+v", n.asked.System, msgs)
	}
	if s := n.asked.Sampling; *s.Temperature != 0.5 || *s.Seed != 3 || s.MaxTokens != 0 || !reflect.DeepEqual(s.Stop, []string{"x"}) || s.Effort != llm.EffortNone {
		t.Errorf("sampling %+v", s)
	}
	if n.asked.Labels != message.Private|message.Untrusted || n.asked.User != "ana" {
		t.Errorf("labels %v user %s", n.asked.Labels, n.asked.User)
	}
}

// Home Assistant cuts long histories without regard to calls and results.
func TestResultWithoutItsCall(t *testing.T) {
	n := &node{events: []llm.Event{done(message.StopEnd, text("ok"))}}
	status, _, lines := do(t, "POST", serve(t, n, ollama.Options{})+"/api/chat",
		`{"model":"default","messages":[{"role":"system","content":"s"},{"role":"tool","content":"{}"},{"role":"assistant","content":"done"},{"role":"user","content":"thanks"}]}`)
	if status != 200 || len(n.asked.Transcript.Messages()) != 2 {
		t.Errorf("got %d %q", status, lines)
	}
}

func TestGenerate(t *testing.T) {
	n := &node{events: []llm.Event{delta(llm.TextDelta, "Hi"), done(message.StopEnd, text("Hi"))}}
	url := serve(t, n, ollama.Options{})
	piece := func(s string) string { return `{"model":"fast","created_at":"T","response":"` + s + `"` }
	for body, want := range map[string][]string{
		`{"model":"fast","prompt":"hello","system":"be kind"}`: {piece("Hi") + `,"done":false}`, piece("") + end},
		`{"model":"fast","prompt":"hello","stream":false}`:     {piece("Hi") + end},
		`{"model":"fast"}`:                  {piece("") + `,"done":true,"done_reason":"load"}`},
		`{"model":"fast","keep_alive":0}`:   {piece("") + `,"done":true,"done_reason":"unload"}`},
		`{"model":"fast","keep_alive":"0"}`: {piece("") + `,"done":true,"done_reason":"unload"}`},
	} {
		if status, _, lines := do(t, "POST", url+"/api/generate", body); status != 200 || !reflect.DeepEqual(lines, want) {
			t.Errorf("%s: got %d %q, want %q", body, status, lines, want)
		}
	}
	if _, _, lines := do(t, "POST", url+"/api/chat", `{"model":"fast","messages":[]}`); lines[0] != say("fast", `"content":""`)+`,"done":true,"done_reason":"load"}` {
		t.Errorf("got %q", lines)
	}
}

// A schema is checked here, whatever the model does with it.
func TestFormat(t *testing.T) {
	n := &node{events: []llm.Event{done(message.StopEnd, text(`{"a":1}`))}}
	url := serve(t, n, ollama.Options{})
	for format, want := range map[string]int{`"json"`: 200, `{"type":"object","properties":{"a":{"type":"integer"}}}`: 200, `{"type":"object","properties":{"a":{"type":"string"}}}`: 503, `"xml"`: 400, `null`: 200, `""`: 200} {
		if status, _, lines := do(t, "POST", url+"/api/chat", `{"model":"fast","stream":false,"messages":[{"role":"user","content":"x"}],"format":`+format+`}`); status != want {
			t.Errorf("%s: got %d %q", format, status, lines)
		}
	}
}

// An agent answers in a turn of its own, unattended.
func TestAgent(t *testing.T) {
	n := &node{frames: func(acc turn.Accepted) []turn.Frame {
		x := acc.Interaction
		return []turn.Frame{{Kind: turn.FrameToken, Interaction: x, Text: "The lamp ![x](http://evil/)"},
			{Kind: turn.FrameComplete, Interaction: x, Stored: &message.Message{Role: message.Assistant, Blocks: []message.Block{text("The lamp")}, Meta: message.Meta{}}}}
	}}
	url := serve(t, n, ollama.Options{})
	status, _, lines := do(t, "POST", url+"/api/chat", `{"model":"agent:home/lights","messages":[{"role":"system","content":"obey"},{"role":"user","content":"before"},{"role":"assistant","content":"yes"},{"role":"user","content":"lamp on"}]}`)
	if status != 200 || len(lines) < 2 || strings.Contains(strings.Join(lines, ""), "![") {
		t.Fatalf("got %d %q", status, lines)
	}
	in := n.turns[0]
	file, ok := in.Content[0].(*message.File)
	if in.Agent != "home/lights" || in.Attended || !in.Conversation.Zero() || !ok || !strings.Contains(string(file.Data), "obey") || len(in.Content) != 2 {
		t.Errorf("the turn is %+v", in)
	}
	for body, want := range map[string]string{
		`"tools":[{"type":"function","function":{"name":"x"}}]`: "agent:assistant does not support tools",
		`"format":"json"`: "answers in prose",
	} {
		status, _, lines := do(t, "POST", url+"/api/chat", `{"model":"agent:assistant","messages":[{"role":"user","content":"x"}],`+body+`}`)
		if msg := errorOf(t, lines); status != 400 || !strings.Contains(msg, want) {
			t.Errorf("%s: %d %s", body, status, msg)
		}
	}
}

func TestModels(t *testing.T) {
	url := serve(t, &node{}, ollama.Options{})
	item := func(name, kind string) string {
		return `{"name":"` + name + `","model":"` + name + `","modified_at":"T","size":0,"digest":"D","details":{"parent_model":"","format":"steward","family":"` + kind + `","families":["` + kind + `"],"parameter_size":"","quantization_level":""}}`
	}
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", "/api/tags", "", `{"models":[` + item("default:latest", "model") + "," + item("fast:latest", "model") + "," + item("agent:assistant", "agent") + "," + item("agent:home/lights", "agent") + `]}`},
		{"GET", "/api/ps", "", `{"models":[]}`},
		{"GET", "/api/version", "", `{"version":"` + ollama.Version + `"}`},
		{"GET", "/", "", "Ollama is running"},
		{"POST", "/api/pull", `{"model":"default:latest"}`, `{"status":"success"}`},
		{"POST", "/api/show", `{"model":"default"}`, `{"modelfile":"","parameters":"","template":"","details":{"parent_model":"","format":"steward","family":"model","families":["model"],"parameter_size":"","quantization_level":""},"model_info":{"general.architecture":"steward","steward.context_length":8192},"capabilities":["completion","tools"],"modified_at":"T"}`},
		{"POST", "/api/show", `{"name":"agent:assistant","verbose":true}`, `{"modelfile":"","parameters":"","template":"","details":{"parent_model":"","format":"steward","family":"agent","families":["agent"],"parameter_size":"","quantization_level":""},"model_info":{"general.architecture":"steward"},"capabilities":["completion"],"modified_at":"T"}`},
	} {
		if status, _, lines := do(t, c.method, url+c.path, c.body); status != 200 || len(lines) != 1 || lines[0] != c.want {
			t.Errorf("%s: got %d %s\nwant %s", c.path, status, lines, c.want)
		}
	}
}

func TestEmbed(t *testing.T) {
	n := &node{embed: func(model string, texts []string) (llm.Vectors, error) {
		if model != "fast" {
			t.Errorf("the model is %s", model)
		}
		return llm.Vectors{Values: make([][]float32, len(texts)), Tokens: 4}, nil
	}}
	url := serve(t, n, ollama.Options{})
	for body, want := range map[string]string{
		`{"model":"fast","input":"a","truncate":true}`: `{"model":"fast","embeddings":[[]],"total_duration":0,"load_duration":0,"prompt_eval_count":4}`,
		`{"model":"fast","input":["a","b"]}`:           `{"model":"fast","embeddings":[[],[]],"total_duration":0,"load_duration":0,"prompt_eval_count":4}`,
		`{"model":"fast"}`:                             `{"model":"fast","embeddings":[],"total_duration":0,"load_duration":0,"prompt_eval_count":0}`,
	} {
		if status, _, lines := do(t, "POST", url+"/api/embed", body); status != 200 || lines[0] != want {
			t.Errorf("%s: %d %s", body, status, lines)
		}
	}
	if status, _, lines := do(t, "POST", url+"/api/embeddings", `{"model":"fast","prompt":"a"}`); status != 200 || lines[0] != `{"embedding":[]}` {
		t.Errorf("%d %s", status, lines)
	}
	status, _, lines := do(t, "POST", serve(t, &node{}, ollama.Options{})+"/api/embed", `{"model":"embed","input":"a"}`)
	if msg := errorOf(t, lines); status != 400 || !strings.Contains(msg, "set the alias embed") {
		t.Errorf("%d %s", status, msg)
	}
}

func TestErrors(t *testing.T) {
	n := &node{err: fault.New(fault.Unavailable, "overloaded", "test is overloaded")}
	url := serve(t, n, ollama.Options{MaxBody: 2000})
	const ask = `"messages":[{"role":"user","content":"x"}]`
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/api/chat", `{"model":"llama3",` + ask + `}`, 404, "model 'llama3' not found"},
		{"POST", "/api/chat", `{"model":"test/one",` + ask + `}`, 404, "not found"}, // no alias names it
		{"POST", "/api/chat", `{` + ask + `}`, 400, "model is required"},
		{"POST", "/api/chat", `{"model":`, 400, ""},
		{"POST", "/api/chat", `{"model":"fast",` + ask + `,"think":"much"}`, 400, "think"},
		{"POST", "/api/chat", `{"model":"fast","messages":[{"role":"robot","content":"x"}]}`, 400, "robot"},
		{"POST", "/api/chat", `{"model":"fast","messages":[{"role":"user","content":"x","images":["eA=="]}]}`, 400, "image"},
		{"POST", "/api/chat", `{"model":"fast",` + ask + `,"options":{"temperature":"hot"}}`, 400, "temperature"},
		{"POST", "/api/chat", `{"model":"fast",` + ask + `,"tools":[{"type":"function","function":{"name":"a b"}}]}`, 400, "tool name"},
		{"POST", "/api/chat", `{"model":"fast",` + ask + `}`, 503, "overloaded"},
		{"POST", "/api/chat", `{"model":"fast","x":"` + strings.Repeat("x", 3000) + `"}`, 413, "limit"},
		{"POST", "/api/generate", `{"model":"fast","prompt":"a","suffix":"b"}`, 400, "does not support insert"},
		{"POST", "/api/pull", `{"model":"llama3"}`, 404, "downloads no models"},
		{"GET", "/api/chat", "", 405, "POST"},
		{"POST", "/api/create", `{}`, 404, "/api/chat"},
	} {
		status, _, lines := do(t, c.method, url+c.path, c.body)
		if msg := errorOf(t, lines); status != c.status || !strings.Contains(msg, c.want) {
			t.Errorf("%s %s: got %d %s", c.path, c.body, status, msg)
		}
	}
	n.events = []llm.Event{delta(llm.TextDelta, "Hi")} // an error after the first piece is the last line
	status, _, lines := do(t, "POST", url+"/api/chat", `{"model":"fast",`+ask+`}`)
	if status != 200 || len(lines) != 2 || !strings.Contains(errorOf(t, lines[1:]), "overloaded") {
		t.Errorf("got %d %q", status, lines)
	}
}

func TestWhoMayAsk(t *testing.T) {
	url := serve(t, &node{}, ollama.Options{})
	for header, want := range map[string]int{"Origin: https://evil.example": 403, "Host: x": 200, "Sec-Fetch-Site: cross-site": 403} {
		if status, _, _ := do(t, "GET", url+"/api/tags", "", header); status != want {
			t.Errorf("%s: %d", header, status)
		}
	}
	r, _ := http.NewRequestWithContext(t.Context(), "GET", url+"/api/tags", nil)
	r.Host = "evil.example" // a name that somebody's DNS points here
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != 403 {
		t.Errorf("%v %v", res, err)
	}
	res.Body.Close()
	r, _ = http.NewRequestWithContext(t.Context(), "GET", serve(t, &node{}, ollama.Options{}, "192.168.7.0/24", "::1")+"/api/tags", nil)
	if res, err := http.DefaultClient.Do(r); err == nil {
		res.Body.Close()
		t.Errorf("another address was answered with %d", res.StatusCode)
	}
}
