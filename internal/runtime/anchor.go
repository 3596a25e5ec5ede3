package runtime

import (
	"context"
	"time"
)

// anchorEvery is how often the head of the log is kept elsewhere, unless
// Options say otherwise.
const anchorEvery = time.Hour

// anchor stores the head of the log elsewhere, periodically and when the node
// closes.
func (n *Node) anchor() {
	if n.opt.Anchor == nil {
		return
	}
	n.runs.Add(1)
	go func() {
		defer n.runs.Done()
		tick := time.NewTicker(orDefault(n.opt.AnchorEvery, anchorEvery))
		defer tick.Stop()
		for open := true; open; {
			select {
			case <-tick.C:
			case <-n.life.Done():
				open = false
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(n.life), time.Minute)
			if err := n.opt.Anchor(ctx); err != nil {
				n.log.Error("the head of the log could not be kept", "error", err)
			}
			cancel()
		}
	}()
}
