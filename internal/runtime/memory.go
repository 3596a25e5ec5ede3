package runtime

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/memory"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tools/fact"
	"steward/internal/turn"
)

// newReader returns what reads conversations that rest for facts, or nil if nothing does.
func (n *Node) newReader(conversations *conversation.Engine) *memory.Reader {
	opt := &n.opt
	if opt.Memory.Off() || opt.ReadAfter == 0 || opt.Idle {
		return nil
	}
	return memory.NewReader(memory.ReaderOptions{Engine: opt.Memory, Rest: opt.ReadAfter, PerDay: opt.ReadPerDay, Log: opt.Log,
		Go: func(user string, f func(context.Context)) bool {
			life := n.life.Of(user)
			return life.Go(func() { f(life) })
		},
		Messages: func(ctx context.Context, user string, conv id.ID, most int) (out []memory.Said, err error) {
			sc := store.ForUser(user)
			c, err := conversations.Get(ctx, sc, conv)
			if err != nil || !c.Asked.Zero() {
				return nil, err
			}
			page, _, err := conversations.Messages(ctx, sc, conv, "", most, true)
			for i := range slices.Backward(page) {
				out = append(out, memory.Said{Message: page[i].Message, URI: page[i].URI(conv)})
			}
			return out, err
		},
		Ask: func(ctx context.Context, r *llm.Request, text string) (string, error) {
			fast, err := opt.Models.Resolve(llm.FastAlias)
			if err != nil {
				return "", err
			}
			if llm.Offline(fast.Models) {
				return "", fault.New(fault.Unavailable, "model_offline", "no model is set up that can read for facts").WithHint("name one for models.fast in the settings")
			}
			return n.Turns.AskOnce(ctx, fast, r, text)
		},
	})
}

// FactsWaiting returns how many conversations are to be read for facts.
func (n *Node) FactsWaiting() int { return n.reader.Waiting() }

// maxSaid is how many characters of a message are shown as the source of a fact.
const maxSaid = 300

// Said returns the message that a fact comes from, or nil if there is none.
func (k *Records) Said(ctx context.Context, user, source string) (*client.FactSaid, error) {
	at, err := resource.Parse(source)
	if source == "" || err != nil {
		return nil, nil
	}
	sc := store.ForUser(user)
	stored, err := k.store.Get(ctx, sc, at)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := record.DecodeMessage(at, stored.Body)
	if err != nil {
		return nil, err
	}
	conv := record.IDOf(at, record.TypeConversation)
	out := &client.FactSaid{Conversation: conv.String(), Message: m.ID.String(), At: m.At}
	if m.Role == message.User {
		text := []rune(strings.Join(strings.Fields(m.Text()), " "))
		if out.Text = string(text[:min(len(text), maxSaid)]); len(text) > maxSaid {
			out.Text += "…"
		}
	}
	c, err := k.Conversations.Get(ctx, sc, conv)
	if err == nil {
		out.Title = c.Title
	}
	return out, nil
}

// maxRecallLog is how many of a user's newest messages are searched for recalls of a fact.
const maxRecallLog = 5000

// Recalls returns where a fact was recalled, in the newest messages of its user, the newest first.
func (k *Records) Recalls(ctx context.Context, user string, fact id.ID) (out []client.FactRecall, err error) {
	q := store.LogQuery{Type: record.TypeMessage, Reverse: true, Limit: store.DefaultLimit}
	mark, seen := []byte(fact.String()+"/"), 0
	for en, err := range store.Entries(ctx, k.store, store.ForUser(user), q) {
		if err != nil {
			return out, err
		}
		if seen++; seen > maxRecallLog || len(out) == maxRecalls {
			break
		}
		if !bytes.Contains(en.Body, mark) || !bytes.Contains(en.Body, []byte(record.OriginMemory)) {
			continue
		}
		m, err := record.DecodeMessage(en.URI, en.Body)
		if err != nil || !turn.Recalls(m, fact) {
			continue
		}
		out = append(out, client.FactRecall{Conversation: record.IDOf(en.URI, record.TypeConversation).String(), Message: m.ID.String(), At: m.At})
	}
	return out, nil
}

// maxRecalls is how many recalls of a fact are returned.
const maxRecalls = 20

// maxMemoryRead is how many of a conversation's newest messages are searched for what was recalled.
const maxMemoryRead = 1000

// MemoryOf returns what a conversation has recalled, and what was saved from it.
func (k *Records) MemoryOf(ctx context.Context, facts *memory.Engine, user string, conv id.ID) (out client.ConversationMemory, err error) {
	sc := store.ForUser(user)
	out = client.ConversationMemory{Recalled: []client.FactNews{}, Saved: []client.FactNews{}}
	if _, err := k.Conversations.Get(ctx, sc, conv); err != nil {
		return out, err
	}
	byID, err := facts.Facts(ctx, user)
	if err != nil {
		return out, err
	}
	var after store.Cursor
	shown := map[id.ID]bool{}
	for seen := 0; seen < maxMemoryRead; {
		page, next, err := k.Conversations.Messages(ctx, sc, conv, after, store.DefaultLimit, true)
		if err != nil {
			return out, err
		}
		for i := range page {
			for _, ref := range slices.Backward(turn.RecalledBy(page[i].Message)) {
				if f := byID[ref.Fact]; f != nil && !shown[ref.Fact] {
					shown[ref.Fact] = true
					out.Recalled = append(out.Recalled, memory.ShownAt(f, ref.Revision))
				}
			}
		}
		if seen += len(page); next == "" {
			break
		}
		after = next
	}
	slices.Reverse(out.Recalled)
	list, err := facts.List(ctx, user, true)
	for i := range slices.Backward(list) {
		from := func(at resource.URI) bool { return record.IDOf(at, record.TypeConversation) == conv }
		if slices.ContainsFunc(memory.SourcesOf(&list[i]), from) {
			out.Saved = append(out.Saved, memory.Shown(&list[i], client.MemorySaved))
		}
	}
	return out, err
}

// ForgetFact erases a fact, and the calls that have saved it, with their arguments and results. With turns, it
// also erases the turns in which it was said: what the person wrote, and what was answered. A turn that is
// running in such a conversation ends first.
func (n *Node) ForgetFact(ctx context.Context, user, which string, turns bool) (record.Fact, error) {
	f, err := n.opt.Memory.Get(ctx, user, which)
	if err != nil {
		return f, err
	}
	for _, at := range memory.SourcesOf(&f) {
		if err := n.eraseSaid(ctx, user, at, turns); err != nil {
			return f, err
		}
	}
	// What was erased may have taken the fact with it.
	if _, err = n.opt.Memory.Forget(ctx, user, f.ID.String()); fault.Is(err, fault.NotFound) {
		err = nil
	}
	return f, err
}

// eraseSaid erases the calls that have saved facts in the turn of a message that a fact comes from, or the whole
// turn.
func (n *Node) eraseSaid(ctx context.Context, user string, at resource.URI, whole bool) error {
	sc, conv := store.ForUser(user), record.IDOf(at, record.TypeConversation)
	stored, err := n.opt.Store.Get(ctx, sc, at)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	m, err := record.DecodeMessage(at, stored.Body)
	if err != nil {
		return err
	}
	msgs, err := n.messagesOf(ctx, sc, conv, record.IDOf(at, record.TypeInteraction), func(x *message.Message) bool {
		return whole || x.ID == m.ID && x.Role == message.Assistant || slices.ContainsFunc(x.Calls(), func(c message.Call) bool { return c.Name == fact.SaveName })
	})
	if err != nil || len(msgs) == 0 {
		return err
	}
	if _, err := n.Mark(ctx, user, conv, conversation.Verdict{State: record.Deleted}, msgs...); err != nil {
		return err
	}
	return n.EraseMessages(ctx, user, conv, msgs...)
}

// messagesOf returns the messages of an interaction that are wanted.
func (n *Node) messagesOf(ctx context.Context, sc store.Scope, conv, inter id.ID, wanted func(*message.Message) bool) (out []id.ID, err error) {
	q := store.Query{Under: record.InteractionURI(conv, inter), Type: record.TypeMessage, Limit: store.DefaultLimit}
	for it, err := range store.Items(ctx, n.opt.Store, sc, q) {
		if err != nil {
			return nil, err
		}
		m, err := record.DecodeMessage(it.URI, it.Body)
		if err != nil {
			return nil, err
		}
		if wanted(m) && !slices.Contains(out, m.ID) {
			out = append(out, m.ID)
		}
	}
	return out, nil
}

// rested is told when a turn of a conversation has ended.
func (n *Node) rested(user string, conv id.ID) { n.reader.Rested(user, conv) }
