package openai

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/provider/wire"
	"steward/internal/server/auth"
	"steward/internal/turn"
	"steward/internal/turn/relay"
)

// ignoredHeader names the members of a request that were ignored.
const ignoredHeader = "Steward-Ignored"

// events is the source of an answer: a model's stream, or a conversation's turn as such a stream.
type events = relay.Events

func (f *server) chat(w http.ResponseWriter, r *http.Request, user string) error {
	c, err := readCompletion(w, r, f.MaxBody)
	if err != nil {
		return err
	}
	doc, err := json.Marshal(c.Messages)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	a, from, err := f.ask(ctx, w, r, user, c, f.form, doc)
	if err != nil {
		return err
	}
	a.ID = "chatcmpl-" + a.ID
	if c.Stream {
		p := &pipe{w: w, rc: http.NewResponseController(w)}
		s := &sse{pipe: p, answer: a, usage: c.StreamOptions != nil && c.StreamOptions.IncludeUsage, calls: map[int]int{}}
		return f.stream(r, p, from, newFeed(s, a))
	}
	reply, err := a.collect(from)
	if err != nil {
		return err
	}
	auth.Reply(w, http.StatusOK, append(a.whole(reply), '\n'))
	return nil
}

// ask checks a request, except for what its own API reads, and asks the model, the agent or the
// conversation that it names.
func (f *server) ask(ctx context.Context, w http.ResponseWriter, r *http.Request, user string, c *completion, form wire.Codec, doc []byte) (*answer, events, error) {
	sampling, err := c.sampling()
	if err != nil {
		return nil, nil, err
	}
	tools, choice, err := c.toolset()
	if err != nil {
		return nil, nil, err
	}
	schema, err := c.schema()
	if err != nil {
		return nil, nil, err
	}
	path, isAgent := strings.CutPrefix(c.Model, agentPrefix)
	var model llm.Resolved
	if !isAgent {
		if model, err = f.Node.Resolve(c.Model); err != nil {
			return nil, nil, fault.Of(err).Detail("param", "model")
		}
	}
	system, msgs, err := history(form, doc)
	if err != nil {
		return nil, nil, err
	}
	if err := c.rejectUnsupported(); err != nil {
		return nil, nil, err
	}
	if passed := c.ignored(); len(passed) > 0 {
		w.Header().Set(ignoredHeader, strings.Join(passed, ", "))
	}
	x := id.New()
	a := &answer{tools: tools, single: c.Parallel != nil && !*c.Parallel}
	a.ID, a.Created, a.Model = hex.EncodeToString(x[:]), time.Now().Unix(), c.Model
	if conv := c.Metadata["conversation_id"]; conv != "" || isAgent {
		t := turn.Input{ClientID: r.Header.Get("Idempotency-Key"), Sampling: sampling}
		if isAgent {
			t.Agent = path
		} else {
			t.Model = c.Model
		}
		from, err := f.turn(ctx, w, user, conv, c, system, msgs, t)
		return a, from, err
	}
	for _, m := range msgs {
		if err := f.Node.ReadAttached(ctx, user, c.Model, m.Blocks); err != nil {
			return nil, nil, err
		}
	}
	request := &llm.Request{System: system, Transcript: llm.NewTranscript(msgs...),
		Tools: tools, ToolChoice: choice, Sampling: sampling, Schema: schema, User: user, Labels: f.Labels | relay.LabelsOf(msgs)}
	kept, err := f.Node.FitRequest(ctx, model.Models, request, msgs, string(c.Rest["truncation"]) == `"disabled"`)
	if err != nil {
		return nil, nil, err
	}
	if left := len(msgs) - len(kept); left > 0 {
		a.Steward.Notices = append(a.Steward.Notices, fmt.Sprintf("The oldest %d messages were left out so that the request fits the model's context window.", left))
		request.Transcript, msgs = llm.NewTranscript(kept...), kept
	}
	from, err := relay.Structured(ctx, model.Model, request, msgs)
	if fault.HasCode(err, "schema_invalid") {
		err = bad("response_format.json_schema.schema", "%s", fault.Of(err).Message)
	}
	return a, from, err
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
	return nil, relay.Broken()
}
