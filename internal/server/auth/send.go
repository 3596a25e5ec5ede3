package auth

import (
	"context"

	"steward/internal/turn"
)

// Sender begins and follows turns; a runtime.Node is one.
type Sender interface {
	Watcher
	Send(ctx context.Context, user string, t turn.Input) (turn.Accepted, error)
}

// Send begins a turn, when the caller may begin another one. The turn continues if the caller leaves, and what the
// request holds in memory counts until it has ended.
func (c Caller) Send(ctx context.Context, node Sender, t turn.Input) (turn.Accepted, error) {
	end, err := c.Turn(ctx)
	if err != nil {
		return turn.Accepted{}, err
	}
	acc, err := node.Send(ctx, c.User, t)
	if err != nil || !c.Bounded() {
		end()
		return acc, err
	}
	release := c.share.take()
	go func() {
		defer end()
		defer release()
		AwaitTurn(context.WithoutCancel(ctx), node, c.User, acc)
	}()
	return acc, nil
}
