package runtime

import (
	"cmp"
	"context"
	"io"
	"iter"
	"time"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/importexport"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/service"
	"steward/internal/store"
	"steward/internal/tool"
)

// Import creates conversations of the user's from all chats in a file, one after
// the other. See conversation.Engine.ImportAll. They are read for facts later.
func (n *Node) Import(ctx context.Context, user string, r io.Reader, o importexport.Options) iter.Seq2[conversation.Imported, error] {
	return func(yield func(conversation.Imported, error) bool) {
		for got, err := range n.Conversations.ImportAll(ctx, store.ForUser(user), user, r, o) {
			if err == nil && n.opt.ReadAfter > 0 {
				if e := n.opt.Memory.Imported(ctx, user, got.Conversation.ID, got.Conversation.Updated); e != nil {
					n.opt.Log.Warn("an imported conversation will not be read for facts", "conversation", got.Conversation.ID.String(), "error", e)
				}
			}
			if !yield(got, err) {
				return
			}
		}
		n.setKept(user, func(k *userKeeping) { k.read = time.Now().Add(keepFirst) })
	}
}

// Context returns what the next model call of a conversation sends, and why each piece of it is there.
func (n *Node) Context(ctx context.Context, user string, conv id.ID) (client.Context, error) {
	return n.Turns.Context(ctx, user, conv)
}

// ModelCall returns what was sent to a model for an answer, while the conversation is still in memory
// (model_call_not_kept).
func (n *Node) ModelCall(ctx context.Context, user string, conv, answer id.ID) (client.ModelCall, error) {
	return n.Turns.ModelCall(ctx, user, conv, answer)
}

// Rename sets a conversation's title.
func (n *Node) Rename(ctx context.Context, user string, conv id.ID, title string) (record.Conversation, error) {
	return n.Conversations.Update(ctx, store.ForUser(user), conv, func(c *record.Conversation) { c.Title = title })
}

// Delete stops the running turn of a conversation, refuses its waiting messages,
// and hides it. If deleted resources are not kept, it erases the conversation at
// once.
func (n *Node) Delete(ctx context.Context, user string, conv id.ID) error {
	ctx, leave, ok := n.life.Stay(ctx, user)
	if !ok {
		return elsewhere(user)
	}
	defer leave()
	c := n.Turns.Enter(user, conv)
	defer n.Turns.Exit(c)
	defer c.BlockTurns()()
	if err := n.Turns.Stop(ctx, user, conv); err != nil {
		return err
	}
	if err := c.Lock(ctx, n.life.Of(user)); err != nil {
		return err
	}
	defer c.Unlock()
	err := n.Conversations.Delete(ctx, store.ForUser(user), conv)
	if err == nil {
		c.Forget()
		n.opt.Memory.Renew()
		n.Work.StopTasks(ctx, user, conv)
		err = n.Work.StopChildren(ctx, user, conv)
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
	r, err := n.Kits.ServiceModel(b)
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
	if r.Meter == nil && r.User != "" { // what is lost is recorded too
		c := *r
		c.Meter = m.node.opt.Models.NewMeter()
		c.Meter.Account(m.node.Turns.NewAccount(r.User, resource.URI{}).Record)
		r = &c
	}
	return func(yield func(llm.Event, error) bool) {
		ctx, leave, ok := m.node.life.Stay(ctx, r.User)
		if !ok {
			yield(llm.Event{}, elsewhere(r.User))
			return
		}
		defer leave()
		for ev, err := range m.Model.Stream(ctx, r) {
			if ev.Kind == llm.Done && r.User != "" {
				if err := m.node.Turns.RecordUsage(ctx, r, ev.Reply); err != nil {
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
func (n *Node) Embed(ctx context.Context, model string, texts []string) (llm.Vectors, error) {
	e, err := n.opt.Models.Embedder(model)
	if err != nil {
		return llm.Vectors{}, err
	}
	return e.Embedder.Embed(ctx, texts)
}

// Tools returns the tools that an agent has.
func (n *Node) Tools(agentName string) []tool.Spec {
	kit, err := n.Kits.Named(cmp.Or(agentName, kits.DefaultAgent))
	if err != nil {
		return nil
	}
	return kit.All.Specs()
}

// EraseUser ends a user's work, on behalf of by, and erases for good everything
// that belongs to the user. The caller must ensure that the user cannot log in
// any more. When it returns without an error, no file of the data folder holds
// the data any more. Error codes: space_in_use, erasure_unfinished.
func (n *Node) EraseUser(ctx context.Context, by, user string) error {
	ctx, leave, ok := n.life.Stay(ctx, user)
	if !ok {
		return elsewhere(user)
	}
	defer leave()
	chats := n.Turns.EnterAll(user)
	for _, c := range chats { // stop all before waiting for one: they may wait for each other
		defer n.Turns.Exit(c)
		defer c.BlockTurns()()
		c.Stop(nil, request.ErrStop)
	}
	for _, c := range chats {
		if err := c.Lock(ctx, n.life.Of(user)); err != nil {
			return err
		}
		defer c.Unlock()
		c.Forget()
	}
	if err := n.Work.EndTasks(ctx, user); err != nil {
		return err
	}
	if err := n.events.Erase(ctx, by, user, id.ID{}); err != nil {
		return err
	}
	if err := n.Conversations.EraseSpace(ctx, by, resource.UserSpace(user)); err != nil {
		return err
	}
	if n.opt.Forget != nil {
		if err := n.opt.Forget(user); err != nil {
			return err
		}
	}
	return n.dropErased(ctx, user, 1)
}

// Agents returns the agents that may be used, sorted by path; "assistant" comes
// first.
func (n *Node) Agents(ctx context.Context) []kits.AgentView { return n.Kits.Agents(ctx) }

// Aliases returns the names of models, sorted, without asking any provider.
func (n *Node) Aliases() []string { return n.opt.Models.Aliases() }

// Window returns the context window of a chain of models in tokens; 0: unknown.
func (n *Node) Window(models []string) int { return n.opt.Models.KnownWindow(models) }
