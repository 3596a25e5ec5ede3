package runtime

import (
	"context"
	"slices"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/turn"
)

// Branches returns a conversation's branches, oldest first, and the preferred
// one. It is a consistent snapshot, unless others keep changing the conversation.
func (n *Node) Branches(ctx context.Context, user string, conv id.ID) ([]record.Branch, string, error) {
	sc := store.ForUser(user)
	for try := 1; ; try++ {
		before, err := n.opt.Store.Get(ctx, sc, record.ConversationURI(conv))
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, "", err
		}
		c, err := n.Conversations.Get(ctx, sc, conv)
		if err != nil {
			return nil, "", err
		}
		list, err := n.Conversations.Branches(ctx, sc, conv)
		if err != nil {
			return nil, "", err
		}
		after, err := n.opt.Store.Get(ctx, sc, record.ConversationURI(conv))
		if err != nil || after.Version == before.Version || try == maxTries {
			return list, c.BranchID(), err
		}
	}
}

// maxTries bounds how often something is read again because others change it.
const maxTries = 100

// Fork creates a branch and makes it the preferred one.
func (n *Node) Fork(ctx context.Context, user string, conv id.ID, f conversation.Fork) (record.Branch, error) {
	return turn.AloneFor(ctx, n.Turns, user, conv, func(sc store.Scope) (record.Branch, error) { return n.Conversations.Fork(ctx, sc, conv, f) })
}

// Switch makes a branch the preferred one.
func (n *Node) Switch(ctx context.Context, user string, conv id.ID, branch string) error {
	return n.Turns.Alone(ctx, user, conv, func(sc store.Scope) error {
		return n.Conversations.Switch(ctx, sc, conv, branch)
	})
}

// Rewind continues the conversation from a message. What came after it is kept on
// its own branch. If withdraw is set, actions that were decided there and have
// not been done are withdrawn, the running turn is stopped, and waiting messages
// are refused. Otherwise Rewind waits for all of them. It returns the new branch
// and the number of withdrawn actions.
func (n *Node) Rewind(ctx context.Context, user string, conv, msg id.ID, withdraw bool) (b record.Branch, withdrawn int, err error) {
	var open []resource.URI
	if withdraw { // a turn that waits for a person could block for long
		c := n.Turns.Enter(user, conv)
		defer n.Turns.Exit(c)
		defer c.BlockTurns()()
		if open, err = n.stopForRewind(ctx, user, conv, msg); err != nil {
			return b, 0, err
		}
	}
	err = n.Turns.Alone(ctx, user, conv, func(sc store.Scope) error {
		if b, err = n.Conversations.Fork(ctx, sc, conv, conversation.Fork{Message: msg, Title: "rewound"}); err != nil || !withdraw {
			return err
		}
		withdrawn, err = n.cancelOpen(ctx, sc, conv, b, open)
		return err
	})
	return b, withdrawn, err
}

// stopForRewind stops the turn of a conversation that is about to be rewound to a
// message, and returns the actions that were open before.
func (n *Node) stopForRewind(ctx context.Context, user string, conv, msg id.ID) ([]resource.URI, error) {
	sc := store.ForUser(user)
	if _, err := n.Conversations.Find(ctx, sc, conv, msg); err != nil {
		return nil, err
	}
	open, err := n.Effects.Open(ctx, sc, record.ConversationURI(conv))
	if err != nil {
		return nil, err
	}
	return open, n.Turns.Stop(ctx, user, conv)
}

// cancelOpen withdraws the open actions of messages that are not on branch b.
// open lists the actions that were open before the turn was stopped; those that
// are open now are added.
func (n *Node) cancelOpen(ctx context.Context, sc store.Scope, conv id.ID, b record.Branch, open []resource.URI) (int, error) {
	done := 0
	still, err := n.Effects.Open(ctx, sc, record.ConversationURI(conv))
	if err != nil {
		return 0, err
	}
	for _, in := range still {
		if !slices.Contains(open, in) {
			open = append(open, in)
		}
	}
	for _, in := range open {
		m, err := n.Conversations.Find(ctx, sc, conv, record.IDOf(in, record.TypeMessage))
		if err != nil && !fault.Is(err, fault.NotFound) { // it may be on a branch that was deleted
			return done, err
		}
		if err == nil && b.Holds(m.Branch, m.Pos) {
			continue
		}
		ok, err := n.Effects.Cancel(ctx, sc, in, "the conversation was rewound to before it")
		if err != nil {
			return done, err
		}
		if ok {
			done++
		}
	}
	return done, nil
}

// TitleBranch sets a branch's title.
func (n *Node) TitleBranch(ctx context.Context, user string, conv id.ID, branch, title string) error {
	if _, err := n.Conversations.Get(ctx, store.ForUser(user), conv); err != nil {
		return err
	}
	return n.Conversations.Title(ctx, store.ForUser(user), conv, branch, title)
}

// CopyBranch copies a branch to a new conversation.
func (n *Node) CopyBranch(ctx context.Context, user string, conv id.ID, branch string) (id.ID, error) {
	return n.Conversations.CopyBranch(ctx, store.ForUser(user), conv, branch)
}

// DeleteBranch hides a branch. Until it is erased, Undelete with its name
// restores it.
func (n *Node) DeleteBranch(ctx context.Context, user string, conv id.ID, branch string) error {
	err := n.Turns.Alone(ctx, user, conv, func(sc store.Scope) error { return n.Conversations.DeleteBranch(ctx, sc, conv, branch) })
	if err != nil {
		return err
	}
	return n.eraseAtOnce(ctx, user, conv, branch)
}

// Undelete restores a deleted conversation, or a branch of it.
func (n *Node) Undelete(ctx context.Context, user string, conv id.ID, branch string) error {
	return n.Turns.Alone(ctx, user, conv, func(sc store.Scope) error {
		if branch == "" {
			return n.Conversations.Undelete(ctx, sc, conv)
		}
		return n.Conversations.UndeleteBranch(ctx, sc, conv, branch)
	})
}

// Remove creates a branch without some messages.
func (n *Node) Remove(ctx context.Context, user string, conv id.ID, msgs ...id.ID) (record.Branch, error) {
	return turn.AloneFor(ctx, n.Turns, user, conv, func(sc store.Scope) (record.Branch, error) { return n.Conversations.Remove(ctx, sc, conv, msgs...) })
}

// Insert creates a branch with one more message.
func (n *Node) Insert(ctx context.Context, user string, conv, after id.ID, m *message.Message) (record.Branch, error) {
	return turn.AloneFor(ctx, n.Turns, user, conv, func(sc store.Scope) (record.Branch, error) { return n.Conversations.Insert(ctx, sc, conv, after, m) })
}

// Merge makes an interaction part of another one.
func (n *Node) Merge(ctx context.Context, user string, conv, into, from id.ID) error {
	return n.Turns.Alone(ctx, user, conv, func(sc store.Scope) error {
		if _, err := n.Conversations.Get(ctx, sc, conv); err != nil {
			return err
		}
		return n.Conversations.Merge(ctx, sc, conv, into, from)
	})
}

// Mark records a person's verdict on messages. It returns how many messages it
// changed.
func (n *Node) Mark(ctx context.Context, user string, conv id.ID, v conversation.Verdict, msgs ...id.ID) (changed int, err error) {
	err = n.Turns.Alone(ctx, user, conv, func(sc store.Scope) error {
		changed, err = n.Conversations.Mark(ctx, sc, conv, v, msgs...)
		return err
	})
	if err != nil || v.State != record.Deleted {
		return changed, err
	}
	return changed, n.eraseAtOnce(ctx, user, conv) // a call and its results go together
}

// Pin keeps messages in the context window under any pressure, or releases them.
func (n *Node) Pin(ctx context.Context, user string, conv id.ID, pinned bool, msgs ...id.ID) error {
	return n.Turns.Alone(ctx, user, conv, func(sc store.Scope) error {
		return n.Conversations.Pin(ctx, sc, conv, pinned, msgs...)
	})
}

// Trust records a person's decision that labels of messages no longer count: the
// model may treat these messages like the user's own words. Error codes: those of
// conversation.Engine.Trust.
func (n *Node) Trust(ctx context.Context, user string, conv id.ID, labels message.Labels, msgs ...id.ID) error {
	return n.Turns.Alone(ctx, user, conv, func(sc store.Scope) error {
		return n.Conversations.Trust(ctx, sc, conv, labels, msgs...)
	})
}

// Rollback reverts what an interaction's calls of a tool made obsolete.
func (n *Node) Rollback(ctx context.Context, user string, conv, interaction id.ID, toolName string) (int, error) {
	return turn.AloneFor(ctx, n.Turns, user, conv, func(sc store.Scope) (int, error) {
		return n.Conversations.Rollback(ctx, sc, conv, interaction, toolName)
	})
}

// Tidying is a way to change the context window of a conversation.
type Tidying string

// The kinds of tidying.
const (
	TidyRefresh  Tidying = "refresh"  // remove what is obsolete
	TidyCompact  Tidying = "compact"  // summarize old messages
	TidyWhole    Tidying = "whole"    // revert the last compaction
	TidyOptimize Tidying = "optimize" // remove results that the named tools do not need
	TidyRestore  Tidying = "restore"  // bring back what optimize removed
)

// Tidy changes the context window of a conversation. It returns how many messages
// it removed or brought back.
func (n *Node) Tidy(ctx context.Context, user string, conv id.ID, how Tidying, tools []string) (changed int, err error) {
	ctx, leave, ok := n.life.Stay(ctx, user)
	if !ok {
		return 0, elsewhere(user)
	}
	defer leave()
	return turn.AloneFor(ctx, n.Turns, user, conv, func(sc store.Scope) (int, error) {
		switch how {
		case TidyRefresh:
			return n.Conversations.Refresh(ctx, sc, conv)
		case TidyCompact:
			return n.viewChange(ctx, sc, conv, func() error { return n.Turns.Compact(ctx, sc, user, conv) })
		case TidyWhole:
			return n.viewChange(ctx, sc, conv, func() error { return n.Conversations.Unfit(ctx, sc, conv) })
		case TidyOptimize:
			return n.Conversations.Optimize(ctx, sc, conv, tools)
		case TidyRestore:
			return n.Conversations.Restore(ctx, sc, conv)
		}
		return 0, fault.New(fault.Invalid, "tidying_unknown", "there is no way %.40q to tidy", how).
			WithHint("use refresh, compact, whole, optimize or restore")
	})
}

// viewChange runs do, and returns by how many messages it changed the context
// window.
func (n *Node) viewChange(ctx context.Context, sc store.Scope, conv id.ID, do func() error) (int, error) {
	before, err := n.Conversations.InView(ctx, sc, conv)
	if err == nil {
		err = do()
	}
	if err != nil {
		return 0, err
	}
	after, err := n.Conversations.InView(ctx, sc, conv)
	return max(before-after, after-before), err
}
