package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/request"
)

// Attributes of Steward's own.
const (
	keyRequest = attribute.Key("steward.request.id")
	keyParent  = attribute.Key("steward.request.parent_id")
	keyOrigin  = attribute.Key("steward.turn.origin")
	keyOutcome = attribute.Key("steward.outcome")
	keyEffect  = attribute.Key("steward.tool.effect")
	keyActions = attribute.Key("steward.actions")
)

// maxContent bounds each attribute with content, in bytes. The names around a part of a message count as partSize.
const (
	maxContent = 32 << 10
	partSize   = 64
)

// Request is a message from its arrival to the end of its turn. The zero value does nothing.
type Request struct{ span trace.Span }

// Request begins the span of a request with an ID. above is its lineage. Its trace is that of ctx, if ctx
// carries one; otherwise it begins a trace whose ID is that of the request, with a link to the request that
// led to it.
func (t *Telemetry) Request(ctx context.Context, own id.ID, above request.Context, origin string) (context.Context, Request) {
	if t == nil || t.tracer == nil {
		return ctx, Request{}
	}
	opts := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(keyRequest.String(own.String()), keyOrigin.String(originOf(origin)))}
	if !above.Parent.Zero() {
		opts = append(opts, trace.WithAttributes(keyParent.String(above.Parent.String())))
	}
	if Traced(ctx) {
		ctx, span := t.tracer.Start(ctx, "request", opts...)
		return ctx, Request{span}
	}
	if !above.Parent.Zero() {
		opts = append(opts, trace.WithLinks(linkTo(above, above.Parent)))
	}
	_, span := t.tracer.Start(context.WithValue(ctx, identity{}, own), "request", opts...)
	return trace.ContextWithSpan(ctx, span), Request{span}
}

// End ends the request. outcome is that of its turn.
func (r Request) End(outcome string, err error) {
	if r.span != nil {
		r.span.SetAttributes(keyOutcome.String(outcome))
		end(r.span, err)
	}
}

// TurnInfo describes a turn.
type TurnInfo struct {
	Request      request.Context
	Conversation id.ID
	Origin       string // what began it, such as "tool:NAME"; empty: the user
	Agent        string
	Version      string // of the agent
	Model        string // that was asked for; may be empty
	Resumed      bool   // it began before a restart
}

// Turn is the run of an agent. The zero value does nothing.
type Turn struct {
	t     *Telemetry
	ctx   context.Context
	span  trace.Span
	began time.Time
}

// Turn counts a turn that begins, and begins its span. Spans of what it leads to are below it if they begin
// with the context that it returns.
func (t *Telemetry) Turn(ctx context.Context, info TurnInfo) (context.Context, Turn) {
	if t == nil {
		return ctx, Turn{}
	}
	x := Turn{t: t, ctx: ctx, began: time.Now()}
	t.turnsStarted.WithLabelValues(originOf(info.Origin)).Inc()
	t.turnsRunning.Inc()
	if t.tracer == nil {
		return ctx, x
	}
	rc := info.Request
	opts := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(
		semconv.GenAIOperationNameInvokeAgent, semconv.GenAIProviderNameKey.String("steward"),
		semconv.GenAIAgentName(info.Agent), semconv.GenAIConversationID(info.Conversation.String()),
		keyRequest.String(rc.ID.String()), keyOrigin.String(originOf(info.Origin)))}
	if info.Version != "" {
		opts = append(opts, trace.WithAttributes(semconv.GenAIAgentVersion(info.Version)))
	}
	if info.Model != "" {
		opts = append(opts, trace.WithAttributes(semconv.GenAIRequestModel(info.Model)))
	}
	if info.Resumed {
		opts = append(opts, trace.WithLinks(linkTo(rc, rc.ID)))
	}
	ctx, x.span = t.tracer.Start(ctx, "invoke_agent "+info.Agent, opts...)
	x.ctx = ctx
	return ctx, x
}

// linkTo returns the link to the span of a request, of the lineage of rc.
func linkTo(rc request.Context, to id.ID) trace.Link {
	return trace.Link{
		SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID(rc), SpanID: spanID(to), TraceFlags: trace.FlagsSampled, Remote: true}),
		Attributes:  []attribute.KeyValue{keyRequest.String(to.String())},
	}
}

// End counts the end of the turn.
func (x Turn) End(outcome string, err error) {
	if x.t == nil {
		return
	}
	x.t.turnsRunning.Dec()
	x.t.turns.WithLabelValues(outcome).Inc()
	took := time.Since(x.began)
	x.t.turnSeconds.WithLabelValues(outcome).Observe(took.Seconds())
	x.t.log.DebugContext(x.ctx, "turn ended", "outcome", outcome, "took", took)
	if x.span != nil {
		x.span.SetAttributes(keyOutcome.String(outcome))
		end(x.span, err)
	}
}

// ToolInfo describes a tool call.
type ToolInfo struct {
	Name    string // of a tool that exists; empty: the model has made one up
	Origin  string // the tool's Spec.Origin
	Effect  string
	CallID  string
	Request id.ID
	Args    []byte
}

// ToolCall is a tool call that runs.
type ToolCall struct {
	t     *Telemetry
	ctx   context.Context
	name  string
	label string
	span  trace.Span
	began time.Time
}

// ToolCall begins a tool call.
func (t *Telemetry) ToolCall(ctx context.Context, info ToolInfo) (context.Context, ToolCall) {
	if t == nil {
		return ctx, ToolCall{}
	}
	x := ToolCall{t: t, ctx: ctx, name: info.Name, began: time.Now(), label: t.toolLabel(info.Name, info.Origin)}
	if t.tracer == nil {
		return ctx, x
	}
	name := info.Name
	if name == "" {
		name = x.label
	}
	attrs := []attribute.KeyValue{semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(name), semconv.GenAIToolType("function"),
		semconv.GenAIToolCallID(info.CallID), keyRequest.String(info.Request.String())}
	if info.Effect != "" {
		attrs = append(attrs, keyEffect.String(info.Effect))
	}
	if t.content {
		attrs = append(attrs, semconv.GenAIToolCallArgumentsKey.String(clip(string(info.Args), maxContent)))
	}
	ctx, x.span = t.tracer.Start(ctx, "execute_tool "+name, trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(attrs...))
	return ctx, x
}

// End counts the end of the call with the status of its result.
func (x ToolCall) End(res *message.ToolResult, err error) {
	if x.t == nil {
		return
	}
	outcome := "ok"
	switch {
	case errors.Is(err, request.ErrSuspend):
		outcome = "suspended"
	case err != nil:
		outcome = "failed"
	case res != nil && res.Status != "":
		outcome = string(res.Status)
	}
	x.t.toolCalls.WithLabelValues(x.label, outcome).Inc()
	took := time.Since(x.began)
	x.t.toolSeconds.WithLabelValues(x.label).Observe(took.Seconds())
	x.t.log.DebugContext(x.ctx, "tool call ended", "tool", x.name, "outcome", outcome, "took", took)
	if x.span == nil {
		return
	}
	x.span.SetAttributes(keyOutcome.String(outcome))
	if x.t.content && res != nil {
		x.span.SetAttributes(semconv.GenAIToolCallResultKey.String(clip(textOf(res.Content), maxContent)))
	}
	if err == nil && outcome != "ok" {
		x.span.SetAttributes(semconv.ErrorTypeKey.String(outcome))
		x.span.SetStatus(codes.Error, "")
	}
	end(x.span, err)
}

// Queued are actions of one tool that were queued by a turn and are done after its end. The zero value does nothing.
type Queued struct{ span trace.Span }

// Queued begins the span of queued actions. The request that queued them has been answered, so they are a trace of
// their own, with a link to it. Nothing is counted: the tool calls of the turn were.
func (t *Telemetry) Queued(ctx context.Context, of request.Context, tool string, effect string) (context.Context, Queued) {
	if t == nil || t.tracer == nil {
		return ctx, Queued{}
	}
	ctx, span := t.tracer.Start(ctx, "execute_tool "+tool, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindInternal), trace.WithLinks(linkTo(of, of.ID)),
		trace.WithAttributes(semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(tool), semconv.GenAIToolType("function"),
			keyRequest.String(of.ID.String()), keyEffect.String(effect)))
	return ctx, Queued{span}
}

// End ends the span with the statuses of the results, of which there are none if a person is waited for.
func (q Queued) End(results []*message.ToolResult, err error) {
	if q.span == nil {
		return
	}
	outcome := "waiting"
	for _, res := range results {
		outcome = string(res.Status)
		if res.Status != message.OK {
			q.span.SetStatus(codes.Error, "")
			q.span.SetAttributes(semconv.ErrorTypeKey.String(outcome))
			break
		}
	}
	q.span.SetAttributes(keyOutcome.String(outcome), keyActions.Int(len(results)))
	end(q.span, err)
}

// ModelInfo describes a call of a model.
type ModelInfo struct {
	Model       string // "provider/model"
	Provider    string // its name in the conventions; empty: the one of Model
	MaxTokens   int
	Temperature *float64
	Messages    func() []*message.Message // what it is asked, for content
	System      string
}

// ModelCall is a call of a model that runs.
type ModelCall struct {
	t     *Telemetry
	ctx   context.Context
	full  string
	span  trace.Span
	began time.Time
}

// ModelCall begins a call of a model.
func (t *Telemetry) ModelCall(ctx context.Context, info ModelInfo) (context.Context, ModelCall) {
	if t == nil {
		return ctx, ModelCall{}
	}
	x := ModelCall{t: t, ctx: ctx, full: info.Model, began: time.Now()}
	if t.tracer == nil {
		return ctx, x
	}
	provider, model, _ := strings.Cut(info.Model, "/")
	attrs := []attribute.KeyValue{semconv.GenAIOperationNameChat, semconv.GenAIProviderNameKey.String(cmp.Or(info.Provider, provider)), semconv.GenAIRequestModel(model),
		semconv.GenAIRequestStream(true)}
	if info.MaxTokens > 0 {
		attrs = append(attrs, semconv.GenAIRequestMaxTokens(info.MaxTokens))
	}
	if info.Temperature != nil {
		attrs = append(attrs, semconv.GenAIRequestTemperature(*info.Temperature))
	}
	if rc, ok := request.From(ctx); ok {
		attrs = append(attrs, keyRequest.String(rc.ID.String()))
	}
	if t.content {
		if info.Messages != nil {
			attrs = append(attrs, semconv.GenAIInputMessagesKey.String(messagesText(info.Messages())))
		}
		if info.System != "" {
			attrs = append(attrs, semconv.GenAISystemInstructionsKey.String(partsText(info.System)))
		}
	}
	ctx, x.span = t.tracer.Start(ctx, "chat "+model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
	return ctx, x
}

// EmbedCall begins a call of an embedding model ("provider/model"). traced is ModelInfo.Provider.
func (t *Telemetry) EmbedCall(ctx context.Context, full, traced string) (context.Context, ModelCall) {
	if t == nil {
		return ctx, ModelCall{}
	}
	x := ModelCall{t: t, ctx: ctx, full: full, began: time.Now()}
	if t.tracer == nil {
		return ctx, x
	}
	provider, model, _ := strings.Cut(full, "/")
	ctx, x.span = t.tracer.Start(ctx, "embeddings "+model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		semconv.GenAIOperationNameEmbeddings, semconv.GenAIProviderNameKey.String(cmp.Or(traced, provider)), semconv.GenAIRequestModel(model)))
	return ctx, x
}

// End counts the end of the call: what it has used and what that costs. reply is nil if there is none.
func (x ModelCall) End(u message.Usage, cost float64, reply *message.Message, err error) {
	if x.t == nil {
		return
	}
	took := time.Since(x.began)
	outcome := x.t.countModel(x.full, took, u, cost, err)
	x.t.log.DebugContext(x.ctx, "model call ended", "model", x.full, "outcome", outcome, "took", took, "input", u.Input, "output", u.Output)
	if x.span == nil {
		return
	}
	x.span.SetAttributes(semconv.GenAIUsageInputTokens(int(u.Input)), semconv.GenAIUsageOutputTokens(int(u.Output)))
	if u.CacheRead > 0 {
		x.span.SetAttributes(semconv.GenAIUsageCacheReadInputTokens(int(u.CacheRead)))
	}
	if reply != nil {
		_, model, _ := strings.Cut(reply.Model, "/")
		x.span.SetAttributes(semconv.GenAIResponseModel(model), semconv.GenAIResponseFinishReasons(string(reply.Stop)))
		if x.t.content {
			x.span.SetAttributes(semconv.GenAIOutputMessagesKey.String(messagesText([]*message.Message{reply})))
		}
	}
	end(x.span, err)
}

// end ends a span. The text of an error may have content, so that only its code is told.
func end(span trace.Span, err error) {
	if err != nil {
		span.SetAttributes(semconv.ErrorTypeKey.String(fault.Of(err).Code))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// messagesText returns messages in the form of the conventions: a role and parts.
func messagesText(list []*message.Message) string {
	type part struct {
		Type    string `json:"type"`
		Content string `json:"content,omitzero"`
		Name    string `json:"name,omitzero"`
		ID      string `json:"id,omitzero"`
	}
	type said struct {
		Role  string `json:"role"`
		Parts []part `json:"parts"`
	}
	out, left := []said{}, maxContent
	for i := len(list) - 1; i >= 0 && left > 0; i-- { // the newest count most
		s := said{Role: string(list[i].Role)}
		for _, b := range list[i].Blocks {
			p := part{Type: "text"}
			switch b := b.(type) {
			case *message.Text:
				p.Content = b.Text
			case *message.ToolCall:
				p = part{Type: "tool_call", Name: b.Name, ID: b.CallID, Content: string(b.Args)}
			case *message.ToolResult:
				p = part{Type: "tool_call_response", ID: b.CallID, Content: textOf(b.Content)}
			default:
				continue
			}
			if left <= 0 {
				break
			}
			p.Content = clip(p.Content, left)
			left -= len(p.Content) + partSize
			s.Parts = append(s.Parts, p)
		}
		left -= partSize
		out = append(out, s)
	}
	slices.Reverse(out)
	b, err := json.Marshal(out)
	if err != nil {
		return ""
	}
	return string(b)
}

func partsText(text string) string {
	b, err := json.Marshal([]map[string]string{{"type": "text", "content": clip(text, maxContent)}})
	if err != nil {
		return ""
	}
	return string(b)
}

func textOf(blocks []message.Block) string {
	var b strings.Builder
	for _, x := range blocks {
		if t, ok := x.(*message.Text); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Traceparent returns what is sent along a call that ctx is the context of (W3C Trace Context): the position
// in the trace of ctx; otherwise, the one that is given.
func Traceparent(ctx context.Context, otherwise string) string {
	h := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, h)
	if own := h["traceparent"]; own != "" {
		return own
	}
	return otherwise
}

// Traced reports whether ctx has a position in a trace.
func Traced(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsValid() }

// Inject adds the position in the trace of ctx to the header of an outgoing request, if there is one.
func Inject(ctx context.Context, h http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
}

// At returns ctx with the position in a trace that a traceparent names. One that names none changes nothing.
func At(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}

// Carry returns ctx with the position in the trace of another context, for work that continues in a goroutine
// with a life of its own.
func Carry(ctx, from context.Context) context.Context {
	if span := trace.SpanFromContext(from); span.SpanContext().IsValid() {
		return trace.ContextWithSpan(ctx, span)
	}
	return ctx
}
