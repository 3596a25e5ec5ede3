package edge_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"steward/test/edge"
	"steward/test/otlp"
)

// A turn that calls a tool and asks an agent is one trace: the caller's, if it named one. The model is called with
// the position in it. The spans have the names and attributes of the conventions
// (https://opentelemetry.io/docs/specs/semconv/gen-ai/), and nothing that was said.
func TestATurnIsOneTrace(t *testing.T) {
	t.Parallel()
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var mu sync.Mutex
	var sent []string
	script := edge.Script(t, func(in edge.Asked) edge.Reply {
		switch {
		case in.Rounds() == 0 && in.User() == "canary":
			return edge.Reply{Calls: []edge.Call{{Name: "helper.ask", Args: map[string]any{"request": "canary of a request"}}}, Input: 7}
		case in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "math.add", Args: map[string]any{"a": 40, "b": 2}}}, Input: 7}
		}
		return edge.Reply{Text: "canary of an answer: " + strings.Join(in.Results(), ""), Input: 7}
	})
	col := otlp.New(t)
	n := edge.New(t, edge.Options{Model: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		sent = append(sent, r.Header.Get("Traceparent"))
		mu.Unlock()
		script.ServeHTTP(w, r)
	}), Settings: "traces: {endpoint: '" + col.URL + "', key: 'env:COLLECTOR_KEY'}\nmodels: {default: openai/gpt-5.2}\nrouting: 'off'\nmemory: {read: false}\n", Env: []string{"COLLECTOR_KEY=sesame"}})
	n.Write("name: helper\ndescription: Helps.\ntools: [math.*]\n", "data", "agents", "helper", "agent.yaml")
	n.Must("agents", "approve", "--all", "--yes")
	n.Serve()
	mu.Lock()
	sent = nil
	mu.Unlock()
	status, answer := n.HTTP(http.MethodPost, "/v1/chat/completions", map[string]any{"model": "agent:assistant", "messages": []any{map[string]any{"role": "user", "content": "canary"}}}, "Traceparent", caller)
	if status != http.StatusOK || !strings.Contains(string(answer), "42") {
		t.Fatalf("%d %s", status, answer)
	}
	c := n.Dial()
	c.Turn(map[string]any{"content": "hello"}, nil)
	const page = "4bf92f3577b34da6a3ce929d0e0e4736"
	c.Turn(map[string]any{"content": "hello", "traceparent": "00-" + page + "-00f067aa0ba902b7-01"}, nil)
	n.Stop() // sends what is left

	one := func(name string) *trace.Span {
		t.Helper()
		list := col.Named(name)
		list = slices.DeleteFunc(list, func(s *trace.Span) bool { return otlp.ID(s.TraceId) != caller[3:35] })
		if len(list) != 1 {
			t.Fatalf("%d spans %q in the caller's trace", len(list), name)
		}
		return list[0]
	}
	agent, asks, helper, adds := one("invoke_agent assistant"), one("execute_tool helper.ask"), one("invoke_agent helper"), one("execute_tool math.add")
	requests := slices.DeleteFunc(col.Named("request"), func(s *trace.Span) bool { return otlp.ID(s.TraceId) != caller[3:35] })
	below := func(s, parent *trace.Span) bool {
		return slices.Equal(s.ParentSpanId, parent.SpanId) && s.StartTimeUnixNano >= parent.StartTimeUnixNano && s.EndTimeUnixNano <= parent.EndTimeUnixNano
	}
	if len(requests) != 2 {
		t.Fatalf("%d requests", len(requests))
	}
	outer, inner := requests[0], requests[1]
	if otlp.ID(outer.ParentSpanId) != caller[36:52] {
		outer, inner = inner, outer
	}
	if otlp.ID(outer.ParentSpanId) != caller[36:52] || outer.Kind != trace.Span_SPAN_KIND_SERVER || !below(agent, outer) || !below(asks, agent) || !below(inner, asks) || !below(helper, inner) || !below(adds, helper) {
		t.Errorf("the spans are not below each other:\n%v\n%v\n%v\n%v\n%v\n%v", outer, agent, asks, inner, helper, adds)
	}
	calls := slices.DeleteFunc(col.Named("chat gpt-5.2"), func(s *trace.Span) bool { return otlp.ID(s.TraceId) != caller[3:35] })
	if len(calls) != 4 {
		t.Errorf("%d calls of the model", len(calls))
	}
	var positions []string
	for _, s := range calls {
		if !below(s, agent) && !below(s, helper) {
			t.Errorf("a call of the model is below no agent: %v", s)
		}
		positions = append(positions, "00-"+otlp.ID(s.TraceId)+"-"+otlp.ID(s.SpanId)+"-01")
		for key, want := range map[string]string{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5.2", "gen_ai.usage.input_tokens": "int_value:7"} {
			if got := otlp.Attr(s, key); got != want {
				t.Errorf("%s of a call: %q", key, got)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, p := range positions {
		if !slices.Contains(sent, p) {
			t.Errorf("no request to the model has %s: %v", p, sent)
		}
	}
	for _, c := range []struct {
		s         *trace.Span
		key, want string
	}{
		{agent, "gen_ai.operation.name", "invoke_agent"}, {agent, "gen_ai.agent.name", "assistant"}, {helper, "gen_ai.agent.name", "helper"}, {helper, "steward.turn.origin", "agent"},
		{adds, "gen_ai.operation.name", "execute_tool"}, {adds, "gen_ai.tool.name", "math.add"}, {adds, "gen_ai.tool.type", "function"}, {adds, "steward.outcome", "ok"},
		{outer, "steward.outcome", "answered"}, {helper, "gen_ai.conversation.id", otlp.Attr(helper, "gen_ai.conversation.id")},
	} {
		if got := otlp.Attr(c.s, c.key); got != c.want || got == "" {
			t.Errorf("%s of %s: %q", c.key, c.s.Name, got)
		}
	}
	if !slices.ContainsFunc(col.Named("request"), func(s *trace.Span) bool {
		return otlp.ID(s.TraceId) == page && otlp.ID(s.ParentSpanId) == "00f067aa0ba902b7"
	}) {
		t.Error("a message over the WebSocket is not in the trace of its sender")
	}
	// A turn that nobody traces begins a trace with the ID of its request.
	if i := slices.IndexFunc(col.Named("request"), func(s *trace.Span) bool {
		own := strings.ReplaceAll(otlp.Attr(s, "steward.request.id"), "-", "")
		return len(s.ParentSpanId) == 0 && otlp.ID(s.TraceId) == own && otlp.ID(s.SpanId) == own[16:]
	}); i < 0 {
		t.Error("no trace has the ID of its request")
	}
	if strings.Contains(col.Raw(), "canary") {
		t.Error("the spans have what was said")
	}
	if keys := col.Keys(); len(keys) == 0 || slices.ContainsFunc(keys, func(k string) bool { return k != "Bearer sesame" }) {
		t.Errorf("the collector is called with %v", keys)
	}
}

// With traces.content, spans also have what was said.
func TestTracesWithContent(t *testing.T) {
	t.Parallel()
	col := otlp.New(t)
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if in.Rounds() == 0 {
			return edge.Reply{Calls: []edge.Call{{Name: "math.add", Args: map[string]any{"a": 40, "b": 2}}}}
		}
		return edge.Reply{Text: "the answer"}
	}), Settings: "traces: {endpoint: '" + col.URL + "', content: true}\nmodels: {default: openai/gpt-5.2}\nrouting: 'off'\nmemory: {read: false}\n"})
	n.Serve()
	n.Dial().Turn(map[string]any{"content": "the question"}, nil)
	n.Stop()
	calls := col.Named("chat gpt-5.2")
	tool := col.Named("execute_tool math.add")
	if len(calls) != 2 || len(tool) != 1 {
		t.Fatalf("%d calls of the model, %d of the tool", len(calls), len(tool))
	}
	if args, res := otlp.Attr(tool[0], "gen_ai.tool.call.arguments"), otlp.Attr(tool[0], "gen_ai.tool.call.result"); !strings.Contains(args, "40") || !strings.Contains(res, "42") {
		t.Errorf("the tool is called with %q and answers %q", args, res)
	}
	var asked, said string
	for _, c := range calls {
		asked += otlp.Attr(c, "gen_ai.input.messages")
		said += otlp.Attr(c, "gen_ai.output.messages")
	}
	if !strings.Contains(asked, "the question") || !strings.Contains(said, `"the answer"`) || !strings.Contains(said, "tool_call") {
		t.Errorf("asked %s, said %s", asked, said)
	}
}

// A collector that refuses spans costs no turn, and the log says what is lost.
func TestACollectorThatRefuses(t *testing.T) {
	t.Parallel()
	col := httptest.NewServer(http.NotFoundHandler())
	defer col.Close()
	n := edge.New(t, edge.Options{Settings: "traces: {endpoint: '" + col.URL + "'}\n"})
	n.Serve()
	n.Must("ask", "-q", "What is 3 times 4?")
	n.Stop()
	if said := n.Log(); !strings.Contains(said, "sending to an OpenTelemetry collector failed") || !strings.Contains(said, "404") {
		t.Errorf("the log says\n%s", said)
	}
}
