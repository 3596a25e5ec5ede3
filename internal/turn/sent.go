package turn

import (
	"context"
	"encoding/json"
	"slices"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
)

// maxSent bounds the requests that a conversation keeps, of a turn with many calls and those before it.
const maxSent = 50

// sentRequest is a request to a model, as it was made. It costs little: the transcript is that of the session, which
// only grows, so its first messages are those that were sent. What was recalled is filled in when it is looked at,
// so that nothing is shown that was forgotten since.
type sentRequest struct {
	answer     id.ID
	system     string
	tools      *llm.Toolset
	transcript *llm.Transcript
	messages   int                                   // of the transcript
	view       func(*llm.Transcript) *llm.Transcript // nil: as it is
}

// noteRequest keeps a request until the conversation leaves memory or is changed.
func (c *Conversation) noteRequest(answer id.ID, r *llm.Request, t *llm.Transcript, view func(*llm.Transcript) *llm.Transcript) {
	n := t.Len()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sent) == maxSent {
		c.sent = slices.Delete(c.sent, 0, 1)
	}
	c.sent = append(c.sent, sentRequest{answer, r.System, r.Tools, t, n, view})
}

// ModelCall returns what was sent to the model for an answer (model_call_not_kept). What was forgotten since is
// shown as forgotten.
func (e *Engine) ModelCall(ctx context.Context, user string, conv, answer id.ID) (client.ModelCall, error) {
	c, leave, err := e.enterExisting(ctx, user, conv)
	if err != nil {
		return client.ModelCall{}, err
	}
	defer leave()
	c.mu.Lock()
	at := slices.IndexFunc(c.sent, func(s sentRequest) bool { return s.answer == answer })
	var sent sentRequest
	if at >= 0 {
		sent = c.sent[at]
	}
	c.mu.Unlock()
	if at < 0 {
		return client.ModelCall{}, fault.New(fault.NotFound, "model_call_not_kept", "the request for message %s is no longer in memory", answer).
			WithHint("the newest requests of a conversation are kept until it has been idle for a while; its messages and steward context show most of it")
	}
	if sent.view != nil {
		sent.transcript = sent.view(sent.transcript)
	}
	all, err := sent.transcript.All()
	if err != nil {
		return client.ModelCall{}, err
	}
	out := client.ModelCall{System: sent.system, Tools: []client.ModelCallTool{}, Messages: []json.RawMessage{}}
	for _, t := range sent.tools.Specs() {
		out.Tools = append(out.Tools, client.ModelCallTool{Name: t.Name, Description: t.Description, Input: json.RawMessage(t.Input)})
	}
	for _, m := range all[:sent.messages] {
		out.Messages = append(out.Messages, message.Append(nil, m))
	}
	return out, nil
}
