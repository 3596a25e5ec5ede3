package runtime

import (
	"context"
	"slices"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/memory"
	"steward/internal/store"
)

// newReader returns what reads conversations that rest for facts, or nil if nothing does.
func (n *Node) newReader(conversations *conversation.Engine) *memory.Reader {
	opt := &n.opt
	if opt.Memory.Off() || opt.ReadAfter == 0 || opt.Idle {
		return nil
	}
	return memory.NewReader(memory.ReaderOptions{Engine: opt.Memory, Rest: opt.ReadAfter, PerDay: opt.ReadPerDay, Log: opt.Log,
		Go: func(f func(context.Context)) bool { return n.life.Go(func() { f(n.life) }) },
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
		Tell: func(user string, conv id.ID, text string) { n.Turns.Notice(user, conv, text) },
	})
}

// rested is told when a turn of a conversation has ended.
func (n *Node) rested(user string, conv id.ID) { n.reader.Rested(user, conv) }
