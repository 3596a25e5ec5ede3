package work

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/turn"
)

// delivery is content that opens an interaction by itself.
type delivery struct {
	origin string
	labels message.Labels

	sources []string // see message.Common
	blocks  []message.Block
}

// deliver opens an interaction with the result of a background call. In an agent's
// conversation, it then passes the agent's answer on to the conversation that asked the agent.
// What was delivered before a crash is not delivered again.
func (e *Engine) deliver(t *backgroundCall, r requests.Stored) error {
	if r.State == "" { // erased in the meantime
		return nil
	}
	ctx := context.WithoutCancel(e.life)
	if r.Quiet() {
		return e.requests.CloseDone(ctx, t.conversation.User, t.at)
	}
	content, err := resultDelivery(&r)
	if err != nil {
		return err
	}
	conv := t.conversation.ID
	for level := range requests.MaxLevels {
		c, found, err := requests.Conversation(ctx, e.store, t.call.Scope, conv)
		switch {
		case err != nil:
			return err
		case !found:
			return e.giveUpDelivery(t, level, errDeleted)
		}
		inter := requests.Opened(t.id, level)
		if level > 0 || !r.Told {
			if err := e.sendDelivery(ctx, t, &r, c, level, content); err != nil {
				if IsFinal(err) {
					return e.giveUpDelivery(t, level, err)
				}
				return err
			}
		}
		if level == 0 {
			if r, err = e.markDelivered(t); err != nil {
				return err
			}
		}
		if err := e.AwaitTurn(ctx, t.conversation.User, conv, inter); err != nil {
			return err
		}
		if c.Asked.Zero() {
			break
		}
		if content, err = e.answerDelivery(ctx, t, c, inter); err != nil {
			return err
		}
		conv = record.IDOf(c.Asked, record.TypeConversation)
	}
	return e.requests.CloseDone(ctx, t.conversation.User, t.at)
}

// sendDelivery opens the interaction. Calling it again has no effect.
func (e *Engine) sendDelivery(ctx context.Context, t *backgroundCall, r *requests.Stored, c record.Conversation, level int, content delivery) error {
	inter := requests.Opened(t.id, level)
	rc, _, err := requests.Lineage(ctx, e.store, t.call.Scope, c, inter)
	if err != nil {
		return err
	}
	next := turn.Input{Conversation: c.ID, ClientID: t.id.String(), Content: content.blocks, Attended: r.Attended,
		Origin: content.origin, Labels: content.labels, Sources: content.sources, Opens: inter, RequestContext: rc}
	if level > 0 {
		next.ClientID += "/" + strconv.Itoa(level)
	}
	_, err = e.turns.Send(e.life.Of(t.conversation.User), t.conversation.User, next)
	return err
}

// IsFinal reports whether retrying cannot help against an error.
func IsFinal(err error) bool {
	switch fault.Of(err).Kind {
	case fault.NotFound, fault.Invalid, fault.Denied, fault.Unsupported, fault.TooLarge:
		return true
	}
	return false
}

// giveUpDelivery closes a background call if its result, or the answer to it, can no longer
// be delivered. The recorded part of the result stays.
func (e *Engine) giveUpDelivery(t *backgroundCall, level int, why error) error {
	cause := fault.Of(why)
	e.log.Warn("cannot deliver the result of a task", "task", t.id.String(), "tool", t.spec.Name, "level", level, "error", why)
	ctx := context.WithoutCancel(e.life)
	_, err := e.requests.Change(ctx, t.call.Scope, t.at, func(r *requests.Stored) error {
		if r.Error == requests.CodeUndelivered {
			return requests.ErrUnchanged
		}
		r.Error, r.Message = requests.CodeUndelivered, llm.Line(cause.Error())
		return nil
	})
	if err != nil {
		return err
	}
	return e.requests.CloseDone(ctx, t.conversation.User, t.at)
}

// markDelivered records that the interaction that delivers the result is durable.
func (e *Engine) markDelivered(t *backgroundCall) (requests.Stored, error) {
	return e.requests.Change(context.WithoutCancel(e.life), t.call.Scope, t.at, func(r *requests.Stored) error {
		if r.Told {
			return requests.ErrUnchanged
		}
		r.Told, r.Result = true, nil
		r.Conversation, r.Interaction = t.conversation.ID, requests.Opened(t.id, 0)
		return nil
	})
}

// AwaitTurn waits until the run of a turn is over. It resumes the run if it was interrupted.
func (e *Engine) AwaitTurn(ctx context.Context, user string, conv, inter id.ID) error {
	c := e.turns.Enter(user, conv)
	defer e.turns.Exit(c)
	return e.awaitRun(ctx, c, inter, func(live *turn.Run) error { return e.awaitClosed(ctx, user, live.Done) })
}

// answerDelivery builds the message that passes on an agent's answer to a result.
func (e *Engine) answerDelivery(ctx context.Context, t *backgroundCall, c record.Conversation, inter id.ID) (delivery, error) {
	at := record.InteractionURI(c.ID, inter)
	below, err := requests.SumUp(ctx, e.store, t.call.Scope, at)
	if err != nil {
		return delivery{}, err
	}
	text := ""
	if below.Final != nil {
		text = below.Final.Text()
	}
	name := cmp.Or(c.Agent, kits.DefaultAgent)
	head := fmt.Sprintf("The agent %s, which you had asked, has more to say: a task of its own (%s, task %s) has ended since.", name, t.spec.Name, t.id)
	if text == "" {
		run, _, err := requests.LastRun(ctx, e.store, t.call.Scope, at)
		if err != nil {
			return delivery{}, err
		}
		text = "(It could not say what: its turn ended as " + strings.TrimSuffix(run.Outcome+", "+run.Error, ", ") + ".)"
	}
	m := e.GistOf(ctx, t.conversation.User, c.ID)
	return delivery{origin: "agent:" + name, labels: m.Labels, sources: m.Sources,
		blocks: []message.Block{&message.Text{Text: head + "\n" + llm.Fenced("its answer", text)}}}, nil
}

// resultDelivery builds the message that delivers a background call's result.
func resultDelivery(r *requests.Stored) (delivery, error) {
	out := delivery{origin: "tool:" + r.Tool, labels: message.Labels(r.Labels)}
	if r.Intent != "" {
		out.origin = "intent:" + r.Tool
	}
	if r.Told {
		return out, nil
	}
	res, err := effect.DecodeResult(r.Result)
	if err != nil {
		return out, fault.New(fault.Internal, "store_broken", "%s: the result of a task cannot be read: %w", r.At, err)
	}
	out.labels |= message.LabelsOf([]message.Block{res})
	var texts []string
	var others []message.Block
	for _, b := range res.Content {
		switch b := b.(type) {
		case *message.Text:
			texts = append(texts, b.Text)
		case *message.Image, *message.File:
			others = append(others, b)
		}
	}
	head := intentText(r, res.Status)
	if head == "" {
		head = fmt.Sprintf("%s has ended: %s. It is task %s, which you began at %s", r.Tool, statusText(res.Status), r.ID, r.Created.UTC().Format("2006-01-02 15:04:05 MST"))
		if r.Args != "" && r.Args != "{}" {
			head += " with " + llm.Line(r.Args)
		}
		head += fmt.Sprintf("; it took %s.", r.Answered.Sub(r.Created).Round(time.Millisecond))
	}
	out.blocks = append([]message.Block{&message.Text{Text: head + "\n" + llm.Fenced("its result", strings.Join(texts, "\n"))}}, others...)
	return out, nil
}

// statusText describes how a background call has ended.
func statusText(s message.Status) string {
	switch s {
	case message.OK:
		return "it was done"
	case message.DeniedCall:
		return "it was denied"
	case message.Interrupted:
		return "it was stopped"
	case message.UnknownEnd:
		return "nobody knows whether it was done"
	case message.Unavailable:
		return "it could not be reached"
	}
	return "it failed"
}

// needsDelivery reports whether the outcome of a task is delivered to its conversation. The
// outcome of an action is not if the action went as requested, if the same turn had requested
// it twice, or if its user has stopped it.
func (e *Engine) needsDelivery(t *backgroundCall) (bool, error) {
	if t.intent == "" {
		return true, nil
	}
	in, err := e.intentAt(context.WithoutCancel(e.life), t.call.Scope, t.intent)
	if fault.Is(err, fault.NotFound) { // the request led to no intent
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch t.wish {
	case record.WishQueued:
		if in.State != intent.Cancelled || in.Reason == reasonCancelled {
			return in.State != intent.Done, nil
		}
		res, err := effect.ResultOf(&in)
		return err != nil || res.Status != message.Interrupted, err // stopped, rewound, or asked for twice
	case record.WishResolve:
		return true, nil
	}
	return in.State == intent.Done || in.State == intent.Unknown, nil // otherwise nothing has changed for the model
}

// intentText describes the outcome of an action for its conversation. It returns
// "" for a task that is not about an action.
func intentText(r *requests.Stored, how message.Status) string {
	what := r.Tool
	if r.Args != "" && r.Args != "{}" {
		what += " with " + llm.Line(r.Args)
	}
	at := r.Created.UTC().Format("2006-01-02 15:04:05 MST")
	switch r.Wish {
	case record.WishQueued:
		return fmt.Sprintf("%s, which you had queued at %s, did not go as it should: %s. Tell the user, and what can be done.", what, at, statusText(how))
	case record.WishRetry:
		return fmt.Sprintf("At %s the user had %s tried again, which had not been done before: %s.", at, what, statusText(how))
	case record.WishUndo:
		if how == message.OK {
			return fmt.Sprintf("At %s the user has taken back what %s had done. It is as it was before; do not do it again unless the user asks for it.", at, what)
		}
		return fmt.Sprintf("At %s the user wanted to take back what %s had done: %s.", at, what, statusText(how))
	case record.WishResolve:
		return fmt.Sprintf("It was not known what had become of %s. The user has looked since: %s.", what, statusText(how))
	}
	return ""
}
