package telemetry_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/lifetime/telemetry"
	"steward/internal/message"
	"steward/internal/request"
	"steward/test/otlp"
)

// served returns what Handler serves.
func served(t testing.TB, x *telemetry.Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	x.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// work does what an engine does in a turn with a model call and a tool call.
func work(ctx context.Context, x *telemetry.Telemetry, own id.ID) {
	ctx, req := x.Request(ctx, own, request.Context{}, "")
	ctx, turn := x.Turn(ctx, telemetry.TurnInfo{Request: request.Context{ID: own}, Agent: "assistant"})
	_, model := x.ModelCall(ctx, telemetry.ModelInfo{Model: "vendor/model"})
	model.End(message.Usage{Input: 10, Output: 2}, 0.5, nil, nil)
	_, tool := x.ToolCall(ctx, telemetry.ToolInfo{Name: "math.add", Request: own})
	tool.End(&message.ToolResult{Status: message.OK}, nil)
	turn.End("answered", nil)
	req.End("answered", nil)
}

// A nil Telemetry does nothing, and can be called like any other.
func TestNilDoesNothing(t *testing.T) {
	var x *telemetry.Telemetry
	work(t.Context(), x, id.New())
	x.Intent("done")
	x.Commit(time.Second, false, nil)
	x.Group(1)
	x.Occurrences("done", 1)
	x.Update("a", "b")
	x.Post("a", "b")
	x.ConfiguredModels("a/b")
	x.Gauge("a", "b", nil, nil)
	f := x.Follow("search", nil)
	f.At(1)
	f.Rest()
	f.Failed()
	if x.Stuck(0) != nil {
		t.Error("something is stuck")
	}
	_, call := x.EmbedCall(t.Context(), "a/b", "")
	call.End(message.Usage{}, 0, nil, nil)
}

// However many tools and models there are, the number of labels is bounded, and what is beyond counts as other.
// A model that has never answered counts as other, too.
func TestLabelsAreBounded(t *testing.T) {
	x := telemetry.New("test", nil)
	for i := range 2000 {
		_, tool := x.ToolCall(t.Context(), telemetry.ToolInfo{Name: fmt.Sprintf("tool.n%d", i)})
		tool.End(nil, nil)
		_, model := x.ModelCall(t.Context(), telemetry.ModelInfo{Model: fmt.Sprintf("vendor/m%d", i)})
		model.End(message.Usage{}, 0, nil, nil)
		_, failing := x.ModelCall(t.Context(), telemetry.ModelInfo{Model: fmt.Sprintf("typed/%d", i)})
		failing.End(message.Usage{}, 0, nil, fault.New(fault.NotFound, "model_not_found", "no"))
		_, asked := x.ToolCall(t.Context(), telemetry.ToolInfo{Name: fmt.Sprintf("agent%d.ask", i), Origin: fmt.Sprintf("agent:%d", i)})
		asked.End(nil, nil)
	}
	text := served(t, x)
	tools, models := strings.Count(text, "steward_tool_calls_total{"), strings.Count(text, "steward_model_calls_total{")
	if tools > 510 || models > 210 || strings.Contains(text, "typed") || strings.Contains(text, "agent7") {
		t.Errorf("%d tools, %d models", tools, models)
	}
	for _, want := range []string{`steward_tool_calls_total{outcome="ok",tool="other"} 1500`, `steward_tool_calls_total{outcome="ok",tool="agent.ask"} 2000`,
		`steward_model_calls_total{model="other",outcome="not_found",provider="other"} 2000`, `steward_model_calls_total{model="other",outcome="answered",provider="other"} 1800`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// A follower is stuck if it makes no progress for a time while it is behind: since somebody found it so, or since it
// failed. It is not if it had nothing to read for as long, whether or not anybody has looked meanwhile.
func TestStuckFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := telemetry.New("test", nil)
		head := uint64(10)
		f := x.Follow("search", func() uint64 { return head })
		stuck := func(when string, want ...string) {
			t.Helper()
			if got := x.Stuck(time.Minute); !slices.Equal(got, want) {
				t.Errorf("%s: %v", when, got)
			}
		}
		f.At(10)
		time.Sleep(time.Hour)
		head = 20
		stuck("the log has just grown")
		time.Sleep(61 * time.Second)
		stuck("a minute after it was found behind", "search")
		f.At(15)
		stuck("it has made progress")
		if text := served(t, x); !strings.Contains(text, `steward_follower_lag_entries{follower="search"} 5`) {
			t.Error("it is not 5 entries behind")
		}
		f.At(20)
		stuck("it is at the end of the log")
		head = 30
		time.Sleep(time.Hour)
		f.Failed()
		time.Sleep(50 * time.Second)
		f.Failed()
		stuck("it fails for less than a minute")
		time.Sleep(11 * time.Second)
		stuck("it fails for a minute", "search")
	})
}

// Without a collector, a traceparent that arrives is passed on as it came, and without one nothing is sent.
func TestATraceIsPassedOn(t *testing.T) {
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	x := telemetry.New("test", nil)
	sent := ""
	h := x.Servers(func(*http.Request) string { return "api" }, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := telemetry.Carry(context.Background(), r.Context())
		header := http.Header{}
		if telemetry.Traced(ctx) {
			telemetry.Inject(ctx, header)
		}
		sent = header.Get("Traceparent")
		if own := telemetry.Traceparent(ctx, "otherwise"); own != sent && own != "otherwise" {
			t.Errorf("%q and %q", own, sent)
		}
	}))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	h.ServeHTTP(httptest.NewRecorder(), r)
	if sent != "" {
		t.Errorf("%q is sent", sent)
	}
	for in, want := range map[string]string{caller: caller, "00-nonsense-01": ""} {
		r.Header.Set("Traceparent", in)
		if h.ServeHTTP(httptest.NewRecorder(), r); sent != want {
			t.Errorf("%q is passed on as %q", in, sent)
		}
	}
	r.Header.Set("Traceparent", caller)
	r.Header.Set("Upgrade", "websocket")
	if h.ServeHTTP(httptest.NewRecorder(), r); sent != "" {
		t.Errorf("an upgraded connection sends %q", sent)
	}
}

// What goes on after its request was answered is a trace of its own, with a link to the span of the request. The IDs
// of the link follow from those of the request, and its attribute names the request.
func TestLinksLeadToRequests(t *testing.T) {
	col := otlp.New(t)
	x := telemetry.New("test", nil)
	stop, err := x.Trace(telemetry.TraceOptions{Endpoint: col.URL})
	if err != nil {
		t.Fatal(err)
	}
	root, asked, later := id.New(), id.New(), id.New()
	_, first := x.Request(t.Context(), root, request.Context{}, "")
	first.End("answered", nil)
	above := request.Context{ID: root}.ChildAs(asked, "agent:helper")
	_, next := x.Request(t.Context(), later, above.ChildAs(later, "tool:mail.send"), "tool:mail.send")
	next.End("answered", nil)
	_, turn := x.Turn(t.Context(), telemetry.TurnInfo{Request: above, Agent: "helper", Resumed: true})
	turn.End("answered", nil)
	ctx := telemetry.At(t.Context(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	_, queued := x.Queued(ctx, above, "mail.send", "action")
	queued.End([]*message.ToolResult{{Status: message.OK}, {Status: message.Failed}}, nil)
	if err := stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	hex := func(x id.ID) string { return strings.ReplaceAll(x.String(), "-", "") }
	for name, to := range map[string]id.ID{"request": asked, "invoke_agent helper": asked, "execute_tool mail.send": asked} {
		list := col.Named(name)
		s := list[len(list)-1]
		if len(s.Links) != 1 || len(s.ParentSpanId) != 0 {
			t.Fatalf("%s has %d links and the parent %x", name, len(s.Links), s.ParentSpanId)
		}
		l := s.Links[0]
		if otlp.ID(l.TraceId) != hex(root) || otlp.ID(l.SpanId) != hex(to)[16:] || len(l.Attributes) != 1 || l.Attributes[0].Value.GetStringValue() != to.String() {
			t.Errorf("%s is linked to %v", name, l)
		}
	}
	if s := col.Named("request")[0]; otlp.ID(s.TraceId) != hex(root) || otlp.ID(s.SpanId) != hex(root)[16:] || len(s.Links) != 0 {
		t.Errorf("the request of a user is %v", s)
	}
	if s := col.Named("execute_tool mail.send")[0]; otlp.Attr(s, "steward.outcome") != "error" || s.Status.GetCode() != trace.Status_STATUS_CODE_ERROR || otlp.Attr(s, "steward.actions") != "int_value:2" {
		t.Errorf("the queued actions are %v", s)
	}
}

// However long a conversation is, and however much one message has, an attribute with content is bounded. It has what is
// newest.
func TestContentIsBounded(t *testing.T) {
	col := otlp.New(t)
	x := telemetry.New("test", nil)
	stop, err := x.Trace(telemetry.TraceOptions{Endpoint: col.URL, Content: true})
	if err != nil {
		t.Fatal(err)
	}
	var much []message.Block
	for range 100 {
		much = append(much, &message.Text{Text: strings.Repeat("x", 30<<10)})
	}
	list := []*message.Message{{Role: message.User, Blocks: []message.Block{&message.Text{Text: "the oldest"}}}, {Role: message.User, Blocks: much}}
	for range 3 {
		list = append(list, &message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: "the newest"}}})
	}
	pictures := slices.Repeat([]*message.Message{{Role: message.User, Blocks: []message.Block{&message.Image{}}}}, 20_000)
	for _, asked := range [][]*message.Message{list, pictures} {
		_, call := x.ModelCall(t.Context(), telemetry.ModelInfo{Model: "vendor/model", Messages: func() []*message.Message { return asked }})
		call.End(message.Usage{}, 0, nil, nil)
	}
	if err := stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	calls := col.Named("chat model")
	if len(calls) != 2 {
		t.Fatalf("%d calls", len(calls))
	}
	for _, c := range calls {
		if said := otlp.Attr(c, "gen_ai.input.messages"); len(said) > 40<<10 {
			t.Errorf("%d bytes", len(said))
		}
	}
	if said := otlp.Attr(calls[0], "gen_ai.input.messages"); strings.Count(said, "the newest") != 3 || strings.Contains(said, "the oldest") || !strings.Contains(said, "xxx…") {
		t.Errorf("it has %.200s", said)
	}
}

// A follower that nobody needs is not behind, however long the log grows.
func TestAFollowerRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := telemetry.New("test", nil)
		f := x.Follow("events", func() uint64 { return 50 })
		f.At(10)
		f.Rest()
		time.Sleep(time.Hour)
		if got := x.Stuck(time.Minute); got != nil {
			t.Errorf("%v is stuck", got)
		}
		f.At(20)
		if text := served(t, x); !strings.Contains(text, `steward_follower_lag_entries{follower="events"} 30`) {
			t.Error("it is not 30 entries behind")
		}
	})
}

// What a turn with a model call and a tool call costs beyond its work: with nothing, with metrics, and with traces.
func BenchmarkTurn(b *testing.B) {
	own := id.New()
	b.Run("nothing", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			work(b.Context(), nil, own)
		}
	})
	b.Run("metrics", func(b *testing.B) {
		x := telemetry.New("test", nil)
		b.ReportAllocs()
		for b.Loop() {
			work(b.Context(), x, own)
		}
	})
	b.Run("traces", func(b *testing.B) {
		srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		defer srv.Close()
		x := telemetry.New("test", nil)
		stop, err := x.Trace(telemetry.TraceOptions{Endpoint: srv.URL})
		if err != nil {
			b.Fatal(err)
		}
		defer stop(context.Background()) //nolint:errcheck // nothing is left to do about it
		b.ReportAllocs()
		for b.Loop() {
			work(b.Context(), x, own)
		}
	})
}
