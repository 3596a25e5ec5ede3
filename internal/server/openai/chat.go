package openai

import (
	"context"
	"encoding/hex"
	"iter"
	"net/http"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/runtime"
	"steward/internal/server/httpauth"
)

// ignoredHeader names the members of a request that were ignored.
const ignoredHeader = "Steward-Ignored"

// events is the source of an answer: a model's stream, or a conversation's turn as such a stream.
type events = iter.Seq2[llm.Event, error]

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
	a := &answer{tools: tools, single: c.Parallel != nil && !*c.Parallel}
	a.ID, a.Created, a.Model = "chatcmpl-"+hex.EncodeToString(x[:]), time.Now().Unix(), c.Model
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

// labelsOf returns the labels of messages from outside Steward's conversations. Attachments and results
// of the caller's tools have unknown authors.
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
			a.Steward.Notices = append(a.Steward.Notices, ev.Text)
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
