package runtime

import (
	"context"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
)

// settleCall settles an action called from outside that was in progress when the
// process ended. If it may have been executed, the receiver is asked, or the
// action is repeated if the receiver deduplicates. If it had not begun, it is
// withdrawn, since nobody waits for it any more.
func (n *Node) settleCall(ctx context.Context, r record.Request) {
	x := newExternal(r.ID, r.User, r.Agent, r.Tool, r.CallID, []byte(r.Args))
	err := n.callable(x, r.Tool)
	in, broken := n.intentOf(ctx, x)
	switch {
	case fault.Is(broken, fault.NotFound):
		err = n.closeCall(ctx, x, message.Interrupted)
	case broken != nil:
		err = broken
	case err != nil: // the tool may be back at the next start
	case in.State.InFlight() && in.State != intent.Executing:
		gone, cancel := context.WithCancel(ctx)
		cancel()
		_, err = n.perform(gone, x)
	default:
		_, err = n.perform(ctx, x)
	}
	if err != nil && ctx.Err() == nil && !fault.HasCode(err, "effect_contended") { // contended: its caller has called again, and executes it
		n.log.Warn("a call from outside that was interrupted cannot be settled yet", "tool", r.Tool, "request", r.ID.String(), "error", err)
	}
}
