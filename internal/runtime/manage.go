package runtime

import (
	"context"
	"io"
	"iter"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/importexport"
	"steward/internal/llm"
	"steward/internal/llm/embed"
	"steward/internal/record"
	"steward/internal/service"
	"steward/internal/store"
	"steward/internal/tool"
)

// Import creates conversations of the user's from all chats in a file, one after
// the other. See conversation.Engine.ImportAll.
func (n *Node) Import(ctx context.Context, user string, r io.Reader, o importexport.Options) iter.Seq2[conversation.Imported, error] {
	return n.conversations.ImportAll(ctx, store.ForUser(user), user, r, o)
}

// Rename sets a conversation's title.
func (n *Node) Rename(ctx context.Context, user string, conv id.ID, title string) (record.Conversation, error) {
	return n.conversations.Update(ctx, store.ForUser(user), conv, func(c *record.Conversation) { c.Title = title })
}

// Delete stops the running turn of a conversation, refuses its waiting messages,
// and hides it. If deleted resources are not kept, it erases the conversation at
// once.
func (n *Node) Delete(ctx context.Context, user string, conv id.ID) error {
	c := n.enter(user, conv)
	defer n.exit(c)
	defer c.leave()()
	if err := n.Stop(ctx, user, conv); err != nil {
		return err
	}
	if err := c.lock(ctx, n.life); err != nil {
		return err
	}
	defer c.unlock()
	err := n.conversations.Delete(ctx, store.ForUser(user), conv)
	if err == nil {
		c.forget()
		n.stopTasks(ctx, user, conv)
		err = n.stopChildren(ctx, user, conv)
	}
	if err == nil {
		err = n.eraseAtOnce(ctx, user, conv)
	}
	return err
}

// Models returns the providers' models and the names of the aliases.
func (n *Node) Models(ctx context.Context) (llm.Listing, []string) {
	return n.opt.Models.List(ctx), n.opt.Models.Aliases()
}

// Resolve returns a model by alias or "provider/model", for calls outside
// conversations. The usage of such a call is recorded for its Request.User, so
// that daily budgets survive restarts.
func (n *Node) Resolve(name string) (llm.Resolved, error) {
	r, err := n.opt.Models.Resolve(name)
	if err == nil {
		r.Model = recorded{r.Model, n}
	}
	return r, err
}

// ServiceModel is Resolve for an agent's llm service at a URL.
func (n *Node) ServiceModel(b service.Binding) (llm.Resolved, error) {
	if b.Source != service.Remote || n.opt.RemoteModels == nil {
		return llm.Resolved{}, fault.New(fault.NotFound, "model_not_found", "the llm service of %s is at no URL any more", b.Owner).
			WithHint("begin a new call")
	}
	r, err := n.farModel(b)
	if err == nil {
		r.Model = recorded{r.Model, n}
	}
	return r, err
}

// recorded is a model whose usage is recorded.
type recorded struct {
	llm.Model
	node *Node
}

// Stream implements llm.Model.
func (m recorded) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		for ev, err := range m.Model.Stream(ctx, r) {
			if ev.Kind == llm.Done && r.User != "" {
				if err := m.node.conversations.Record(context.WithoutCancel(ctx), store.ForUser(r.User), ev.Reply.Model, ev.Reply.Usage); err != nil {
					yield(llm.Event{}, err)
					return
				}
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// Embed embeds texts with a model by alias or "provider/model".
func (n *Node) Embed(ctx context.Context, model string, texts []string) (embed.Vectors, error) {
	e, err := n.opt.Models.Embedder(model)
	if err != nil {
		return embed.Vectors{}, err
	}
	return e.Embedder.Embed(ctx, texts)
}

// Tools returns the tools that an agent has.
func (n *Node) Tools(agentName string) []tool.Spec {
	kit, err := n.kitOf(first(agentName, DefaultAgent))
	if err != nil {
		return nil
	}
	return kit.tools.Specs()
}
