package openai

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/runtime"
	"steward/internal/server/httpauth"
	"steward/internal/tool"
)

// ignoredHeader names the members of a request that were passed over.
const ignoredHeader = "Steward-Ignored"

// events is what an answer comes from: a model's stream, or the turn of a
// conversation told in the same words.
type events = iter.Seq2[llm.Event, error]

// answer is one completion that is being made.
type answer struct {
	id      string
	created int64
	model   string // as it was asked for
	tools   *llm.Toolset
	single  bool // at most one tool call
	notices []string
}

func (f *server) chat(w http.ResponseWriter, r *http.Request, user string) error {
	c, err := readCompletion(w, r, f.MaxBody)
	if err != nil {
		return err
	}
	sampling, err := c.sampling()
	if err != nil {
		return err
	}
	tools, choice, err := c.toolset()
	if err != nil {
		return err
	}
	schema, err := c.schema()
	if err != nil {
		return err
	}
	path, isAgent := strings.CutPrefix(c.Model, agentPrefix)
	var model llm.Resolved
	if !isAgent {
		if model, err = f.Node.Resolve(c.Model); err != nil {
			return fault.Of(err).Detail("param", "model")
		}
	}
	system, msgs, err := history(f.form, c.Messages)
	if err != nil {
		return err
	}
	if passed := c.ignored(); len(passed) > 0 {
		w.Header().Set(ignoredHeader, strings.Join(passed, ", "))
	}
	x := id.New()
	a := &answer{id: "chatcmpl-" + hex.EncodeToString(x[:]), created: time.Now().Unix(), model: c.Model,
		tools: tools, single: c.Parallel != nil && !*c.Parallel}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var from events
	if conv := c.Metadata["conversation_id"]; conv != "" || isAgent {
		t := runtime.Turn{ClientID: r.Header.Get("Idempotency-Key"), Sampling: sampling}
		if isAgent {
			t.Agent = path
		} else {
			t.Model = c.Model
		}
		if from, err = f.turn(ctx, w, user, conv, c, system, msgs, t); err != nil {
			return err
		}
	} else {
		request := &llm.Request{System: system, Transcript: llm.NewTranscript(msgs...),
			Tools: tools, ToolChoice: choice, Sampling: sampling, Schema: schema, User: user, Labels: f.Labels | labelsOf(msgs)}
		if from, err = structured(ctx, model.Model, request, msgs); err != nil {
			return err
		}
	}
	if c.Stream {
		usage := c.StreamOptions != nil && c.StreamOptions.IncludeUsage
		return f.stream(w, r, a, from, usage)
	}
	reply, err := a.collect(from)
	if err != nil {
		return err
	}
	httpauth.Reply(w, http.StatusOK, append(a.whole(reply), '\n'))
	return nil
}

// labelsOf are those of messages that no conversation has labelled: nobody knows
// who wrote what is attached, or what tools of the caller have told.
func labelsOf(msgs []*message.Message) message.Labels {
	for _, m := range msgs {
		for _, b := range m.Blocks {
			switch b.(type) {
			case *message.Text, *message.Reasoning, *message.ToolCall:
			default:
				return message.Private | message.Untrusted
			}
		}
	}
	return 0
}

// collect reads the stream to its end.
func (a *answer) collect(from events) (*llm.Reply, error) {
	for ev, err := range from {
		if err != nil {
			return nil, err
		}
		switch ev.Kind {
		case llm.Notice:
			a.notices = append(a.notices, ev.Text)
		case llm.Done:
			return ev.Reply, nil
		}
	}
	return nil, brokenOff()
}

func brokenOff() error {
	return fault.New(fault.Unavailable, "stream_broken", "the answer broke off").
		WithHint("ask again").Retrying(fault.RetryBackoff, 0)
}

// whole is the object chat.completion.
func (a *answer) whole(r *llm.Reply) []byte {
	dst := a.head(nil, "chat.completion")
	dst = append(dst, `,"choices":[{"index":0,"message":{"role":"assistant","content":`...)
	text, reasoning := textOf(r.Blocks)
	calls := a.calls(r.Blocks)
	if text == "" && len(calls) > 0 {
		dst = append(dst, "null"...)
	} else {
		dst = quote(dst, text)
	}
	dst = append(dst, `,"refusal":null`...)
	if reasoning != "" {
		dst = quote(append(dst, `,"reasoning_content":`...), reasoning)
	}
	if notes := annotations(r.Blocks); notes != nil {
		dst = append(append(dst, `,"annotations":`...), notes...)
	}
	for i, c := range calls {
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendCall(dst, callID(c.CallID), a.name(c.Name), string(c.Args))
	}
	if len(calls) > 0 {
		dst = append(dst, ']')
	}
	dst = append(dst, `},"logprobs":null,"finish_reason":"`...)
	dst = append(dst, finish(r.Stop, len(calls) > 0)...)
	dst = append(dst, `"}],"usage":`...)
	dst = appendUsage(dst, r.Usage)
	dst = a.appendNotices(dst)
	return append(dst, '}')
}

// head begins an object with what all objects of an answer have.
func (a *answer) head(dst []byte, object string) []byte {
	dst = append(dst, `{"id":"`...)
	dst = append(dst, a.id...)
	dst = append(dst, `","object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, a.created, 10)
	dst = append(dst, `,"model":`...)
	return quote(dst, a.model)
}

// appendNotices tells what the person should know in a member of our own,
// which clients that do not know it pass over.
func (a *answer) appendNotices(dst []byte) []byte {
	if len(a.notices) == 0 {
		return dst
	}
	dst = append(dst, `,"steward":{"notices":[`...)
	for i, n := range a.notices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = quote(dst, n)
	}
	return append(dst, "]}"...)
}

// calls returns the tool calls that the caller gets.
func (a *answer) calls(blocks []message.Block) []*message.ToolCall {
	var out []*message.ToolCall
	for _, b := range blocks {
		if c, ok := b.(*message.ToolCall); ok && (len(out) == 0 || !a.single) {
			out = append(out, c)
		}
	}
	return out
}

// name is a tool's name as the caller gave it, or one that could be.
func (a *answer) name(name string) string {
	for _, s := range a.tools.Specs() {
		if s.Name == name {
			return name
		}
	}
	return tool.WireName(name)
}

// callID is the provider's id of a call, or a fresh one where it has none.
func callID(given string) string {
	if given != "" {
		return given
	}
	b := make([]byte, 12)
	rand.Read(b) // never fails (crypto/rand)
	return "call_" + hex.EncodeToString(b)
}

func appendCall(dst []byte, callID, name, args string) []byte {
	dst = quote(append(dst, `{"id":`...), callID)
	dst = quote(append(dst, `,"type":"function","function":{"name":`...), name)
	dst = quote(append(dst, `,"arguments":`...), args)
	return append(dst, "}}"...)
}

func textOf(blocks []message.Block) (text, reasoning string) {
	var t, r strings.Builder
	for _, b := range blocks {
		switch b := b.(type) {
		case *message.Text:
			t.WriteString(b.Text)
		case *message.Reasoning:
			r.WriteString(b.Text)
		}
	}
	return t.String(), r.String()
}

// annotations are the sources of an answer as the protocol has them, each with
// the part of the text that it stands for; nil where there are none.
func annotations(blocks []message.Block) []byte {
	var dst []byte
	start, end := 0, 0
	for _, b := range blocks {
		t, ok := b.(*message.Text)
		if !ok {
			continue
		}
		start, end = end, end+utf8.RuneCountInString(t.Text)
		for _, c := range t.Citations {
			if dst = append(dst, ','); len(dst) == 1 {
				dst[0] = '['
			}
			dst = quote(append(dst, `{"type":"url_citation","url_citation":{"url":`...), c.URL)
			dst = quote(append(dst, `,"title":`...), c.Title)
			dst = strconv.AppendInt(append(dst, `,"start_index":`...), int64(start), 10)
			dst = append(strconv.AppendInt(append(dst, `,"end_index":`...), int64(end), 10), "}}"...)
		}
	}
	if dst != nil {
		dst = append(dst, ']')
	}
	return dst
}

func finish(s message.Stop, calls bool) string {
	switch {
	case s == message.StopLength, s == message.StopBound:
		return "length"
	case s == message.StopRefused:
		return "content_filter"
	case calls:
		return "tool_calls"
	}
	return "stop"
}

func appendUsage(dst []byte, u message.Usage) []byte {
	for _, f := range [...]struct {
		name string
		n    int64
	}{
		{`{"prompt_tokens":`, u.Input}, {`,"completion_tokens":`, u.Output}, {`,"total_tokens":`, u.Input + u.Output},
		{`,"prompt_tokens_details":{"cached_tokens":`, u.CacheRead},
		{`},"completion_tokens_details":{"reasoning_tokens":`, u.Reasoning},
	} {
		dst = strconv.AppendInt(append(dst, f.name...), f.n, 10)
	}
	return append(dst, "}}"...)
}
